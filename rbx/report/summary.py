"""``summary.json``: the whole analysis for machines. NaN is written as null, never as zero."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from rbx.report.analysis import Against, Analysis, PointResult, RateResult, TailKey, Winner
from rbx.report.bootstrap import LEVEL
from rbx.report.dominance import Duel, Trade
from rbx.report.engine import SIMULATED_ENGINE, kinds
from rbx.report.interval import Interval
from rbx.report.ontime.published import are_comparable
from rbx.report.ontime.summary import summarise_on_time
from rbx.report.reference import References


def summarise(analysis: Analysis) -> dict[str, Any]:
    """A JSON-ready mapping; times in seconds, money in USD."""
    sweep, manifest = analysis.sweep, analysis.sweep.manifest
    summary = {
        "name": manifest.get("name"),
        "simulated": SIMULATED_ENGINE in kinds(sweep),
        "kinds": list(kinds(sweep)),
        "synthetic_grid": bool(manifest.get("synthetic_grid")),
        "grid": manifest.get("grid"),
        "pool": (manifest.get("pool") or {}).get("name"),
        "baseline": analysis.baseline_label,
        "baseline_why": analysis.baseline.why,
        "intervals": {
            "kind": "paired percentile bootstrap over prompts",
            "level": LEVEL,
            "n_resamples": analysis.resampling.n_resamples,
            "seed": analysis.resampling.seed,
        },
        "cells": {
            "reported": len(sweep.cells),
            "invalid": [
                {"cell_id": cell.spec.cell_id, "label": cell.spec.label, "reasons": list(cell.reasons)}
                for cell in sweep.invalid
            ],
            "missing": [{"cell_id": spec.cell_id, "label": spec.label} for spec in sweep.missing],
        },
        "prompts": len(sweep.prompt_ids),
        "unmatched_requests": sweep.unmatched,
        "rates": [_rate(rate) for rate in analysis.rates],
    }
    if analysis.on_time is not None:
        summary["on_time"] = summarise_on_time(analysis.on_time, are_comparable(manifest))
    cleaned: dict[str, Any] = nulls(summary)
    return cleaned


def nulls(data: Any) -> Any:
    """The same data with NaN and infinity as None."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {str(key): nulls(value) for key, value in data.items()}
    return [nulls(value) for value in data] if isinstance(data, (list, tuple)) else data


def _rate(rate: RateResult) -> dict[str, Any]:
    return {
        "rate_per_s": rate.rate_per_s,
        "load": rate.load,
        "references": _references(rate.references),
        "frontiers": {
            frontier.plane.name: {"non_dominated": frontier.non_dominated, "hull": frontier.hull}
            for frontier in rate.frontiers
        },
        "winners": [_winner(winner) for winner in rate.winners],
        "duels": [_duel(duel) for duel in rate.duels],
        "points": [_point(result) for result in rate.results],
    }


def _point(result: PointResult) -> dict[str, Any]:
    point = result.point
    return {
        "label": point.label,
        "family": point.family,
        "policy": point.policy,
        "cells": [cell.spec.cell_id for cell in point.cells],
        "seeds": [cell.spec.seed for cell in point.cells],
        "sustained": list(point.sustained),
        "keeps_up": point.keeps_up,
        "seeds_keeping_up": point.sustained.count(True),
        "seeds_judged": len(point.sustained) - point.sustained.count(None),
        "metrics": asdict(point.metrics),
        "intervals": _intervals(Against(result.means, result.tails)),
        "against_baseline": None if result.against is None else _intervals(result.against),
        "blind_mix": {"quality": asdict(result.mix.quality), "gain": asdict(result.mix.gain)},
    }


def tail_name(key: TailKey) -> str:
    """``("e2e_s", 0.99)`` as ``e2e_p99_s``."""
    metric, quantile = key
    return f"{metric.removesuffix('_s')}_p{round(100 * quantile)}_s"


def _intervals(found: Against) -> dict[str, Any]:
    means = {name: asdict(interval) for name, interval in found.means.items()}
    return means | {tail_name(key): asdict(interval) for key, interval in found.tails.items()}


def _references(found: References) -> dict[str, Any]:
    return asdict(found)


def _winner(winner: Winner) -> dict[str, Any]:
    return {
        "plane": "quality" if winner.plane is None else winner.plane.name,
        "label": winner.result.point.label,
        "quality_gain": _optional(winner.quality_gain),
        "saving": _optional(winner.saving),
    }


def _duel(duel: Duel) -> dict[str, Any]:
    return {
        "plane": duel.plane.name,
        "baseline": duel.baseline.label,
        "verdict": duel.verdict,
        "at_equal_or_better_quality": _trade(duel.at_quality),
        "at_equal_or_better_quality_both_keeping_up": _trade(duel.at_quality_kept_up),
        "at_equal_or_better_axis": _trade(duel.at_axis),
    }


def _trade(trade: Trade | None) -> dict[str, Any] | None:
    if trade is None:
        return None
    return {
        "label": trade.point.label,
        "quality_gain": asdict(trade.quality_gain),
        "saving": asdict(trade.saving),
    }


def _optional(interval: Interval | None) -> dict[str, Any] | None:
    return None if interval is None else asdict(interval)
