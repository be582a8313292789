"""How each number of the report on routers is defined."""

from __future__ import annotations

from rbx.report.bootstrap import LEVEL
from rbx.report.definitions import Definition
from rbx.report.paired import Resampling
from rbx.report.routers.allocation import BEST_SINGLE, ORACLE, PER_SOURCE, RANDOM

_ALL = "test prompts with a label for every model"

DEFINITIONS = (
    Definition("quality", "mean label of the chosen model; zero is a label, a missing label is none", _ALL),
    Definition(
        "cost",
        "prompt tokens × price in + recorded answer tokens × price out, at the pool's prices; a model on "
        "several tiers has the price of its cheapest",
        f"{_ALL} and a known length from every model",
    ),
    Definition("coverage", f"{_ALL} ÷ test prompts", "test prompts"),
    Definition(
        ORACLE,
        "the highest label of each prompt, the cheapest of several: a bound, no policy can run it",
        _ALL,
    ),
    Definition(RANDOM, "each model with the same chance; expected values, so nothing is drawn", _ALL),
    Definition(BEST_SINGLE, "the model of the highest mean training label; the cheaper of two", _ALL),
    Definition(
        PER_SOURCE,
        "the same within the prompt's source, which a policy would have to be told; best single where "
        "training has no prompt of the source",
        _ALL,
    ),
    Definition(
        "picks a best",
        "share of prompts whose choice has the highest label; of tied models each is a hit",
        _ALL,
    ),
    Definition("where it matters", "picks a best", f"{_ALL} on which labels differ"),
    Definition(
        "ROC AUC, concordance",
        "over pairs of prompts with different labels: share in which the higher label has the higher score, "
        "ties half; with labels of 0 and 1 this is the area under the ROC curve",
        f"{_ALL}, each model by itself",
    ),
    Definition(
        "tie",
        "share of prompts on which several models have the highest score; the earlier one in the pool is "
        "chosen",
        _ALL,
    ),
    Definition(
        "calibration error",
        "Σ over ten bins of equal mass: share × |mean prediction − mean label|; edges held over resamples",
        f"{_ALL} × models",
    ),
    Definition(
        "AIQ",
        "∫ hull(c) dc ÷ (c_max − c_min): c_min and c_max are the mean costs of the cheapest and the dearest "
        "single model, in each resample anew; the hull is the non-decreasing upper hull of the router's "
        "settings and of the cheapest model alone",
        _ALL,
    ),
    Definition(
        "λ", "choice = highest score − λ × expected cost ÷ the dearest model's mean training cost", _ALL
    ),
    Definition("flip rate", "share of prompts whose choice differs after a change of wording", _ALL),
    Definition(
        "leave one source out",
        "routers and neighbours trained again without the source; both sides trained with the report's seed",
        f"{_ALL}, of that source",
    ),
    Definition(
        "wrong labels",
        "of each model a share of the training labels: 0 and 1 turned around, graded ones permuted among the "
        "drawn prompts; a higher share holds what the lower ones changed",
        "training labels; judged on " + _ALL,
    ),
)


def interval_words(resampling: Resampling) -> str:
    """How the intervals are made, in a paragraph."""
    return (
        f"Intervals are {100 * LEVEL:.0f} % percentile intervals from {resampling.n_resamples:,} bootstrap "
        f"resamples of the test prompts (seed {resampling.seed}), the same ones for every number: "
        "differences are taken within a resample (paired by prompt). Where every resample gives "
        "the same value there is no interval (same in every resample); it is not estimable where fewer than "
        "two prompts count or a resample holds nothing to average. Intervals cover the choice of test "
        "prompts, not that of training prompts or of training seeds. They are not "
        "corrected for the number of comparisons: of twenty differences that are none, one is "
        "expected to exclude zero."
    )
