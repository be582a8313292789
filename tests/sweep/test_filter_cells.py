"""Filters in whole cells: without effect where they let everybody pass, and with what they promise."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from rbx.config.policy import SinglePolicy
from rbx.errors import ConfigError
from rbx.heads.calibration import Calibration
from rbx.heads.residuals import Residuals
from rbx.sweep.calibrate import observe
from rbx.sweep.context import SweepContext
from rbx.sweep.records import RECORDS
from rbx.sweep.scoring import simulated_records
from rbx.sweep.simulate import Outcome, SimulatedCell
from rbx.sweep.workload import Arriving, draw_workload
from tests.sweep.scenes import experiment, small_context

_POLICY: TypeAdapter[Any] = TypeAdapter(SinglePolicy)
EVERYBODY = {"kind": "slos-serve", "ttft_s": 1e6, "tpot_s": 1e6, "tpot": "prior"}
POLICIES: list[dict[str, Any]] = [
    {"kind": "routebalance", "weights": [0.4, 0.3, 0.3]},
    {"kind": "routebalance", "weights": [0.4, 0.3, 0.3], "quality": "minmax", "latency": "bea"},
    {"kind": "bear"},
    {"kind": "bear", "batched": True, "rule": "soft", "delta_per_s": 0.2},
    {"kind": "bear", "ttft": "lps"},
    {"kind": "bear", "ttft": "lps-engine", "batched": True},
    {"kind": "score", "batched": True},
    {"kind": "routed", "router": "passthrough", "dispatch": "round-robin"},
    {"kind": "routed", "router": "random", "dispatch": "random"},
    {"kind": "routed", "router": "knn", "dispatch": {"kind": "llumnix"}},
    {"kind": "routed", "router": "passthrough", "dispatch": {"kind": "mooncake"}},
    {"kind": "routed", "router": "passthrough", "dispatch": {"kind": "least-work"}},
    {"kind": "routed", "router": "port", "mean_budget_usd": 2e-5, "dispatch": "shortest-queue"},
]


def arrivals(context: SweepContext, seed: int = 0, rate_per_s: float = 30.0) -> Arriving:
    return draw_workload(context.experiment.workload, context.prompts.input_tokens, rate_per_s, seed)


def run(context: SweepContext, policy: dict[str, Any], rate_per_s: float = 30.0) -> Outcome:
    config = _POLICY.validate_python(policy)
    return SimulatedCell(context, config, arrivals(context, rate_per_s=rate_per_s), 0).run()


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: _POLICY.validate_python(policy).label)
def test_a_filter_that_lets_everybody_pass_changes_no_request(policy: dict[str, Any]) -> None:
    context = small_context(workload={"slo": {"ttft_target": {}}})
    plain, behind = run(context, policy), run(context, {**policy, "filter": EVERYBODY})
    assert len(set(plain.instance.tolist())) > 1
    assert plain.admitted is None
    assert behind.admitted is not None
    assert set(behind.admitted.tolist()) == {5}
    assert behind.admission is not None
    assert not behind.admission.any()
    for field in dataclasses.fields(Outcome):
        if field.name not in ("admitted", "admission"):
            found, expected = getattr(behind, field.name), getattr(plain, field.name)
            np.testing.assert_array_equal(found, expected, err_msg=field.name)


BUDGETS = {"budget": {"share": 0.7, "low_usd": 1e-6, "high_usd": 8e-5}}


def test_routebalance_behind_the_budget_filter_is_routebalance() -> None:
    context = small_context(workload=BUDGETS)
    policy = POLICIES[0]
    plain, behind = run(context, policy), run(context, {**policy, "filter": {"kind": "budget"}})
    assert behind.instance.tolist() == plain.instance.tolist()
    assert behind.max_tokens.tolist() == plain.max_tokens.tolist()


@pytest.mark.parametrize("policy", [POLICIES[0], POLICIES[9]], ids=("fused", "routed"))
def test_the_budget_filter_leaves_fewer_answers_cut_by_their_budget(policy: dict[str, Any]) -> None:
    context = small_context(workload=BUDGETS)
    arriving = arrivals(context)

    def exhausted(rule: str) -> int:
        outcome = run(context, {**policy, "filter": {"kind": rule}})
        records = simulated_records("a", context, arriving, outcome)
        return sum(records["exhausted"].to_pylist())

    assert 0 < exhausted("budget") < 0.8 * exhausted("none")


def test_records_tell_of_the_filter_where_there_is_one() -> None:
    context = small_context(workload=BUDGETS)
    plain = simulated_records("a", context, arrivals(context), run(context, POLICIES[7]))
    assert plain.schema.names == RECORDS.names
    outcome = run(context, {**POLICIES[7], "filter": {"kind": "budget"}})
    records = simulated_records("a", context, arrivals(context), outcome)
    assert records.schema.names == [*RECORDS.names, "admitted_candidates", "admission"]
    words, left = records["admission"].to_pylist(), records["admitted_candidates"].to_pylist()
    assert set(words) == {"strict", "cheapest"}
    small = [n for word, n in zip(words, left, strict=True) if word == "cheapest"]
    assert set(small) == {3}
    assert set(left) == {3, 5}


def test_shed_requests_are_errors_with_the_mode_that_says_so() -> None:
    context = small_context(workload={"slo": {"ttft_s": 0.15, "tpot_s": 0.03}})
    rule = {"kind": "slos-serve", "on_empty": "shed", "tpot": "prior"}
    outcome = run(context, {**POLICIES[7], "filter": rule}, rate_per_s=60.0)
    records = simulated_records("a", context, arrivals(context, rate_per_s=60.0), outcome)
    shed = np.array([word == "shed" for word in records["admission"].to_pylist()])
    assert 0.05 < shed.mean() < 0.95
    assert (np.array(records["decision_mode"].to_pylist())[shed] == "shed").all()
    assert ((np.array(records["status"].to_pylist()) == "error") == shed).all()
    assert (outcome.instance[~shed] < 3).all()  # the large model takes 35 ms a token


def test_the_target_of_time_per_token_counts_towards_the_slo() -> None:
    for tpot_s in (0.012, 0.02, 0.05):
        context = small_context(workload={"slo": {"tpot_s": tpot_s}})
        arriving = arrivals(context)
        outcome = run(context, POLICIES[7])
        met = simulated_records("a", context, arriving, outcome)["slo_met"].to_pylist()
        gaps = outcome.output_tokens - 1
        for k in np.flatnonzero(gaps > 0).tolist():
            tpot = (outcome.done_s[k] - outcome.first_token_s[k]) / gaps[k]
            assert abs(tpot - tpot_s) < 1e-12 or met[k] == (tpot < tpot_s)
        assert all(met[k] for k in np.flatnonzero(gaps == 0).tolist())
        assert 0 < sum(met) < len(met) or tpot_s != 0.02


def test_what_is_noted_for_a_calibration_changes_nothing_and_adds_up() -> None:
    context = small_context()
    config = _POLICY.validate_python(
        {"kind": "routed", "router": "passthrough", "dispatch": "shortest-queue"}
    )
    arriving = arrivals(context)
    plain = SimulatedCell(context, config, arriving, 0).run()
    observed = observe(context, 30.0, len(arriving.prompt), 0)
    again = observe(context, 30.0, len(arriving.prompt), 0)
    for source, values in observed.ttft_s.items():
        np.testing.assert_array_equal(values, again.ttft_s[source])
    assert observed.tier.tolist() == context.shape.tier[plain.instance].tolist()
    gaps = plain.output_tokens - 1
    prior_s = context.shape.tpot_prior_s[plain.instance]
    expected = (plain.done_s - plain.first_token_s)[gaps > 0] / gaps[gaps > 0] - prior_s[gaps > 0]
    np.testing.assert_allclose(observed.tpot_s["prior"][gaps > 0], expected, rtol=1e-12)
    assert np.isnan(observed.tpot_s["prior"][gaps == 0]).all()
    assert set(observed.ttft_s) == {"bea", "prefill-throughput", "lps", "lps-engine"}
    spread = {source: np.nanstd(values) for source, values in observed.ttft_s.items()}
    assert spread["bea"] < 0.5 * spread["prefill-throughput"]


def calibrated(context: SweepContext, source: str) -> SweepContext:
    observed = [observe(context, rate_per_s, 1500, 11) for rate_per_s in (6.0, 9.0)]
    tier = np.concatenate([each.tier for each in observed])
    by_kind = []
    for name, which in (("ttft_s", source), ("tpot_s", "xgboost")):
        values = np.concatenate([getattr(each, name)[which] for each in observed])
        rows = [values[(tier == t) & np.isfinite(values)] for t in range(2)]
        by_kind.append(Residuals.of(rows))
    return dataclasses.replace(
        context, calibration=Calibration(("a", "b"), {source: by_kind[0]}, {"xgboost": by_kind[1]}, {})
    )


@pytest.mark.parametrize("source", ["bea", "prefill-throughput"])
def test_of_those_let_pass_at_theta_at_least_theta_keep_their_target(source: str) -> None:
    """On traffic of another seed, under the calibration's policy: what P promises for each, all keep."""
    slo = {"slo": {"ttft_s": 0.5}, "n_requests": 1500}
    context = calibrated(small_context(workload=slo), source)
    rule = {"kind": "cdf", "mode": "hard", "theta": 0.8, "ttft": source, "on_empty": "shed"}
    policy = {"kind": "routed", "router": "passthrough", "dispatch": "shortest-queue"}
    outcome = run(context, {**policy, "filter": rule}, rate_per_s=8.0)
    passed = outcome.instance >= 0
    ttft_s = (outcome.first_token_s - arrivals(context, rate_per_s=8.0).scheduled_s)[passed]
    assert passed.mean() > 0.3
    assert np.mean(ttft_s <= 0.5) >= 0.8


def test_settings_without_a_filter_are_written_as_before_filters() -> None:
    plain = _POLICY.validate_python(POLICIES[0])
    assert plain.model_dump(mode="json") == {
        "kind": "routebalance", "weights": [0.4, 0.3, 0.3], "quality": "raw", "latency": "xgboost"
    }  # fmt: skip
    dumped = experiment().model_dump(mode="json")
    assert set(dumped["workload"]["slo"]) == {"ttft_s", "ttft_target", "e2e_s", "cost_weight_per_usd"}
    assert set(dumped["policies"][0]) == {"kind", "dispatch", "batched"}


@pytest.mark.parametrize(
    ("rule", "slo", "named"),
    [
        ("slos-serve", {}, "ttft_s or tpot_s"),
        ("cdf", {"e2e_s": 3.0}, "ttft_s or tpot_s"),
        ("polyserve", {"ttft_s": 1.0}, "ttft_s and tpot_s"),
        ("timebill", {"ttft_s": 1.0}, "time_budget_s"),
        ("best-effort", {"ttft_s": 1.0}, "known: cdf"),
        ({"kind": "cdf", "theta": 1.5}, {"ttft_s": 1.0}, "less than or equal to 1"),
        (
            {"kind": "cdf", "tpot": "prior"},
            {"ttft_s": 1.0},
            "says where tpot comes from, which has no target",
        ),
        ({"kind": "qlm", "ttft": "bea"}, {"tpot_s": 0.1}, "leave ttft out or give ttft_s"),
    ],
)
def test_a_filter_that_could_never_say_no_or_says_what_changes_nothing_is_refused(
    rule: Any, slo: dict[str, float], named: str
) -> None:
    policy = {"kind": "passthrough", "filter": [None, rule]}
    with pytest.raises((ConfigError, ValidationError), match=named):
        experiment(workload={"slo": slo}, policies=[policy])


@pytest.mark.parametrize(
    ("rule", "slo"),
    [
        ({"kind": "cdf", "tpot": "prior"}, {"tpot_s": 0.1}),
        ({"kind": "cdf", "tpot": "prior", "tpot_s": 0.1}, {"ttft_s": 1.0}),
        ({"kind": "timebill", "ttft": "bea", "tpot": "prior"}, {"e2e_s": 3.0}),
        ({"kind": "polyserve", "ttft": "bea", "tpot": "prior"}, {"ttft_s": 1.0, "tpot_s": 0.1}),
    ],
)
def test_a_source_of_a_time_that_is_judged_is_taken(rule: Any, slo: dict[str, float]) -> None:
    experiment(workload={"slo": slo}, policies=[{"kind": "passthrough", "filter": [rule]}])
