"""How one request was decided, as a header for those who ask (``x-rbx-trace: 1``)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import orjson

from rbx.policy.base import Assignment
from rbx.policy.filters.admissions import ADMISSIONS
from rbx.policy.filters.filtered import FilteredAssignment
from rbx.scheduler.runtime import Decision
from rbx.serve.gateway.admitted import Admitted
from rbx.serve.gateway.scoring.stage import ScoredPrompt

if TYPE_CHECKING:
    from rbx.serve.gateway.placing import Begun


def trace(request: Admitted, begun: Begun) -> str:
    """A JSON object of one line; what is not known or not finite is null.

    ``decided_after_s`` and ``dispatched_after_s`` are from the request's arrival at the gateway to the
    decision that led to this answer and to its dispatch, the last of ``x-rbx-attempts``. A batch waits
    ``batch_wait_s`` from there until it closes, ``encode_s`` for the heads and ``score_s`` for the policy.
    ``predicted_latency_s`` is from dispatch to the last token, ``predicted_ttft_s`` from arrival. Quality
    and length are null where nobody has looked at the prompt. A prompt that is scored before its batch first
    waits ``scoring_wait_s``; ``encode_s`` is that call then, and ``batch_wait_s`` counts from its end. Behind
    a filter ``admitted_candidates`` is how
    many it left and ``admission`` how.
    """
    placement = begun.placement
    decision = placement.decision
    read = request.version.decider.predicts and placement.mode != "fallback" and request.asked.text != ""
    on_time = int(decision.assignment.on_time[placement.position])
    told = {
        "batch_id": decision.batch.batch_id,
        "batch_size": placement.batch_size,
        **_waits(request.arrived_s, decision, placement.scored),
        "score_s": placement.decided_s - decision.decided_s,
        "decided_after_s": placement.decided_s - request.arrived_s,
        "dispatched_after_s": begun.attempt.sent_s - request.arrived_s,
        "predicted_quality": placement.quality if read else None,
        "predicted_length_tokens": placement.length_tokens if read else None,
        "predicted_latency_s": placement.latency_s,
        "predicted_ttft_s": placement.ttft_s,
        "on_time_candidates": None if on_time < 0 else on_time,
        "max_tokens": placement.max_tokens,
        "max_tokens_without_budget": begun.account.free_cap_tokens,
        "telemetry_age_s": float(decision.telemetry_age_s[placement.instance]),
    }
    known: dict[str, float | str | None] = {name: _known(value) for name, value in told.items()}
    return orjson.dumps({**known, **_admission(decision.assignment, placement.position)}).decode()


def _waits(arrived_s: float, decision: Decision, scored: ScoredPrompt | None) -> dict[str, float]:
    """What the request waited for from its arrival until the heads had spoken: parts that add up."""
    in_batch_s = decision.decided_s - decision.batch.closed_s
    if scored is None:
        return {"batch_wait_s": decision.batch.closed_s - arrived_s, "encode_s": in_batch_s}
    return {
        "scoring_wait_s": scored.began_s - arrived_s,
        "batch_wait_s": decision.batch.closed_s - scored.back_s,
        "encode_s": scored.back_s - scored.began_s + in_batch_s,
    }


def _admission(assignment: Assignment, position: int) -> dict[str, int | str]:
    """What a filter did, where there is one; the shortest queue in the policy's place has none."""
    if not isinstance(assignment, FilteredAssignment):
        return {}
    return {
        "admitted_candidates": int(assignment.admitted[position]),
        "admission": ADMISSIONS[int(assignment.admission[position])],
    }


def _known(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
