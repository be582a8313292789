"""How each number is defined: formula and population, as they stand on the page."""

from __future__ import annotations

from dataclasses import dataclass

from rbx.report.decision_tables import LONGEST_WINDOW_S, SATURATED_TTFT_SHARE, SATURATED_WAIT_S
from rbx.report.dominance import QUALITY_MARGIN
from rbx.report.keeping_up import FEWEST_LATE_ARRIVALS, FILLED_AFTER_DECODES
from rbx.report.number import percent
from rbx.report.paired import Resampling
from rbx.sweep.sustained import SUSTAINED_SHARE


@dataclass(frozen=True)
class Definition:
    """One number: its formula, and the requests it is taken over."""

    name: str
    formula: str
    population: str


DEFINITIONS = (
    Definition("scheduled", "sent + not sent", "every request of the workload"),
    Definition("sent", "ok + error + timeout + cancelled", "requests that left the client"),
    Definition(
        "quality", "mean score in [0, 1]; zero is a score, a missing score is none", "ok with a score"
    ),
    Definition("coverage", "scored ÷ ok", "ok"),
    Definition("utility", "Σ score ÷ (scored + failed): a failed request is worth zero", "scored and failed"),
    Definition("TTFT", "first token − scheduled send; also from the real send", "ok with a token"),
    Definition(
        "TPOT", "(done − first token) ÷ (output tokens − 1), mean over requests", "ok, two tokens or more"
    ),
    Definition("E2E", "done − scheduled send", "ok"),
    Definition("p50, p95, p99", "linear between order statistics, as numpy.percentile", "that of the metric"),
    Definition("cost per request", "USD spent on all requests ÷ completed requests", "all, over ok"),
    Definition(
        "throughput",
        "ok before the last arrival ÷ arrival window (first → last arrival), mean over seeds. Its interval "
        "resamples which prompts arrive at the same rate",
        "ok",
    ),
    Definition(
        "throughput to last completion",
        "ok ÷ (first send → last completion), mean over seeds. One answer that ends late lowers it, and the "
        "shorter the run the more: it ranks nothing here, and stands in the tables of each rate alone",
        "ok",
    ),
    Definition(
        "SLO met", "requests that met the target ÷ scheduled: a failed request has missed", "scheduled"
    ),
    Definition(
        "keeps up",
        f"completed ÷ arrived ≥ {percent(SUSTAINED_SHARE)} in the second half of the arrival window. Not "
        f"told with fewer than {FEWEST_LATE_ARRIVALS} arrivals there, nor where the shortfall may be batches "
        f"that still fill: first tokens keep up, and the window is below {FILLED_AFTER_DECODES} mean times "
        "from first to last token",
        "a cell; a failed request has not completed",
    ),
    Definition("goodput", "requests that met the target ÷ arrival window", "scheduled"),
    Definition("decision time", "scoring wait + batch wait + encode + score, mean", "sent"),
    Definition("busy", "Σ busy seconds of the instances ÷ (instances × duration)", "instances"),
    Definition("exhausted", "answers that the budget's cap or cut ended ÷ ok", "ok"),
    Definition("oracle", "mean of each prompt's best label, among models that have one", "workload"),
    Definition("random", "mean over models of each model's mean label", "workload"),
    Definition(
        "blind mix", "Σ over models of the cell's share × the model's mean label, shares held", "workload"
    ),
    Definition("difference", "policy − baseline within the same resamples", "each its own, at one rate"),
    Definition(
        "ahead",
        "some RouteBalance cell is at least as good in both coordinates and better in one, by the estimates",
        "policies at one rate",
    ),
    Definition(
        "sure",
        "ahead by a cell whose gain on the axis (latency, throughput or cost) has an interval that excludes "
        f"zero, and whose quality difference has an interval above −{QUALITY_MARGIN:g}, the margin within "
        "which quality counts as not worse",
        "policies at one rate",
    ),
    Definition("batch size", "requests ÷ batches", "sent"),
    Definition(
        "decision saturated",
        f"mean wait for the batch, or to be scored before it, above {SATURATED_WAIT_S:g} s, or above "
        f"{LONGEST_WINDOW_S:g} s and above {percent(SATURATED_TTFT_SHARE)} of mean TTFT: requests queue for "
        "the decision",
        "a policy at one rate",
    ),
    Definition(
        "not dominated",
        "no other policy is at least as good in both coordinates and better in one",
        "policies at one rate",
    ),
    Definition("hull", "best for some non-negative weighting of the two coordinates", "as the figure says"),
)


def interval_words(resampling: Resampling, level: float) -> str:
    """How the intervals are made, in a paragraph."""
    return (
        f"Intervals are {100 * level:.0f} % percentile intervals from {resampling.n_resamples:,} bootstrap "
        f"resamples (seed {resampling.seed}). A resample draws prompts with replacement, and each prompt "
        "brings all its requests of every policy, seed and repeat: policies are compared within the same "
        "resamples (paired), and seeds and repeats are clustered by prompt. Means are ratios of sums, so "
        "that uneven repeats are weighed as they are. Where every resample gives the same "
        "value there is no interval (same in every resample); it is not estimable where fewer than two "
        "prompts count, where a resample holds nothing to average, or where two policies did not face the "
        "same requests. Intervals cover the choice of prompts, not the chance of arrivals: more seeds are "
        "the way to see that. They are not corrected for the number of comparisons."
    )
