"""Streams through the client: what passes, and what becomes of streams that break."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Sequence
from itertools import pairwise
from typing import Any

import pytest

from rbx.config.gateway import Deadlines
from rbx.serve.exchange import Piece, UpstreamFault
from tests.serve.upstream.following import CHAT, followed
from tests.serve.upstream.streaming_server import (
    DONE,
    FINISH,
    ROLE,
    USAGE,
    Script,
    Step,
    Streaming,
    event,
    said,
    streaming,
)

BODY: dict[str, Any] = {"model": "any", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
QUICK = Deadlines(connect_s=1.0, first_token_s=0.3, between_tokens_s=0.3, total_s=20.0)
STEADY = Deadlines(first_token_s=0.6, between_tokens_s=0.6)
PATIENT = Deadlines()


def follow(
    steps: Sequence[Step], deadlines: Deadlines = PATIENT, body: dict[str, Any] = BODY
) -> tuple[list[Piece], UpstreamFault | None]:
    async def run() -> tuple[list[Piece], UpstreamFault | None]:
        async with streaming(lambda _: Script(steps)) as served:
            return await followed(served.instance(), body, deadlines)

    return asyncio.run(run())


def with_server(
    rule: Callable[[dict[str, Any]], Script], use: Callable[[Streaming], Coroutine[Any, Any, None]]
) -> None:
    async def run() -> None:
        async with streaming(rule) as served:
            await use(served)

    asyncio.run(run())


async def until(condition: Callable[[], bool], within_s: float) -> None:
    limit_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < limit_s, "it did not come to pass"
        await asyncio.sleep(0.005)


def test_a_stream_passes_unchanged_and_is_understood() -> None:
    sent = [ROLE, said("Grüße "), b": keep-alive\n\n", said("an 🌍"), said("!"), FINISH, USAGE, DONE]
    pieces, fault = follow(sent)
    assert fault is None
    assert [piece.raw for piece in pieces] == sent
    assert [piece.tokens for piece in pieces] == [0, 1, 0, 1, 1, 0, 0, 0]
    assert pieces[5].finish_reason == "stop"
    assert pieces[6].usage == (5, 3)
    assert [piece.done for piece in pieces] == [False] * 7 + [True]
    assert all(before.at_s <= after.at_s for before, after in pairwise(pieces))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_how_the_bytes_are_split_changes_nothing(size: int) -> None:
    sent = [ROLE, said("ü🌍"), FINISH, DONE]
    stream = b"".join(sent)
    pieces, fault = follow([stream[at : at + size] for at in range(0, len(stream), size)])
    assert fault is None
    assert [piece.raw for piece in pieces] == sent


def test_the_request_goes_out_under_the_served_name_with_the_key_and_nothing_else_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TINY_KEY", "sk-secret")

    async def use(served: Streaming) -> None:
        instance = served.instance(served_name="org/tiny", api_key_env="TINY_KEY")
        body = {**BODY, "n": 1, "unknown": {"deep": [1, None, 0.5]}}
        exchange = await instance.send(CHAT, body, PATIENT)
        await exchange.close()
        await instance.close()
        assert served.bodies == [{**body, "model": "org/tiny"}]
        assert "POST /v1/chat/completions HTTP/1.1" in served.heads[0]
        assert "Authorization: Bearer sk-secret" in served.heads[0]

    with_server(lambda _: Script([said("x"), FINISH, DONE]), use)


def test_only_safe_headers_come_back() -> None:
    async def use(served: Streaming) -> None:
        instance = served.instance()
        exchange = await instance.send(CHAT, BODY, PATIENT)
        assert exchange.headers == {
            "content-type": "text/event-stream; charset=utf-8",
            "x-request-id": "abc",
        }
        await exchange.close()
        await instance.close()

    script = Script(
        [said("x"), FINISH, DONE], headers=["Keep-Alive: 5", "Set-Cookie: a=b", "X-Request-Id: abc"]
    )
    with_server(lambda _: script, use)


@pytest.mark.parametrize(("given", "sent"), [("req-1", True), ("a\r\nX-Evil: 1", False), ("ü", False)])
def test_the_servers_request_id_is_ours_where_a_header_can_carry_it(given: str, sent: bool) -> None:
    async def use(served: Streaming) -> None:
        instance = served.instance()
        await (await instance.send(CHAT, BODY, PATIENT, given)).close()
        await instance.close()
        assert (f"x-request-id: {given}" in served.heads[0]) == sent
        assert "Evil" not in served.heads[0]

    with_server(lambda _: Script([said("x"), FINISH, DONE]), use)


def test_connections_are_kept_for_the_next_request() -> None:
    async def use(served: Streaming) -> None:
        instance = served.instance()
        for _ in range(5):
            exchange = await instance.send(CHAT, BODY, PATIENT)
            assert [piece.done async for piece in exchange.pieces()] == [False, False, True]
            await exchange.close()
            await asyncio.sleep(0.01)
        await instance.close()
        assert len(served.bodies) == 5
        assert served.connections == 1

    with_server(lambda _: Script([said("x"), FINISH, DONE]), use)


@pytest.mark.parametrize("end", ["cut", "reset"])
def test_a_connection_lost_amid_the_answer_is_a_cut(end: Step) -> None:
    pieces, fault = follow([ROLE, said("a"), said("b"), 0.05, b'data: {"cho', 0.05, end])
    assert fault is not None
    assert (fault.kind, fault.counts) == ("cut", True)
    assert sum(piece.tokens for piece in pieces) == 2


def test_a_body_that_ends_in_order_before_the_answer_does_is_a_cut() -> None:
    pieces, fault = follow([said("a")])
    assert fault is not None
    assert fault.kind == "cut"
    assert len(pieces) == 1


@pytest.mark.parametrize("end", ["cut", "reset"])
def test_a_connection_lost_before_the_first_token_is_for_another_instance(end: Step) -> None:
    pieces, fault = follow([ROLE, 0.05, end])
    assert fault is not None
    assert (fault.kind, fault.retryable, fault.counts) == ("cut", True, True)
    assert pieces == []


def test_a_finished_answer_without_done_is_whole() -> None:
    pieces, fault = follow([said("a"), FINISH, USAGE])
    assert fault is None
    assert pieces[-1].usage == (5, 3)


@pytest.mark.parametrize("asks", [{"n": 2}, {"prompt": ["one", "two"]}, {"prompt": [[1, 2], [3]]}])
def test_all_choices_must_finish(asks: dict[str, Any]) -> None:
    second = event({"choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": "stop"}]})
    _, fault = follow([said("a"), FINISH], body={**BODY, **asks})
    assert fault is not None
    assert fault.kind == "cut"
    _, fault = follow([said("a"), FINISH, second], body={**BODY, **asks})
    assert fault is None


def test_a_prompt_of_token_ids_is_one_prompt() -> None:
    _, fault = follow([said("a"), FINISH], body={**BODY, "prompt": [1, 2, 3]})
    assert fault is None


def test_a_whole_answer_is_no_stall_where_the_server_does_not_end_the_stream() -> None:
    pieces, fault = follow([said("a"), FINISH, USAGE, "hang"], QUICK)
    assert fault is None
    assert pieces[-1].usage == (5, 3)


def test_the_last_event_may_lack_its_blank_line() -> None:
    pieces, fault = follow([said("a"), FINISH, b"data: [DONE]"])
    assert fault is None
    assert pieces[-1].done
    assert pieces[-1].raw == DONE


def test_an_answer_of_no_tokens_is_an_answer() -> None:
    pieces, fault = follow([ROLE, FINISH, DONE])
    assert fault is None
    assert [piece.tokens for piece in pieces] == [0, 0, 0]


def test_role_chunks_and_comments_do_not_satisfy_the_first_token_deadline() -> None:
    pings: list[Step] = [b": ping\n\n", 0.05]
    started_s = time.monotonic()
    _, fault = follow([ROLE, *pings * 100, said("late"), FINISH, DONE], QUICK)
    assert fault is not None
    assert (fault.kind, fault.retryable, fault.counts) == ("first_token_timeout", True, True)
    assert time.monotonic() - started_s < 3.0


def test_reasoning_satisfies_it() -> None:
    thought = event({"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}, "finish_reason": None}]})
    pieces, fault = follow([ROLE, thought, FINISH, DONE])
    assert fault is None
    assert pieces[1].tokens == 1


def test_a_server_that_never_answers_meets_the_first_token_deadline() -> None:
    async def use(served: Streaming) -> None:
        _, fault = await followed(served.instance(), BODY, QUICK)
        assert fault is not None
        assert fault.kind == "first_token_timeout"
        await until(lambda: served.under_way == 0, 1.0)

    with_server(lambda _: Script(silent=True), use)


def test_comments_are_no_progress_between_tokens() -> None:
    pings: list[Step] = [b": ping\n\n", 0.05]
    pieces, fault = follow([said("a"), *pings * 100, said("b"), FINISH, DONE], QUICK)
    assert fault is not None
    assert (fault.kind, fault.counts) == ("stalled", True)
    assert pieces[0].tokens == 1
    assert len(pieces) < 50


def test_a_slow_but_steady_stream_outlives_both_deadlines() -> None:
    slow: list[Step] = [step for _ in range(12) for step in (said("a"), 0.1)]
    pieces, fault = follow([*slow, FINISH, DONE], STEADY)
    assert fault is None
    assert sum(piece.tokens for piece in pieces) == 12


def test_tokens_whose_text_is_held_back_are_progress() -> None:
    def held(count: int) -> bytes:
        usage = {"prompt_tokens": 5, "completion_tokens": count}
        return event({"choices": [{"index": 0, "delta": {"content": ""}}], "usage": usage})

    slow: list[Step] = [step for count in range(2, 10) for step in (held(count), 0.1)]
    usage = {"prompt_tokens": 5, "completion_tokens": 10}
    pieces, fault = follow([said("a"), *slow, said("b", usage=usage), FINISH, DONE], STEADY)
    assert fault is None
    assert [piece.tokens for piece in pieces if piece.tokens] == [1, 9]


def test_the_total_deadline_ends_an_answer_without_blaming_the_instance() -> None:
    slow: list[Step] = [step for _ in range(100) for step in (said("a"), 0.05)]
    _, fault = follow(slow, PATIENT.model_copy(update={"total_s": 0.6}))
    assert fault is not None
    assert (fault.kind, fault.counts) == ("stalled", False)


def test_a_reader_that_is_slow_is_not_the_servers_silence() -> None:
    async def use(served: Streaming) -> None:
        instance = served.instance()
        exchange = await instance.send(CHAT, BODY, PATIENT.model_copy(update={"between_tokens_s": 0.3}))
        count = 0
        async for piece in exchange.pieces():
            await asyncio.sleep(0.5 if count < 2 else 0.0)
            count += piece.tokens
        await exchange.close()
        await instance.close()
        assert count == 4

    with_server(lambda _: Script([said("a"), said("b"), 0.6, said("c"), said("d"), FINISH, DONE]), use)


def test_closing_tells_the_server_within_a_second() -> None:
    async def use(served: Streaming) -> None:
        instance = served.instance()
        exchanges = [await instance.send(CHAT, BODY, PATIENT) for _ in range(50)]
        assert served.under_way == 50
        for exchange in exchanges:
            await exchange.close()
        await until(lambda: served.under_way == 0, 1.0)
        assert len(served.left_s) == 50
        await instance.close()

    with_server(lambda _: Script([said("a"), said("b"), "hang"]), use)


def test_closing_ends_a_reader_that_waits() -> None:
    async def use(served: Streaming) -> None:
        instance = served.instance()
        exchange = await instance.send(CHAT, BODY, Deadlines())

        async def read() -> list[int]:
            return [piece.tokens async for piece in exchange.pieces()]

        reading = asyncio.ensure_future(read())
        await asyncio.sleep(0.05)
        await exchange.close()
        await exchange.close()
        assert await asyncio.wait_for(reading, 1.0) == [1]
        await instance.close()

    with_server(lambda _: Script([said("a"), "hang"]), use)


def test_closing_the_instance_ends_its_answers() -> None:
    async def use(served: Streaming) -> None:
        instance = served.instance()
        exchange = await instance.send(CHAT, BODY, Deadlines())

        async def read() -> None:
            async for _ in exchange.pieces():
                pass

        reading = asyncio.ensure_future(read())
        await asyncio.sleep(0.05)
        await instance.close()
        with pytest.raises(UpstreamFault, match="cut"):
            await asyncio.wait_for(reading, 1.0)
        await until(lambda: served.under_way == 0, 1.0)
        await exchange.close()

    with_server(lambda _: Script([said("a"), "hang"]), use)


def test_a_server_that_reads_no_request_meets_the_first_token_deadline() -> None:
    async def run() -> None:
        connected: list[asyncio.StreamWriter] = []

        async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connected.append(writer)

        server = await asyncio.start_server(ignore, "127.0.0.1", 0, limit=1)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        instance = Streaming(url).instance()
        with pytest.raises(UpstreamFault, match="first_token_timeout"):
            await instance.send(CHAT, {**BODY, "padding": "x" * (32 << 20)}, QUICK)
        await instance.close()
        server.close()
        assert len(connected) == 1
        connected[0].transport.abort()
        await asyncio.sleep(0.05)

    asyncio.run(run())


def test_a_connection_that_the_server_closed_when_idle_is_not_used_again() -> None:
    async def use(served: Streaming) -> None:
        instance = served.instance()
        for _ in range(3):
            exchange = await instance.send(CHAT, BODY, PATIENT)
            assert [piece.done async for piece in exchange.pieces()] == [False, False, True]
            await exchange.close()
            await asyncio.sleep(0.05)
        await instance.close()
        assert served.connections == 3

    with_server(lambda _: Script([said("x"), FINISH, DONE], keeps_alive=False), use)


@pytest.mark.parametrize("script", [Script(silent=True), Script([ROLE, "hang"])])
def test_cancelling_the_sender_tells_the_server_within_a_second(script: Script) -> None:
    async def use(served: Streaming) -> None:
        instance = served.instance()
        task = asyncio.ensure_future(instance.send(CHAT, BODY, Deadlines()))
        await until(lambda: served.under_way == 1, 1.0)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: served.under_way == 0, 1.0)
        await instance.close()

    with_server(lambda _: script, use)


def test_a_server_that_keeps_the_body_open_after_done_holds_nobody_up() -> None:
    async def use(served: Streaming) -> None:
        pieces, fault = await asyncio.wait_for(followed(served.instance(), BODY, PATIENT), 5.0)
        assert fault is None
        assert pieces[-1].done
        await until(lambda: served.under_way == 0, 2.0)

    with_server(lambda _: Script([said("a"), FINISH, DONE, "hang"]), use)


def test_an_error_before_the_first_token_is_for_another_instance() -> None:
    told = event({"error": {"message": "out of memory", "type": "InternalServerError", "code": 500}})
    pieces, fault = follow([ROLE, told, DONE])
    assert fault is not None
    assert (fault.kind, fault.retryable, fault.counts) == ("error", True, True)
    assert json.loads(fault.body)["error"]["message"] == fault.detail == "out of memory"
    assert pieces == []


def test_an_error_that_blames_the_request_is_not_retried() -> None:
    told = event({"error": {"message": "bad grammar", "code": 400}})
    _, fault = follow([told, DONE])
    assert fault is not None
    assert (fault.retryable, fault.counts, fault.status) == (False, False, 400)


def test_an_error_after_it_is_passed_on_and_told() -> None:
    told = event({"error": {"message": "worker died"}})
    pieces, fault = follow([said("a"), told])
    assert fault is None
    assert [piece.error for piece in pieces] == [None, "worker died"]
    assert pieces[1].raw == told


def test_an_event_named_error_is_one_whatever_it_holds() -> None:
    pieces, fault = follow([said("a"), b"event: error\ndata: boom\n\n", DONE])
    assert fault is None
    assert pieces[1].error == "boom"


@pytest.mark.parametrize("junk", [b"data: {bad\n\n", b"data: 5\n\n", b"<html>\n\n"])
def test_junk_for_an_answer_is_malformed_or_cut(junk: bytes) -> None:
    _, fault = follow([junk])
    assert fault is not None
    assert fault.kind in ("malformed", "cut")
    assert (fault.retryable, fault.counts) == (True, True)


def test_junk_amid_an_answer_ends_it_after_what_was_good() -> None:
    pieces, fault = follow([said("a") + b"data: {bad\n\n" + said("b"), DONE])
    assert fault is not None
    assert fault.kind == "malformed"
    assert [piece.raw for piece in pieces] == [said("a")]
