"""Answers under way when the time to drain is over: their clients are told, in the shape they know."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

import httpx

from tests.serve.gateway.serving import Serving, config, serving

DRAIN_S = 0.3
ENDLESS = 100_000


def wait_for(holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.005)


def told_at_the_end(place: Serving, *, stream: bool) -> httpx.Response:
    """The answer of a request whose gateway stops while it is served."""
    answers: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: answers.append(place.chat(stream=stream)))
    thread.start()
    wait_for(lambda: place.gateway.in_flight == 1)
    time.sleep(0.1)  # the stream has begun
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


def test_a_request_that_waits_for_an_instance_gets_503() -> None:
    held = config(
        scheduler={"batching": {"mode": "fixed", "max_size": 100, "window_s": 60.0, "eager": False}}
    )
    with serving(held, drain_s=DRAIN_S) as place:
        answer = told_at_the_end(place, stream=True)
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "draining"
