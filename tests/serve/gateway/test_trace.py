"""How a request was decided, told to those who ask for it and to nobody else."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import httpx

from rbx.heads.bundle import Bundle
from tests.serve.gateway.serving import config, serving

NAMES = {
    "batch_id", "batch_size", "batch_wait_s", "encode_s", "score_s", "decided_after_s", "dispatched_after_s",
    "predicted_quality", "predicted_length_tokens", "predicted_latency_s", "predicted_ttft_s",
    "on_time_candidates", "max_tokens", "max_tokens_without_budget", "telemetry_age_s",
}  # fmt: skip
ASK = {"x-rbx-trace": "1"}
FUSED = config(policy={"kind": "routebalance", "weights": [[0.4, 0.3, 0.3]]})


def test_nobody_is_told_who_does_not_ask() -> None:
    with serving() as place:
        for headers in ({}, {"x-rbx-trace": "0"}, {"x-rbx-trace": ""}, {"x-rbx-trace": "yes"}):
            answer = place.chat(headers)
            assert answer.status_code == 200
            assert "x-rbx-trace" not in answer.headers


def test_a_policy_that_predicts_nothing_says_null_and_never_nan() -> None:
    with serving() as place:
        before_s = time.monotonic()
        answer = place.chat(ASK, max_tokens=17)
        took_s = time.monotonic() - before_s
    told = json.loads(answer.headers["x-rbx-trace"], parse_constant=lambda word: 1 / 0)
    assert set(told) == NAMES
    nulls = {name for name, value in told.items() if value is None}
    assert nulls - {"telemetry_age_s"} == {
        "predicted_quality", "predicted_length_tokens", "predicted_latency_s", "predicted_ttft_s",
        "on_time_candidates",
    }  # fmt: skip
    assert told["max_tokens"] == 17
    assert told["batch_size"] == 1
    parts_s = told["batch_wait_s"] + told["encode_s"] + told["score_s"]
    assert abs(parts_s - told["decided_after_s"]) < 1e-9
    assert 0.0 < told["decided_after_s"] <= told["dispatched_after_s"] < took_s


def test_predictions_are_those_that_the_decision_rests_on(bundle: Bundle) -> None:
    text = "algebra question 7"
    expected = bundle.knn.predict(bundle.encode([text]))
    with serving(FUSED, bundle=bundle) as place:
        answer = place.chat(ASK, stream=True, messages=[{"role": "user", "content": text}])
        models = place.gateway.pool.models
    told = json.loads(answer.headers["x-rbx-trace"])
    chosen = models.index(answer.headers["x-rbx-model"])
    assert told["predicted_quality"] == expected.quality[0, chosen]
    assert told["predicted_length_tokens"] == expected.length_tokens[0, chosen]
    assert told["predicted_latency_s"] > 0.0


def test_requests_of_one_batch_share_its_number_and_size() -> None:
    batching = {"mode": "fixed", "max_size": 8, "window_s": 0.5, "eager": False}
    with serving(config(scheduler={"batching": batching})) as place, ThreadPoolExecutor(8) as threads:

        def ask(_: int) -> httpx.Response:
            return httpx.post(
                f"{place.url}/v1/chat/completions",
                json={"messages": [{"role": "user", "content": "x"}]},
                headers=ASK,
                trust_env=False,
                timeout=30,
            )

        together = [json.loads(answer.headers["x-rbx-trace"]) for answer in threads.map(ask, range(8))]
        alone = json.loads(ask(0).headers["x-rbx-trace"])
    assert [told["batch_size"] for told in together] == [8] * 8
    assert len({told["batch_id"] for told in together}) == 1
    assert alone["batch_size"] == 1
    assert alone["batch_id"] > together[0]["batch_id"]
    assert 0.4 < alone["batch_wait_s"] < 5.0


def test_the_configuration_says_whose_it_is(bundle: Bundle) -> None:
    with serving(FUSED, bundle=bundle) as place:
        told = place.client.get("/v1/config").json()
        pool = place.gateway.pool
    assert told["pool"]["digest"] == pool.digest
    assert told["bundle"] == {"digest": bundle.digest}
    assert [tuple(each.values()) for each in told["pool"]["instances"]] == [
        ("large-a/0", "large-a", "large"),
        ("large-a/1", "large-a", "large"),
        ("tiny-b/0", "tiny-b", "tiny"),
        ("tiny-b/1", "tiny-b", "tiny"),
    ]
    with serving() as place:
        assert place.client.get("/v1/config").json()["bundle"] is None
