"""A request body read as a vLLM server would read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rbx.config.pool import Tier
from rbx.serve.mock.refusal import Refusal
from rbx.serve.mock.wording import natural_length, wording_seed

Api = Literal["chat", "completions"]
CHARACTERS_PER_TOKEN = 4
DEFAULT_COMPLETION_TOKENS = 16  # of /v1/completions, as in vLLM
_LARGEST = 2**31 - 1
_Count = Annotated[int, Field(ge=1, le=_LARGEST, strict=True)]


class _StreamOptions(BaseModel):
    include_usage: bool = False
    continuous_usage_stats: bool = False


class _Body(BaseModel):
    model_config = ConfigDict(extra="allow")

    model: str | None = None
    messages: Annotated[list[dict[str, Any]], Field(min_length=1)] | None = None
    prompt: str | list[str] | list[int] | None = None
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    max_tokens: _Count | None = None
    max_completion_tokens: _Count | None = None
    min_tokens: Annotated[int, Field(ge=0, le=_LARGEST, strict=True)] | None = None
    ignore_eos: bool | None = None
    n: int | None = None
    rbx_prompt_tokens: _Count | None = None
    rbx_output_tokens: _Count | None = None
    rbx_output_tokens_by_model: dict[str, _Count] | None = None


@dataclass(frozen=True)
class Asked:
    """One answer to give: ``output_tokens`` of at most ``cap_tokens``; ``wording`` decides its text.

    ``by_length`` says that the cap cuts it off.
    """

    api: Api
    stream: bool
    include_usage: bool
    usage_always: bool
    prompt_tokens: int
    output_tokens: int
    cap_tokens: int
    by_length: bool
    wording: int


def read_asked(api: Api, content: bytes, headers: Mapping[str, str], tier: Tier, seed: int) -> Asked:
    """Read a body; raises ``Refusal`` with what a vLLM server would say to it.

    Tokens are told by ``rbx_prompt_tokens`` and ``rbx_output_tokens`` of the body or by the headers
    ``x-rbx-prompt-tokens`` and ``x-rbx-output-tokens``; else a prompt has one for four characters and the
    answer's length is drawn (``wording``). ``rbx_output_tokens_by_model`` is for whoever does not know which
    model will answer.
    """
    body = _body(content, headers)
    if body.model is not None and body.model != tier.model:
        raise Refusal(404, f"The model `{body.model}` does not exist.", "model")
    if body.n not in (None, 1):
        raise Refusal(400, "n must be 1: a mock server gives one answer a request", "n")
    text, counted = _chat_text(body) if api == "chat" else _prompt_text(body)
    prompt_tokens = body.rbx_prompt_tokens or counted
    cap = _cap(body, api, prompt_tokens, tier.limits.max_model_len)
    wording = wording_seed(tier.model, text, seed)
    told = body.rbx_output_tokens or (body.rbx_output_tokens_by_model or {}).get(tier.model)
    natural = told or max(natural_length(wording), body.min_tokens or 0)
    if body.ignore_eos:
        natural = cap + 1
    options = body.stream_options or _StreamOptions()
    return Asked(
        api,
        bool(body.stream),
        options.include_usage,
        options.include_usage and options.continuous_usage_stats,
        prompt_tokens,
        min(natural, cap),
        cap,
        natural > cap,
        wording,
    )


def _body(content: bytes, headers: Mapping[str, str]) -> _Body:
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, f"the body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise Refusal(400, "the body must be a JSON object")
    for name in ("prompt_tokens", "output_tokens"):
        told = headers.get(f"x-rbx-{name.replace('_', '-')}")
        if told is not None:
            document[f"rbx_{name}"] = (
                int(told) if told.isascii() and told.isdigit() and len(told) < 12 else told
            )
    try:
        return _Body.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise Refusal(400, f"{where}: {first['msg']}", where) from None


def _cap(body: _Body, api: Api, prompt_tokens: int, context: int) -> int:
    room = context - prompt_tokens
    if room < 1:
        raise Refusal(
            400,
            f"This model's maximum context length is {context} tokens. However, your request has "
            f"{prompt_tokens} input tokens. Please reduce the length of the input messages.",
            "input_tokens",
        )
    asked = body.max_completion_tokens or body.max_tokens
    if asked is None:
        return room if api == "chat" else min(DEFAULT_COMPLETION_TOKENS, room)
    if asked > room:
        raise Refusal(
            400,
            f"'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's maximum context "
            f"length is {context} tokens and your request has {prompt_tokens} input tokens "
            f"({asked} > {context} - {prompt_tokens}).",
            "max_tokens",
        )
    return asked


def _chat_text(body: _Body) -> tuple[str, int]:
    if body.messages is None:
        raise Refusal(400, "messages: Field required", "messages")
    text = "\n".join(_content_text(message.get("content")) for message in body.messages)
    return text, _estimate(text)


def _content_text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _prompt_text(body: _Body) -> tuple[str, int]:
    prompt = body.prompt
    if prompt is None or prompt == []:
        raise Refusal(400, "prompt: Field required", "prompt")
    if isinstance(prompt, str):
        return prompt, _estimate(prompt)
    if isinstance(prompt[0], str):
        if len(prompt) > 1:
            raise Refusal(400, "prompt must be one text: a mock server gives one answer a request", "prompt")
        return prompt[0], _estimate(prompt[0])
    return " ".join(map(str, prompt)), len(prompt)


def _estimate(text: str) -> int:
    return max(1, -(-len(text) // CHARACTERS_PER_TOKEN))
