"""The gateway as it is deployed: HTTP clients, watch and breakers over mock servers."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import orjson
import pytest
import uvicorn

from rbx.config.gateway import GatewayConfig
from rbx.heads.bundle import Bundle
from rbx.serve.gateway.app import gateway_app
from rbx.serve.gateway.gateway import Gateway
from rbx.serve.mock.serving import MockTier, serve_mock
from rbx.serve.upstream.instance import HttpInstance
from rbx.serve.watch.pool_watch import PoolWatch
from tests.serve.gateway.serving import CHAT, config, small_pool

WEIGHTS = {"kind": "routebalance", "weights": [[0.4, 0.3, 0.3]]}


@dataclass
class Place:
    client: httpx.Client
    url: str
    gateway: Gateway
    tiers: MockTier

    def ask(self, **changes: Any) -> httpx.Response:
        with httpx.Client(base_url=self.url, timeout=60, trust_env=False) as client:
            return client.post("/v1/chat/completions", json={**CHAT, "max_tokens": 40, **changes})

    def settled(self, within_s: float) -> None:
        until_s = time.monotonic() + within_s
        while time.monotonic() < until_s:
            load = sum(self.gateway.placer.load.in_flight.values())
            inside = sum(sight.running + sight.waiting for sight in self.tiers.sight().values())
            if (
                self.gateway.in_flight == load == inside == 0
                and not self.gateway.watch.view(time.monotonic()).in_flight.any()
            ):
                return
            time.sleep(0.01)
        raise AssertionError((self.gateway.in_flight, load, self.tiers.sight()))


@contextmanager
def deployed(
    gateway_config: GatewayConfig, bundle: Bundle | None = None, time_scale: float = 10.0
) -> Iterator[Place]:
    over = small_pool()
    with serve_mock(over, time_scale=time_scale) as tiers:
        endpoints = tiers.endpoints.of(over)
        upstreams = [
            HttpInstance(instance.name, endpoint, instance.tier.model)
            for instance, endpoint in zip(over.instances, endpoints, strict=True)
        ]
        watch = PoolWatch(over, endpoints, gateway_config.watch)
        gateway = Gateway(over, bundle, upstreams, watch, gateway_config)
        settings = uvicorn.Config(gateway_app(gateway), port=0, log_level="warning", access_log=False)
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        until_s = time.monotonic() + 60
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < until_s
            time.sleep(0.01)
        url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        try:
            with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
                yield Place(client, url, gateway, tiers)
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


def whole(content: bytes) -> bool:
    return content.endswith(b"data: [DONE]\n\n") and b'"error"' not in content


def test_streams_and_plain_answers_by_the_heads_and_by_name(bundle: Bundle) -> None:
    with deployed(config(policy=WEIGHTS), bundle) as place:
        models: Counter[str] = Counter()
        for k in range(12):
            topic = ("algebra", "poetry", "history", "coding")[k % 4]
            messages = [{"role": "user", "content": f"{topic} question {k}"}]
            answer = place.ask(messages=messages, stream=bool(k % 2))
            assert answer.status_code == 200, answer.text
            assert answer.headers["x-rbx-decision-mode"] == "policy"
            models[answer.headers["x-rbx-model"]] += 1
            if k % 2:
                assert whole(answer.content)
            else:
                assert answer.json()["usage"]["completion_tokens"] <= 40
        assert sum(models.values()) == 12
        named = place.ask(model="large")
        assert named.headers["x-rbx-model"] == named.json()["model"] == "large"
        place.settled(2.0)


@pytest.mark.parametrize(
    "policy",
    [
        {"kind": "bear"},
        {"kind": "routebalance", "weights": [[0.3, 0.4, 0.3]], "latency": ["bea"]},
        {"kind": "passthrough", "dispatch": ["ewma-latency"]},
        {"kind": "passthrough", "dispatch": ["predicted-latency"]},
        {"kind": "random", "dispatch": ["power-of-d"]},
        {"kind": "score"},
    ],
    ids=lambda policy: str(policy["kind"]),
)
def test_every_kind_of_policy_decides_live(bundle: Bundle, policy: dict[str, Any]) -> None:
    """Those that replay snapshots, in a thread, and those that learn from what was served."""
    with deployed(config(policy=policy, slo={"ttft_s": 5.0}), bundle) as place:
        asked = [
            {"stream": bool(k % 2), "model": ("auto", "tiny", "auto", "large")[k % 4]} for k in range(40)
        ]
        with ThreadPoolExecutor(8) as clients:
            answers = [f.result() for f in [clients.submit(place.ask, **each) for each in asked]]
        assert [a.status_code for a in answers] == [200] * 40
        assert {a.headers["x-rbx-decision-mode"] for a in answers} <= {"policy", "hopeless"}
        for each, answer in zip(asked, answers, strict=True):
            assert each["model"] in ("auto", answer.headers["x-rbx-model"])
        told = place.client.post("/v1/estimate", json={"prompt": "algebra question 1"}).json()
        assert len(told["instances"]) == 4
        if policy["kind"] in ("bear", "routebalance"):
            key = "ttft_s" if policy["kind"] == "bear" else "latency_s"
            assert all(row[key] > 0 for row in told["instances"])
        place.settled(3.0)


def test_a_tier_that_dies_under_load_fails_no_request_that_had_not_begun(bundle: Bundle) -> None:
    with deployed(config(policy=WEIGHTS), bundle) as place:
        with ThreadPoolExecutor(12) as clients:
            first = [clients.submit(place.ask, stream=True) for _ in range(24)]
            for future in first:
                assert whole(future.result().content)
            place.tiers.set_faults({"kind": "refuse", "target": "large-a"})
            second = [clients.submit(place.ask, stream=True) for _ in range(60)]
            answers = [future.result() for future in second]
        assert [a.status_code for a in answers] == [200] * 60
        assert all(whole(a.content) for a in answers)
        assert {a.headers["x-rbx-model"] for a in answers} == {"tiny"}
        place.settled(2.0)


def test_a_server_that_dies_amid_its_answers_is_told_and_the_next_are_placed_elsewhere() -> None:
    with deployed(config()) as place:
        place.tiers.set_faults({"kind": "crash", "after_chunks": 3, "target": "tiny-b"})
        answers = [place.ask(stream=True) for _ in range(16)]
        assert {a.status_code for a in answers} == {200}
        cut = [a for a in answers if not whole(a.content)]
        assert cut
        for answer in cut:
            assert answer.headers["x-rbx-model"] == "tiny"
            last = answer.content.strip().split(b"\n\n")[-1]
            assert orjson.loads(last[6:])["error"]["code"] == "upstream_cut"
        assert all(whole(a.content) for a in answers if a.headers["x-rbx-model"] == "large")
        place.settled(2.0)


@pytest.mark.parametrize("after_chunks", [0, 3])
def test_an_error_inside_a_stream_is_told_in_the_servers_words(after_chunks: int) -> None:
    with deployed(config(retries={"attempts": 2}, breaker={"failures": 100})) as place:
        place.tiers.set_faults({"kind": "error_event", "after_chunks": after_chunks})
        answer = place.ask(stream=True)
        told = answer.content if not after_chunks else answer.content.strip().split(b"\n\n")[-1][6:]
        error = orjson.loads(told)["error"]
        assert answer.status_code == (200 if after_chunks else 502)
        assert (error["type"], error["code"]) == ("upstream_error", "upstream_error")
        assert error["message"].endswith(" told of an error: the mock engine failed on request")
        assert 'kind="error"' in place.client.get("/metrics").text
        place.settled(2.0)


def test_servers_that_accept_and_never_answer_are_left_after_the_deadline() -> None:
    quick = config(deadlines={"first_token_s": 0.5}, breaker={"failures": 2, "open_s": 30.0})
    with deployed(quick) as place:
        place.tiers.set_faults({"kind": "hang", "target": "tiny-b"})
        with ThreadPoolExecutor(8) as clients:
            answers = [f.result() for f in [clients.submit(place.ask, stream=True) for _ in range(24)]]
        assert [a.status_code for a in answers] == [200] * 24
        assert {a.headers["x-rbx-model"] for a in answers} == {"large"}
        assert "2" in {a.headers["x-rbx-attempts"] for a in answers}
        place.settled(2.0)


@pytest.mark.parametrize("stream", [True, False])
def test_what_waits_at_servers_that_give_no_token_is_placed_anew(*, stream: bool) -> None:
    """Long before its own deadline, which is that of a first token or of a whole plain answer."""
    patient = {"first_token_s": 300.0, "between_tokens_s": 300.0, "total_s": 600.0}
    rules = {"no_progress_s": 0.5, "open_s": 30.0, "failures": 100}
    with deployed(config(deadlines=patient, breaker=rules, retries={"within_s": 30.0})) as place:
        place.tiers.set_faults({"kind": "hang", "target": "tiny-b"})
        with ThreadPoolExecutor(16) as clients:
            asked = [clients.submit(place.ask, stream=True) for _ in range(8)]
            while not place.gateway.placer.load.streams[1]:  # a plain answer alone would show no silence
                time.sleep(0.001)
            asked += [clients.submit(place.ask, stream=stream) for _ in range(8)]
            answers = [future.result() for future in asked]
        assert [a.status_code for a in answers] == [200] * 16
        assert {a.headers["x-rbx-model"] for a in answers} == {"large"}
        assert {a.headers["x-rbx-attempts"] for a in answers} >= {"2"}
        page = place.client.get("/metrics").text
        assert 'rbx_breaker_state{instance="tiny-b/0"} 2.0' in page
        assert 'kind="stalled"' in page
        place.settled(2.0)


def test_plain_answers_leave_a_server_whose_counters_stand_still() -> None:
    """They show no token before their last, so that the server's own count of tokens has to tell."""
    patient = {"first_token_s": 300.0, "between_tokens_s": 300.0, "total_s": 600.0}
    rules = {"no_progress_s": 1.0, "open_s": 30.0, "failures": 100}
    often = {"period_s": 0.05}
    with (
        deployed(config(deadlines=patient, breaker=rules, watch=often, retries={"within_s": 30.0})) as place,
        ThreadPoolExecutor(8) as clients,
    ):

        def ask_eight() -> list[httpx.Response]:
            return [future.result() for future in [clients.submit(place.ask) for _ in range(8)]]

        while min(place.gateway.watch.counted_s(time.monotonic())) == -math.inf:
            assert {answer.status_code for answer in ask_eight()} == {200}
        place.tiers.set_faults({"kind": "hang", "target": "tiny-b"})
        answers = ask_eight()
        assert [answer.status_code for answer in answers] == [200] * 8
        assert {answer.headers["x-rbx-model"] for answer in answers} == {"large"}
        assert "2" in {answer.headers["x-rbx-attempts"] for answer in answers}
        assert 'rbx_breaker_state{instance="tiny-b/0"} 2.0' in place.client.get("/metrics").text
        place.settled(2.0)


def test_long_plain_answers_are_left_alone_while_the_server_counts_tokens() -> None:
    rules = {"no_progress_s": 0.5, "open_s": 30.0, "failures": 100}
    with deployed(config(breaker=rules, watch={"period_s": 0.05}), time_scale=0.5) as place:
        for _ in range(2):
            answer = place.ask(max_tokens=40)  # 2.4 s
            assert (answer.status_code, answer.headers["x-rbx-attempts"]) == (200, "1")
        counted_s = max(place.gateway.watch.counted_s(time.monotonic()))
        assert counted_s > -math.inf


def test_what_waits_at_servers_that_give_no_token_is_told_once_its_time_is_over() -> None:
    patient = {"first_token_s": 300.0, "between_tokens_s": 300.0}
    rules = {"no_progress_s": 0.5, "open_s": 30.0, "failures": 100}
    with deployed(config(deadlines=patient, breaker=rules, retries={"within_s": 0.1})) as place:
        place.tiers.set_faults({"kind": "hang"})
        answer = place.ask(stream=True)
        assert answer.status_code == 504
        assert answer.json()["error"]["code"] == "upstream_stalled"
        place.settled(2.0)


def test_a_client_that_leaves_as_its_request_is_taken_back_leaves_nothing_behind() -> None:
    patient = {"first_token_s": 300.0}
    rules = {"no_progress_s": 0.3, "open_s": 0.1, "failures": 100}
    with deployed(config(deadlines=patient, breaker=rules)) as place:
        place.tiers.set_faults({"kind": "hang"})

        def leave(k: int) -> None:
            """Before, while or after it is taken back; then it hears 503 or 504."""
            with httpx.Client(base_url=place.url, timeout=0.1 + 0.07 * k, trust_env=False) as client:
                try:
                    assert client.post("/v1/chat/completions", json=asked).status_code in (503, 504)
                except httpx.ReadTimeout:
                    left.append(k)

        asked, left = {**CHAT, "stream": True}, list[int]()
        with ThreadPoolExecutor(20) as clients:
            list(clients.map(leave, range(20)))
        assert left
        place.settled(2.0)


def test_fifty_clients_that_leave_free_the_servers_within_a_second() -> None:
    def leave(place: Place) -> None:
        asked = {**CHAT, "stream": True, "max_tokens": 900, "ignore_eos": True, "min_tokens": 900}
        with (
            httpx.Client(base_url=place.url, timeout=60, trust_env=False) as client,
            client.stream("POST", "/v1/chat/completions", json=asked) as answer,
        ):
            lines = answer.iter_lines()
            for _ in range(6):
                next(lines)

    with deployed(config(), time_scale=2.0) as place:
        with ThreadPoolExecutor(10) as clients:
            list(clients.map(lambda _: leave(place), range(50)))
        place.settled(1.0)
        assert "rbx_clients_left_total 50.0" in place.client.get("/metrics").text


def test_all_servers_down_is_503_and_they_are_found_again() -> None:
    with deployed(config(breaker={"failures": 1, "open_s": 0.2}, watch={"period_s": 0.1})) as place:
        place.tiers.set_faults({"kind": "refuse"})
        until_s = time.monotonic() + 20
        while (answer := place.ask()).status_code != 503:
            assert answer.status_code in (502, 503)
            assert time.monotonic() < until_s
        assert int(answer.headers["retry-after"]) >= 1
        place.tiers.set_faults()
        until_s = time.monotonic() + 20
        while (answer := place.ask()).status_code != 200:
            assert answer.status_code in (502, 503)
            assert time.monotonic() < until_s
            time.sleep(0.05)
        place.settled(2.0)
