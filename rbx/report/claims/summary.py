"""Claims for machines: one flat row a claim, and the counts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rbx.config.claims import BoundClaim, OrderClaim, SignClaim
from rbx.report.bootstrap import LEVEL
from rbx.report.claims.study import ClaimsStudy, Judged
from rbx.report.claims.tables import looked_at, remark_of
from rbx.report.claims.tally import tallies
from rbx.report.summary import nulls
from rbx.report.written.records_csv import records_csv


def summarise(study: ClaimsStudy) -> dict[str, Any]:
    """A JSON-ready mapping; seconds, USD, requests per second and shares of 1; NaN is null."""
    summary = {
        "name": study.file.name,
        "source": study.file.source,
        "kinds": list(study.kinds),
        "complete": study.is_complete,
        "sweeps": {name: str(folder) for name, folder in study.file.sweeps.items()},
        "absent": study.absent,
        "intervals": {
            "kind": "percentile bootstrap over prompts, paired where workloads agree",
            "level": LEVEL,
            "n_resamples": study.resampling.n_resamples,
            "seed": study.resampling.seed,
        },
        "tallies": [asdict(each) for each in tallies(study.judged)],
        "claims": [
            {**row(each), "points": looked_at(each), "gaps": list(each.gaps), "kinds": list(each.kinds)}
            for each in study.judged
        ],
    }
    cleaned: dict[str, Any] = nulls(summary)
    return cleaned


def row(judged: Judged) -> dict[str, Any]:
    """Everything told of a claim, by name; None for what it does not have."""
    claim, finding = judged.claim, judged.finding
    ours, order = finding.ours, finding.order
    first = judged.measured[0] if judged.measured else None
    return {
        "id": claim.id,
        "where": claim.where,
        "says": claim.says,
        "kind": claim.kind,
        "role": claim.role,
        "metric": claim.metric,
        **_published(judged),
        "ours": None if ours is None else ours.value,
        "ours_low": None if ours is None else ours.low,
        "ours_high": None if ours is None else ours.high,
        "interval": None if ours is None else ours.status,
        "relative_error": finding.relative_error,
        "verdict": finding.verdict,
        "why": finding.why,
        "same_direction": finding.direction,
        "clear": finding.clear,
        "significance_alike": finding.significance,
        "covers_published": finding.covers,
        "intervals_overlap": finding.overlaps,
        "tau": None if order is None else order.tau.value,
        "tau_low": None if order is None else order.tau.low,
        "tau_high": None if order is None else order.tau.high,
        "neighbours": None if order is None else len(order.neighbours),
        "neighbours_in_order": None if order is None else order.in_order,
        "neighbours_clear": None if order is None else order.clear,
        "neighbours_clear_in_both": None if order is None else order.clear_in_both,
        "n_requests": None if first is None else first.point.metrics.counts.scheduled,
        "n_prompts": None if first is None else len(first.universe),
        "paired": None if len(judged.measured) < 2 else not judged.unpaired,
        "keeps_up": _keeps_up(judged),
        "remark": remark_of(judged) or None,
    }


def claims_csv(study: ClaimsStudy) -> str:
    """One row a claim; lists are joined by semicolons, what is not there is empty."""
    rows = [
        {
            **row(each),
            "points": "; ".join(looked_at(each)),
            "gaps": "; ".join(each.gaps),
            "kinds": "; ".join(each.kinds),
        }
        for each in study.judged
    ]
    return records_csv(rows)


def _published(judged: Judged) -> dict[str, Any]:
    claim = judged.claim
    if isinstance(claim, SignClaim):
        return {"published": claim.published, "published_low": None, "published_high": None}
    if isinstance(claim, BoundClaim):
        return {"published": None, "published_low": claim.at_least, "published_high": claim.at_most}
    if isinstance(claim, OrderClaim):
        return {"published": None, "published_low": None, "published_high": None}
    low, high = claim.published_interval or (None, None)
    return {"published": claim.published, "published_low": low, "published_high": high}


def _keeps_up(judged: Judged) -> bool | None:
    """False where some point is known not to keep up with its arrivals."""
    return None if not judged.measured else not any(p.point.is_overloaded for p in judged.measured)
