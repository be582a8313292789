"""Faults of the mock tier as the client names them, streamed and plain."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rbx.config.gateway import Deadlines
from rbx.serve.exchange import Piece, UpstreamFault
from rbx.serve.mock.serving import MockTier, serve_mock
from rbx.serve.upstream.instance import HttpInstance
from tests.serve.mock.heard import chat
from tests.serve.mock.pools import small_pool
from tests.serve.upstream.following import followed

DEADLINES = Deadlines(connect_s=1.0, first_token_s=1.0, between_tokens_s=1.0, total_s=5.0)
TOKENS = 20


@pytest.fixture(scope="module")
def mock() -> Iterator[MockTier]:
    with serve_mock(small_pool(), time_scale=10.0) as tier:
        yield tier


async def heard(mock: MockTier, *, stream: bool) -> tuple[list[Piece], UpstreamFault | None]:
    instance = HttpInstance("twin/0", mock.endpoints.instances["twin/0"], "small")
    body = {**chat(rbx_output_tokens=TOKENS), "stream": stream}
    if stream:
        body["stream_options"] = {"include_usage": True}
    return await followed(instance, body, DEADLINES)


@pytest.mark.parametrize("stream", [True, False])
def test_a_good_answer(mock: MockTier, stream: bool) -> None:
    mock.set_faults()
    pieces, fault = asyncio.run(heard(mock, stream=stream))
    assert fault is None
    assert sum(piece.tokens for piece in pieces) == TOKENS
    usage = [piece.usage.output_tokens for piece in pieces if piece.usage]
    assert usage[-1:] == [TOKENS]
    assert pieces[-1].done


FAULTS: list[tuple[dict[str, Any], str | None, str | None]] = [  # the fault, its kind streamed and plain
    ({"kind": "crash"}, "cut", "cut"),
    ({"kind": "crash", "after_chunks": 3}, "cut", "cut"),
    ({"kind": "hang"}, "first_token_timeout", "first_token_timeout"),
    ({"kind": "hang", "after_chunks": 3}, "stalled", "first_token_timeout"),
    ({"kind": "error_event"}, "error", "status"),
    ({"kind": "bad_json"}, "malformed", "malformed"),
    ({"kind": "bad_json", "after_chunks": 3}, "malformed", "malformed"),
    ({"kind": "status", "code": 503}, "status", "status"),
    ({"kind": "no_done"}, None, None),
    ({"kind": "usage", "mode": "null"}, None, None),
    ({"kind": "refuse"}, "refused", "refused"),
    ({"kind": "down"}, "refused", "refused"),
    ({"kind": "freeze"}, "first_token_timeout", "first_token_timeout"),
]


@pytest.mark.parametrize(("fault", "streamed", "plain"), FAULTS, ids=[str(row[0]) for row in FAULTS])
def test_every_fault_has_its_kind(
    mock: MockTier, fault: dict[str, Any], streamed: str | None, plain: str | None
) -> None:
    mock.set_faults(fault)
    try:
        for stream, kind in ((True, streamed), (False, plain)):
            pieces, found = asyncio.run(heard(mock, stream=stream))
            assert (found.kind if found else None) == kind
            if found is None:
                assert sum(piece.tokens for piece in pieces) >= 1
            else:
                assert (found.retryable, found.counts) == (True, True)
                chunks = fault.get("after_chunks", 0) if stream else 0
                assert sum(piece.tokens for piece in pieces) == chunks
    finally:
        mock.set_faults()


def test_an_error_amid_a_stream_is_told_by_a_piece(mock: MockTier) -> None:
    mock.set_faults({"kind": "error_event", "after_chunks": 3})
    try:
        pieces, fault = asyncio.run(heard(mock, stream=True))
    finally:
        mock.set_faults()
    assert fault is None
    assert sum(piece.tokens for piece in pieces) == 3
    assert any(piece.error for piece in pieces)


def test_fifty_clients_that_leave_release_the_server_within_a_second(mock: MockTier) -> None:
    mock.set_faults()

    async def run() -> None:
        instance = HttpInstance("twin/0", mock.endpoints.instances["twin/0"], "small")
        body = {**chat(rbx_output_tokens=2000, max_tokens=2000), "stream": True}
        exchanges = await asyncio.gather(
            *(instance.send("/chat/completions", body, Deadlines()) for _ in range(50))
        )
        for exchange in exchanges:
            count = 0
            async for piece in exchange.pieces():
                count += piece.tokens
                if count >= 3:
                    break
        sight = mock.sight()["twin/0"]
        assert sight.running + sight.waiting == 50
        for exchange in exchanges:
            await exchange.close()
        limit_s = time.monotonic() + 1.0
        while (sight := mock.sight()["twin/0"]).running + sight.waiting:
            assert time.monotonic() < limit_s, f"{sight.running} requests still run"
            await asyncio.sleep(0.01)
        await instance.close()

    asyncio.run(run())
