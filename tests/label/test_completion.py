"""A client that asks a live server, and what it makes of every kind of answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rbx.config.endpoint import Endpoint
from rbx.errors import ConfigError
from rbx.label.completion import Completion, CompletionClient, CompletionError
from rbx.label.proxy import environment_proxy
from tests.label.scripted_server import Reply, Rule, Scripted, answer, scripted

BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def endpoint(server: Scripted, **more: Any) -> Endpoint:
    return Endpoint.model_validate({"url": server.url, "backoff_s": 0.001, "deadline_s": 5.0, **more})


def ask(rule: Rule, **more: Any) -> tuple[Completion | CompletionError, Scripted]:
    with scripted(rule) as server:

        async def run() -> Completion:
            async with CompletionClient(endpoint(server, **more)) as client:
                return await client.complete(BODY)

        try:
            return asyncio.run(run()), server
        except CompletionError as error:
            return error, server


def in_turn(*replies: Reply) -> Rule:
    left = list(replies)
    return lambda path, body: left.pop(0) if len(left) > 1 else left[0]


def test_an_answer_comes_back_with_its_usage() -> None:
    found, server = ask(lambda path, body: answer("hi", finish_reason="length"))
    assert found == Completion("hi", "length", 7, 5, "scripted")
    assert server.seen == [("/v1/chat/completions", BODY)]


@pytest.mark.parametrize(
    "fault",
    [
        Reply(status=429, headers={"Retry-After": "0"}),
        Reply(status=503),
        Reply(b"<html>", 200),
        Reply({"choices": []}),
        Reply({"choices": [{"message": {"content": ["parts"]}}]}),
        Reply(b"[1]"),
    ],
)
def test_what_another_attempt_may_mend_is_attempted_again(fault: Reply) -> None:
    found, server = ask(in_turn(fault, fault, answer("hi")))
    assert isinstance(found, Completion)
    assert found.text == "hi"
    assert len(server.seen) == 3
    lost, server = ask(in_turn(fault))
    assert isinstance(lost, CompletionError)
    assert (len(server.seen), lost.attempts) == (4, 4)


def test_a_request_that_the_server_refuses_is_not_repeated() -> None:
    found, server = ask(lambda path, body: Reply({"error": {"message": "too long"}}, status=400))
    assert isinstance(found, CompletionError)
    assert (found.kind, found.status, len(server.seen)) == ("status", 400, 1)
    assert "too long" in str(found)


def test_a_server_that_never_answers_is_left_at_the_deadline() -> None:
    found, server = ask(lambda path, body: Reply(hang=True), deadline_s=0.2, attempts=2)
    assert isinstance(found, CompletionError)
    assert (found.kind, len(server.seen)) == ("timeout", 2)


def test_nobody_listening_is_unreachable() -> None:
    with scripted(lambda path, body: answer("hi")) as server:
        gone = endpoint(server, attempts=2)

    async def run() -> None:
        async with CompletionClient(gone) as client:
            await client.complete(BODY)

    with pytest.raises(CompletionError) as caught:
        asyncio.run(run())
    assert caught.value.kind == "unreachable"


def test_a_key_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-very-secret")
    leak = Reply({"error": "Bearer sk-very-secret is not known"}, status=401)
    found, server = ask(lambda path, body: leak, api_key_env="SOME_KEY")
    assert server.headers[0]["Authorization"] == "Bearer sk-very-secret"
    assert isinstance(found, CompletionError)
    assert "sk-very-secret" not in str(found)
    assert "***" in str(found)


def test_a_key_that_is_not_set_is_said_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_KEY", raising=False)
    with pytest.raises(ConfigError, match="SOME_KEY is not set"):
        CompletionClient(Endpoint(url="http://127.0.0.1:1/v1", api_key_env="SOME_KEY"))


def test_text_that_utf8_cannot_hold_is_mended_and_odd_counts_are_none() -> None:
    raw = b'{"choices":[{"message":{"content":"a\\ud800b \\ud83d\\ude00"},"finish_reason":7}],'
    raw += b'"usage":{"prompt_tokens":-1,"completion_tokens":true}}'
    found, _ = ask(lambda path, body: Reply(raw))
    assert found == Completion("a\N{REPLACEMENT CHARACTER}b \N{GRINNING FACE}", None, None, None, None)


def test_the_environments_proxy_is_used_but_for_hosts_that_it_excepts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run(far: Endpoint) -> Completion:
        async with CompletionClient(far) as client:
            return await client.complete(BODY)

    with scripted(lambda path, body: answer("through the proxy")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        far = Endpoint(url="http://models.invalid/v1", attempts=1)
        assert asyncio.run(run(far)).text == "through the proxy"
        assert proxy.headers[0]["Host"] == "models.invalid"
        with scripted(lambda path, body: answer("direct")) as server:
            assert asyncio.run(run(endpoint(server))).text == "direct"
        assert len(proxy.seen) == 1


def test_every_string_of_an_answer_can_be_written_and_names_are_bounded() -> None:
    raw = b'{"model":"\\udc80","choices":[{"message":{"content":"4"},"finish_reason":"x\\ud800y"}]}'
    found, _ = ask(lambda path, body: Reply(raw))
    assert isinstance(found, Completion)
    assert (found.finish_reason, found.served_model) == ("x\ufffdy", "\ufffd")
    found, _ = ask(lambda path, body: answer("4", finish_reason="A" * 2_000_000, model="m" * 500))
    assert isinstance(found, Completion)
    assert found.finish_reason == "A" * 199 + "…"
    assert len(found.served_model or "") == 200


def listed(*names: str, **more: Any) -> list[str]:
    with scripted(lambda path, body: answer("hi"), names) as server:

        async def run() -> list[str]:
            async with CompletionClient(endpoint(server, **more)) as client:
                return await client.served_models()

        return asyncio.run(run())


def test_listed_names_are_bounded_and_can_be_written() -> None:
    assert listed("x" * 1_000_000, "\ud800", "m") == ["x" * 199 + "…", "\ufffd", "m"]


def test_a_key_that_a_server_echoes_reaches_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk/SECRET+KEY"
    monkeypatch.setenv("SOME_KEY", key)
    echo = answer(f"your key is {key}", finish_reason=f"bad {key}", model=key)
    found, _ = ask(lambda path, body: echo, api_key_env="SOME_KEY")
    assert found == Completion("your key is ***", "bad ***", 7, 5, "***")
    escaped = Reply(b'{"error": "bad key sk\\/SECRET+KEY"}', status=400)
    refused, _ = ask(lambda path, body: escaped, api_key_env="SOME_KEY")
    assert isinstance(refused, CompletionError)
    assert "SECRET" not in str(refused)
    assert listed(key, api_key_env="SOME_KEY") == ["***"]


@pytest.mark.parametrize(
    "proxy",
    ["http://a..b:1", "http://u:SECRETPW@a..b:1", "socks5://127.0.0.1:9", "http://h:99999", "http://"],
)
def test_a_proxy_that_cannot_be_used_is_said_without_its_password(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(ConfigError, match="http_proxy") as caught:
        CompletionClient(Endpoint(url="http://models.invalid/v1"))
    assert "SECRETPW" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"])
def test_loopback_addresses_never_go_through_a_proxy(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.invalid:1")
    monkeypatch.setenv("no_proxy", "")
    assert environment_proxy(f"http://{host}:8000/v1") is None
    assert environment_proxy("http://models.invalid:8000/v1") == "http://proxy.invalid:1"


def test_a_proxy_that_fails_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://user:SECRETPW@127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")

    async def run() -> None:
        async with CompletionClient(Endpoint(url="http://models.invalid/v1", attempts=1)) as client:
            await client.complete(BODY)

    with pytest.raises(CompletionError, match=r"through 127\.0\.0\.1:1, the environment's proxy") as caught:
        asyncio.run(run())
    assert "SECRETPW" not in str(caught.value)
