"""Schedules sent to scripted servers on real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from typing import Any

import pytest

from rbx.config.live import LoadClient
from rbx.load.client.request import LoadRequest
from rbx.load.client.result import LoadResult
from tests.load.client.sent import CHAT, Sent, asking, sent
from tests.load.client.wording import DONE, ROLE, STOP, delta, event, last_usage
from tests.serve.upstream.streaming_server import Script, Step, Streaming, streaming

SHORT = (ROLE, delta({"content": "hi"}), STOP, last_usage(1), DONE)


async def all_left(served: Streaming) -> None:
    """The server notices that nobody wants an answer any more."""
    for _ in range(500):
        if not served.under_way:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{served.under_way} requests go on at the server")


def one_to(script: Script, client: LoadClient | None = None, **more: Any) -> tuple[LoadResult, Streaming]:
    async def run() -> tuple[Sent, Streaming]:
        async with streaming(lambda _: script) as served:
            return await sent(
                served.url, [asking(0, stream=more.pop("stream", True))], client, **more
            ), served

    done, served = asyncio.run(run())
    return done.results[0], served


def test_a_stream_from_start_to_end() -> None:
    script = Script(SHORT, headers=["x-rbx-instance: a/0", "X-Request-Id: 7", "Server: secret"])
    result, served = one_to(script)
    assert (result.status, result.fault, result.http_status) == ("ok", None, 200)
    assert (result.text, result.output_tokens, result.input_tokens) == ("hi", 1, 9)
    assert result.headers == {"x-rbx-instance": "a/0", "x-request-id": "7"}
    assert "POST /v1/chat/completions HTTP/1.1" in served.heads[0]
    assert served.bodies == [{"stream": True, "seed": 0}]


@pytest.mark.parametrize(
    ("script", "client", "status", "fault"),
    [
        (Script([], status=500), {}, "error", "status"),
        (Script([], status=302, headers=["Location: http://127.0.0.1:1/v1"]), {}, "error", "status"),
        (Script([ROLE, "reset"]), {}, "error", "cut"),
        (Script([ROLE, "cut"]), {}, "error", "cut"),
        (Script(["cut"], raw_head=b""), {}, "error", "cut"),
        (Script(["cut"], raw_head=b"HTTP/1.1 200 OK\r\nContent-"), {}, "error", "cut"),
        (Script([], raw_head=b"SSH-2.0-OpenSSH\r\n"), {}, "error", "malformed"),
        (Script([event({"error": "dead"})]), {}, "error", "error_event"),
        (Script([DONE]), {}, "error", "empty"),
        (Script([], silent=True), {"first_token_s": 0.1}, "timeout", "first_token_timeout"),
        (Script([ROLE, "hang"]), {"first_token_s": 0.1}, "timeout", "first_token_timeout"),
        (Script([SHORT[1], "hang"]), {"between_tokens_s": 0.1}, "timeout", "stalled"),
        (Script([SHORT[1], "hang"]), {"total_s": 0.1}, "timeout", "total_timeout"),
        (Script([b": ping\n\n", 0.03] * 20), {"first_token_s": 0.1}, "timeout", "first_token_timeout"),
    ],
)
def test_faults(script: Script, client: dict[str, float], status: str, fault: str) -> None:
    result, _ = one_to(script, LoadClient(**client))
    assert (result.status, result.fault) == (status, fault)
    assert result.sent_s is not None
    assert result.done_s is not None
    if status == "timeout":
        assert result.done_s - result.sent_s >= 0.1


def test_a_plain_answer_may_take_longer_than_a_first_token() -> None:
    body = b'{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}'
    script = Script([0.2, body], content_type="application/json")
    result, _ = one_to(script, LoadClient(first_token_s=0.05, between_tokens_s=0.05), stream=False)
    assert (result.status, result.text) == ("ok", "hi")
    assert result.first_token_s == result.last_token_s == result.done_s


def test_nobody_listens() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    done = asyncio.run(sent(f"http://127.0.0.1:{port}/v1", [asking(0), asking(1, 0.02)]))
    for result in done.results.values():
        assert (result.status, result.fault) == ("error", "refused")
        assert result.sent_s is not None
        assert result.first_byte_s is None


def test_a_server_that_takes_no_connection() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        filling = [socket.socket() for _ in range(4)]
        for each in filling:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        done = asyncio.run(sent(f"http://127.0.0.1:{port}/v1", [asking(0)], LoadClient(connect_s=0.1)))
        for each in filling:
            each.close()
    assert (done.results[0].status, done.results[0].fault) == ("timeout", "connect_timeout")


def test_requests_leave_on_their_times_whatever_the_server_does() -> None:
    times = [0.0, 0.0, 0.01, 0.05, 0.05, 0.1, 0.3]

    async def run() -> tuple[Sent, int]:
        async with streaming(lambda _: Script([], silent=True)) as served:
            requests = [asking(k, at_s) for k, at_s in enumerate(times)]
            done = await sent(served.url, requests, LoadClient(first_token_s=1.0))
            return done, served.connections

    done, connections = asyncio.run(run())
    assert connections == len(times)
    assert [each.fault for each in done.results.values()] == ["first_token_timeout"] * len(times)
    for number, at_s in enumerate(times):
        left_s = done.results[number].sent_s
        assert left_s is not None
        assert at_s <= left_s < at_s + 0.25  # while none had an answer


def test_waiting_for_a_connection_counts_from_the_schedule() -> None:
    """Four connections of 190 ms carry 21 requests/s; 50/s for a second pile up (guidellm 1048)."""

    async def run() -> tuple[Sent, int]:
        async with streaming(lambda _: Script([0.19, *SHORT])) as served:
            requests = [asking(k, k / 50.0) for k in range(50)]
            return await sent(served.url, requests, LoadClient(max_connections=4)), served.connections

    done, connections = asyncio.run(run())
    results = list(done.results.values())
    assert connections == 4
    assert {each.status for each in results} == {"ok"}
    assert [each.request for each in results] == sorted(each.request for each in results)
    from_schedule = [each.first_token_s - each.scheduled_s for each in results if each.first_token_s]
    from_sent = [each.first_token_s - each.sent_s for each in results if each.first_token_s and each.sent_s]
    # The last of 50 is the 13th on its connection: due after 0.98 s, its token after 13 x 0.19 s at least.
    assert max(from_schedule) >= 13 * 0.19 - 0.98
    assert sorted(from_sent)[25] < 0.5 * max(from_schedule)
    assert max(done.sending.delays_s) >= 12 * 0.19 - 0.98


def test_connections_are_used_again_while_they_are_fresh() -> None:
    async def run(headers: list[str], *, keeps_alive: bool) -> int:
        async with streaming(lambda _: Script(SHORT, headers=headers, keeps_alive=keeps_alive)) as served:
            done = await sent(served.url, [asking(k, 0.15 * k) for k in range(4)])
            assert [each.status for each in done.results.values()] == ["ok"] * 4
            return served.connections

    assert asyncio.run(run([], keeps_alive=True)) == 1
    assert asyncio.run(run(["Connection: close"], keeps_alive=False)) == 4
    assert asyncio.run(run(["Keep-Alive: timeout=0"], keeps_alive=True)) == 4


def test_a_refusal_that_came_whole_costs_no_connection() -> None:
    async def run() -> int:
        async with streaming(lambda _: Script([b"no"], status=503)) as served:
            done = await sent(served.url, [asking(k, 0.1 * k) for k in range(3)])
            assert [each.fault for each in done.results.values()] == ["status"] * 3
            return served.connections

    assert asyncio.run(run()) == 1


def test_a_response_that_goes_on_after_its_answer_costs_its_connection_and_nothing_else() -> None:
    async def run() -> tuple[Sent, Streaming]:
        async with streaming(lambda _: Script([*SHORT, "hang"])) as served:
            requests = [asking(0), asking(1, 0.2), asking(2, 0.9)]
            return await sent(served.url, requests, LoadClient(max_connections=1)), served

    done, served = asyncio.run(run())
    assert [each.status for each in done.results.values()] == ["ok"] * 3
    assert served.connections == 3


def test_what_a_drain_leaves() -> None:
    def rule(body: dict[str, Any]) -> Script:
        return Script(SHORT if body["seed"] == 0 else [*SHORT[:2], "hang"])

    async def run() -> tuple[Sent, Streaming]:
        async with streaming(rule) as served:
            client = LoadClient(max_connections=2)
            return await sent(served.url, [asking(k, 0.1 * k) for k in range(4)], client, drain_s=0.2), served

    done, _ = asyncio.run(run())
    found = {number: (each.status, each.fault) for number, each in done.results.items()}
    assert found[0] == ("ok", None)
    assert found[1] == found[2] == ("timeout", "drain")
    assert found[3] == ("not_sent", "drain")
    assert done.results[1].text == "hi"
    assert done.sending.sent == 3
    assert max(done.sending.delays_s) >= 0.2  # the one that never left has waited all the drain


def test_a_stop_cancels_what_is_under_way_and_sends_no_more() -> None:
    async def run() -> tuple[Sent, Streaming]:
        async with streaming(
            lambda body: Script(SHORT if body["seed"] == 0 else [SHORT[1], "hang"])
        ) as served:
            done = await sent(served.url, [asking(k, 0.1 * k) for k in range(10)], stop_at_s=0.25)
            await all_left(served)
            return done, served

    done, served = asyncio.run(run())
    counts = Counter(each.status for each in done.results.values())
    assert done.results[0].status == "ok"
    assert counts["ok"] == 1
    assert counts["cancelled"] >= 1
    assert counts["not_sent"] >= 6
    assert sum(counts.values()) == 10
    assert done.sending.sent == len(served.bodies) == 10 - counts["not_sent"]


def test_no_key_reaches_a_result() -> None:
    key = "sk-0123456789abcdef"
    quoting = Script([f"who is {key}?".encode()], status=401)
    result, served = one_to(quoting, key=key)
    assert f"Authorization: Bearer {key}" in served.heads[0]
    assert result.detail == "HTTP 401: who is ***?"
    result, _ = one_to(Script([delta({"content": key}), DONE]), key=key)
    assert result.text == "***"


def test_own_headers_come_along() -> None:
    async def run() -> str:
        async with streaming(lambda _: Script(SHORT)) as served:
            request = LoadRequest(0, 0.0, CHAT, b"{}", (("X-Rbx-Trace", "1"), ("user-agent", "mine")))
            await sent(served.url, [request])
            return served.heads[0]

    head = asyncio.run(run())
    assert "X-Rbx-Trace: 1" in head
    assert "user-agent: mine" in head
    assert "User-Agent" not in head


def test_an_interim_response_is_no_answer() -> None:
    head = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"
    head += b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    result, _ = one_to(Script(SHORT, raw_head=head))
    assert (result.status, result.http_status, result.text) == ("ok", 200, "hi")


@pytest.mark.parametrize("steps", [SHORT, SHORT[:-1], SHORT[:2]])
def test_a_body_that_ends_with_its_connection(steps: tuple[Step, ...]) -> None:
    head = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    head += b"".join(step for step in steps if isinstance(step, bytes))
    result, _ = one_to(Script(["cut"], raw_head=head))
    assert (result.status, result.text) == ("error" if steps == SHORT[:2] else "ok", "hi")
