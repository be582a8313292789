"""What a grid can't tell, in sentences: for its card and for ``rbx dataset check``."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rbx.grid.census import Census, MetricCensus
from rbx.grid.decile import LengthCoverage
from rbx.grid.manifest import Manifest

FEW_TEST_PROMPTS = 1000
SHOWN_CASES = 8
COARSE_VALUES = 21  # a judge that answers in tenths or twentieths


def known_limits(manifest: Manifest, census: Census) -> list[str]:
    """Every limit that the rows themselves show; names in them come from the data and are not escaped."""
    return [
        *_made_up(manifest),
        *_few(manifest),
        *_answers(census),
        *_labels(manifest, census),
        *skew_sentences(census),
        *(sentence for metric in census.metrics for sentence in _judgements(metric)),
        *_tokens(manifest, census),
    ]


def skew_sentences(census: Census) -> Iterator[str]:
    """Where length tells what is missing, so that means over what is there are skewed."""
    yield from _skew("answers", "prompts", census.answered_by_length)
    for each in census.metrics:
        yield from _skew(f"labels of {each.metric}", "prompts", each.by_prompt_length)
        yield from _skew(f"judgements of {each.metric}", "answers", each.by_answer_length)


def _skew(what: str, by: str, coverage: LengthCoverage) -> Iterator[str]:
    if not coverage.skewed:
        return
    first, last = coverage.deciles[0], coverage.deciles[-1]
    yield (
        f"{what} are not missing at random: of the longest {by} ({last.low:,.0f} to {last.high:,.0f} tokens) "
        f"{last.share:.1%} are there, of the shortest ({first.low:,.0f} to {first.high:,.0f}) "
        f"{first.share:.1%} (rank correlation {coverage.correlation:+.2f}, p = {coverage.p_value:.1g}); "
        "means over what is there are skewed"
    )


def _made_up(manifest: Manifest) -> Iterator[str]:
    if manifest.synthetic:
        yield "synthetic: no model answered, so nothing here says anything about the models it names"


def _few(manifest: Manifest) -> Iterator[str]:
    n = manifest.counts.test
    if n == 0:
        yield "no test prompt: nothing can be measured on prompts that no head has seen"
    elif n < FEW_TEST_PROMPTS:
        yield (
            f"{n:,} test prompts: the standard error of a mean score is up to {0.5 / math.sqrt(n):.3f}, "
            "so small differences between models or routers can't be told"
        )


def _answers(census: Census) -> Iterator[str]:
    lost = [(each.empty + each.error + each.missing, each) for each in census.answers]
    told = [
        f"{each.model} {n:,} ({each.empty:,} empty, {each.error:,} failed, {each.missing:,} not there)"
        for n, each in sorted(lost, key=lambda pair: -pair[0])
        if n
    ]
    yield from _listed("answers that can't be scored", told)
    cut = sorted(census.answers, key=lambda each: -(each.truncated_share or 0))
    yield from _listed(
        "answers cut at the token limit",
        [f"{each.model} {each.truncated:,} ({each.truncated_share:.1%})" for each in cut if each.truncated],
    )


def _labels(manifest: Manifest, census: Census) -> Iterator[str]:
    told = [
        f"{each.metric} of {each.model} {1 - each.share:.1%} ({each.missing:,} missing, "
        f"{each.judge_failed:,} judge failed)"
        for each in sorted(census.labels, key=lambda each: each.share)
        if each.present < each.prompts
    ]
    yield from _listed("labels that are not there", told)
    if disagreeing := manifest.counts.disagreeing_duplicates:
        yield f"{disagreeing:,} dropped duplicates were scored otherwise than the prompt that stays"


def _listed(what: str, cases: list[str]) -> Iterator[str]:
    """The worst cases, which come first, and how many more there are."""
    if cases:
        more = f" and {len(cases) - SHOWN_CASES:,} more" if len(cases) > SHOWN_CASES else ""
        yield f"{what}: {', '.join(cases[:SHOWN_CASES])}{more}"


def _judgements(metric: MetricCensus) -> Iterator[str]:
    for text, count in metric.cut.items():
        share = count / metric.judged if metric.judged else 0.0
        yield f"the judge of {metric.metric} saw only the beginning of the {text} in {share:.1%} of labels"
    if metric.values == 1:
        yield f"{metric.metric} takes one value only: it can't tell models apart"
    elif metric.values == 2:
        yield f"{metric.metric} takes two values only, so ties are common"
    elif 2 < metric.values <= COARSE_VALUES:
        yield f"{metric.metric} is coarse: it takes {metric.values} distinct values, so ties are common"


def _tokens(manifest: Manifest, census: Census) -> Iterator[str]:
    if manifest.input_tokens_estimated:
        yield f"input tokens are {manifest.input_tokens_origin}; costs and prompt times rest on them"
    recounted = [f"{each.model} {each.recounted:,}" for each in census.answers if each.recounted]
    yield from _listed("answers whose length was recounted, as the server told none", recounted)
    unknown = [f"{each.model} {each.no_length:,}" for each in census.answers if each.no_length]
    yield from _listed("answers without a length", unknown)
