"""Answers under way when the time to drain is over: their clients are told, in the shape they know."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable

import httpx
import pytest

from tests.serve.gateway.serving import CHAT, Serving, config, serving

DRAIN_S = 0.3
ENDLESS = 100_000


def wait_for(holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.005)


def told_at_the_end(place: Serving, *, stream: bool, signals: int = 1) -> httpx.Response:
    """The answer of a request whose gateway stops while it is served."""
    answers: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: answers.append(place.chat(stream=stream)))
    thread.start()
    wait_for(lambda: place.gateway.in_flight == 1)
    time.sleep(0.1)  # the stream has begun
    for _ in range(signals):
        place.server.handle_exit(15, None)
    thread.join(timeout=10)
    (answer,) = answers
    wait_for(lambda: not place.held())
    return answer


def test_a_plain_answer_becomes_503_of_openais_shape() -> None:
    with serving(pace_s=60.0, drain_s=DRAIN_S) as place:
        answer = told_at_the_end(place, stream=False)
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["error"]["code"] == "draining"


def test_a_stream_ends_with_an_error_event() -> None:
    with serving(tokens=ENDLESS, pace_s=0.01, drain_s=DRAIN_S) as place:
        answer = told_at_the_end(place, stream=True)
    assert answer.status_code == 200
    events = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    assert len(events) > 2
    assert "choices" in json.loads(events[0])
    assert json.loads(events[-1])["error"]["code"] == "draining"


@pytest.mark.parametrize("stream", [False, True])
def test_a_second_signal_ends_the_drain_and_tells_the_clients_all_the_same(*, stream: bool) -> None:
    with serving(tokens=ENDLESS, pace_s=0.01 if stream else 60.0, drain_s=3600.0) as place:
        answer = told_at_the_end(place, stream=stream, signals=2)
        wait_for(lambda: all(instance.closed for instance in place.instances))
    assert sum(instance.cancelled for instance in place.instances) == 1
    assert answer.status_code == (200 if stream else 503)
    last = answer.text.strip().rpartition("\n\n")[2].removeprefix("data: ")
    assert json.loads(last)["error"]["code"] == "draining"


def test_a_client_that_reads_nothing_does_not_hold_up_the_end() -> None:
    with serving(tokens=ENDLESS, drain_s=0.1) as place:
        for instance in place.instances:
            instance.word = "w" * 20_000
        body = json.dumps({**CHAT, "stream": True}).encode()
        host, port = place.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body)
            )
            client.sendall(body)
            wait_for(lambda: place.gateway.in_flight == 1)
            place.server.handle_exit(15, None)
            wait_for(lambda: all(instance.closed for instance in place.instances))


def test_a_request_that_waits_for_an_instance_gets_503() -> None:
    held = config(
        scheduler={"batching": {"mode": "fixed", "max_size": 100, "window_s": 60.0, "eager": False}}
    )
    with serving(held, drain_s=DRAIN_S) as place:
        answer = told_at_the_end(place, stream=True)
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "draining"
