"""Filters behind HTTP: the same settings as in a sweep, per request, and swapped while serving."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from rbx.errors import ConfigError
from rbx.heads.bundle import Bundle
from rbx.heads.calibration import Calibration
from rbx.heads.residuals import Residuals
from tests.serve.gateway.serving import config, serving, small_pool

ASK = {"x-rbx-trace": "1"}


def passthrough(*rules: Any) -> dict[str, Any]:
    return {"kind": "passthrough", "dispatch": ["shortest-queue"], "filter": list(rules)}


def told(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.headers["x-rbx-trace"])
    return found


def test_each_request_is_filtered_by_its_own_target() -> None:
    """The large model takes 30 ms a token by its prior, the tiny one 10 ms."""
    rule = {"kind": "slos-serve", "tpot": "prior", "on_empty": "shed"}
    with serving(config(policy=passthrough(rule), slo={"tpot_s": 0.02})) as place:
        for _ in range(4):
            answer = place.chat({**ASK, "x-slo-ttft-ms": "5000"})
            assert (answer.status_code, answer.headers["x-rbx-model"]) == (200, "tiny")
            assert (told(answer)["admitted_candidates"], told(answer)["admission"]) == (2, "strict")
        late = place.chat({"x-slo-ttft-ms": "0.001"})
        assert late.status_code == 429
        assert "retry-after" in late.headers
        place.settled()


def test_budgets_choose_by_each_models_own_predicted_length(bundle: Bundle) -> None:
    """One price for both models, so that the shorter answer is the cheaper one."""
    text = "algebra question 7"
    ((tiny, large),) = [
        [float(row[bundle.models.index(name)]) for name in ("tiny", "large")]
        for row in bundle.knn.predict(bundle.encode([text])).length_tokens
    ]
    assert tiny != large
    shorter = "tiny" if tiny < large else "large"
    budget = 5 * 0.1e-6 + (tiny + large) / 2 * 0.2e-6
    with serving(config(policy=passthrough("budget")), bundle=bundle) as place:
        for _ in range(3):
            body: dict[str, Any] = {"messages": [{"role": "user", "content": text}]}
            answer = place.chat({**ASK, "x-rbx-budget-usd": f"{budget:.9g}"}, **body)
            assert answer.headers["x-rbx-model"] == shorter
            assert told(answer)["admitted_candidates"] == 2
            free = place.chat(ASK, **body)
            assert told(free)["admitted_candidates"] == 4
        poor = place.chat({**ASK, "x-rbx-budget-usd": "1e-9"}, **body)
        assert (poor.status_code, told(poor)["admission"]) == (200, "cheapest")
        place.settled()


def test_who_names_a_model_is_filtered_within_it() -> None:
    rule = {"kind": "slos-serve", "tpot": "prior", "tpot_s": 0.02}
    with serving(config(policy=passthrough(rule))) as place:
        named = place.chat(ASK, model="large")
        assert named.headers["x-rbx-model"] == "large"
        assert (told(named)["admitted_candidates"], told(named)["admission"]) == (2, "all")
        place.settled()


def test_a_filter_is_put_in_force_and_taken_back_while_serving() -> None:
    with serving() as place:
        assert "admission" not in told(place.chat(ASK))
        rule = {"kind": "slos-serve", "tpot": "prior", "tpot_s": 0.02}
        put = place.client.put("/v1/config", json={"policy": passthrough(rule)})
        assert put.status_code == 200, put.text
        assert {place.chat().headers["x-rbx-model"] for _ in range(6)} == {"tiny"}
        refused = place.client.put("/v1/config", json={"policy": passthrough({"kind": "slos-serve"})})
        assert refused.status_code == 400
        wrong = place.client.put("/v1/config", json={"policy": passthrough("slo")})
        assert wrong.status_code == 400
        assert "known: cdf" in wrong.text
        assert {place.chat().headers["x-rbx-model"] for _ in range(6)} == {"tiny"}
        place.client.put("/v1/config", json={"policy": passthrough(None)})
        assert "admission" not in told(place.chat(ASK))
        place.settled()


def test_what_a_filter_needs_is_asked_for_before_anything_is_served(bundle: Bundle) -> None:
    with (
        pytest.raises(ConfigError, match="--bundle"),
        serving(config(policy=passthrough("slos-serve"), slo={"ttft_s": 1.0})),
    ):
        pass
    with (
        pytest.raises(ConfigError, match="--calibrate"),
        serving(config(policy=passthrough("cdf"), slo={"ttft_s": 1.0}), bundle=bundle),
    ):
        pass


def test_the_distribution_of_past_errors_decides(bundle: Bundle) -> None:
    """Predictions of the tiny tier were too low by seconds half of the time, those of the large never."""
    pool = small_pool()
    assert [tier.name for tier in pool.tiers] == ["large-a", "tiny-b"]
    ttft = Residuals.of([np.zeros(10), np.array([0.0] * 5 + [9.0] * 5)])
    tpot = Residuals.of([np.array([-1.0]), np.array([-1.0])])
    calibration = Calibration(
        ("large-a", "tiny-b"), {"prefill-throughput": ttft}, {"xgboost": tpot, "prior": tpot}, {}
    )
    fuller = dataclasses.replace(bundle, calibration=calibration)
    vars(fuller)["encoder"] = bundle.encoder
    with serving(config(policy=passthrough("cdf"), slo={"ttft_s": 5.0}), bundle=fuller) as place:
        assert {place.chat().headers["x-rbx-model"] for _ in range(4)} == {"large"}
        place.settled()


def test_streams_are_judged_by_the_target_of_time_per_token() -> None:
    with serving(config(slo={"tpot_s": 0.05}), tokens=6, pace_s=0.0) as place:
        for stream in (True, True, False):
            assert place.chat(stream=stream).status_code == 200
        place.settled()
        page = place.client.get("/metrics").text
        assert 'rbx_targets_total{met="true",target="tpot"} 2.0' in page
        assert 'met="false",target="tpot"' not in page
    with serving(config(slo={"tpot_s": 0.001}), tokens=6, pace_s=0.02) as place:
        assert place.chat(stream=True).status_code == 200
        place.settled()
        assert 'rbx_targets_total{met="false",target="tpot"} 1.0' in place.client.get("/metrics").text
