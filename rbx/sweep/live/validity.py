"""Whether a live cell may count, and what to beware of where it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rbx.config.live import Live
from rbx.load.client.health import ClientHealth
from rbx.sweep.live.records import Answer
from rbx.sweep.live.summary import Lengths, Matches, PrefixCache
from rbx.sweep.live.target import Installed

MOST_INHERITED_HITS = 0.01  # share of prompt tokens; with a salt all hits are the cell's own
MOST_UNREACHED = 0.01  # share of requests; a connection now and then is no outage
MOST_SHORTFALL = 0.1  # of the mean answer's length
MOST_MOCK_LAG_S = 0.02  # several times what an idle machine shows
MOST_ROUNDING_S = 1e-9


def reasons(
    live: Live,
    health: ClientHealth,
    installed: Installed,
    answers: Sequence[Answer],
    *,
    lost: str | None = None,
) -> tuple[str, ...]:
    """Everything for which the cell counts for nothing, in words; empty for a valid cell.

    ``lost`` is why the target was gone when the cell had ended.
    """
    return (*_target_lost(answers, lost), *_client_bound(live, health), *_strangers(installed, answers))


def _target_lost(answers: Sequence[Answer], lost: str | None) -> Iterator[str]:
    """No policy is judged by an address where nobody was; failures behind a target that lives are results.

    A target that has come back in the meantime is known by its refusals: a gateway that is there takes
    connections, whatever its servers do.
    """
    failed = [answer.result for answer in answers if answer.result.status in ("error", "timeout")]
    refused = sum(result.fault == "refused" for result in failed)
    cut = sum(result.fault == "cut" and result.first_byte_s is None for result in failed)
    if lost is not None:
        yield f"target_lost: {lost}; {len(failed)} of {len(answers)} requests failed"
    elif refused and refused + cut > max(len(failed) / 2, MOST_UNREACHED * len(answers)):
        yield (
            f"target_lost: nobody was at its address for a part of the cell: {refused} connections refused, "
            f"{cut} cut before an answer, of {len(answers)} requests"
        )


def _client_bound(live: Live, health: ClientHealth) -> Iterator[str]:
    if health.not_sent:
        yield f"client-bound: {health.not_sent} requests were never sent"
    delay_s, most_s = health.schedule_delay_p99_s, live.most_schedule_delay_p99_s
    if delay_s is not None and delay_s > most_s + MOST_ROUNDING_S:
        yield (
            f"client-bound: the 99th percentile of schedule delay is {1e3 * delay_s:.1f} ms, above "
            f"{1e3 * most_s:g} ms (live.most_schedule_delay_p99_s); the machine was too busy, or raise "
            "live.client.processes or max_connections"
        )
    asked, achieved = health.asked_per_s, health.achieved_per_s
    if asked and achieved is not None and abs(achieved / asked - 1.0) > live.most_rate_error:
        yield (
            f"client-bound: sent {achieved:.4g} requests/s where {asked:.4g} were asked, off by "
            f"{abs(achieved / asked - 1.0):.1%} (live.most_rate_error {live.most_rate_error:.1%})"
        )


def _strangers(installed: Installed, answers: Sequence[Answer]) -> Iterator[str]:
    unknown = Counter(
        answer.trace.instance or "nobody" for answer in answers if answer.ok and answer.instance is None
    )
    if unknown:
        name, n = unknown.most_common(1)[0]
        yield f"wrong_model: {unknown.total()} answers are of instances that the pool lacks, {n} of {name!r}"
    if installed.label is not None:
        others = Counter(
            answer.trace.config_version
            for answer in answers
            if answer.trace.config_version not in (None, installed.label)
        )
        if others:
            yield (
                f"config_changed: {others.total()} answers came under another configuration than "
                f"{installed.label}, as {others.most_common(1)[0][0]}"
            )


def warnings(
    answers: Sequence[Answer],
    warm_up: Mapping[str, int],
    prefix: PrefixCache | None,
    lengths: Mapping[str, Lengths],
    *,
    drained: bool | None,
) -> tuple[str, ...]:
    """What a reader should know of a cell that counts."""
    return (
        *_warm_up(warm_up),
        *_inherited(prefix),
        *_short_answers(lengths),
        *_odd_answers(answers),
        *_still_at_work(drained),
    )


def _still_at_work(drained: bool | None) -> Iterator[str]:
    if drained is None:
        yield "whether the servers were still at work when the cell had ended can't be told"
    elif not drained:
        yield "the servers were still at work when the cell had ended"


def lagging(lag_s: float | None) -> Iterator[str]:
    """Whether mock servers were too slow to keep the time that they simulate."""
    if lag_s is not None and lag_s > MOST_MOCK_LAG_S:
        yield (
            f"tokens of the mock servers came up to {1e3 * lag_s:.0f} ms late: the machine was too busy for "
            "them, or their time_scale too high"
        )


def _warm_up(by_status: Mapping[str, int]) -> Iterator[str]:
    failed = sum(n for status, n in by_status.items() if status != "ok")
    if failed:
        yield f"{failed} of {sum(by_status.values())} warm-up requests failed"


def _inherited(prefix: PrefixCache | None) -> Iterator[str]:
    if prefix is None:
        return
    rate = prefix.hits / prefix.queries if prefix.queries > 0 else 0.0
    if prefix.policy == "keep" and rate > MOST_INHERITED_HITS:
        yield (
            f"{rate:.1%} of the prompt tokens were found in prefix caches that earlier cells may have filled "
            "(live.prefix_cache: keep)"
        )


def _short_answers(lengths: Mapping[str, Lengths]) -> Iterator[str]:
    asked = sum(each.asked_tokens for each in lengths.values())
    delivered = sum(each.delivered_tokens for each in lengths.values())
    if asked and abs(delivered / asked - 1.0) > MOST_SHORTFALL:
        n = sum(each.answers for each in lengths.values())
        short = sum(each.short for each in lengths.values())
        which = f"; {short} of {n} fell short by more than a tenth" if delivered < asked else ""
        yield (
            f"answers had {delivered / n:.4g} tokens on average where {asked / n:.4g} were expected{which}"
        )


def _odd_answers(answers: Sequence[Answer]) -> Iterator[str]:
    ok = [answer for answer in answers if answer.ok]
    counts = {
        "answers show no token although the server counted some": sum(
            answer.result.first_token_s is None and bool(answer.result.output_tokens) for answer in ok
        ),
        "answers have no usage by the server; their tokens were counted here": sum(
            answer.result.tokens_source != "usage" for answer in ok
        ),
        "answers have a usage at odds with what was received": sum(
            answer.result.usage_disagrees for answer in ok
        ),
        "requests were placed without predictions, since the gateway's policy or heads failed": sum(
            answer.trace.mode == "fallback" for answer in answers
        ),
    }
    for words, n in counts.items():
        if n:
            yield f"{n} {words}"


def matches_by_tier(answers: Sequence[Answer], matched: Sequence[bool | None]) -> dict[str, Matches]:
    """How many served answers are the grid's own, by tier; tiers with nothing to compare are absent."""
    compared: Counter[str] = Counter()
    same: Counter[str] = Counter()
    for answer, answer_matches in zip(answers, matched, strict=True):
        if answer_matches is not None and answer.instance is not None:
            compared[answer.instance.tier.name] += 1
            same[answer.instance.tier.name] += answer_matches
    return {tier: Matches(n, same[tier]) for tier, n in sorted(compared.items())}


def lengths_by_tier(answers: Sequence[Answer], asked: Sequence[int | None]) -> dict[str, Lengths]:
    """Output tokens expected and delivered of whole answers, by tier; without those that a budget ended."""
    found: dict[str, list[tuple[int, int]]] = {}
    for answer, expected in zip(answers, asked, strict=True):
        delivered = answer.result.output_tokens
        if expected is None or delivered is None or answer.instance is None:
            continue
        if not answer.exhausted:
            found.setdefault(answer.instance.tier.name, []).append((expected, delivered))
    return {
        tier: Lengths(
            answers=len(pairs),
            asked_tokens=sum(expected for expected, _ in pairs),
            delivered_tokens=sum(delivered for _, delivered in pairs),
            short=sum(delivered < 0.9 * expected for expected, delivered in pairs),
        )
        for tier, pairs in sorted(found.items())
    }
