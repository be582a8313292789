"""What must hold of a spec's endpoints before the first question is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from rbx.config.endpoint import Api
from rbx.config.labelling import Candidate
from rbx.errors import ConfigError, RbxError, ServerError
from rbx.label.completion import CompletionClient, CompletionError
from rbx.label.recipe import served_name
from rbx.label.tokenizer import TokenCounter

LISTED_NAMES = 20


class Line(NamedTuple):
    """A model with what it is asked and counted by; the client is not open yet."""

    number: int  # in source.models
    candidate: Candidate
    client: CompletionClient
    counter: TokenCounter | None


def prepare_lines(candidates: Sequence[tuple[int, Candidate]], api: Api) -> list[Line]:
    """Clients and tokenizers of numbered models; raises ``ConfigError`` with the faults of all of them."""
    lines, faults = [], []
    for number, candidate in candidates:
        key = f"source.models.{number}"
        if candidate.endpoint is None:
            faults.append(f"{key}.endpoint: {candidate.name} has none; without one, use --offline-vllm")
            continue
        try:
            client = CompletionClient(candidate.endpoint, api)
            counter = TokenCounter(candidate.tokenizer) if candidate.tokenizer else None
        except RbxError as error:
            faults.append(f"{key}: {error}")
            continue
        lines.append(Line(number, candidate, client, counter))
    if faults:
        raise ConfigError("\n".join(faults))
    return lines


async def check_served(lines: Sequence[Line]) -> None:
    """See that every endpoint answers and serves its model; raises ``ServerError`` with all faults."""
    found = await asyncio.gather(*(_fault(line) for line in lines))
    if faults := [fault for fault in found if fault]:
        raise ServerError("\n".join(faults))


async def _fault(line: Line) -> str | None:
    url, wanted = line.client.endpoint.url, served_name(line.candidate)
    key = f"source.models.{line.number}.endpoint"
    try:
        names = await line.client.served_models()
    except CompletionError as error:
        return f"{key}.url: {line.candidate.name} at {url}: {error}; start its server, or mend the address"
    if wanted in names:
        return None
    listed = ", ".join(repr(name) for name in names[:LISTED_NAMES]) or "nothing"
    more = f" and {len(names) - LISTED_NAMES} more" if len(names) > LISTED_NAMES else ""
    return (
        f"{key}.served_name: {wanted!r} is not served at {url}, which serves {listed}{more}; name one of them"
    )
