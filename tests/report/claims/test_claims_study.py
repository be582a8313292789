"""Claims about sweeps whose answers are known: which point is taken, how it is paired, what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbx.config.policy import RoutedPolicy
from rbx.config.references import REFERENCES
from rbx.errors import ConfigError
from rbx.report.claims.study import Judged
from rbx.report.claims.tally import tallies
from rbx.report.load import read_sweep
from rbx.report.paired import PairedPoints
from rbx.report.point import Point, to_points
from tests.report.claims.claimed import (
    QUALITY,
    QUEUE,
    QUICK,
    RANDOM,
    ROUND_ROBIN,
    UNIFORM,
    at,
    best,
    judged,
    study,
)
from tests.report.sweeps import MODELS, POLICIES, SweepShape, write_sweep

SHAPE = SweepShape(
    policies=(*POLICIES[:2], *POLICIES[5:8]),
    rates_per_s=(6.0, 12.0),
    seeds=(0, 1),
    n_prompts=50,
    n_requests=60,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sweep(tmp_path_factory.mktemp("results") / "s", SHAPE)


@pytest.fixture(scope="module")
def points(folder: Path) -> dict[tuple[str, float], Point]:
    return {(point.label, point.rate_per_s): point for point in to_points(read_sweep(folder).cells)}


def _value(metric: str, of: Any, published: float = 1.0, **keys: Any) -> dict[str, Any]:
    return {"kind": "value", "metric": metric, "of": of, "published": published, **keys}


def _ours(found: Judged) -> float:
    assert found.finding.ours is not None
    return found.finding.ours.value


def test_a_published_figure_that_is_ours_holds(folder: Path, points: dict[tuple[str, float], Point]) -> None:
    truth = points[UNIFORM, 6.0].metrics
    claims = [
        _value("mean_e2e_s", at(UNIFORM), truth.e2e_s.mean),
        _value("p99_ttft_s", at(UNIFORM), truth.ttft_s.p99),
        _value("mean_e2e_s", at(UNIFORM), 1.05 * truth.e2e_s.mean),
        _value("mean_e2e_s", at(UNIFORM), 10 * truth.e2e_s.mean),
    ]
    exact, tail, near, far = judged(claims, s=folder)
    for found, value in ((exact, truth.e2e_s.mean), (tail, truth.ttft_s.p99)):
        assert found.finding.verdict == "holds"
        assert _ours(found) == pytest.approx(value)
        assert found.finding.relative_error == pytest.approx(0.0, abs=1e-9)
        assert found.finding.covers is True
    assert near.finding.relative_error == pytest.approx(1 / 1.05 - 1)
    assert (near.finding.verdict, far.finding.verdict) == ("holds", "does not hold")


def test_a_difference_is_paired_by_prompt(folder: Path, points: dict[tuple[str, float], Point]) -> None:
    claim = {
        "kind": "difference",
        "metric": "quality",
        "of": at(QUALITY),
        "minus": at(QUEUE),
        "published": 0.1,
    }
    (found,) = judged([claim], s=folder)
    one, other = points[QUALITY, 6.0], points[QUEUE, 6.0]
    expected = PairedPoints([one, other], read_sweep(folder).labels, QUICK).difference(one, other, "quality")
    ours = found.finding.ours
    assert ours is not None
    assert (ours.value, ours.low, ours.high) == pytest.approx((expected.value, expected.low, expected.high))
    assert found.unpaired == ""
    assert found.finding.verdict == "holds"
    assert found.measured[0].point.metrics.counts.scheduled == 120


def test_points_of_two_sweeps_are_paired_where_their_requests_agree(folder: Path, tmp_path: Path) -> None:
    """The other sweep has more prompts, none of them asked: row numbers differ, requests do not."""
    other = write_sweep(tmp_path / "t", SHAPE)
    claim = {
        "kind": "difference",
        "metric": "mean_e2e_s",
        "of": at(UNIFORM),
        "minus": at(UNIFORM, sweep="t"),
        "published": 0.0,
    }
    (same,) = judged([claim], s=folder, t=other)
    assert same.unpaired == ""
    assert same.finding.ours is not None
    assert (same.finding.ours.value, same.finding.ours.status) == (0.0, "degenerate")
    assert same.finding.verdict == "holds"


def test_equal_hashes_over_other_prompts_are_not_paired(folder: Path, tmp_path: Path) -> None:
    """A workload hash numbers the prompts of its own grid."""
    other = write_sweep(tmp_path / "t", SweepShape(**{**vars(SHAPE), "n_prompts": 55}))
    claim = {
        "kind": "sign",
        "metric": "quality",
        "of": at(UNIFORM),
        "minus": at(UNIFORM, sweep="t"),
        "published": ">",
    }
    (found,) = judged([claim], s=folder, t=other)
    assert "did not face the same requests" in found.unpaired
    assert found.finding.ours is not None
    assert found.finding.ours.status == "ok"


def test_rates_are_not_paired_and_a_best_may_be_of_any_rate(
    folder: Path, points: dict[tuple[str, float], Point]
) -> None:
    claims = [
        _value("cost_per_request_usd", best("*", None)),
        _value("quality", best(["passthrough/*"], 12.0)),
        _value("mean_e2e_s", best("*", None, want="highest")),
        _value("quality", best("*", 6.0, by="cost_per_request_usd")),
        {
            "kind": "ratio",
            "metric": "mean_e2e_s",
            "of": at(UNIFORM, 12.0),
            "over": at(UNIFORM, 6.0),
            "published": 1.0,
        },
    ]
    cheapest, passthrough, slowest, by_cost, across = judged(claims, s=folder)
    costs = {key: point.metrics.cost_per_request_usd for key, point in points.items()}
    assert _ours(cheapest) == pytest.approx(min(costs.values()))
    quality = max(points[label, 12.0].metrics.quality_mean for label in (ROUND_ROBIN, QUEUE, RANDOM))
    assert _ours(passthrough) == pytest.approx(quality)
    assert _ours(slowest) == pytest.approx(max(point.metrics.e2e_s.mean for point in points.values()))
    at_six = min((cost, key) for key, cost in costs.items() if key[1] == 6.0)[1]
    assert _ours(by_cost) == pytest.approx(points[at_six].metrics.quality_mean)
    assert across.unpaired
    expected = points[UNIFORM, 12.0].metrics.e2e_s.mean / points[UNIFORM, 6.0].metrics.e2e_s.mean
    assert _ours(across) == pytest.approx(expected)


@pytest.mark.parametrize("router", sorted(REFERENCES))
def test_a_pattern_takes_in_no_reference(tmp_path: Path, router: str) -> None:
    reference = RoutedPolicy.model_validate({"router": router, "dispatch": "shortest-queue"})
    shape = SweepShape(policies=(reference, POLICIES[6]), rates_per_s=(6.0,), n_prompts=40, n_requests=40)
    sweep = write_sweep(tmp_path / "s", shape)
    all_of_them, named, none = judged(
        [
            _value("quality", best(policies))
            for policies in ("*", ["no*", reference.label], "source-* oracle *")
        ],
        s=sweep,
    )
    assert [point.point.label for point in all_of_them.measured] == [QUEUE]
    assert [point.point.label for point in named.measured] == [reference.label]
    assert none.finding.verdict == "not run"


def test_a_best_by_a_metric_that_the_pool_has_not_is_not_run(folder: Path) -> None:
    by = [best("*", by=metric, want="highest") for metric in ("label_mean:GPT-9", "tier_share:moon")]
    for found, word in zip(
        judged([_value("quality", of) for of in by], s=folder), ("model", "tier"), strict=True
    ):
        assert found.finding.verdict == "not run"
        assert f"no {word} " in found.gaps[0]


def test_a_best_of_figures_that_nobody_has_says_so(folder: Path) -> None:
    (found,) = judged([_value("on_time_utility", best("passthrough/*"))], s=folder)
    assert found.finding.verdict == "not run"
    assert found.gaps == ("s: nothing tells on_time_utility of passthrough/* at 6 req/s",)


def test_some_seeds_may_be_kept_alone(folder: Path, points: dict[tuple[str, float], Point]) -> None:
    (one,) = judged([_value("mean_e2e_s", at(UNIFORM, seeds=[1]))], s=folder)
    run = points[UNIFORM, 6.0].cells[1].requests
    assert _ours(one) == pytest.approx(float(run.e2e_s[run.ok].mean()))
    assert one.measured[0].point.metrics.counts.scheduled == 60


def test_an_order_is_that_of_our_figures(folder: Path, points: dict[tuple[str, float], Point]) -> None:
    labels = sorted(
        {label for label, _ in points}, key=lambda label: points[label, 6.0].metrics.cost_per_request_usd
    )
    claims: list[dict[str, Any]] = [
        {"kind": "order", "metric": "cost_per_request_usd", "points": [at(label) for label in labels]},
        {
            "kind": "order",
            "metric": "cost_per_request_usd",
            "points": [at(label) for label in reversed(labels)],
        },
        {
            "kind": "order",
            "metric": "cost_per_request_usd",
            "higher": True,
            "points": [at(label) for label in reversed(labels)],
        },
    ]
    right, wrong, turned = (found.finding for found in judged(claims, s=folder))
    assert right.order is not None
    assert wrong.order is not None
    assert turned.order is not None
    assert (right.order.tau.value, wrong.order.tau.value, turned.order.tau.value) == (1.0, -1.0, 1.0)
    assert (right.direction, right.order.in_order) == (True, len(labels) - 1)
    assert wrong.verdict == "does not hold"


def test_numbers_of_files_stand_beside_published_ones(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    path.write_text(json.dumps({"heads": [{"r2": 0.5, "name": "x"}]}))
    claims = [
        _value("quality", {"file": path, "key": "heads.0.r2"}, 0.52),
        _value("quality", {"file": path, "key": "heads.0.name"}, 0.5),
        _value("quality", {"file": path, "key": "heads.3.r2"}, 0.5),
        _value("quality", {"file": tmp_path / "no.json", "key": "a"}, 0.5),
        {
            "kind": "sign",
            "metric": "quality",
            "of": at(UNIFORM),
            "minus": {"file": path, "key": "heads.0.r2"},
            "published": ">",
        },
    ]
    found = judged(claims, s=folder)
    assert [each.finding.verdict for each in found] == ["holds", "not run", "not run", "not run", "not clear"]
    assert "is no finite number" in found[1].gaps[0]
    assert "no heads.3.r2" in found[2].gaps[0]
    assert "no such file" in found[3].gaps[0]
    assert "has no interval: a number of a file" in found[4].finding.why


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "can't be read as JSON"),
        ('{"a": ' + "9" * 5_000 + "}", "can't be read as JSON"),
        ('{"a": ' + "9" * 400 + "}", "is no finite number"),
        ('{"a": 1e400}', "is no finite number"),
    ],
    ids=["deep", "too long", "beyond a float", "infinite"],
)
def test_a_file_without_a_number_that_can_be_used_is_told(
    folder: Path, tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "found.json"
    path.write_text(text)
    [found] = judged([_value("quality", {"file": path, "key": "a"}, 0.5)], s=folder)
    assert found.finding.verdict == "not run"
    assert words in found.gaps[0]


def _miscount(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    summary["ok"] -= 1


def test_what_is_not_there_is_listed_and_never_dropped(tmp_path: Path) -> None:
    # Cells run by rate, then seed, then policy: 0 is uniform at seed 0, 8 is round-robin at seed 1.
    shape = SweepShape(
        **{**vars(SHAPE), "rates_per_s": (6.0,), "skip": frozenset({1, 6}), "tamper": {2: _miscount}}
    )
    folder = write_sweep(tmp_path / "s", shape)
    claims = [
        _value("quality", at(UNIFORM), 0.4, absolute=1.0),
        _value("quality", at(QUALITY), 0.4),
        _value("quality", at(ROUND_ROBIN, seeds=[0]), 0.4),
        _value("quality", at("rb q0.33 l0.34 c0.33"), 0.4),
        _value("quality", at(UNIFORM, 9.0), 0.4),
        _value("quality", at(UNIFORM, seeds=[0, 7]), 0.4, absolute=1.0),
        _value("quality", at(UNIFORM, sweep="gone"), 0.4),
        _value("model_share:GPT-9", at(UNIFORM), 0.4),
        _value(f"model_share:{MODELS[0]}", at(UNIFORM), 0.4, absolute=1.0),
        _value("quality", best("rb *"), 0.4, absolute=1.0),
    ]
    found = study(claims, s=folder, gone=tmp_path / "gone")
    verdicts = [each.finding.verdict for each in found.judged]
    assert verdicts == [
        "holds",
        "not run",
        "not run",
        *["not run"] * 2,
        "holds",
        *["not run"] * 2,
        "holds",
        "holds",
    ]
    gaps = [" / ".join(each.gaps) for each in found.judged]
    assert gaps[0] == ""
    assert gaps[1].count("was not run") == 2
    assert "is invalid: " in gaps[2]
    assert f"near: {UNIFORM}" in gaps[3]
    assert "not planned at 9 req/s" in gaps[4]
    assert "seed 7 is not planned" in gaps[5]
    assert "gone is not there" in gaps[6]
    assert "no model 'GPT-9' in the pool" in gaps[7]
    assert gaps[8] == ""
    assert gaps[9].count(QUALITY) == 2
    assert not found.is_complete
    (counted,) = tallies(found.judged)
    assert counted.claims == len(claims)
    assert counted.verdicts["not run"] == 6


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (_value("speed", at(UNIFORM)), "claims.yaml: c0: metric 'speed' is none of quality"),
        (_value("quality", at(UNIFORM, None)), "c0: s has the rates 6, 12: give rate_per_s or load"),
        (
            _value("utilization", best("*")),
            "c0: best: neither end of utilization is the better one: give want",
        ),
        (_value("quality", best("*", by="speed")), "c0: best.by: metric 'speed'"),
        (
            {"kind": "order", "metric": "batch_size", "points": [at(UNIFORM), at(QUALITY)]},
            "c0: give higher: true or false",
        ),
    ],
)
def test_claims_that_can_not_be_meant_are_refused(folder: Path, claim: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        judged([claim], s=folder)


def test_an_order_without_a_best_end_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    claim = {"kind": "order", "metric": "batch_size", "points": [at(UNIFORM), at(QUALITY)]}
    with pytest.raises(ConfigError, match="c0: give higher: true or false"):
        judged([claim], s=tmp_path / "gone")


@pytest.mark.parametrize(
    ("metric", "published", "keys", "words"),
    [
        ("quality", [0.3, 0.4], {}, "the highest is the best"),
        ("mean_e2e_s", [4.0, 3.0], {}, "the lowest is the best"),
        ("quality", [0.3, 0.4], {"higher": False}, ""),
        ("mean_e2e_s", [3.0, 4.0], {}, ""),
        ("mean_e2e_s", [3.0, 4.0], {"higher": True}, "the highest is the best"),
    ],
)
def test_published_figures_run_from_the_best_down(
    folder: Path, metric: str, published: list[float], keys: dict[str, Any], words: str
) -> None:
    points = [at(UNIFORM), at(QUALITY)]
    claim = {"kind": "order", "metric": metric, "points": points, "published": published, **keys}
    if not words:
        assert judged([claim], s=folder)
        return
    with pytest.raises(ConfigError, match=f"c0: published: the best comes first, and {words}"):
        judged([claim], s=folder)


def test_loads_stand_for_rates(folder: Path, points: dict[tuple[str, float], Point]) -> None:
    (found,) = judged([_value("quality", at(UNIFORM, None, load=0.6))], s=folder)
    assert _ours(found) == pytest.approx(points[UNIFORM, 12.0].metrics.quality_mean)


def test_calibrated_and_predicted_claims_are_counted_apart(
    folder: Path, points: dict[tuple[str, float], Point]
) -> None:
    e2e_s = points[UNIFORM, 6.0].metrics.e2e_s.mean
    claims = [
        _value("mean_e2e_s", at(UNIFORM), e2e_s, role="calibrated", why="the step times"),
        *(_value("mean_e2e_s", at(UNIFORM), e2e_s / factor) for factor in (1.09, 1.2, 1.4, 1.6)),
        {"kind": "sign", "metric": "quality", "of": at(QUALITY), "minus": at(QUEUE), "published": ">"},
        {"kind": "sign", "metric": "quality", "of": at(QUALITY), "minus": at(QUEUE), "published": "<"},
    ]
    predicted, calibrated = tallies(study(claims, s=folder).judged)
    assert (predicted.role, predicted.claims, calibrated.claims) == ("predicted", 6, 1)
    assert [(part.k, part.n) for part in predicted.within] == [(1, 4), (2, 4), (3, 4)]
    assert [(part.k, part.n) for part in calibrated.within] == [(1, 1)] * 3
    assert (predicted.same_way.k, predicted.clearly.k, predicted.against.k) == (1, 1, 1)
    assert predicted.same_way.n == 2
    assert calibrated.same_way.n == 0


def test_a_claim_does_not_depend_on_the_others(folder: Path) -> None:
    """Draws are shared by prompts and seed, so that adding a claim moves no other interval."""
    claim = {
        "kind": "difference",
        "metric": "quality",
        "of": at(QUALITY),
        "minus": at(QUEUE),
        "published": 0.1,
    }
    others = [_value("p50_e2e_s", at(RANDOM)), _value("quality", at(UNIFORM, 12.0)), claim]
    alone, together = judged([claim], s=folder)[0], judged(others, s=folder)[-1]
    assert alone.finding.ours is not None
    assert together.finding.ours is not None
    ends = [
        (each.finding.ours.low, each.finding.ours.high) for each in (alone, together) if each.finding.ours
    ]
    assert np.allclose(ends[0], ends[1], rtol=1e-12, atol=1e-15)
