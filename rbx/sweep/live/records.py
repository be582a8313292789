"""From the results of a live cell to its records: who answered, what it cost, what the grid says of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from rbx.config.pool import Instance
from rbx.load.client.hashed import fingerprint, text_sha256
from rbx.load.client.result import LoadResult
from rbx.sweep.context import SweepContext
from rbx.sweep.live.texts import GridTexts
from rbx.sweep.live.trace import Trace, read_trace
from rbx.sweep.records import records_schema
from rbx.sweep.served import SERVED
from rbx.sweep.workload import Arriving


class Answer(NamedTuple):
    """A result with what its headers tell, and the instance of the pool that they name."""

    result: LoadResult
    trace: Trace
    instance: Instance | None

    @property
    def ok(self) -> bool:
        """Whether it is a whole answer."""
        return self.result.status == "ok"

    @property
    def exhausted(self) -> bool:
        """Whether its budget, if it had one, ended it: the cap, or the cut of a stream that would cost more.

        The head of a stream can't say so yet.
        """
        cap, free_cap = self.trace.whole("max_tokens"), self.trace.whole("max_tokens_without_budget")
        if not self.ok or self.result.finish_reason != "length" or cap is None or free_cap is None:
            return False
        tokens = self.result.output_tokens
        return cap < free_cap or (tokens is not None and tokens < cap)


@dataclass(frozen=True)
class Reading:
    """How the results of one cell are read.

    ``sole`` is the instance that all answers are of where the target names none (an openai target).
    """

    cell_id: str
    context: SweepContext
    arriving: Arriving
    texts: GridTexts
    sole: Instance | None
    ignores_eos: bool = False

    @cached_property
    def _instances(self) -> dict[str, Instance]:
        return {instance.name: instance for instance in self.context.pool.instances}

    def answers(self, results: Iterable[LoadResult]) -> list[Answer]:
        """Results in workload order, with their instances; a name that the pool lacks gives none."""
        by_request = sorted(results, key=lambda result: result.request)
        read = [(result, read_trace(result.headers)) for result in by_request]
        answers = [Answer(result, trace, self._instance(result, trace)) for result, trace in read]
        return [answer._replace(result=_believed(answer)) for answer in answers]

    def _instance(self, result: LoadResult, trace: Trace) -> Instance | None:
        if trace.instance is not None:
            return self._instances.get(trace.instance)
        return self.sole if result.status != "not_sent" else None

    def records(self, answers: Sequence[Answer]) -> pa.Table:
        """``RECORDS``, one row a request in workload order.

        Quality is the grid's score of the prompt and the model that served it. The served text is another
        draw than the grid's, so the score holds for it as far as the match rate shows; an answer that was
        cut has none (``truncated``), unless it is the grid's own to the letter.
        """
        filtered = any(answer.trace.admission is not None for answer in answers)
        scored_before = any("scoring_wait_s" in answer.trace.told for answer in answers)
        schema = records_schema(scored_before_batch=scored_before, filtered=filtered)
        return pa.Table.from_pylist([self._record(answer) for answer in answers], schema=schema)

    def _record(self, answer: Answer) -> dict[str, Any]:
        result, trace, instance = answer
        n = result.request
        row = int(self.arriving.prompt[n])
        told, sent_s = trace.told, result.sent_s
        input_tokens = self._input_tokens(answer, row)
        quality, quality_status = self._quality(answer, row)
        return {
            "cell_id": self.cell_id,
            "request": n,
            "prompt_id": self.context.prompts.prompt_ids[row],
            "attempt": min(trace.attempts or 1, 127),
            "scheduled_s": float(self.arriving.scheduled_s[n]),
            "sent_s": sent_s,
            "decided_s": _after(sent_s, told.get("decided_after_s")),
            "dispatched_s": _after(sent_s, told.get("dispatched_after_s")),
            "first_token_s": result.first_token_s,
            "done_s": _ended_s(result),
            "status": result.status,
            "instance": instance.name if instance else None,
            "tier": instance.tier.name if instance else None,
            "model": instance.tier.model if instance else None,
            "input_tokens": input_tokens,
            "output_tokens": result.output_tokens,
            "tokens_source": result.tokens_source if result.output_tokens is not None else None,
            "max_tokens": trace.whole("max_tokens"),
            "predicted_quality": told.get("predicted_quality"),
            "predicted_length_tokens": told.get("predicted_length_tokens"),
            "predicted_latency_s": told.get("predicted_latency_s"),
            "predicted_ttft_s": self._predicted_ttft_s(answer),
            "ttft_target_s": _finite(float(self.arriving.ttft_target_s[n])),
            "on_time_candidates": trace.whole("on_time_candidates"),
            "quality": quality,
            "quality_source": "lookup",
            "quality_status": quality_status,
            "cost_usd": self._cost_usd(answer, input_tokens),
            "budget_usd": _finite(float(self.arriving.budget_usd[n])),
            "exhausted": math.isfinite(self.arriving.budget_usd[n]) and answer.exhausted,
            "slo_met": self._slo_met(answer),
            "scoring_wait_s": _not_negative(told.get("scoring_wait_s")),
            "batch_wait_s": _not_negative(told.get("batch_wait_s")),
            "encode_s": _not_negative(told.get("encode_s")),
            "score_s": _not_negative(told.get("score_s")),
            "batch_id": trace.whole("batch_id"),
            "batch_size": trace.whole("batch_size"),
            "decision_mode": trace.recorded_mode or ("policy" if instance is not None else None),
            "config_version": trace.version_number,
            "telemetry_age_s": told.get("telemetry_age_s"),
            "preemptions": None,
            "admitted_candidates": trace.whole("admitted_candidates"),
            "admission": trace.admission,
        }

    def _input_tokens(self, answer: Answer, row: int) -> int:
        counted = answer.result.input_tokens
        return int(self.context.prompts.input_tokens[row]) if counted is None else counted

    def _predicted_ttft_s(self, answer: Answer) -> float | None:
        predicted_s, sent_s = answer.trace.told.get("predicted_ttft_s"), answer.result.sent_s
        if predicted_s is None or predicted_s < 0.0 or sent_s is None:
            return None
        return predicted_s + max(0.0, sent_s - float(self.arriving.scheduled_s[answer.result.request]))

    def _quality(self, answer: Answer, row: int) -> tuple[float | None, str]:
        if not answer.ok or answer.instance is None:
            return None, "missing"
        if answer.result.finish_reason == "length" and not self.matches(answer):
            return None, "truncated"
        score = _finite(float(self.context.prompts.score[row, answer.instance.model_index]))
        return score, "missing" if score is None else "ok"

    def _cost_usd(self, answer: Answer, input_tokens: int) -> float:
        """What the server was paid for: nothing where no instance is known to have worked."""
        result, instance = answer.result, answer.instance
        if instance is None or (not answer.ok and result.first_byte_s is None):
            return 0.0
        tier = instance.tier
        spent = input_tokens * tier.price_in_usd_per_mtok
        return (spent + (result.output_tokens or 0) * tier.price_out_usd_per_mtok) / 1e6

    def _slo_met(self, answer: Answer) -> bool | None:
        slo, result = self.context.experiment.workload.slo, answer.result
        target_s = float(self.arriving.ttft_target_s[result.request])
        if slo.e2e_s is None and slo.tpot_s is None and not math.isfinite(target_s):
            return None
        if not answer.ok:
            return False
        scheduled_s, done_s = float(self.arriving.scheduled_s[result.request]), _ended_s(result)
        first_s = result.first_token_s if result.first_token_s is not None else done_s
        late = first_s is None or first_s - scheduled_s > target_s
        too_long = slo.e2e_s is not None and (done_s is None or done_s - scheduled_s > slo.e2e_s)
        return not (late or too_long or (slo.tpot_s is not None and self._slow(answer, slo.tpot_s)))

    @staticmethod
    def _slow(answer: Answer, tpot_s: float) -> bool:
        """Whether its tokens came further apart on average; one that shows no two tokens has no such time."""
        first_s, done_s = answer.result.first_token_s, _ended_s(answer.result)
        gaps = (answer.result.output_tokens or 1) - 1
        return first_s is not None and done_s is not None and gaps > 0 and done_s - first_s > gaps * tpot_s

    def matches(self, answer: Answer) -> bool | None:
        """Whether a whole answer is the grid's; None where there is nothing to compare."""
        if not answer.ok or answer.instance is None:
            return None
        prompt_id = self.context.prompts.prompt_ids[int(self.arriving.prompt[answer.result.request])]
        return self.texts.matches(prompt_id, answer.instance.tier.model, _fingerprint(answer.result))

    def asked_tokens(self, answer: Answer) -> int | None:
        """Output tokens to be expected of a whole answer.

        The cap where the workload has servers go on to it (``ignore_eos``), else the grid's length for
        the prompt and the model that served it, within the cap.
        """
        if not answer.ok or answer.instance is None:
            return None
        most = self.context.experiment.workload.max_output_tokens
        cap = min(most, answer.trace.whole("max_tokens") or most)
        row = int(self.arriving.prompt[answer.result.request])
        grid = int(self.context.prompts.output_tokens[row, answer.instance.model_index])
        return cap if self.ignores_eos else min(cap, grid)

    def live_rows(self, answers: Sequence[Answer]) -> list[dict[str, Any]]:
        """Rows of ``rbx.sweep.live.table.LIVE``."""
        return [self._live_row(answer) for answer in answers]

    def _live_row(self, answer: Answer) -> dict[str, Any]:
        result, trace = answer.result, answer.trace
        return {
            "request": result.request,
            "first_byte_s": result.first_byte_s,
            "first_answer_s": result.first_answer_s,
            "last_token_s": result.last_token_s,
            "closed_s": result.done_s,
            "chunk_s": result.chunk_s,
            "chunk_tokens": result.chunk_tokens,
            "http_status": result.http_status,
            "fault": result.fault,
            "detail": None if result.detail is None else _writable(result.detail),
            "attempts": trace.attempts,
            "gateway_mode": trace.mode,
            "request_id": trace.request_id,
            "cached_tokens": result.cached_tokens,
            "asked_tokens": self.asked_tokens(answer),
            "usage_disagrees": result.usage_disagrees,
            "finish_reason": result.finish_reason,
            "text_sha256": _sha256(result) if answer.ok else None,
            "text_matches": self.matches(answer),
        }

    def served(self, answers: Sequence[Answer], *, keep_text: bool) -> pa.Table:
        """``SERVED``: one row for each whole answer; without ``keep_text`` no row has its text."""
        return pa.Table.from_pylist(
            [
                {
                    "request": answer.result.request,
                    "prompt_id": self.context.prompts.prompt_ids[
                        int(self.arriving.prompt[answer.result.request])
                    ],
                    "model": answer.instance.tier.model,
                    "response": _writable(answer.result.text) if keep_text else None,
                    "output_tokens": answer.result.output_tokens,
                    "finish_reason": answer.result.finish_reason,
                }
                for answer in answers
                if answer.ok and answer.instance is not None
            ],
            schema=SERVED,
        )


def _believed(answer: Answer) -> LoadResult:
    """The result, without a count of prompt tokens that no prompt there can have."""
    result, instance = answer.result, answer.instance
    told = result.input_tokens is not None or result.tokens_source == "usage"
    if instance is None or not told or 0 < (result.input_tokens or 0) <= instance.tier.limits.max_model_len:
        return result
    return replace(result, input_tokens=None, usage_disagrees=True)


def _ended_s(result: LoadResult) -> float | None:
    """A whole answer ends with its last token; what follows it is the protocol's."""
    if result.status == "ok" and result.last_token_s is not None:
        return result.last_token_s
    return result.done_s


def _after(start_s: float | None, delay_s: float | None) -> float | None:
    # A time before the sending is no gateway's: nothing replays it.
    return None if start_s is None or delay_s is None or delay_s < 0.0 else start_s + delay_s


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _not_negative(value: float | None) -> float | None:
    # Two readings of one clock on two paths may differ by less than it resolves.
    return None if value is None else max(0.0, value)


def _writable(text: str) -> str:
    """Half of a surrogate pair, which a JSON text may hold, is none that a file can."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _sha256(result: LoadResult) -> str:
    return text_sha256(result.text) if result.text_sha256 is None else result.text_sha256


def _fingerprint(result: LoadResult) -> str:
    return fingerprint(result.text) if result.fingerprint is None else result.fingerprint
