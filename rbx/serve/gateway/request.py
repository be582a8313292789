"""A client's request: what of it the gateway reads. All else is passed on as it came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from rbx.grid.table import estimated_tokens
from rbx.serve.gateway.errors import ApiError, invalid
from rbx.serve.gateway.knobs import FIELD, Knobs, read_knobs

Path = Literal["chat/completions", "completions"]

MAX_BODY_BYTES = 32 * 2**20
MAX_DEPTH = 100  # JSON nested deeper than this is nobody's request; writers of JSON give up at 254
# While JSON is read nobody else is served. Text takes little, however long; values and keys do.
MAX_VALUES = 2**18
MAX_KEYS = 2**17
_LARGEST = 2**31 - 1
# Where each path's limit stands; a server reads no other field.
CAPS: dict[Path, tuple[str, ...]] = {
    "chat/completions": ("max_completion_tokens", "max_tokens"),
    "completions": ("max_tokens",),
}


@dataclass(frozen=True)
class Asked:
    """One request. ``body`` goes to the server, less what was for the gateway alone.

    ``text`` is what the heads are asked about: the last user message, or the prompt, bare as in training;
    empty where there is none. ``input_tokens`` is estimated over all text. ``max_tokens`` is None where the
    client gave no limit.
    """

    path: Path
    body: dict[str, Any]
    model: str | None
    text: str
    input_tokens: int
    max_tokens: int | None
    stream: bool
    wants_usage: bool
    knobs: Knobs


def read_request(path: Path, raw: bytes, headers: Mapping[str, str]) -> Asked:
    """Read a body; raises ``ApiError`` (400) with the path of the field that does not hold."""
    return _asked(path, read_object(raw), headers)


def _asked(path: Path, body: dict[str, Any], headers: Mapping[str, str]) -> Asked:
    knobs = read_knobs(headers, body.pop(FIELD, None))
    model = body.get("model")
    if model is not None and not isinstance(model, str):
        raise _type("model", "a string")
    for name in ("n", "best_of"):
        if body.get(name) not in (None, 1) or isinstance(body.get(name), bool):
            raise invalid(name, "only one answer a request is served; send the request again for more")
    stream = _flag(body, "stream")
    text, input_tokens = _chat(body) if path == "chat/completions" else _prompt(body)
    return Asked(
        path=path,
        body=body,
        model=model,
        text=text,
        input_tokens=max(1, input_tokens),
        max_tokens=_cap(body, CAPS[path]),
        stream=stream,
        wants_usage=_wants_usage(body),
        knobs=knobs,
    )


def read_either(raw: bytes, headers: Mapping[str, str]) -> Asked:
    """The body of a chat, which has messages, or of a completion; raises as ``read_request``."""
    body = read_object(raw)
    return _asked("chat/completions" if "messages" in body else "completions", body, headers)


def read_object(raw: bytes) -> dict[str, Any]:
    """A JSON object of bounded depth and size; raises ``ApiError`` (400).

    Values and keys are counted by their punctuation, that in strings included.
    """
    if len(raw) > MAX_KEYS and (
        raw.count(b'":') > MAX_KEYS or raw.count(b",") + raw.count(b"[") + raw.count(b"{") > MAX_VALUES
    ):
        message = f"the body holds more than {MAX_VALUES} values or {MAX_KEYS} keys, going by its punctuation"
        raise invalid(None, message, "too_many_values")
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise invalid(None, f"the body is not valid JSON: {error}", "invalid_json") from None
    if not isinstance(body, dict):
        raise invalid(None, "the body must be a JSON object", "invalid_type")
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and _deeper(body, MAX_DEPTH):
        raise invalid(None, f"the body is nested deeper than {MAX_DEPTH}", "too_deep")
    return body


def _deeper(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def _type(param: str, what: str) -> ApiError:
    return invalid(param, f"must be {what}", "invalid_type")


def _flag(body: Mapping[str, Any], name: str, where: str = "") -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise _type(f"{where}{name}", "true or false")
    return bool(value)


def _wants_usage(body: Mapping[str, Any]) -> bool:
    options = body.get("stream_options")
    if options is None:
        return False
    if not isinstance(options, dict):
        raise _type("stream_options", "an object")
    return _flag(options, "include_usage", "stream_options.")


def _cap(body: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    given = []
    for name in names:
        value = body.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise _type(name, "a whole number")
        if not 1 <= value <= _LARGEST:
            raise invalid(name, f"must lie between 1 and {_LARGEST}", "out_of_range")
        given.append(value)
    return min(given, default=None)


def _chat(body: Mapping[str, Any]) -> tuple[str, int]:
    """Text of the last user message, and tokens of all messages and tools."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise _type("messages", "a list of messages")
    if not messages:
        raise invalid("messages", "is empty", "empty")
    shown: list[str] = []
    asked = ""
    for k, message in enumerate(messages):
        where = f"messages[{k}]"
        if not isinstance(message, dict):
            raise _type(where, "an object")
        if not isinstance(message.get("role"), str):
            raise _type(f"{where}.role", "a string")
        text = "\n".join(_texts(message.get("content"), f"{where}.content"))
        shown.append(text)
        asked = text if message["role"] == "user" else asked
    if body.get("tools"):
        shown.append(orjson.dumps(body["tools"]).decode())
    return asked, estimated_tokens("".join(shown))


def _texts(content: Any, where: str) -> Iterator[str]:
    if content is None or isinstance(content, str):
        yield content or ""
        return
    if not isinstance(content, list):
        raise _type(where, "a string, a list of parts, or null")
    for k, part in enumerate(content):
        if not isinstance(part, dict):
            raise _type(f"{where}[{k}]", "an object")
        if part.get("type") != "text":
            continue  # images and the like: the server's affair
        if not isinstance(part.get("text"), str):
            raise _type(f"{where}[{k}].text", "a string")
        yield part["text"]


def _prompt(body: Mapping[str, Any]) -> tuple[str, int]:
    """The prompt's text, empty where it came as tokens, and its tokens."""
    prompt = body.get("prompt")
    where = "prompt"
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt, where = prompt[0], "prompt[0]"
    if isinstance(prompt, str):
        if not prompt:
            raise invalid(where, "is empty", "empty")
        return prompt, estimated_tokens(prompt)
    if not isinstance(prompt, list):
        raise _type(where, "a string or a list of tokens")
    if not prompt:
        raise invalid(where, "is empty", "empty")
    if isinstance(prompt[0], (str, list)):
        raise invalid(where, "only one prompt a request is served; send one request for each")
    for k, token in enumerate(prompt):
        if isinstance(token, bool) or not isinstance(token, int):
            raise _type(f"{where}[{k}]", "a whole number")
    return "", len(prompt)
