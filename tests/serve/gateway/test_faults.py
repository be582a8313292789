"""Instances that fail, clients that leave, more work than there is room for, and the end."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import orjson
import pytest

from rbx.heads.bundle import Bundle
from rbx.serve.exchange import FaultKind, UpstreamFault
from tests.serve.gateway.serving import CHAT, Serving, config, serving
from tests.serve.gateway.slow_encoder import SlowEncoder


def refusing() -> UpstreamFault:
    return UpstreamFault("refused", "connection refused", True)


def test_a_dead_instance_costs_no_request_and_is_left_alone() -> None:
    with serving(config(breaker={"failures": 3, "open_s": 60.0})) as place:
        place.instances[2].fault = refusing
        answers = [place.chat() for _ in range(40)]
        assert [a.status_code for a in answers] == [200] * 40
        assert Counter(a.headers["x-rbx-attempts"] for a in answers) == {"1": 37, "2": 3}
        assert len(place.instances[2].bodies) == 3
        page = place.client.get("/metrics").text
        assert 'rbx_breaker_state{instance="tiny-b/0"} 2.0' in page
        assert 'rbx_faults_total{instance="tiny-b/0",kind="refused"} 3.0' in page
        assert "rbx_replaced_total 3.0" in page
        place.settled()


def test_a_lost_tier_costs_no_request() -> None:
    with serving() as place:
        for instance in place.instances[:2]:
            instance.fault = refusing
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: place.chat(), range(60)))
        assert {a.status_code for a in answers} == {200}
        assert {a.headers["x-rbx-model"] for a in answers} == {"tiny"}
        place.settled()


@pytest.mark.parametrize(
    ("kind", "status", "expected"),
    [
        ("refused", None, 502),
        ("connect_timeout", None, 504),
        ("first_token_timeout", None, 504),
        ("malformed", None, 502),
        ("status", 500, 502),
        ("status", 503, 502),
        ("status", 429, 429),
    ],
)
def test_when_all_fail_the_client_hears_why_and_then_503(
    kind: FaultKind, status: int | None, expected: int
) -> None:
    with serving(config(breaker={"failures": 1, "open_s": 30.0})) as place:
        for instance in place.instances:
            instance.fault = lambda: UpstreamFault(kind, "10.0.0.7: so", True, status=status)
        answer = place.chat()
        assert answer.status_code == expected
        assert answer.json()["error"]["code"] == f"upstream_{kind}"
        assert "10.0.0.7" not in answer.text
        for _ in range(2):
            answer = place.chat()
        assert answer.status_code == 503
        assert 1 <= int(answer.headers["retry-after"]) <= 30
        assert place.client.get("/readyz").status_code == 503
        place.settled()


def test_a_refusal_of_the_request_itself_passes_and_hurts_nobody() -> None:
    words = {
        "message": "temperature must be at most 2",
        "type": "BadRequestError",
        "param": None,
        "code": 400,
    }
    with serving() as place:
        for instance in place.instances:
            instance.fault = lambda: UpstreamFault(
                "status", "HTTP 400", False, counts=False, status=400, body=orjson.dumps({"error": words})
            )
        for _ in range(20):
            answer = place.chat(temperature=9)
            assert answer.status_code == 400
            assert answer.json()["error"]["message"] == words["message"]
            assert answer.headers["x-rbx-config-version"]
        assert {place.gateway.breakers[i].state for i in range(4)} == {"closed"}
        place.settled()


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_of_the_gateways_own_key_is_not_the_clients(status: int) -> None:
    body = orjson.dumps({"error": {"message": "Incorrect API key", "type": "auth", "code": "bad_key"}})
    with serving() as place:
        for instance in place.instances:
            instance.fault = lambda: UpstreamFault("status", "HTTP", True, status=status, body=body)
        answer = place.chat()
        assert answer.status_code == 502
        assert answer.json()["error"]["code"] == "upstream_status"
        assert "API key" not in answer.text
        place.settled()


@pytest.mark.parametrize(
    ("status", "expected", "told"),
    [(None, 502, True), (500, 502, True), (503, 502, True), (429, 429, True), (401, 502, False)],
)
def test_an_error_inside_a_success_is_told_unless_it_is_about_the_gateway(
    status: int | None, expected: int, *, told: bool
) -> None:
    words = "out of memory \ud800" + "x" * 20_000
    with serving() as place:
        for instance in place.instances:
            instance.fault = lambda: UpstreamFault("error", words, True, status=status)
        answer = place.chat(stream=True)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (expected, "upstream_error")
        assert ("told of an error: out of memory" in error["message"]) is told
        assert ("out of memory" in error["message"]) is told
        assert len(error["message"]) <= 10_001
        place.settled()


def test_one_try_is_left_after_the_time_for_retries_is_over() -> None:
    with serving(config(retries={"attempts": 5, "within_s": 0.05}), pace_s=0.1) as place:
        for instance in place.instances:
            instance.fault = refusing
        assert place.chat().status_code == 502
        assert sum(len(instance.bodies) for instance in place.instances) == 1


def test_a_stream_that_is_cut_ends_with_an_error_event_and_is_not_repeated() -> None:
    with serving(tokens=20) as place:
        for instance in place.instances:
            instance.cut_after = 4
        answer = place.chat(stream=True)
        assert answer.status_code == 200
        events = answer.content.strip().split(b"\n\n")
        assert len(events) == 5
        assert orjson.loads(events[-1][6:])["error"]["code"] == "upstream_cut"
        assert sum(len(instance.bodies) for instance in place.instances) == 1
        place.settled()


def test_a_half_open_breaker_lets_one_of_a_burst_through() -> None:
    with serving(config(breaker={"failures": 1, "open_s": 0.3}), tokens=3, pace_s=0.05) as place:
        for i in (0, 1, 3):
            place.watch.ready[i] = False
        place.watch.ready[1] = True
        place.instances[1].fault = refusing
        place.watch.ready[2] = False
        assert place.chat().status_code == 502
        assert place.chat().status_code == 503
        time.sleep(0.35)
        place.instances[1].fault = None
        with ThreadPoolExecutor(6) as pool:
            statuses = Counter(pool.map(lambda _: place.chat(stream=True).status_code, range(6)))
        assert statuses[200] >= 1
        assert statuses[200] + statuses[503] == 6
        assert place.chat().status_code == 200
        place.settled()


def silent() -> UpstreamFault:
    return UpstreamFault("first_token_timeout", "no token within 0.2 s", True)


def test_a_first_token_timeout_is_no_fault_of_an_instance_that_serves_others() -> None:
    with serving(config(breaker={"failures": 1, "open_s": 30.0}), tokens=200, pace_s=0.05) as place:
        place.watch.ready[:] = False
        place.watch.ready[1] = True
        with ThreadPoolExecutor(1) as pool:
            served = pool.submit(place.chat, stream=True)
            until_s = time.monotonic() + 5
            while place.instances[1].under_way == 0:
                assert time.monotonic() < until_s
                time.sleep(0.005)
            time.sleep(0.3)  # it gives tokens
            place.instances[1].fault = silent
            place.instances[1].wait_s = 0.4
            for _ in range(3):
                assert place.chat(stream=True).status_code == 504
            assert {place.gateway.breakers[1].state} == {"closed"}
            place.instances[1].pace_s = 0.0
            assert served.result().content.endswith(b"data: [DONE]\n\n")
        assert place.chat(stream=True).status_code == 504
        assert {place.gateway.breakers[1].state} == {"open"}
        place.settled()


def leave_after(place: Serving, events: int) -> None:
    asked = {**CHAT, "stream": True}
    with (
        httpx.Client(base_url=place.url, timeout=10, trust_env=False) as client,
        client.stream("POST", "/v1/chat/completions", json=asked) as answer,
    ):
        lines = answer.iter_lines()
        for _ in range(2 * events):
            next(lines)


def test_fifty_clients_that_leave_amid_their_answers_leave_nothing_behind() -> None:
    with serving(tokens=2000, pace_s=0.02) as place:
        with ThreadPoolExecutor(25) as pool:
            list(pool.map(lambda _: leave_after(place, 3), range(50)))
        place.settled(within_s=1.0)
        assert sum(instance.cancelled for instance in place.instances) == 50
        assert "rbx_clients_left_total 50.0" in place.client.get("/metrics").text
        assert {place.gateway.breakers[i].state for i in range(4)} == {"closed"}


def test_clients_that_leave_before_the_first_token_leave_nothing_behind() -> None:
    with serving(pace_s=30.0) as place:
        body = orjson.dumps(CHAT)
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        )
        host, port = place.url.removeprefix("http://").split(":")
        sockets = [socket.create_connection((host, int(port))) for _ in range(50)]
        for one in sockets:
            one.sendall(head + body)
        until_s = time.monotonic() + 10
        while sum(instance.under_way for instance in place.instances) < 50:
            assert time.monotonic() < until_s
            time.sleep(0.01)
        for one in sockets:
            one.close()
        place.settled(within_s=1.0)
        assert sum(instance.cancelled for instance in place.instances) == 50


@pytest.mark.parametrize("held_by", ["encoder", "window"])
def test_clients_that_leave_before_the_decision_leave_nothing_behind(bundle: Bundle, held_by: str) -> None:
    own = vars(bundle)["encoder"]
    policy = {"kind": "routebalance", "weights": [[1.0, 0.0, 0.0]]}
    window = {"mode": "fixed", "max_size": 64, "window_s": 3.0 if held_by == "window" else 0.05}
    held = config(
        policy=policy, deadlines={"encode_s": 5.0}, scheduler={"batching": {**window, "eager": False}}
    )
    try:
        with serving(held, bundle=bundle) as place:
            if held_by == "encoder":
                vars(bundle)["encoder"] = SlowEncoder()
            asked = [threading.Thread(target=give_up, args=(place, 0.3)) for _ in range(12)]
            for thread in asked:
                thread.start()
            stays = place.chat()
            for thread in asked:
                thread.join()
            assert stays.status_code == 200
            assert stays.headers["x-rbx-decision-mode"] == "policy"
            place.settled(within_s=2.0)
            assert sum(len(instance.bodies) for instance in place.instances) == 1
    finally:
        vars(bundle)["encoder"] = own


def give_up(place: Serving, after_s: float) -> None:
    with (
        httpx.Client(base_url=place.url, timeout=after_s, trust_env=False) as client,
        pytest.raises(httpx.ReadTimeout),
    ):
        client.post("/v1/chat/completions", json=CHAT)


def test_requests_of_one_id_are_kept_apart() -> None:
    with serving(tokens=5, pace_s=0.05) as place:
        same = {"x-request-id": "mine"}
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda _: place.chat(same, stream=True), range(6)))
        ids = {answer.headers["x-rbx-request-id"] for answer in answers}
        assert len(ids) == 6
        assert all(each.startswith("mine-") for each in ids)
        place.settled()


def test_beyond_its_bounds_the_gateway_turns_away_with_429() -> None:
    bounded = config(admission={"max_in_flight": 5, "retry_after_s": 2.0})
    with serving(bounded, pace_s=0.3) as place:
        with ThreadPoolExecutor(30) as pool:
            answers = list(pool.map(lambda _: place.chat(), range(30)))
        statuses = Counter(answer.status_code for answer in answers)
        assert set(statuses) == {200, 429}
        assert statuses[200] >= 5
        turned = next(answer for answer in answers if answer.status_code == 429)
        assert turned.headers["retry-after"] == "2"
        assert turned.json()["error"]["type"] == "overloaded"
        place.settled()
        assert place.chat().status_code == 200


def test_a_queue_of_undecided_requests_is_bounded() -> None:
    held = config(
        scheduler={"batching": {"mode": "fixed", "max_size": 100, "window_s": 0.5, "eager": False}},
        admission={"max_waiting": 3},
    )
    with serving(held) as place:
        with ThreadPoolExecutor(10) as pool:
            statuses = Counter(pool.map(lambda _: place.chat().status_code, range(10)))
        assert statuses == {200: 3, 429: 7}
        assert 'rbx_shed_total{reason="waiting"} 7.0' in place.client.get("/metrics").text


def test_a_lone_request_is_not_held_for_a_window() -> None:
    slow = {"batching": {"mode": "fixed", "max_size": 8, "window_s": 5.0}}
    with serving(config(scheduler=slow)) as place:
        place.watch.waiting[:] = 3  # all are busy, with the work of others
        for _ in range(3):
            answer = place.chat()
            assert float(answer.headers["x-rbx-decision-ms"]) < 1000


def test_draining_finishes_what_is_served_and_takes_on_nothing() -> None:
    with serving(tokens=20, pace_s=0.05) as place:
        answers: list[httpx.Response] = []
        thread = threading.Thread(target=lambda: answers.append(place.chat(stream=True)))
        thread.start()
        until_s = time.monotonic() + 5
        while place.gateway.in_flight == 0 and time.monotonic() < until_s:
            time.sleep(0.005)
        assert place.gateway.in_flight == 1
        place.server.handle_exit(15, None)
        until_s = time.monotonic() + 5
        while not place.gateway.draining and time.monotonic() < until_s:
            time.sleep(0.005)
        assert place.client.get("/readyz").status_code == 503
        assert place.client.get("/healthz").status_code == 200
        turned = place.chat()
        assert turned.status_code == 503
        assert turned.json()["error"]["code"] == "draining"
        thread.join()
        assert answers[0].content.endswith(b"data: [DONE]\n\n")
