"""What a client is told when its request is not served, always in the shape of the OpenAI API."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from rbx.serve.exchange import FaultKind, UpstreamFault
from rbx.serve.upstream.refusal import ANY_REQUEST_STATUS

INVALID, UPSTREAM, OVERLOADED, SERVER = (
    "invalid_request_error",
    "upstream_error",
    "overloaded",
    "server_error",
)

MAX_MESSAGE_CHARACTERS = 10_000

_FAULTS: dict[FaultKind, str] = {
    "refused": "takes no connections",
    "connect_timeout": "took no connection in time",
    "first_token_timeout": "gave no token in time",
    "stalled": "stopped giving tokens",
    "status": "answered with an error",
    "cut": "broke the connection off",
    "malformed": "gave an answer that can't be read",
    "error": "told of an error",
}


@dataclass
class ApiError(Exception):
    """A refusal: ``param`` is the path of the field at fault, ``code`` a word for programs."""

    status: int
    message: str
    type: str = INVALID
    param: str | None = None
    code: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """The message."""
        return self.message

    @property
    def body(self) -> bytes:
        """``{"error": {message, type, param, code}}`` as JSON."""
        return orjson.dumps({"error": self.fields})

    @property
    def event(self) -> bytes:
        """The same as a server-sent event, for an answer that had begun."""
        return b"data: " + self.body + b"\n\n"

    @property
    def fields(self) -> dict[str, Any]:
        """The four keys of an error; what quotes a request is cut where it is long."""
        param = None if self.param is None else _cut(self.param, 200)
        return {
            "message": _cut(self.message, MAX_MESSAGE_CHARACTERS),
            "type": self.type,
            "param": param,
            "code": self.code,
        }


def _cut(text: str, characters: int) -> str:
    text = text.encode(errors="replace").decode()
    return text if len(text) <= characters else f"{text[:characters]}…"


def invalid(param: str | None, message: str, code: str | None = "invalid_value") -> ApiError:
    """400: the field at path ``param`` does not hold."""
    return ApiError(400, f"{param}: {message}" if param else message, param=param, code=code)


def unknown_model(name: str, known: tuple[str, ...]) -> ApiError:
    """404 as OpenAI's for a model that is not served."""
    shown = name if len(name) <= 200 else f"{name[:200]}…"
    message = f"The model {shown!r} does not exist; this gateway serves {', '.join(known)}"
    return ApiError(404, message, param="model", code="model_not_found")


def overloaded(reason: str, retry_after_s: float) -> ApiError:
    """429 with Retry-After."""
    return ApiError(429, reason, OVERLOADED, code="overloaded", headers=retry_after(retry_after_s))


def unavailable(reason: str, retry_after_s: float, code: str = "no_instance") -> ApiError:
    """503 with Retry-After."""
    return ApiError(503, reason, OVERLOADED, code=code, headers=retry_after(retry_after_s))


def retry_after(seconds: float) -> dict[str, str]:
    """Whole seconds from 1 up, as the header has them."""
    return {"retry-after": str(max(1, math.ceil(min(seconds, 3600.0))))}


def internal() -> ApiError:
    """500 for a fault of the gateway; the log has the rest."""
    return ApiError(500, "the gateway failed; its log says why", SERVER, code="internal")


def of_fault(fault: UpstreamFault, instance: str) -> ApiError:
    """What a client hears of an instance that failed its request.

    A refusal that the server worded itself keeps its status and words, unless it refuses what is the
    gateway's own, such as its key: a client told 401 would look for the fault in its own key. An error told
    inside an answer, which is meant for the one who reads it, keeps its words. Of all else the client hears
    the kind alone, since details hold addresses and what a failing server wrote.
    """
    told = _told(fault.body)
    status = fault.status or 0
    if told is not None and 400 <= status < 500 and status not in ANY_REQUEST_STATUS:
        return _in_its_words(status, told)
    timeout = fault.kind in ("first_token_timeout", "connect_timeout", "stalled")
    status = 504 if timeout else 429 if fault.status == 429 else 502
    message = f"{instance} {_FAULTS[fault.kind]}"
    if fault.kind == "error" and fault.status not in ANY_REQUEST_STATUS:
        message += f": {fault.detail}"
    return ApiError(status, message, UPSTREAM, code=f"upstream_{fault.kind}")


def _in_its_words(status: int, told: Mapping[str, Any]) -> ApiError:
    kind, param, code = (told.get(key) for key in ("type", "param", "code"))
    return ApiError(
        status,
        str(told["message"]),
        kind if isinstance(kind, str) else INVALID,
        param if isinstance(param, str) else None,
        str(code) if isinstance(code, (str, int)) else None,
    )


def _told(body: bytes) -> Mapping[str, Any] | None:
    """The error in a server's body: OpenAI's shape, or vLLM's older one without ``error``."""
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    inner = (data.get("error") or data) if isinstance(data, dict) else None
    return inner if isinstance(inner, dict) and isinstance(inner.get("message"), str) else None
