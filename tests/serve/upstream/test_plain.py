"""Plain answers, refusals and connections that fail."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from rbx.config.endpoints import InstanceEndpoint
from rbx.config.gateway import Deadlines
from rbx.serve.exchange import Exchange, Piece, UpstreamFault
from rbx.serve.gateway.errors import of_fault
from rbx.serve.upstream.instance import HttpInstance
from tests.label.scripted_server import Reply, answer, scripted
from tests.serve.upstream.following import CHAT, followed
from tests.serve.upstream.streaming_server import Script, Step, said, streaming

BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
QUICK = Deadlines(connect_s=0.5, first_token_s=0.5, between_tokens_s=0.5, total_s=5.0)


async def asked(url: str, body: dict[str, Any], deadlines: Deadlines = QUICK) -> tuple[Exchange, list[Piece]]:
    instance = HttpInstance("tiny/0", InstanceEndpoint(url=url), "tiny")
    try:
        exchange = await instance.send(CHAT, body, deadlines)
        pieces = [piece async for piece in exchange.pieces()]
        await exchange.close()
        return exchange, pieces
    finally:
        await instance.close()


def fault_of(url: str, body: dict[str, Any] = BODY, deadlines: Deadlines = QUICK) -> UpstreamFault:
    with pytest.raises(UpstreamFault) as caught:
        asyncio.run(asked(url, body, deadlines))
    return caught.value


def reply_fault(reply: Reply, body: dict[str, Any] = BODY) -> UpstreamFault:
    with scripted(lambda path, body: reply) as served:
        return fault_of(served.url, body)


def test_a_plain_answer_comes_whole_and_unchanged() -> None:
    raw = (
        b'{ "choices":[{"index":0,"message":{"content":"h\\u00e4"},"finish_reason":"length"}],'
        b'"usage":{"prompt_tokens":7,"completion_tokens":5}, "odd": 1.50 }'
    )
    with scripted(lambda path, body: Reply(raw)) as served:
        exchange, pieces = asyncio.run(asked(served.url, BODY))
        assert served.seen == [("/v1/chat/completions", {**BODY, "model": "tiny"})]
    assert exchange.status == 200
    assert exchange.headers["content-type"] == "application/json"
    (piece,) = pieces
    assert piece.raw == raw
    assert (piece.tokens, piece.usage, piece.finish_reason, piece.done) == (5, (7, 5), "length", True)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_request_is_told_and_not_the_instances_fault(status: int) -> None:
    fault = reply_fault(Reply({"error": {"message": "too long"}}, status=status))
    assert (fault.kind, fault.retryable, fault.counts, fault.status) == ("status", False, False, status)
    assert json.loads(fault.body) == {"error": {"message": "too long"}}


@pytest.mark.parametrize("status", [301, 307, 401, 403, 404, 408, 409, 425, 429, 500, 502, 503])
def test_other_statuses_are_for_another_instance(status: int) -> None:
    reply = Reply({"error": "no"}, status=status, headers={"Location": "http://127.0.0.1:1/elsewhere"})
    fault = reply_fault(reply)
    assert (fault.kind, fault.retryable, fault.counts, fault.status) == ("status", True, True, status)


def test_a_refusal_never_shows_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINY_KEY", "sk-secret")
    with scripted(lambda path, body: Reply({"error": "bad key sk-secret"}, status=401)) as served:
        endpoint = InstanceEndpoint(url=served.url, api_key_env="TINY_KEY")

        async def ask() -> None:
            instance = HttpInstance("tiny/0", endpoint, "tiny")
            try:
                await instance.send(CHAT, BODY, QUICK)
            finally:
                await instance.close()

        with pytest.raises(UpstreamFault) as caught:
            asyncio.run(ask())
    assert caught.value.body == b'{"error": "bad key ***"}'
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(("stream", "begun"), [(False, False), (True, False), (True, True)])
def test_an_error_inside_a_success_never_shows_the_key(
    monkeypatch: pytest.MonkeyPatch, *, stream: bool, begun: bool
) -> None:
    key = "sk-se/cret-of-tiny"
    monkeypatch.setenv("TINY_KEY", key)
    quoted = json.dumps({"error": {"message": f"bad key <Bearer {key}>", "code": 400}})
    for told in (quoted, quoted.replace("/", "\\/"), f"<html>{key}"):
        steps = [said("a")] * begun + [b"data: " * stream + told.encode() + b"\n\n"]
        script = Script(steps, content_type="text/event-stream" if stream else "application/json")
        shown = asyncio.run(all_that_is_told(script, stream=stream))
        assert "***" in shown
        assert "cret" not in shown


async def all_that_is_told(script: Script, *, stream: bool) -> str:
    async with streaming(lambda _: script) as served:
        instance = served.instance(api_key_env="TINY_KEY")
        pieces, fault = await followed(instance, {**BODY, "stream": stream}, QUICK)
    shown = [repr((piece.raw.decode(), piece.error)) for piece in pieces]
    return "".join([*shown, repr(fault), fault.body.decode() if fault else ""])


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[1]", b'{"choices": [', b"\xff\xfe"])
def test_a_success_without_a_json_object_is_malformed(raw: bytes) -> None:
    fault = reply_fault(Reply(raw))
    assert (fault.kind, fault.retryable, fault.counts) == ("malformed", True, True)


OLD_ERROR = {"object": "error", "message": "engine dead", "type": "InternalServerError", "code": 500}


@pytest.mark.parametrize("told", [{"error": {"message": "engine dead", "code": 500}}, OLD_ERROR])
def test_an_error_inside_a_success_is_no_success(told: dict[str, Any]) -> None:
    fault = reply_fault(Reply(told))
    assert (fault.kind, fault.retryable, fault.counts) == ("error", True, True)
    assert fault.detail == "engine dead"


def test_an_old_error_object_that_blames_the_request_is_not_the_instances_fault() -> None:
    fault = reply_fault(Reply({**OLD_ERROR, "message": "too long", "code": 400}))
    assert (fault.kind, fault.retryable, fault.counts, fault.status) == ("error", False, False, 400)
    assert of_fault(fault, "tiny/0").status == 400
    assert of_fault(fault, "tiny/0").message == "too long"


@pytest.mark.parametrize("told", [{}, {"detail": "Not Found"}, {"choices": []}, {"choices": None}])
def test_a_success_without_a_choice_is_no_success(told: dict[str, Any]) -> None:
    fault = reply_fault(Reply(told))
    assert (fault.kind, fault.retryable, fault.counts) == ("malformed", True, True)


@pytest.mark.parametrize("begun", [False, True])
def test_an_old_error_object_in_a_stream_is_an_error(*, begun: bool) -> None:
    steps = [said("a")] * begun + [b"data: " + json.dumps(OLD_ERROR).encode() + b"\n\n", b"data: [DONE]\n\n"]

    async def run() -> tuple[list[Piece], UpstreamFault | None]:
        async with streaming(lambda _: Script(steps)) as served:
            return await followed(served.instance(), {**BODY, "stream": True}, QUICK)

    pieces, fault = asyncio.run(run())
    if begun:
        assert [piece.error for piece in pieces if piece.error] == ["engine dead"]
    else:
        assert fault is not None
        assert (fault.kind, fault.retryable) == ("error", True)


def test_a_plain_answer_to_a_streamed_request_is_malformed() -> None:
    reply = answer("hello")
    assert reply_fault(reply, {**BODY, "stream": True}).kind == "malformed"


def test_a_plain_answer_may_take_longer_than_a_first_token() -> None:
    async def run() -> list[Piece]:
        told = json.dumps({"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}]})
        half = len(told) // 2
        steps: list[Step] = [0.3, told[:half].encode(), 0.3, told[half:].encode()]
        async with streaming(lambda _: Script(steps, content_type="application/json")) as served:
            _, pieces = await asked(served.url, BODY, QUICK.model_copy(update={"first_token_s": 0.1}))
            return pieces

    (piece,) = asyncio.run(run())
    assert (piece.tokens, piece.done) == (1, True)


def test_a_server_that_never_gives_a_plain_answer_meets_the_total_deadline() -> None:
    with scripted(lambda path, body: Reply(hang=True)) as served:
        fault = fault_of(served.url, deadlines=QUICK.model_copy(update={"total_s": 0.7}))
    assert "0.7 s" in fault.detail
    assert (fault.kind, fault.retryable, fault.counts) == ("first_token_timeout", True, True)


def test_nobody_listens() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        fault = fault_of(f"http://127.0.0.1:{reserved.getsockname()[1]}/v1")
    assert (fault.kind, fault.retryable, fault.counts) == ("refused", True, True)


def test_a_name_that_does_not_exist() -> None:
    patient = Deadlines(connect_s=5.0, first_token_s=6.0)
    fault = fault_of("http://nowhere.invalid/v1", deadlines=patient)
    assert fault.kind in ("refused", "connect_timeout")
    assert fault.retryable


def test_a_full_backlog_meets_the_connect_deadline() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = listening.getsockname()
        waiting = [socket.socket() for _ in range(8)]
        try:
            for each in waiting:
                each.setblocking(False)
                each.connect_ex(address)
            fault = fault_of(
                f"http://127.0.0.1:{address[1]}/v1", deadlines=QUICK.model_copy(update={"connect_s": 0.2})
            )
        finally:
            for each in waiting:
                each.close()
    assert (fault.kind, fault.retryable, fault.counts) == ("connect_timeout", True, True)


@pytest.mark.parametrize("steps", [[b'{"choices"', 0.02, "cut"], [b'{"choices"', 0.02, "reset"]])
def test_a_plain_answer_that_is_cut(steps: list[Any]) -> None:
    async def run() -> UpstreamFault:
        async with streaming(lambda _: Script(steps, content_type="application/json")) as served:
            with pytest.raises(UpstreamFault) as caught:
                await asked(served.url, BODY)
            return caught.value

    fault = asyncio.run(run())
    assert (fault.kind, fault.retryable) == ("cut", True)


def test_a_server_that_speaks_no_http() -> None:
    async def run() -> UpstreamFault:
        async with streaming(lambda _: Script([], raw_head=b"SSH-2.0-OpenSSH_9.6\r\n")) as served:
            with pytest.raises(UpstreamFault) as caught:
                await asked(served.url, BODY)
            return caught.value

    assert asyncio.run(run()).kind == "malformed"


def test_an_endless_plain_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rbx.serve.upstream.instance.MAX_PLAIN_BYTES", 1 << 20)

    async def run() -> UpstreamFault:
        script = Script([b" " * (1 << 16)] * 64 + ["hang"], content_type="application/json")
        async with streaming(lambda _: script) as served:
            with pytest.raises(UpstreamFault) as caught:
                await asked(served.url, BODY, QUICK.model_copy(update={"first_token_s": 5.0}))
            return caught.value

    fault = asyncio.run(run())
    assert (fault.kind, fault.retryable) == ("malformed", True)


def test_what_json_cannot_hold_is_refused_before_it_is_sent() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    for odd in (nested, {"set": {1}}):
        fault = fault_of("http://127.0.0.1:1/v1", {**BODY, "odd": odd})
        assert (fault.kind, fault.status, fault.retryable, fault.counts) == ("status", 400, False, False)


def test_events_under_a_wrong_type_are_events_all_the_same() -> None:
    async def run() -> list[Piece]:
        script = Script([said("a"), b"data: [DONE]\n\n"], content_type="text/plain")
        async with streaming(lambda _: script) as served:
            exchange, pieces = await asked(served.url, {**BODY, "stream": True})
            assert exchange.headers["content-type"].startswith("text/event-stream")
            return pieces

    assert [piece.tokens for piece in asyncio.run(run())] == [1, 0]
