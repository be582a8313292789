"""From what happened in a simulated cell to its records: prices, labels and targets applied."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rbx.policy.base import MODES
from rbx.policy.filters.admissions import ADMISSIONS
from rbx.sweep.context import SweepContext
from rbx.sweep.cut_answers import cut_worth
from rbx.sweep.records import records_schema
from rbx.sweep.simulate import Outcome
from rbx.sweep.workload import Arriving


def simulated_records(cell_id: str, context: SweepContext, arriving: Arriving, outcome: Outcome) -> pa.Table:
    """Score a simulated cell and lay it out as ``RECORDS``, one row a request in workload order.

    Quality is looked up in the grid; an answer that was cut short of its recorded length has no
    label (status ``truncated``), since the grid scored another text. Where the workload says what is left
    of a score, ``quality_source`` of such an answer is ``modelled`` or ``rescored``.
    """
    n = len(arriving.prompt)
    placed = outcome.instance >= 0
    instances = context.pool.instances
    shape = context.shape
    at = outcome.instance
    input_tokens = context.prompts.input_tokens[arriving.prompt]
    cut = placed & (outcome.output_tokens < outcome.wanted_tokens)
    label = context.prompts.score[arriving.prompt, shape.model[at]]
    source, worth = cut_worth(context, arriving.prompt, outcome)
    known = cut & np.isfinite(worth)
    quality = np.where(known, worth, label)
    scored = placed & (~cut | known) & np.isfinite(label)
    cost_usd = input_tokens * shape.price_in_usd[at] + outcome.output_tokens * shape.price_out_usd[at]
    if outcome.thrown_away_usd is not None:
        cost_usd = cost_usd + outcome.thrown_away_usd
    # The budget ended the answer only where its cap was the one that bound.
    without_budget = np.minimum(
        context.experiment.workload.max_output_tokens, shape.max_model_len[at] - input_tokens
    )
    by_budget = cut & (outcome.max_tokens < without_budget)
    columns = {
        "cell_id": _text([cell_id], np.zeros(n, dtype=np.int64)),
        "request": np.arange(n),
        "prompt_id": pa.array(context.prompts.prompt_ids).take(pa.array(arriving.prompt)),
        "attempt": np.ones(n),
        "scheduled_s": arriving.scheduled_s,
        "sent_s": arriving.scheduled_s,
        "decided_s": outcome.decided_s,
        "dispatched_s": _where(placed, outcome.dispatched_s),
        "first_token_s": _where(placed, outcome.first_token_s),
        "done_s": _where(placed, outcome.done_s),
        "status": _text(["ok", "error"], np.where(placed, 0, 1)),
        "instance": _text([i.name for i in instances], at, placed),
        "tier": _text([tier.name for tier in context.pool.tiers], shape.tier[at], placed),
        "model": _text(list(context.pool.models), shape.model[at], placed),
        "input_tokens": input_tokens,
        "output_tokens": outcome.output_tokens,
        "tokens_source": _text(["grid"], np.zeros(n, dtype=np.int64)),
        "max_tokens": outcome.max_tokens,
        "predicted_quality": _where(placed, outcome.predicted_quality),
        "predicted_length_tokens": _where(placed, outcome.predicted_length_tokens),
        "predicted_latency_s": _where(np.isfinite(outcome.predicted_latency_s), outcome.predicted_latency_s),
        "predicted_ttft_s": _where(np.isfinite(outcome.predicted_ttft_s), outcome.predicted_ttft_s),
        "ttft_target_s": _where(np.isfinite(arriving.ttft_target_s), arriving.ttft_target_s),
        "on_time_candidates": pa.array(outcome.on_time, mask=outcome.on_time < 0),
        "quality": _where(scored, quality),
        "quality_source": _text(["lookup", source] if known.any() else ["lookup"], known.astype(np.int64)),
        "quality_status": _text(["ok", "truncated", "missing"], np.where(scored, 0, np.where(cut, 1, 2))),
        "cost_usd": np.where(placed, cost_usd, 0.0),
        "budget_usd": _where(np.isfinite(arriving.budget_usd), arriving.budget_usd),
        "exhausted": by_budget,
        "slo_met": _slo_met(context, arriving, outcome, placed),
        "scoring_wait_s": outcome.scoring_wait_s,
        "batch_wait_s": outcome.batch_wait_s,
        "encode_s": outcome.encode_s,
        "score_s": outcome.score_s,
        "batch_id": outcome.batch_id,
        "batch_size": outcome.batch_size,
        "decision_mode": _text(list(MODES), outcome.mode),
        "config_version": np.ones(n),
        "telemetry_age_s": _where(placed, outcome.telemetry_age_s),
        "preemptions": outcome.preemptions,
    }
    if outcome.admission is not None:
        columns["admitted_candidates"] = outcome.admitted
        columns["admission"] = _text(list(ADMISSIONS), outcome.admission)
    if outcome.models_asked is not None:
        columns["models_asked"] = outcome.models_asked
    schema = records_schema(
        scored_before_batch=outcome.scoring_wait_s is not None,
        filtered=outcome.admission is not None,
        cascaded=outcome.models_asked is not None,
    )
    arrays = [_column(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _column(values: object, kind: pa.DataType) -> pa.Array:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return array if pa.types.is_dictionary(kind) else array.cast(kind)


def _where(present: NDArray[np.bool_], values: NDArray[np.float64]) -> pa.Array:
    return pa.array(values, mask=~present)


def _text(
    words: list[str], index: NDArray[np.int64], present: NDArray[np.bool_] | None = None
) -> pa.DictionaryArray:
    mask = None if present is None else ~present
    # An absent row may carry index −1, which a dictionary refuses even under its mask.
    indices = pa.array(np.maximum(index, 0).astype(np.int32), mask=mask)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string()))


def _slo_met(
    context: SweepContext, arriving: Arriving, outcome: Outcome, placed: NDArray[np.bool_]
) -> pa.Array:
    slo = context.experiment.workload.slo
    if not (np.isfinite(arriving.ttft_target_s).any() or slo.tpot_s or slo.e2e_s):
        return pa.nulls(len(placed), pa.bool_())
    met = placed.copy()
    # NaN times of unplaced requests compare false, and they have not met anything anyway.
    met &= outcome.first_token_s - arriving.scheduled_s <= arriving.ttft_target_s
    if slo.tpot_s is not None:
        # As times, not as a quotient: an answer of one token has none between.
        gaps = np.maximum(outcome.output_tokens - 1, 0)
        met &= outcome.done_s - outcome.first_token_s <= gaps * slo.tpot_s
    if slo.e2e_s is not None:
        met &= outcome.done_s - arriving.scheduled_s <= slo.e2e_s
    return pa.array(met)
