"""Bodies that are large, many or odd: they hold up nobody else, and there is a bound on all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest

from rbx.config.gateway import GatewayConfig
from rbx.serve.gateway import estimate
from rbx.serve.gateway.incoming import LARGE_BYTES, Intake
from rbx.serve.gateway.request import MAX_KEYS, MAX_VALUES, Asked, Path, read_either, read_request
from tests.serve.gateway.serving import CHAT, SHORTEST, Serving, config, serving

LARGE = orjson.dumps({**CHAT, "padding": "x" * LARGE_BYTES})


class Gate:
    """A step that waits until it is let through."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def wait(self) -> None:
        self.reached.set()
        assert self.opened.wait(20)


def others_are_served(place: Serving) -> None:
    assert place.client.get("/healthz").status_code == 200
    assert place.chat().status_code == 200
    assert place.chat(stream=True).status_code == 200


def test_others_are_served_while_a_large_body_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()

    def reading(path: Path, raw: bytes, headers: Mapping[str, str]) -> Asked:
        if len(raw) > LARGE_BYTES:
            gate.wait()
        return read_request(path, raw, headers)

    monkeypatch.setattr("rbx.serve.gateway.app.read_request", reading)
    with serving() as place, ThreadPoolExecutor(1) as clients:
        large = clients.submit(place.client.post, "/v1/chat/completions", content=LARGE)
        assert gate.reached.wait(10)
        others_are_served(place)
        assert not large.done()
        gate.opened.set()
        assert large.result().status_code == 200
        place.settled()


def test_others_are_served_while_a_large_body_is_read_for_an_estimate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = Gate()

    def reading(raw: bytes, headers: Mapping[str, str]) -> Asked:
        gate.wait()
        return read_either(raw, headers)

    monkeypatch.setattr("rbx.serve.gateway.estimate.read_either", reading)
    with serving() as place, ThreadPoolExecutor(1) as clients:
        large = clients.submit(place.client.post, "/v1/estimate", content=LARGE)
        assert gate.reached.wait(10)
        others_are_served(place)
        gate.opened.set()
        assert large.result().status_code == 200


def test_others_are_served_while_a_configuration_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()

    def checking(*args: Any, **named: Any) -> GatewayConfig:
        gate.wait()
        return config()

    monkeypatch.setattr("rbx.serve.gateway.versions.parse", checking)
    with serving() as place, ThreadPoolExecutor(1) as clients:
        put = clients.submit(place.client.put, "/v1/config", json=SHORTEST)
        assert gate.reached.wait(10)
        others_are_served(place)
        gate.opened.set()
        assert put.result().status_code == 200


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/estimate"])
@pytest.mark.parametrize(
    "content",
    [
        b'{"messages": [' + b"[]," * MAX_VALUES + b"1]}",
        b'{"prompt": [' + b"1," * MAX_VALUES + b"1]}",
        b"{" + b",".join(b'"%x":0' % k for k in range(MAX_KEYS + 1)) + b"}",
    ],
    ids=["lists", "numbers", "keys"],
)
def test_more_values_than_anybody_means_are_refused_unread(path: str, content: bytes) -> None:
    with serving() as place:
        answer = place.client.post(path, content=content)
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "too_many_values"


def test_a_long_text_with_commas_is_read() -> None:
    text = "word, " * 200_000
    content = orjson.dumps({**CHAT, "padding": text})
    assert read_request("chat/completions", content, {}).body["padding"] == text


def test_a_configuration_has_a_bound_of_its_own() -> None:
    with serving() as place:
        answer = place.client.put("/v1/config", json={**SHORTEST, "padding": "x" * 2**16})
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "body_too_large"
        assert "64 KiB" in answer.json()["error"]["message"]


def test_errors_quote_no_more_than_a_part_of_what_came() -> None:
    with serving() as place:
        for body in ({**CHAT, "rbx": {"x" * 10**6: 1}}, {**CHAT, "model": "x" * 10**6}):
            answer = place.client.post("/v1/chat/completions", json=body)
            assert answer.status_code in (400, 404)
            assert len(answer.content) < 50_000
        faulty = {f"key{k}": 1 for k in range(4000)}
        answer = place.client.put("/v1/config", json={**SHORTEST, **faulty})
        assert answer.status_code == 400
        assert "4000 fault(s)" in answer.json()["error"]["message"]
        assert len(answer.content) < 50_000


def test_all_bodies_together_are_bounded_and_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    intake = Intake(most_held_bytes=3 * len(LARGE))
    monkeypatch.setattr("rbx.serve.gateway.app.Intake", lambda: intake)
    with serving(pace_s=0.3) as place:
        with ThreadPoolExecutor(12) as clients:
            asked = [
                clients.submit(place.client.post, "/v1/chat/completions", content=LARGE) for _ in range(12)
            ]
            answers = [future.result() for future in asked]
        turned = [answer for answer in answers if answer.status_code != 200]
        assert len(answers) - len(turned) >= 3
        assert turned
        for answer in turned:
            assert answer.status_code == 429
            assert answer.headers["retry-after"] == "1"
        place.settled()
        assert place.client.post("/v1/chat/completions", content=LARGE).status_code == 200
        until_s = time.monotonic() + 5
        while intake.held_bytes and time.monotonic() < until_s:
            time.sleep(0.01)
        assert intake.held_bytes == 0


def test_estimates_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, begun = Gate(), threading.Semaphore(0)

    def slow(*args: Any) -> list[dict[str, Any]]:
        begun.release()
        gate.wait()
        return []

    monkeypatch.setattr(estimate, "_instances", slow)
    with serving() as place, ThreadPoolExecutor(estimate.MOST_AT_ONCE) as clients:
        asked = [
            clients.submit(place.client.post, "/v1/estimate", json=CHAT) for _ in range(estimate.MOST_AT_ONCE)
        ]
        assert all(begun.acquire(timeout=10) for _ in asked)
        answer = place.client.post("/v1/estimate", json={"prompt": "a"})
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "1"
        assert answer.json()["error"]["type"] == "overloaded"
        others_are_served(place)
        assert 'rbx_shed_total{reason="estimate"}' in place.client.get("/metrics").text
        gate.opened.set()
        assert {future.result().status_code for future in asked} == {200}
        assert place.client.post("/v1/estimate", json=CHAT).status_code == 200
