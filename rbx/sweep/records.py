"""The record of one request in one cell: everything that happened to it, and why.

Times are seconds from the start of the cell. Statuses: ``ok``, ``error``, ``timeout``,
``cancelled``, ``not_sent``. Conservation: scheduled = sent + not_sent and
sent = ok + error + timeout + cancelled.
"""

from __future__ import annotations

import pyarrow as pa

_TEXT = pa.dictionary(pa.int32(), pa.string())

RECORDS = pa.schema(
    [
        ("cell_id", _TEXT),
        ("request", pa.int32()),  # position in the workload; the same for every policy
        ("prompt_id", pa.string()),
        ("attempt", pa.int8()),
        ("scheduled_s", pa.float64()),
        ("sent_s", pa.float64()),
        ("decided_s", pa.float64()),
        ("dispatched_s", pa.float64()),
        ("first_token_s", pa.float64()),  # null unless a token arrived
        ("done_s", pa.float64()),
        ("status", _TEXT),
        ("instance", _TEXT),
        ("tier", _TEXT),
        ("model", _TEXT),
        ("input_tokens", pa.int32()),
        ("output_tokens", pa.int32()),
        ("tokens_source", _TEXT),  # grid | usage | recount | chunks
        ("max_tokens", pa.int32()),
        ("predicted_quality", pa.float32()),
        ("predicted_length_tokens", pa.float32()),
        ("predicted_latency_s", pa.float32()),
        ("predicted_ttft_s", pa.float32()),  # from scheduled_s, of the chosen instance
        ("ttft_target_s", pa.float64()),
        ("on_time_candidates", pa.int32()),  # predicted to meet the target; null if nobody asked
        ("quality", pa.float64()),  # null with a status; zero is a score
        ("quality_source", _TEXT),  # lookup | judged | modelled, rescored (what was cut)
        ("quality_status", _TEXT),  # ok | missing | truncated
        ("cost_usd", pa.float64()),
        ("budget_usd", pa.float64()),
        ("exhausted", pa.bool_()),
        ("slo_met", pa.bool_()),  # null where the workload has no target
        ("batch_wait_s", pa.float32()),
        ("encode_s", pa.float32()),
        ("score_s", pa.float32()),
        ("batch_id", pa.int32()),
        ("batch_size", pa.int32()),
        ("decision_mode", _TEXT),  # policy | hopeless | shed; live also fallback
        ("config_version", pa.int32()),
        ("telemetry_age_s", pa.float32()),
        ("preemptions", pa.int32()),
    ]
)

# Behind ``RECORDS`` in cells whose prompts are scored before they wait for a batch: from arrival to the
# scoring call. ``encode_s`` is then that call, and ``batch_wait_s`` counts from its end.
SCORING_WAIT = pa.field("scoring_wait_s", pa.float32())

# Behind them in cells with a filter: how many candidates it left, and how, in the words of ``ADMISSIONS``.
ADMISSION = (pa.field("admitted_candidates", pa.int32()), pa.field("admission", _TEXT))


# Behind them in cells of a cascade: how many models answered. ``output_tokens`` are those of the answer that
# was shown, ``cost_usd`` is that of all; what decisions took is summed over all of them.
MODELS_ASKED = pa.field("models_asked", pa.int8())


def records_schema(*, scored_before_batch: bool, filtered: bool = False, cascaded: bool = False) -> pa.Schema:
    """``RECORDS``, and behind it what only such cells have.

    ``SCORING_WAIT`` where prompts are scored before they wait for a batch, ``ADMISSION`` behind a filter,
    ``MODELS_ASKED`` by a cascade.
    """
    schema = RECORDS.append(SCORING_WAIT) if scored_before_batch else RECORDS
    behind = [*(ADMISSION if filtered else ()), *((MODELS_ASKED,) if cascaded else ())]
    return pa.schema([*schema, *behind]) if behind else schema


STATUSES = ("ok", "error", "timeout", "cancelled", "not_sent")
