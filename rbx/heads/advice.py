"""Plain advice where a head is no better than the mean: what a user should not rely on, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rbx.heads.evaluation import ModelReport, RoutingReport

REMEDY = "the prompts say nothing about it; more training prompts or another encoder"


def advise(models: Sequence[ModelReport], routing: RoutingReport) -> tuple[str, ...]:
    """One line for each head that explains nothing on the test prompts, and one for such a routing.

    A length head explains nothing at R² of log length ≤ 0; a quality head at AUC ≤ 0.5 or, where scores
    are not all 0 or 1, at a rank correlation ≤ 0; routing where the interval of its gain over the best single
    model reaches 0. What could not be estimated gets no advice.
    """
    lengths = (_length(model) for model in models)
    qualities = (_quality(model) for model in models)
    return tuple(line for line in (*lengths, *qualities, _routing(routing)) if line)


def _length(model: ModelReport) -> str | None:
    r2 = model.log_length_r2
    if r2 is None or r2 > 0:
        return None
    return f"length head of {model.model} is {_than(r2)} its mean (R² {_signed(r2)}): {REMEDY}"


def _quality(model: ModelReport) -> str | None:
    found = list(_no_ranking(model))
    if not found:
        return None
    return f"quality head of {model.model} ranks prompts no better than chance ({', '.join(found)}): {REMEDY}"


def _no_ranking(model: ModelReport) -> Iterator[str]:
    if model.quality_auc is not None and model.quality_auc <= 0.5:
        yield f"AUC {model.quality_auc:.2f}"
    if model.quality_spearman is not None and model.quality_spearman <= 0:
        yield f"Spearman {_signed(model.quality_spearman)}"


def _routing(routing: RoutingReport) -> str | None:
    gain = routing.routed_minus_best_single
    if gain is None or gain.low is None or gain.high is None or gain.low > 0:
        return None
    interval = (
        f"{_signed(gain.mean, 3)} [{_signed(gain.low, 3)}, {_signed(gain.high, 3)}] on {gain.n} prompts"
    )
    how = "is worse than" if gain.high < 0 else "is not shown to be better than"
    return (
        f"routing by predicted quality {how} {routing.best_single_model} alone ({interval}): "
        "more training prompts or another encoder, and more test prompts for a narrower interval"
    )


def _than(r2: float) -> str:
    return "worse than" if r2 < 0 else "no better than"


def _signed(value: float, digits: int = 2) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")
