"""What must hold of a spec's endpoints before the first question is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

from rbx.config.endpoint import Api
from rbx.config.labelling import Candidate, EndpointJudge, JudgeSignal, Judging
from rbx.errors import ConfigError, RbxError, ServerError
from rbx.label.completion import CompletionClient, CompletionError
from rbx.label.label_book import LabelBook
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


def judges_to_come(judging: Judging, book: LabelBook) -> list[EndpointJudge]:
    """Judges behind endpoints that have not judged anything yet."""
    names = {
        signal.judge
        for signal in judging.signals
        if isinstance(signal, JudgeSignal) and not book.count(signal.name)
    }
    return [each for each in judging.judges if isinstance(each, EndpointJudge) and each.name in names]


async def check_judges(judges: Sequence[EndpointJudge]) -> None:
    """See that every judge is served, before models are asked for hours; raises ``ServerError``."""
    async with AsyncExitStack() as clients:
        opened = [await clients.enter_async_context(CompletionClient(each.endpoint)) for each in judges]
        await _refuse_unserved(
            _Wanted(f"judge {each.name}", each.endpoint.served_name or each.model, "its endpoint", client)
            for each, client in zip(judges, opened, strict=True)
        )


async def check_served(lines: Sequence[Line]) -> None:
    """See that every endpoint answers and serves its model; raises ``ServerError`` with all faults."""
    await _refuse_unserved(
        _Wanted(
            line.candidate.name,
            served_name(line.candidate),
            f"source.models.{line.number}.endpoint",
            line.client,
        )
        for line in lines
    )


class _Wanted(NamedTuple):
    who: str
    name: str
    key: str
    client: CompletionClient


async def _refuse_unserved(wanted: Iterable[_Wanted]) -> None:
    found = await asyncio.gather(*(_fault(each) for each in wanted))
    if faults := [fault for fault in found if fault]:
        raise ServerError("\n".join(faults))


async def _fault(wanted: _Wanted) -> str | None:
    url = wanted.client.endpoint.url
    try:
        names = await wanted.client.served_models()
    except CompletionError as error:
        hint = "" if url.endswith("/v1") else "; the API's base mostly ends in /v1"
        remedy = f"start its server, or mend the address{hint}"
        return f"{wanted.key}.url: {wanted.who} at {url}: {error}; {remedy}"
    if wanted.name in names:
        return None
    listed = ", ".join(repr(name) for name in names[:LISTED_NAMES]) or "nothing"
    more = f" and {len(names) - LISTED_NAMES} more" if len(names) > LISTED_NAMES else ""
    return (
        f"{wanted.key}.served_name: {wanted.who}: {wanted.name!r} is not served at {url}, which serves "
        f"{listed}{more}; name one of them"
    )
