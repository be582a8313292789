"""Every metric by name: how a point gives it, how it is written, and which end is good."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rbx.errors import ConfigError
from rbx.report.measured import take
from rbx.report.measured.take import Take, of_runs
from rbx.report.metrics import Metrics
from rbx.report.number import milliseconds, percent, score, significant, usd_per_thousand
from rbx.report.ratio import MEAN_RATIOS, mean_over_completed
from rbx.report.table import Write

Quantity = Literal["quality", "latency", "cost", "throughput", "share", "count"]


class Quantile(NamedTuple):
    """A quantile of a column over completed requests."""

    column: str
    level: float


class Whole(NamedTuple):
    """A figure of the run as a whole, which no resample of prompts gives; NaN where there is none."""

    take: Callable[[Metrics], float]


Part = Take | Quantile | Whole


@dataclass(frozen=True)
class Metric:
    """``unit`` is what ``write`` writes in; ``higher_is_better`` is None where neither end is.

    ``model`` and ``tier`` name what the pool must have for it.
    """

    name: str
    quantity: Quantity
    unit: str
    write: Write
    higher_is_better: bool | None
    part: Part
    model: str | None = None
    tier: str | None = None

    @property
    def depends_on_length(self) -> bool:
        """Whether a longer run gives other figures to a policy that does not keep up with its arrivals."""
        return self.quantity in ("latency", "throughput")


def find_metric(name: str, where: str) -> Metric:
    """The metric of that name; raises ``ConfigError`` that lists all of them."""
    stem, colon, argument = name.partition(":")
    if name in METRICS:
        return METRICS[name]
    if colon and argument and stem in _OF_SOMETHING:
        return _OF_SOMETHING[stem](name, argument)
    words = ", ".join([*METRICS, *(f"{stem}:{_ARGUMENT[stem]}" for stem in _OF_SOMETHING)])
    raise ConfigError(f"{where}: metric {name!r} is none of {words}")


def _percent(value: float) -> str:
    return percent(value, 1)


def _seconds(name: str, part: Part) -> Metric:
    return Metric(name, "latency", "s", significant, False, part)


def _milliseconds(name: str, part: Part) -> Metric:
    return Metric(name, "latency", "ms", milliseconds, False, part)


def _quality(name: str, part: Part) -> Metric:
    return Metric(name, "quality", "", score, True, part)


def _share(name: str, part: Part, higher_is_better: bool | None = None) -> Metric:
    return Metric(name, "share", "", _percent, higher_is_better, part)


def _per_second(name: str, part: Part, unit: str = "req/s") -> Metric:
    return Metric(name, "throughput", unit, significant, True, part)


def _number(name: str, part: Part, higher_is_better: bool | None = None, unit: str = "") -> Metric:
    return Metric(name, "count", unit, significant, higher_is_better, part)


def _qualities() -> Iterable[Metric]:
    yield _quality("quality", of_runs(MEAN_RATIOS["quality"]))
    yield _quality("utility", take.utility)
    yield _share("coverage", take.coverage, True)
    yield _quality("oracle_quality", take.oracle)
    yield _quality("on_time_utility", take.on_time_utility)


def _latencies() -> Iterable[Metric]:
    yield _seconds("mean_e2e_s", of_runs(MEAN_RATIOS["e2e_s"]))
    yield _seconds("mean_ttft_s", of_runs(MEAN_RATIOS["ttft_s"]))
    yield _seconds("mean_ttft_from_sent_s", of_runs(mean_over_completed("ttft_from_sent_s")))
    yield _milliseconds("mean_tpot_s", of_runs(mean_over_completed("tpot_s")))
    for level in (0.5, 0.95, 0.99):
        rank = f"p{100 * level:.0f}"
        yield _seconds(f"{rank}_e2e_s", Quantile("e2e_s", level))
        yield _seconds(f"{rank}_ttft_s", Quantile("ttft_s", level))
        yield _milliseconds(f"{rank}_tpot_s", Quantile("tpot_s", level))


def _rates() -> Iterable[Metric]:
    cost = of_runs(MEAN_RATIOS["cost_usd"])
    yield Metric("cost_per_request_usd", "cost", "$ / 1,000", usd_per_thousand, False, cost)
    yield _per_second("throughput_per_s", of_runs(MEAN_RATIOS["throughput_per_s"]))
    yield _per_second(
        "throughput_to_last_completion_per_s", Whole(lambda m: m.throughput_to_last_completion_per_s)
    )
    yield _per_second("output_tokens_per_s", Whole(lambda m: m.output_tokens_per_s), "tokens/s")
    yield _per_second("achieved_rate_per_s", Whole(lambda m: m.achieved_rate_per_s))
    yield _seconds("duration_s", Whole(lambda m: m.duration_s))
    yield _per_second("goodput_per_s", take.goodput)
    yield _number("completed_requests", take.n_completed, True)


def _shares() -> Iterable[Metric]:
    yield _share("completed_share", take.completed_of_all, True)
    yield _share("slo_met_share", take.slo_met, True)
    yield _share("on_time_share", take.on_time_share, True)
    yield _share("exhausted_share", take.flagged_of_completed("exhausted"), False)
    yield _share("hopeless_share", take.flagged_of_sent("hopeless"), False)
    yield _share("fallback_share", take.flagged_of_sent("fallback"), False)
    yield _share("shed_share", take.flagged_of_all("shed"), False)
    yield _share("utilization", Whole(lambda m: m.utilization))


def _decisions() -> Iterable[Metric]:
    yield _milliseconds("scoring_wait_s", take.over_sent("scoring_wait_s"))
    yield _milliseconds("batch_wait_s", take.over_sent("batch_wait_s"))
    yield _milliseconds("encode_s", take.over_sent("encode_s"))
    yield _milliseconds("score_s", take.over_sent("score_s"))
    yield _milliseconds("decision_compute_s", take.decision_parts("encode_s", "score_s"))
    parts = ("scoring_wait_s", "batch_wait_s", "encode_s", "score_s")
    yield _milliseconds("decision_s", take.decision_parts(*parts))
    yield _milliseconds("residual_s", take.residual)
    yield _share("decision_share_of_ttft", take.decision_of_ttft, False)
    yield _number("batch_size", take.batch_size)
    yield _number("mean_output_tokens", of_runs(mean_over_completed("output_tokens")), unit="tokens")
    yield _number("preemptions_per_request", take.preemptions, False)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for family in (_qualities, _latencies, _rates, _shares, _decisions)
    for metric in family()
}


def _model_share(name: str, model: str) -> Metric:
    part = take.word_of_completed("model", model)
    return Metric(name, "share", "", _percent, None, part, model=model)


def _tier_share(name: str, tier: str) -> Metric:
    part = take.word_of_completed("tier", tier)
    return Metric(name, "share", "", _percent, None, part, tier=tier)


def _tier_utilization(name: str, tier: str) -> Metric:
    part = Whole(lambda m: m.tier_utilization.get(tier, float("nan")))
    return Metric(name, "share", "", _percent, None, part, tier=tier)


def _label_mean(name: str, model: str) -> Metric:
    return Metric(name, "quality", "", score, True, take.label_of(model), model=model)


_OF_SOMETHING: dict[str, Callable[[str, str], Metric]] = {
    "model_share": _model_share,
    "tier_share": _tier_share,
    "tier_utilization": _tier_utilization,
    "label_mean": _label_mean,
}
_ARGUMENT = {
    "model_share": "MODEL",
    "tier_share": "TIER",
    "tier_utilization": "TIER",
    "label_mean": "MODEL",
}
