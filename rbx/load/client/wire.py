"""A request as the bytes that are written, made before the schedule begins."""

from __future__ import annotations

import re
from typing import NamedTuple

import orjson

from rbx.errors import ConfigError
from rbx.load.client.origin import Origin
from rbx.load.client.request import LoadRequest

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_PATH = re.compile(r"[\x21-\x7e]+")
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection"})


class Wire(NamedTuple):
    """``data`` is head and body; the rest is what the body asks for.

    ``most_tokens`` is the most that all choices may have; None where the body names no bound.
    """

    request: int
    scheduled_s: float
    data: bytes
    stream: bool
    choices: int
    most_tokens: int | None = None


def wire(request: LoadRequest, origin: Origin, key: str | None) -> Wire:
    """The bytes of one request; raises ``ConfigError`` for a path or header that HTTP can't carry."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Accept-Encoding": "identity",  # a compressed stream would come in blocks, not in tokens
        "User-Agent": "rbx",
    }
    if key:
        headers["Authorization"] = f"Bearer {key}"
    for name, value in request.headers:
        if name.lower() in _OURS:
            raise ConfigError(f"request {request.request}: the header {name!r} is the client's own to write")
        headers = {known: told for known, told in headers.items() if known.lower() != name.lower()}
        headers[name] = value
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ConfigError(f"request {request.request}: no HTTP header can carry {name!r}")
    if not _PATH.fullmatch(request.path) or not request.path.startswith("/"):
        raise ConfigError(f"request {request.request}: {request.path!r} is no path; it begins with a slash")
    lines = [f"POST {origin.base_path}{request.path} HTTP/1.1", f"Host: {origin.host_header}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(request.body)}", "", ""]
    stream, choices, most_tokens = _asked(request.body)
    data = "\r\n".join(lines).encode("latin-1") + request.body
    return Wire(request.request, request.scheduled_s, data, stream, choices, most_tokens)


def _asked(body: bytes) -> tuple[bool, int, int | None]:
    """Whether a stream is asked for, how many choices (``n`` for each of its prompts), of what length."""
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False, 1, None  # the server's to refuse
    if not isinstance(asked, dict):
        return False, 1, None
    n, prompt = asked.get("n"), asked.get("prompt")
    prompts = 1
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        prompts = len(prompt)
    choices = prompts * (n if type(n) is int and n > 1 else 1)
    bounds = [asked.get(name) for name in ("max_completion_tokens", "max_tokens")]
    most = next((bound for bound in bounds if type(bound) is int and bound > 0), None)
    return asked.get("stream") is True, choices, None if most is None else most * choices
