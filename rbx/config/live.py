"""How a live sweep drives real servers: where they are, how the client sends, what makes a cell count."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator

from rbx.config.base import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    StrictModel,
    Text,
    chosen_by,
)
from rbx.config.endpoint import Api, EnvironmentName, host_fault

# What the client itself sets in every request.
OURS = (
    "cache_salt",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "model",
    "n",
    "prompt",
    "rbx",
    "stream",
    "stream_options",
)


def _reachable(url: str) -> str:
    try:
        fault = host_fault(urlsplit(url))
    except ValueError as error:
        fault = str(error)
    if fault:
        raise ValueError(f"{url!r} is no address: {fault}")
    return url


_Url = Annotated[
    str,
    Field(pattern=r"^https?://[^\s/?#@]+(/[^\s?#@]*)?$", max_length=500),
    AfterValidator(_reachable),
]


class GatewayTarget(StrictModel):
    """A running ``rbx serve`` or ``rbx launch``; policies are put in force through ``/v1/config``.

    ``url`` is its address without ``/v1``. ``endpoints`` names the file with its servers, so that they are
    looked at themselves: models, counters, prefix caches.
    """

    kind: Literal["gateway"] = "gateway"
    url: _Url
    token_env: EnvironmentName | None = None
    endpoints: Path | None = None


class OpenAiTarget(StrictModel):
    """Any OpenAI-compatible endpoint, with its ``/v1``; what decides behind it is not ours to change."""

    kind: Literal["openai"] = "openai"
    url: _Url
    model: Text
    api_key_env: EnvironmentName | None = None


class LaunchTarget(StrictModel):
    """A launch file that the sweep brings up itself, and ends with itself.

    ``set`` overrides keys of the file, such as ``launcher.time_scale=4``, as ``rbx launch --set`` does.
    """

    kind: Literal["launch"] = "launch"
    file: Path
    set: tuple[Text, ...] = ()


Target = Annotated[
    GatewayTarget | OpenAiTarget | LaunchTarget,
    chosen_by("kind", {"gateway": GatewayTarget, "openai": OpenAiTarget, "launch": LaunchTarget}),
]


class LoadClient(StrictModel):
    """The open-loop client: ``processes`` share one schedule; deadlines are the client's own.

    ``tokenizer`` is the ``tokenizer.json`` that counts the output of answers for which the server reports no
    usage; without one their chunks are counted. Answers that are not kept can't be counted again.
    """

    processes: Annotated[int, Field(ge=1, le=64, strict=True)] = 1
    max_connections: PositiveInt = 4096  # in all; a request that waits for one is late by that
    tokenizer: Path | None = None
    connect_s: PositiveFloat = 10.0
    first_token_s: PositiveFloat = 300.0
    between_tokens_s: PositiveFloat = 120.0
    total_s: PositiveFloat = 1800.0


class Live(StrictModel):
    """A live cell: warmed up, sent, drained, and judged by how well the client kept its schedule.

    ``prefix_cache: salt`` sends vLLM's ``cache_salt``, one a cell, so that no cell inherits hits;
    ``reset`` asks every known server to drop its cache; ``keep`` leaves it. ``body`` is merged into every
    request; without one it is that of the grid's generation (``rbx.sweep.live.asked``). Prompts go as one
    user message, after ``system`` where there is one, or bare with ``api: completions``. Without
    ``keep_text`` answers are kept as hashes alone. A cell whose 99th percentile of schedule delay or whose
    error of the achieved rate lies above the bounds is invalid: its client, not its servers, made the
    numbers.
    """

    target: Target
    api: Api = "chat"
    client: LoadClient = LoadClient()
    warm_up_requests: Annotated[NonNegativeInt, Field(le=100_000)] = 16
    drain_s: NonNegativeFloat = 300.0
    prefix_cache: Literal["salt", "reset", "keep"] = "salt"
    keep_text: bool = True
    order: Literal["interleaved", "file"] = "interleaved"
    body: Mapping[str, Any] | None = None
    system: Annotated[str, Field(min_length=1)] | None = None
    most_schedule_delay_p99_s: PositiveFloat = 0.010
    most_rate_error: PositiveFloat = 0.02

    @field_validator("body")
    @classmethod
    def _not_ours(cls, body: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if body is not None and (taken := sorted(set(body) & set(OURS))):
            raise ValueError(f"{', '.join(taken)} is set by rbx itself; leave it out")
        try:
            json.dumps(None if body is None else dict(body), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"no JSON can say it: {error}") from None
        return body
