"""Sweeps whose every request is written by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rbx.report.load import Sweep, read_sweep
from tests.report.sweeps import MODELS, TIERS, Policy, SweepShape, Tamper, write_sweep


@dataclass(frozen=True)
class Served:
    """One request: TTFT, target and prediction in seconds, score (None: no label) and cost in USD.

    ``status`` is ``ok``, ``error`` or ``shed``; ``candidates`` counts instances predicted in time.
    """

    ttft_s: float = 0.1
    target_s: float = 0.2
    quality: float | None = 0.5
    cost_usd: float = 1e-4
    status: str = "ok"
    predicted_s: float | None = None
    candidates: int | None = None


def by_hand(requests: list[Served], instances: list[int] | None = None) -> Tamper:
    """Rewrite a cell; request i is scheduled at second i and takes two seconds from its first token.

    ``instances`` numbers the replica of the first tier that each goes to; without it they stay put.
    """

    def tamper(columns: dict[str, Any], summary: dict[str, Any]) -> None:
        n = len(requests)
        ok = np.array([r.status == "ok" for r in requests])
        scheduled = np.arange(n, dtype=float)
        first = np.where(ok, scheduled + [r.ttft_s for r in requests], np.nan)
        quality = np.array([np.nan if r.quality is None else r.quality for r in requests])
        columns |= {
            "scheduled_s": scheduled,
            "sent_s": scheduled,
            "decided_s": scheduled,
            "dispatched_s": scheduled,
            "first_token_s": first,
            "done_s": first + 2.0,
            "status": np.where(ok, "ok", "error"),
            "quality": np.where(ok, quality, np.nan),
            "quality_status": np.where(ok & np.isfinite(quality), "ok", "missing"),
            "cost_usd": np.where(ok, [r.cost_usd for r in requests], 0.0),
            "ttft_target_s": np.array([r.target_s for r in requests]),
            "predicted_ttft_s": np.array(
                [np.nan if r.predicted_s is None else r.predicted_s for r in requests]
            ),
            "on_time_candidates": np.array(
                [np.nan if r.candidates is None else r.candidates for r in requests]
            ),
            "decision_mode": np.where([r.status == "shed" for r in requests], "shed", "policy"),
            "slo_met": ok & (np.array([r.ttft_s for r in requests]) <= [r.target_s for r in requests]),
        }
        if instances is not None:
            columns["tier"] = np.full(n, TIERS[0])
            columns["model"] = np.full(n, MODELS[0])
            columns["instance"] = np.array([f"{TIERS[0]}/{replica}" for replica in instances])
        summary |= {"ok": int(ok.sum()), "error": int((~ok).sum()), "duration_s": float(n + 10)}

    return tamper


def handmade_sweep(
    folder: Path, cells: dict[tuple[float, Policy], list[Served]], *, cost_weight_per_usd: float = 500.0
) -> Sweep:
    """One cell for each (rate, policy); keys must run over all policies at every rate, in one order."""
    return read_sweep(write_handmade(folder, cells, cost_weight_per_usd=cost_weight_per_usd))


def write_handmade(
    folder: Path,
    cells: dict[tuple[float, Policy], list[Served]],
    *,
    cost_weight_per_usd: float = 500.0,
    instances: list[int] | None = None,
) -> Path:
    """The same, on disk alone; see ``by_hand`` for ``instances``."""
    n = len(next(iter(cells.values())))
    assert all(len(requests) == n for requests in cells.values())
    rates = tuple(dict.fromkeys(rate for rate, _ in cells))
    policies = tuple({policy.label: policy for _, policy in cells}.values())
    assert list(cells) == [(rate, policy) for rate in rates for policy in policies]
    shape = SweepShape(
        policies=policies,
        rates_per_s=rates,
        n_prompts=n,
        n_requests=n,
        slo=False,
        ttft_target=True,
        cost_weight_per_usd=cost_weight_per_usd,
        tamper={number: by_hand(requests, instances) for number, requests in enumerate(cells.values())},
    )
    return write_sweep(folder, shape)
