"""Whatever a server does, every request has exactly one outcome and its times are in order."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.config.live import LoadClient
from rbx.load.client.result import STATUSES, LoadResult
from tests.load.client.sent import Sent, asking, sent
from tests.load.client.wording import DONE, PING, ROLE, STOP, delta, event, last_usage, usage
from tests.serve.upstream.streaming_server import Script, Step, streaming

STEPS: tuple[Step, ...] = (
    *(ROLE, PING, STOP, DONE, delta({"content": "a"}), delta({"content": "ü🌍"})[:-9], last_usage(3)),
    *(
        delta({"reasoning": "r"}),
        delta({"content": "b"}, **usage(7)),
        delta({}, "abort"),
        b"data: {",
        b"\n\n",
    ),
    *(b"\r\n", b"data: 5\n\n", b"\xff\xfe", b"x" * 5000, event({"error": {"message": "m", "code": 400}})),
    *(b"event: error\ndata: x\n\n", b"", 0.005, 0.03, 0.2, "hang", "cut", "reset"),
)
HEADS = (None,) * 12 + (b"\x00garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n", b"")
SCRIPTS = st.builds(
    Script,
    st.lists(st.sampled_from(STEPS), max_size=8),
    status=st.sampled_from([200] * 9 + [206, 302, 400, 500]),
    content_type=st.sampled_from(["text/event-stream"] * 4 + ["application/json", "text/html"]),
    silent=st.sampled_from([False] * 20 + [True]),
    keeps_alive=st.booleans(),
    raw_head=st.sampled_from(HEADS),
)


class Storm(NamedTuple):
    """A schedule and what each request meets."""

    scripts: list[Script]
    times: list[float]
    streams: list[bool]
    connections: int
    drain_s: float
    stop_at_s: float | None


@st.composite
def storms(draw: st.DrawFn) -> Storm:
    scripts = draw(st.lists(SCRIPTS, min_size=1, max_size=20))
    count = len(scripts)
    times = draw(st.lists(st.sampled_from([0.0, 0.0, 0.01, 0.05, 0.1]), min_size=count, max_size=count))
    streams = draw(st.lists(st.sampled_from([True, True, True, False]), min_size=count, max_size=count))
    stop_at_s = draw(st.sampled_from([None, None, None, 0.04, 0.15]))
    return Storm(
        scripts,
        sorted(times),
        streams,
        draw(st.sampled_from([1, 3, 100])),
        draw(st.sampled_from([0.0, 0.1, 5.0])),
        stop_at_s,
    )


def run(storm: Storm) -> tuple[Sent, int]:
    async def main() -> tuple[Sent, int]:
        def rule(body: dict[str, Any]) -> Script:
            script: Script = storm.scripts[body["seed"]]
            return script

        async with streaming(rule) as served:
            requests = [
                asking(number, at_s, stream=stream)
                for number, (at_s, stream) in enumerate(zip(storm.times, storm.streams, strict=True))
            ]
            client = LoadClient(
                max_connections=storm.connections, first_token_s=0.1, between_tokens_s=0.1, total_s=0.4
            )
            done = await asyncio.wait_for(
                sent(served.url, requests, client, drain_s=storm.drain_s, stop_at_s=storm.stop_at_s), 30.0
            )
            return done, len(served.bodies)

    return asyncio.run(main())


def in_order(result: LoadResult) -> None:
    stamps = [
        result.sent_s,
        result.first_byte_s,
        result.first_token_s,
        result.first_answer_s,
        result.last_token_s,
        result.done_s,
    ]
    there = [at_s for at_s in stamps if at_s is not None]
    assert all(earlier <= later for earlier, later in pairwise(there))
    assert all(earlier <= later for earlier, later in pairwise(result.chunk_s))
    assert len(result.chunk_s) == len(result.chunk_tokens)
    assert (result.first_token_s is None) == (not result.chunk_s)
    assert (result.first_answer_s is None) or bool(result.chunk_s)
    assert all(tokens > 0 for tokens in result.chunk_tokens)


@settings(max_examples=40)
@given(storms())
def test_every_request_has_one_outcome(storm: Storm) -> None:
    done, heard = run(storm)
    counts = Counter(each.status for each in done.results.values())
    assert sorted(done.results) == list(range(len(storm.scripts)))
    assert set(counts) <= set(STATUSES)
    assert done.sending.sent == sum(counts.values()) - counts["not_sent"]
    assert heard <= done.sending.sent  # each left at most once
    for result in done.results.values():
        in_order(result)
        assert (result.sent_s is None) == (result.status == "not_sent")
        assert (result.fault is None) == (result.status == "ok")
        if result.sent_s is not None:
            assert result.sent_s >= result.scheduled_s
            assert result.done_s is not None
        if result.status == "ok":
            assert result.http_status is not None
            assert 200 <= result.http_status < 300
            assert result.output_tokens is not None
        if storm.stop_at_s is None:
            assert result.status != "cancelled"
