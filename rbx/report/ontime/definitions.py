"""How the on-time numbers are defined, as it stands on the page."""

from __future__ import annotations

from rbx.report.definitions import Definition
from rbx.report.ontime.block_length import FEWEST_BLOCKS
from rbx.report.ontime.study import OnTimeStudy
from rbx.report.paired import Resampling

ON_TIME_DEFINITIONS = (
    Definition(
        "in time", "completed, and first token − scheduled arrival ≤ the request's target", "scheduled"
    ),
    Definition("attainment", "in time ÷ scheduled: failed and shed requests are late", "scheduled"),
    Definition(
        "U",
        "quality − w·cost in USD; w is workload.slo.cost_weight_per_usd, the paper's λ",
        "ok with a score",
    ),
    Definition(
        "OnTimeUtility",
        "mean of U if in time, else 0; a request in time without a score is left out (counted: the rest)",
        "scheduled",
    ),
    Definition("U ungated", "OnTimeUtility if every completed request had been in time", "scheduled"),
    Definition(
        "goodput in time",
        "completed in time before the last arrival ÷ arrival window, mean over seeds",
        "scheduled",
    ),
    Definition(
        "none in time", "decisions that predicted no instance to meet the target ÷ decisions", "decisions"
    ),
    Definition(
        "gain of BEAR", "BEAR's OnTimeUtility ÷ the other's − 1; none where that is not above zero", "a rate"
    ),
    Definition(
        "BEAR loses",
        "the interval of BEAR − policy in OnTimeUtility lies below zero",
        "a policy at one rate",
    ),
    Definition(
        "variant",
        "another rule, estimator or handicap of BEAR, or RouteBalance on BEA's latencies: no baseline",
        "policies",
    ),
    Definition(
        "reference",
        "knows what nobody knows of a live request (oracle, source-best): leads nobody, and BEAR is not "
        "compared with it",
        "policies",
    ),
    Definition(
        "APE, MAPE, bias",
        "|predicted − measured TTFT| ÷ measured; its mean; mean of predicted − measured",
        "ok with a prediction",
    ),
)


def on_time_words(study: OnTimeStudy | None, resampling: Resampling, level: float) -> str:
    """How the on-time intervals are made, in a paragraph; empty without TTFT targets."""
    if study is None:
        return ""
    lengths = " or ".join(f"{length:,}" for length in study.block_lengths)
    return (
        f"Intervals in this part are {100 * level:.0f} % percentile intervals from "
        f"{resampling.n_resamples:,} resamples over time: blocks of {lengths} consecutive requests, drawn "
        "with replacement within each seed's run, the same for every policy and every rate of equal length. "
        "Lateness clusters in time, which resampling prompts does not see. The length is the longest that a "
        f"policy's series asks for (Politis and White), but at most 3·√n and a {FEWEST_BLOCKS}th of the run. "
        "Intervals over prompts, as in the rest of the report, are in summary.json and on_time.csv, and "
        "appear on hover."
    )
