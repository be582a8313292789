"""One question to one OpenAI-compatible server: deadlines, bounded retries, and what came back, checked."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeVar

import aiohttp

from rbx.config.endpoint import Api, Endpoint
from rbx.label.open_files import refuse_exhaustion
from rbx.label.proxy import environment_proxy, proxy_place
from rbx.label.redaction import Redaction

MAX_BODY_BYTES = 64 << 20
MAX_WAIT_S = 60.0  # the longest pause that a server's Retry-After is granted
SHOWN_CHARACTERS = 300
NAME_CHARACTERS = 200  # of a finish_reason or a model's name; what is longer is none
RETRIED_STATUS = frozenset({408, 409, 425, 429})
# Refusals that would meet any other request as well: the key, the path, the account.
ANY_REQUEST_STATUS = RETRIED_STATUS | {401, 402, 403, 404, 405, 407, 410}
# What a proxy answers in place of a server that it does not reach.
PROXY_STATUS = frozenset({403, 407, 502, 503, 504})

T = TypeVar("T")
Kind = Literal["unreachable", "timeout", "status", "malformed"]


class Completion(NamedTuple):
    """An answer; counts are None where the server reported none."""

    text: str
    finish_reason: str | None
    input_tokens: int | None
    output_tokens: int | None
    served_model: str | None


@dataclass
class CompletionError(Exception):
    """No answer after all attempts; ``detail`` is safe to show and holds no key.

    ``status`` is the HTTP status where there was one, ``wait_s`` what the server asked to wait.
    """

    kind: Kind
    detail: str
    status: int | None = None
    wait_s: float | None = None
    attempts: int = 1

    @property
    def retryable(self) -> bool:
        """Whether another attempt may fare better: all but a request that the server refuses."""
        return self.status is None or self.status >= 500 or self.status in RETRIED_STATUS

    @property
    def blames_request(self) -> bool:
        """Whether the server refused this request for what it holds, so that others may fare better."""
        return self.status is not None and 400 <= self.status < 500 and self.status not in ANY_REQUEST_STATUS

    def __str__(self) -> str:
        """Kind, attempts and detail in one line."""
        tries = f" after {self.attempts} attempts" if self.attempts > 1 else ""
        return f"{self.kind}{tries}: {self.detail}"


class CompletionClient:
    """Calls to one endpoint over kept-alive connections; use it as an async context manager."""

    def __init__(self, endpoint: Endpoint, api: Api = "chat") -> None:
        """Raises ``ConfigError`` where the environment lacks the endpoint's key or names a bad proxy."""
        self.endpoint = endpoint
        self.api: Api = api
        self._key = endpoint.api_key()
        self._redaction = Redaction([self._key or ""])
        self._session: aiohttp.ClientSession | None = None
        # Looked up once: aiohttp's trust_env asks the environment and ~/.netrc anew, in a thread, each time.
        self._proxy = environment_proxy(endpoint.url)
        self._jitter = random.Random()

    async def __aenter__(self) -> CompletionClient:
        """Open the connection pool."""
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self.endpoint.concurrency),
            timeout=aiohttp.ClientTimeout(total=self.endpoint.deadline_s),
            headers=headers,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.close()

    async def close(self) -> None:
        """Close the connections; a second time does nothing."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def complete(self, body: Mapping[str, Any]) -> Completion:
        """Send a request body; raises ``CompletionError`` once its attempts are used up.

        No string of the answer holds the endpoint's key or what UTF-8 can't carry. Raises ``ConfigError``
        where this process may open no more connections.
        """
        path = "/chat/completions" if self.api == "chat" else "/completions"
        return await self._retried("POST", path, body, self._completion)

    async def served_models(self) -> list[str]:
        """Names that ``/models`` lists, each cut at ``NAME_CHARACTERS``; raises as ``complete`` does."""
        listed = await self._retried("GET", "/models", None, _listed)
        return [self._name(each) for each in listed]

    async def _retried(
        self, method: str, path: str, body: Mapping[str, Any] | None, read: Callable[[dict[str, Any]], T]
    ) -> T:
        for attempt in range(1, self.endpoint.attempts + 1):
            try:
                return read(await self._attempt(method, path, body))
            except CompletionError as error:
                error.attempts = attempt
                if not error.retryable or attempt == self.endpoint.attempts:
                    raise
                pause_s = self._pause_s(attempt, error.wait_s)
            await asyncio.sleep(pause_s)
        raise AssertionError("attempts is at least 1")

    def _pause_s(self, attempt: int, asked_s: float | None) -> float:
        # Full jitter: clients that failed together must not come back together.
        spread_s = self._jitter.uniform(0.0, self.endpoint.backoff_s * 2.0 ** (attempt - 1))
        return min(MAX_WAIT_S, spread_s if asked_s is None else asked_s + spread_s)

    async def _attempt(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        assert self._session is not None, "the client is not open"
        url = self.endpoint.url + path
        try:
            call = self._session.request(method, url, json=body, proxy=self._proxy, allow_redirects=False)
            async with call as response:
                raw = await _bounded(response)
                if response.status != 200:
                    raise self._refused(response.status, raw, response.headers.get("Retry-After"))
        except (TimeoutError, asyncio.TimeoutError):  # two types before Python 3.11
            detail = f"no answer within {self.endpoint.deadline_s:g} s{self._way()}"
            raise CompletionError("timeout", detail) from None
        except (aiohttp.ClientError, OSError) as error:
            refuse_exhaustion(error, self.endpoint.url)
            detail = f"{type(error).__name__}: {error}"
            raise CompletionError("unreachable", self._shown(detail) + self._way()) from None
        try:
            document = json.loads(raw)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            shown = self._shown(raw.decode("utf-8", "replace"))
            raise CompletionError("malformed", f"the body is no JSON object: {shown!r}")
        return document

    def _refused(self, status: int, raw: bytes, retry_after: str | None) -> CompletionError:
        shown = self._shown(raw.decode("utf-8", "replace"))
        way = self._way() if status in PROXY_STATUS else ""
        return CompletionError("status", f"HTTP {status}: {shown}{way}", status, _seconds(retry_after))

    def _completion(self, document: dict[str, Any]) -> Completion:
        found = _completion(document, self.api)
        return found._replace(
            text=_encodable(self._redaction.data(found.text)),
            finish_reason=found.finish_reason and self._name(found.finish_reason),
            served_model=found.served_model and self._name(found.served_model),
        )

    def _name(self, text: str) -> str:
        whole = _encodable(self._redaction.data(text))
        return whole if len(whole) <= NAME_CHARACTERS else whole[: NAME_CHARACTERS - 1] + "…"

    def _shown(self, text: str) -> str:
        # A server may quote the request's headers, and an error the proxy's address with its password.
        if self._proxy is not None:
            text = text.replace(self._proxy, proxy_place(self._proxy))
        return _encodable(self._redaction.message(text)[:SHOWN_CHARACTERS])

    def _way(self) -> str:
        if self._proxy is None:
            return ""
        return f" (through {proxy_place(self._proxy)}, the environment's proxy; no_proxy excepts hosts)"


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    raw = b""
    while len(raw) <= MAX_BODY_BYTES and (chunk := await response.content.readany()):
        raw += chunk
    if len(raw) > MAX_BODY_BYTES:
        raise CompletionError("malformed", f"the body is longer than {MAX_BODY_BYTES >> 20} MiB")
    return raw


def _seconds(retry_after: str | None) -> float | None:
    try:
        seconds = float(retry_after) if retry_after else None
    except ValueError:
        return None
    return seconds if seconds is not None and 0 <= seconds < float("inf") else None


def _listed(document: Mapping[str, Any]) -> list[str]:
    listed = document.get("data")
    if not isinstance(listed, list):
        raise CompletionError("malformed", "/models lists no data")
    ids = [each.get("id") for each in listed if isinstance(each, dict)]
    return [each for each in ids if isinstance(each, str)]


def _completion(document: Mapping[str, Any], api: Api) -> Completion:
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        raise CompletionError("malformed", "the answer holds no choices")
    text = choice.get("text")
    if api == "chat":
        message = choice.get("message")
        if not isinstance(message, dict):
            raise CompletionError("malformed", "the answer's choice holds no message")
        text = message.get("content")
    if text is not None and not isinstance(text, str):
        raise CompletionError("malformed", "the answer's content is no text")
    usage = document.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    reason, model = choice.get("finish_reason"), document.get("model")
    return Completion(
        text=text or "",
        finish_reason=reason if isinstance(reason, str) else None,
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        served_model=model if isinstance(model, str) else None,
    )


def _count(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < 2**31 else None


def _encodable(text: str) -> str:
    """``text`` with lone surrogates replaced: JSON can carry them, UTF-8 can't."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
