"""The tables of one arrival rate: cells, differences, tails, decisions, and the account of requests."""

from __future__ import annotations

from collections.abc import Iterator

from rbx.report.analysis import PointResult, RateResult
from rbx.report.keeping_up import UNTOLD_MARK, UNTOLD_WORDS
from rbx.report.mix_words import common_start, mix_words
from rbx.report.number import milliseconds, percent, score, significant, usd_per_thousand
from rbx.report.overload_mark import marked, with_footnote
from rbx.report.point import Point
from rbx.report.table import Column, Table, Value, change, count, estimate, number

_POLICY = Column("policy", numeric=False)


def rate_tables(rate: RateResult, baseline_label: str) -> Iterator[Table]:
    """All tables of a rate, in the order of the page."""
    yield with_footnote(_cells(rate))
    yield with_footnote(_differences(rate, baseline_label))
    yield with_footnote(_tails(rate))
    yield _throughput(rate)
    yield _account(rate)


def policy(result: PointResult, baseline: PointResult | None = None) -> Value:
    """A policy's name in its family's colour."""
    sub = "baseline" if result is baseline else ""
    return Value(result.point.label, sub=sub, mark=result.point.family)


def _cells(rate: RateResult) -> Table:
    columns = (
        _POLICY,
        Column("n ok", "completed / scheduled requests, all seeds"),
        Column("keep up", "seeds that keep up with arrivals / seeds where that can be told"),
        Column("quality", "mean over scored requests [interval]"),
        Column("E2E, s", "mean over completed requests, from the scheduled send to the last token"),
        Column("p50", "E2E, seconds"),
        Column("p95", "E2E, seconds"),
        Column("p99", "E2E, seconds"),
        Column("TTFT, s", "mean over completed requests, from the scheduled send to the first token"),
        Column("$ / 1,000", "USD spent on all requests per 1,000 completed ones"),
        Column("req/s", "completed before the last arrival ÷ arrival window"),
        Column("SLO met", "share of scheduled requests; failed ones count as missed"),
        Column("busy", "mean share of time that an instance was running a step"),
        Column("tier mix", "share of completed requests", numeric=False),
    )
    return Table("Cells", "Latency over completed requests, quality over scored ones.", columns, _rows(rate))


def _rows(rate: RateResult) -> tuple[tuple[Value, ...], ...]:
    rows = []
    start = common_start(result.point.metrics.tier_share for result in rate.results)
    for result in rate.results:
        point, m = result.point, result.point.metrics
        failed = m.counts.scheduled - m.counts.ok
        rows.append(
            (
                policy(result, rate.baseline),
                Value(
                    f"{m.counts.ok:,} / {m.counts.scheduled:,}",
                    sort=float(m.counts.ok),
                    tone="bad" if failed else "",
                ),
                _kept_up(point),
                estimate(result.means["quality"], score),
                marked(estimate(result.means["e2e_s"], significant), point),
                marked(number(m.e2e_s.p50, significant), point),
                marked(number(m.e2e_s.p95, significant), point),
                marked(number(m.e2e_s.p99, significant), point),
                marked(estimate(result.means["ttft_s"], significant), point),
                estimate(result.means["cost_usd"], usd_per_thousand),
                estimate(result.means["throughput_per_s"], significant),
                number(m.slo_attainment, percent),
                number(m.utilization, percent),
                Value(mix_words(m.tier_share, start)),
            )
        )
    return tuple(rows)


def _kept_up(point: Point) -> Value:
    judged = len(point.sustained) - point.sustained.count(None)
    if not judged:
        return Value(UNTOLD_MARK, hint=UNTOLD_WORDS, tone="mute")
    kept_up = point.sustained.count(True)
    return Value(f"{kept_up} / {judged}", sort=kept_up / judged, tone="bad" if kept_up < judged else "")


def _differences(rate: RateResult, baseline_label: str) -> Table:
    columns = (
        _POLICY,
        Column("Δ quality"),
        Column("Δ E2E, s", "difference of means"),
        Column("Δ E2E p95, s"),
        Column("Δ E2E p99, s"),
        Column("Δ TTFT, s", "difference of means"),
        Column("Δ $ / 1,000"),
        Column("blind mix", "quality that the cell's own model shares would get blind to the prompt"),
        Column("gain on mix", "quality − blind mix, paired"),
    )
    rows = []
    for result in rate.results:
        found = result.against
        means = found.means if found else {}
        tails = found.tails if found else {}
        both = (result.point, rate.baseline.point if rate.baseline else None)
        rows.append(
            (
                policy(result, rate.baseline),
                change(means.get("quality"), score, lower_is_better=False),
                marked(change(means.get("e2e_s"), significant, lower_is_better=True), *both),
                marked(change(tails.get(("e2e_s", 0.95)), significant, lower_is_better=True), *both),
                marked(change(tails.get(("e2e_s", 0.99)), significant, lower_is_better=True), *both),
                marked(change(means.get("ttft_s"), significant, lower_is_better=True), *both),
                change(means.get("cost_usd"), usd_per_thousand, lower_is_better=True),
                estimate(result.mix.quality, score),
                change(result.mix.gain, score, lower_is_better=False),
            )
        )
    note = (
        f"Policy − {baseline_label}, paired by prompt. Coloured where the interval excludes zero."
        if rate.baseline
        else f"The baseline {baseline_label} has no valid cell at this rate, so no difference is given."
    )
    return Table("Paired differences", note, columns, tuple(rows))


def _tails(rate: RateResult) -> Table:
    columns = (
        _POLICY,
        Column("TTFT p50, s"),
        Column("TTFT p95, s"),
        Column("TTFT p99, s"),
        Column("TTFT from send, s", "mean from the real send to the first token"),
        Column("TPOT, ms", "mean of (done − first token) ÷ (output tokens − 1)"),
        Column("TPOT p99, ms"),
        Column("E2E p95, s"),
        Column("E2E p99, s"),
    )
    rows = []
    for result in rate.results:
        point, m, tails = result.point, result.point.metrics, result.tails
        rows.append(
            (
                policy(result, rate.baseline),
                marked(number(m.ttft_s.p50, significant), point),
                marked(estimate(tails["ttft_s", 0.95], significant), point),
                marked(estimate(tails["ttft_s", 0.99], significant), point),
                marked(number(m.ttft_from_sent_s.mean, significant), point),
                number(m.tpot_s.mean, milliseconds),
                number(m.tpot_s.p99, milliseconds),
                marked(estimate(tails["e2e_s", 0.95], significant), point),
                marked(estimate(tails["e2e_s", 0.99], significant), point),
            )
        )
    return Table("Tails", "Completed requests; TPOT: those with two tokens or more.", columns, tuple(rows))


def _throughput(rate: RateResult) -> Table:
    columns = (
        _POLICY,
        Column("req/s", "completed before the last arrival ÷ arrival window"),
        Column("req/s to last completion", "completed ÷ (first send → last completion)"),
        Column("sent req/s", "rate at which requests were really sent"),
        Column("tokens/s", "output tokens of completed requests ÷ (first send → last completion)"),
        Column("goodput, req/s", "requests that met their target ÷ arrival window"),
        Column("SLO met", "share of scheduled requests; failed ones count as missed"),
        Column("utility", "mean quality with failed requests as zero"),
        Column("busy by tier", "share of time in a step", numeric=False),
    )
    rows = []
    for result in rate.results:
        m = result.point.metrics
        rows.append(
            (
                policy(result, rate.baseline),
                number(m.throughput_window_per_s, significant),
                number(m.throughput_to_last_completion_per_s, significant),
                number(m.achieved_rate_per_s, significant),
                number(m.output_tokens_per_s, significant),
                number(m.goodput_per_s, significant),
                number(m.slo_attainment, percent),
                number(m.utility_mean, score),
                Value(", ".join(f"{tier} {percent(share)}" for tier, share in m.tier_utilization.items())),
            )
        )
    note = "Means over seeds. Policies are ranked by the first column alone."
    return Table("Throughput and targets", note, columns, tuple(rows))


def _account(rate: RateResult) -> Table:
    columns = (
        _POLICY,
        Column("seeds", numeric=False),
        Column("scheduled"),
        Column("sent"),
        Column("not sent"),
        Column("ok"),
        Column("error"),
        Column("timeout"),
        Column("cancelled"),
        Column("scored"),
        Column("coverage", "scored ÷ ok"),
        Column("exhausted", "share of completed requests whose budget ended the answer"),
        Column("preempted", "preemptions in all"),
        Column("send delay p99, ms", "real send − scheduled send"),
        Column("USD in all"),
    )
    rows = []
    for result in rate.results:
        m, c = result.point.metrics, result.point.metrics.counts
        rows.append(
            (
                policy(result, rate.baseline),
                Value(", ".join(str(cell.spec.seed) for cell in result.point.cells)),
                count(c.scheduled),
                count(c.sent),
                count(c.not_sent, alarming=True),
                count(c.ok),
                count(c.error, alarming=True),
                count(c.timeout, alarming=True),
                count(c.cancelled, alarming=True),
                count(c.scored),
                Value(percent(m.coverage), sort=m.coverage, tone="bad" if c.scored < c.ok else ""),
                number(m.exhausted_share, percent),
                count(m.preemptions),
                number(m.send_delay_p99_s, milliseconds),
                number(m.cost_total_usd, significant),
            )
        )
    note = "scheduled = sent + not sent; sent = ok + error + timeout + cancelled (checked for every cell)."
    return Table("Account of requests", note, columns, tuple(rows))
