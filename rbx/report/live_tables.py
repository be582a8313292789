"""Live cells: how well the client kept its schedule, and how far the served answers are the grid's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rbx.report.load import Cell, Sweep
from rbx.report.number import UNKNOWN, milliseconds, percent, significant
from rbx.report.point import Point, to_points
from rbx.report.requests import Floats
from rbx.report.table import Column, Table, Value, count, number
from rbx.sweep.live.summary import Lengths, LiveSummary, Matches
from rbx.sweep.live.validity import MOST_SHORTFALL
from rbx.sweep.records import STATUSES

_NOT_SENT = STATUSES.index("not_sent")


def live_tables(sweep: Sweep) -> tuple[Table, ...]:
    """Tables over all rates; none for a simulated sweep."""
    cells = [(cell, cell.summary.live) for cell in sweep.cells if cell.summary.live is not None]
    if not cells:
        return ()
    return _client(cells), _answers(sweep), _populations(to_points(sweep.cells))


def live_warnings(sweep: Sweep) -> Iterator[str]:
    """What the answers mean for quality and lengths, and how many cells have warnings of their own."""
    lives = [cell.summary.live for cell in sweep.cells if cell.summary.live is not None]
    if not lives:
        return
    tiers = list(_by_tier(lives).values())
    compared, matched = sum(t.compared for t in tiers), sum(t.matched for t in tiers)
    if compared:
        yield (
            "Quality is looked up: the grid scored its own answers, and "
            f"{percent(matched / compared)} of the {compared:,} served answers that can be compared are the "
            "same text. Score the served ones with rbx dataset judge --served."
        )
    else:
        yield (
            "Quality is looked up, and the grid holds no texts: nothing tells how far the served answers are "
            "those that it scored."
        )
    asked, delivered = sum(t.asked_tokens for t in tiers), sum(t.delivered_tokens for t in tiers)
    if asked and abs(delivered / asked - 1.0) > MOST_SHORTFALL:
        yield (
            f"Answers were {percent(abs(delivered / asked - 1.0))} "
            f"{'longer' if delivered > asked else 'shorter'} than expected; latency, throughput and cost are "
            "those of the answers delivered."
        )
    warned = sum(bool(live.warnings) for live in lives)
    if warned:
        yield f"{warned} of {len(lives)} live cells carry warnings; they stand beside each cell."


def _client(cells: Sequence[tuple[Cell, LiveSummary]]) -> Table:
    columns = (
        Column("policy", numeric=False),
        Column("λ, req/s"),
        Column("seed"),
        Column("asked req/s", "requests over the time from the first to the last, as scheduled"),
        Column("sent req/s", "the same as sent"),
        Column("delay p50, ms", "sent − scheduled"),
        Column("delay p99, ms", "sent − scheduled"),
        Column("delay max, ms", "sent − scheduled"),
        Column("loop lag p99, ms", "how late the client's event loop noticed a timer"),
        Column("client CPU, s"),
        Column("warm-up", "answered / sent, not part of the cell"),
        Column("prefix hits", "share of prompt tokens found in the servers' prefix caches"),
        Column("beware", numeric=False),
    )
    rows = []
    for cell, live in cells:
        client = live.client
        warm = sum(live.warm_up.values())
        rows.append(
            (
                Value(cell.spec.label),
                Value(f"{cell.spec.rate_per_s:g}", sort=cell.spec.rate_per_s),
                Value(str(cell.spec.seed), sort=float(cell.spec.seed)),
                number(_known(client.get("asked_per_s")), significant),
                number(_known(client.get("achieved_per_s")), significant),
                number(_known(client.get("schedule_delay_p50_s")), milliseconds),
                number(_known(client.get("schedule_delay_p99_s")), milliseconds),
                number(_known(client.get("schedule_delay_max_s")), milliseconds),
                number(_known(client.get("loop_lag_p99_s")), milliseconds),
                number(_known(client.get("cpu_s")), significant),
                Value(f"{live.warm_up.get('ok', 0)} / {warm}" if warm else UNKNOWN),
                number(_hit_share(live), percent),
                Value("; ".join(live.warnings), tone="bad" if live.warnings else ""),
            )
        )
    note = "One row a cell. A cell whose client was late is not here, but among the invalid ones."
    return Table("Client and servers", note, columns, tuple(rows))


def _known(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _hit_share(live: LiveSummary) -> float:
    cache = live.prefix_cache
    return cache.hits / cache.queries if cache is not None and cache.queries > 0 else float("nan")


@dataclass
class _Tier:
    compared: int = 0
    matched: int = 0
    answers: int = 0
    asked_tokens: int = 0
    delivered_tokens: int = 0
    short: int = 0

    def add(self, matches: Matches | None, lengths: Lengths | None) -> None:
        if matches is not None:
            self.compared += matches.compared
            self.matched += matches.matched
        if lengths is not None:
            self.answers += lengths.answers
            self.asked_tokens += lengths.asked_tokens
            self.delivered_tokens += lengths.delivered_tokens
            self.short += lengths.short


def _by_tier(lives: Iterable[LiveSummary]) -> dict[str, _Tier]:
    found: dict[str, _Tier] = {}
    for live in lives:
        for tier in sorted({*live.matches, *live.lengths}):
            found.setdefault(tier, _Tier()).add(live.matches.get(tier), live.lengths.get(tier))
    return dict(sorted(found.items()))


def _answers(sweep: Sweep) -> Table:
    columns = (
        Column("tier", numeric=False),
        Column("answers", "whole answers; those that a budget ended are left out"),
        Column("compared", "of them, where the grid holds the text"),
        Column("same text", "served text = the grid's, white space around it aside"),
        Column("tokens expected", "mean length of the grid's answers, or the cap that was to be filled"),
        Column("tokens delivered", "mean, by the servers' usage"),
        Column("short", "answers of less than nine tenths of the expected tokens"),
    )
    lives = [cell.summary.live for cell in sweep.cells if cell.summary.live is not None]
    rows = [
        (
            Value(tier),
            count(found.answers),
            count(found.compared),
            number(found.matched / found.compared if found.compared else float("nan"), percent),
            number(_mean(found.asked_tokens, found.answers), significant),
            number(_mean(found.delivered_tokens, found.answers), significant),
            number(_mean(found.short, found.answers), percent),
        )
        for tier, found in _by_tier(lives).items()
    ]
    note = (
        "Quality holds for the served answers as far as they are those that the grid scored: temperature 0 "
        "does not make answers the same in other batches."
    )
    return Table("Served answers", note, columns, tuple(rows))


def _mean(total: int, n: int) -> float:
    return total / n if n else float("nan")


def _populations(points: Sequence[Point]) -> Table:
    columns = (
        Column("policy", numeric=False),
        Column("λ, req/s"),
        Column("n ok"),
        Column("E2E ok, s", "mean over completed requests"),
        Column("E2E ok p99, s"),
        Column("n ended", "every request that was sent"),
        Column("E2E ended, s", "mean over all sent; a failed one counts until it failed"),
        Column("E2E ended p99, s"),
        Column("TTFT ok, s", "mean from the scheduled send"),
        Column("TTFT ok from send, s", "mean from the real send"),
        Column("TTFT any, s", "mean from the scheduled send over all that got a token"),
    )
    rows = []
    for point in points:
        runs = [cell.requests for cell in point.cells]
        ok = np.concatenate([run.ok for run in runs])
        sent = np.concatenate([run.status != _NOT_SENT for run in runs])
        e2e_s, ttft_s, from_sent_s = (
            np.concatenate([getattr(run, name) for run in runs])
            for name in ("e2e_s", "ttft_s", "ttft_from_sent_s")
        )
        rows.append(
            (
                Value(point.label, mark=point.family),
                Value(f"{point.rate_per_s:g}", sort=point.rate_per_s),
                count(int(ok.sum())),
                number(_average(e2e_s[ok]), significant),
                number(_p99(e2e_s[ok]), significant),
                count(int(sent.sum())),
                number(_average(e2e_s[sent]), significant),
                number(_p99(e2e_s[sent]), significant),
                number(_average(ttft_s[ok]), significant),
                number(_average(from_sent_s[ok]), significant),
                number(_average(ttft_s[sent]), significant),
            )
        )
    note = "ok: completed requests, as everywhere else. ended: failed ones too, to the moment they failed."
    return Table("Completed requests, and all", note, columns, tuple(rows))


def _average(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _p99(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.percentile(known, 99)) if len(known) else float("nan")
