"""The requests of one cell as arrays: what every metric and interval is computed from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rbx.sweep.records import ADMISSION, MODELS_ASKED, SCORING_WAIT, STATUSES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Requests:
    """N requests of one cell in workload order; every array has shape (N,).

    Times are seconds from the cell's start, NaN where nothing happened. ``prompt`` numbers the
    sweep's sorted prompt ids; ``status`` numbers ``STATUSES``. ``quality`` is NaN where there is no
    score, ``cost_usd`` where nobody knows prices. ``slo_met`` is NaN without a target, else 0 or 1.
    ``predicted_ttft_s`` counts from ``scheduled_s``, as ``ttft_s`` does; it, ``ttft_target_s`` and
    ``on_time_candidates`` (how many instances were predicted to meet the target) are NaN where there is none.
    ``scoring_wait_s`` is zero where prompts were scored with their batch. ``admitted_candidates`` is how many
    instances a filter left, NaN without one, ``admission`` how, empty without one. ``models_asked`` is how
    many models answered, NaN where no cascade asked.
    """

    prompt: Ints
    status: Ints
    scheduled_s: Floats
    sent_s: Floats
    dispatched_s: Floats
    first_token_s: Floats
    done_s: Floats
    instance: NDArray[np.str_]
    model: NDArray[np.str_]
    tier: NDArray[np.str_]
    output_tokens: Floats
    quality: Floats
    cost_usd: Floats
    exhausted: Bools
    slo_met: Floats
    scoring_wait_s: Floats
    batch_wait_s: Floats
    encode_s: Floats
    score_s: Floats
    batch_size: Floats
    hopeless: Bools
    fallback: Bools
    shed: Bools
    preemptions: Floats
    ttft_target_s: Floats
    predicted_ttft_s: Floats
    on_time_candidates: Floats
    admitted_candidates: Floats
    admission: NDArray[np.str_]
    models_asked: Floats

    @property
    def ok(self) -> Bools:
        """Requests that completed."""
        return np.asarray(self.status == STATUSES.index("ok"))

    @property
    def scored(self) -> Bools:
        """Completed requests that have a quality score."""
        return self.ok & np.isfinite(self.quality)

    @property
    def window_s(self) -> float:
        """The arrival window: from the first scheduled arrival to the last."""
        return float(self.scheduled_s.max() - self.scheduled_s.min())

    @property
    def ok_in_window(self) -> Bools:
        """Requests that completed before the last scheduled arrival."""
        return np.asarray(self.ok & (self.done_s <= self.scheduled_s.max()))

    @property
    def e2e_s(self) -> Floats:
        """From the moment the client meant to send to the last token."""
        return self.done_s - self.scheduled_s

    @property
    def ttft_s(self) -> Floats:
        """From the moment the client meant to send to the first token."""
        return self.first_token_s - self.scheduled_s

    @property
    def on_time(self) -> Bools:
        """Completed requests whose TTFT is within their target; none where there is no target."""
        return np.asarray(self.ok & (self.ttft_s <= self.ttft_target_s))

    @property
    def ttft_from_sent_s(self) -> Floats:
        """From the real send to the first token."""
        return self.first_token_s - self.sent_s

    @property
    def decision_s(self) -> Floats:
        """From arrival to assignment: waits, encoding and scoring; an unknown part counts as none."""
        parts = (self.scoring_wait_s, self.batch_wait_s, self.encode_s, self.score_s)
        return np.asarray(sum(np.nan_to_num(part, nan=0.0) for part in parts))

    @property
    def tpot_s(self) -> Floats:
        """(done − first token) ÷ (output tokens − 1); NaN below two tokens."""
        gaps = np.where(self.output_tokens >= 2, self.output_tokens - 1, np.nan)
        return (self.done_s - self.first_token_s) / gaps


def to_requests(records: pa.Table, prompt_ids: pa.Array) -> Requests:
    """Lay a checked table of ``RECORDS`` out as arrays; ``prompt_ids`` holds every prompt of the sweep."""
    records = records.sort_by("request")
    mode = _words(records, "decision_mode")
    admitted_candidates, admission = _admissions(records)
    return Requests(
        prompt=_numbered(records["prompt_id"], prompt_ids),
        status=_numbered(records["status"].cast(pa.string()), pa.array(STATUSES)),
        scheduled_s=_floats(records, "scheduled_s"),
        sent_s=_floats(records, "sent_s"),
        dispatched_s=_floats(records, "dispatched_s"),
        first_token_s=_floats(records, "first_token_s"),
        done_s=_floats(records, "done_s"),
        instance=_words(records, "instance"),
        model=_words(records, "model"),
        tier=_words(records, "tier"),
        output_tokens=_floats(records, "output_tokens"),
        quality=_floats(records, "quality"),
        cost_usd=_costs(records),
        exhausted=_flags(pc.fill_null(records["exhausted"], False)),
        slo_met=_floats(records, "slo_met"),
        scoring_wait_s=_scoring_wait(records),
        batch_wait_s=_floats(records, "batch_wait_s"),
        encode_s=_floats(records, "encode_s"),
        score_s=_floats(records, "score_s"),
        batch_size=_floats(records, "batch_size"),
        hopeless=mode == "hopeless",
        fallback=mode == "fallback",
        shed=mode == "shed",
        preemptions=np.nan_to_num(_floats(records, "preemptions"), nan=0.0),
        ttft_target_s=_floats(records, "ttft_target_s"),
        predicted_ttft_s=_floats(records, "predicted_ttft_s"),
        on_time_candidates=_floats(records, "on_time_candidates"),
        admitted_candidates=admitted_candidates,
        admission=admission,
        models_asked=_models_asked(records),
    )


def _costs(records: pa.Table) -> Floats:
    """A request that did not complete has no cost but one that is known of; a foreign answer's is NaN."""
    cost_usd = _floats(records, "cost_usd")
    completed = _flags(pc.equal(records["status"].cast(pa.string()), "ok"))
    return np.where(completed, cost_usd, np.nan_to_num(cost_usd, nan=0.0))


def _admissions(records: pa.Table) -> tuple[Floats, NDArray[np.str_]]:
    """How many candidates a filter left, and how; NaN and empty in cells without a filter."""
    n, (left, how) = records.num_rows, (field.name for field in ADMISSION)
    if left not in records.column_names or how not in records.column_names:
        return np.full(n, np.nan), np.full(n, "")
    return _floats(records, left), _words(records, how)


def _models_asked(records: pa.Table) -> Floats:
    if MODELS_ASKED.name not in records.column_names:
        return np.full(records.num_rows, np.nan)
    return _floats(records, MODELS_ASKED.name)


def _scoring_wait(records: pa.Table) -> Floats:
    if SCORING_WAIT.name not in records.column_names:
        return np.zeros(records.num_rows)
    return _floats(records, SCORING_WAIT.name)


def _floats(records: pa.Table, name: str) -> Floats:
    return np.asarray(records[name].cast(pa.float64()).to_numpy(), dtype=np.float64)


def _flags(column: pa.ChunkedArray) -> Bools:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _numbered(column: pa.ChunkedArray, known: pa.Array) -> Ints:
    """Position of each value in ``known``, which holds them all."""
    return np.asarray(pc.index_in(column, value_set=known).to_numpy(), dtype=np.int64)


def _words(records: pa.Table, name: str) -> NDArray[np.str_]:
    """Text with the empty string where a row has none."""
    coded = pc.fill_null(records[name].cast(pa.string()), "").combine_chunks().dictionary_encode()
    words = np.array(coded.dictionary.to_pylist(), dtype=np.str_)
    return np.asarray(words[coded.indices.to_numpy()])
