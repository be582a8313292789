"""TTFT of the requests of a run as estimators would have told it when they were sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile, StepCoefficients
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.heads.bea.lengths import LengthRule
from rbx.heads.bea.prediction import Probe
from rbx.heads.bea.survival import SurvivalTable
from rbx.heads.bea.ttft import predict_ttft
from rbx.heads.bea.unseen import UnseenRequests
from rbx.heads.lps import Traffic as Mean
from rbx.heads.lps import engine_lps
from rbx.heads.step_time.drift import DriftFactor
from rbx.serve.state.published import with_predictions
from rbx.serve.state.shadow import Shadow
from tests.vllm.live_traffic import Sent, identity
from tests.vllm.stream_client import Answer

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """All that was learnt before the requests that are judged."""

    profile: InstanceProfile
    prefill_tokens_per_s: float
    decode_step_s: float
    survival: SurvivalTable
    mean: Mean


@dataclass(frozen=True)
class Run:
    """Requests in order of sending, and the steps that were executed meanwhile (``layout.STEP`` columns)."""

    sent: list[Sent]
    steps: dict[str, NDArray[np.int64]]
    per_s: float


def measured_s(run: Run) -> Floats:
    """TTFT at the client."""
    return np.array([sent.answer.first_s - sent.answer.sent_s for sent in run.sent])


def unseen_answers(sent: list[Sent], number: int, seen: set[int]) -> list[Answer]:
    """Requests sent before number ``number`` that no snapshot and no token has shown yet."""
    now_s = sent[number].answer.sent_s
    return [
        other.answer
        for other in sent[:number]
        if other.answer.first_s > now_s and identity(other.answer) not in seen
    ]


def states(run: Run) -> Iterator[tuple[Sent, list[Answer]]]:
    """Each request with the ledger at its sending."""
    seen: set[int] = set()
    for number, sent in enumerate(run.sent):
        seen.update(sent.ids.tolist())
        yield sent, unseen_answers(run.sent, number, seen)


def _unseen(answers: list[Answer], predicted: Callable[[Answer], int]) -> UnseenRequests:
    rows = [(a.sent_s, a.prompt_tokens, a.max_tokens, predicted(a)) for a in answers]
    columns = list(zip(*rows, strict=True)) if rows else [()] * 4
    return UnseenRequests.of(*(np.array(column) if column else np.zeros(0, np.int64) for column in columns))


def _probe(sent: Sent) -> Probe:
    return Probe(sent.answer.prompt_tokens)


def bea(run: Run, calibration: Calibration) -> Floats:
    """BEA on the published state; lengths by the survivors of the calibration traffic."""
    rule = LengthRule(calibration.survival)
    return np.array(
        [
            predict_ttft(
                sent.snapshot,
                _probe(sent),
                now_s=sent.answer.sent_s,
                unseen=_unseen(ledger, lambda _: 0),
                lengths=rule,
            ).seconds
            for sent, ledger in states(run)
        ]
    )


def bea_without_ledger(run: Run, calibration: Calibration) -> Floats:
    """The same, blind to what the snapshot does not show."""
    rule = LengthRule(calibration.survival)
    return np.array(
        [
            predict_ttft(sent.snapshot, _probe(sent), now_s=sent.answer.sent_s, lengths=rule).seconds
            for sent in run.sent
        ]
    )


def bea_true_lengths(run: Run, calibration: Calibration) -> Floats:
    """BEA told how long every answer will be."""
    totals = {identity(sent.answer): sent.answer.total_tokens for sent in run.sent}
    rule = LengthRule(trust_predictions=True)
    return np.array(
        [
            predict_ttft(
                with_predictions(sent.snapshot, sent.ids, totals),
                _probe(sent),
                now_s=sent.answer.sent_s,
                unseen=_unseen(ledger, lambda answer: answer.total_tokens),
                lengths=rule,
            ).seconds
            for sent, ledger in states(run)
        ]
    )


def bea_with_drift(run: Run, calibration: Calibration) -> Floats:
    """BEA whose step times follow how fast the server runs now."""
    rule, drift = LengthRule(calibration.survival), DriftFactor()
    coefficients = calibration.profile.coefficients
    expected_s, actual_s = _step_times(run, coefficients)
    ends, done, found = run.steps["end_s"], 0, []
    for sent, ledger in states(run):
        while done < len(ends) and ends[done] <= sent.answer.sent_s:
            drift.observe(float(actual_s[done]), float(expected_s[done]))
            done += 1
        snapshot = _priced(sent.snapshot, drift.scaled(coefficients))
        unseen = _unseen(ledger, lambda _: 0)
        prediction = predict_ttft(
            snapshot, _probe(sent), now_s=sent.answer.sent_s, unseen=unseen, lengths=rule
        )
        found.append(prediction.seconds)
    return np.array(found)


def _step_times(run: Run, coefficients: StepCoefficients) -> tuple[Floats, Floats]:
    steps, b = run.steps, coefficients.as_b
    names = ("prefill_tokens", "decodes", "decode_context_tokens")
    sums = (*names, "prefill_chunk_squared_tokens", "prefill_cross_tokens")
    expected = b[0] + sum(price * steps[name] for price, name in zip(b[1:], sums, strict=True))
    before = np.concatenate([steps["start_s"][:1], steps["end_s"][:-1]])
    return np.asarray(expected), np.asarray(steps["end_s"] - np.maximum(steps["start_s"], before))


def _priced(snapshot: InstanceSnapshot, coefficients: StepCoefficients) -> InstanceSnapshot:
    profile = InstanceProfile(snapshot.profile.limits, coefficients)
    return InstanceSnapshot(
        snapshot.version,
        snapshot.stamp_s,
        profile,
        snapshot.free_blocks,
        snapshot.running,
        snapshot.requests,
        snapshot.step_start_s,
        snapshot.steps,
    )


def bea_on_shadow(run: Run, calibration: Calibration) -> Floats:
    """BEA on what the router makes of its own traffic, without anything from the server."""
    shadow, rule = Shadow(calibration.profile), LengthRule(calibration.survival)
    events: list[tuple[float, int, Answer, int]] = []
    for sent in run.sent:
        answer = sent.answer
        events.append((answer.sent_s, 2, answer, 0))
        events.extend((at_s, 0, answer, total) for at_s, total in answer.tokens)
        events.append((answer.done_s, 1, answer, 0))
    found: dict[str, float] = {}
    for at_s, kind, answer, total in sorted(events, key=lambda event: event[:2]):
        if kind == 0:
            shadow.tokens(answer.name, total, at_s)
        elif kind == 1:
            shadow.finished(answer.name, at_s)
        else:
            snapshot = shadow.snapshot(at_s)
            probe, now_s = Probe(answer.prompt_tokens), max(at_s, snapshot.stamp_s)
            found[answer.name] = predict_ttft(snapshot, probe, now_s=now_s, lengths=rule).seconds
            shadow.dispatched(answer.name, at_s, answer.prompt_tokens, answer.max_tokens)
    return np.array([found[sent.answer.name] for sent in run.sent])


def prefill_throughput(run: Run, calibration: Calibration) -> Floats:
    """(Prompt tokens still to compute + the prompt) ÷ measured throughput + a mean decode step."""
    found = []
    for sent, ledger in states(run):
        rows = sent.snapshot.requests
        known = rows[:, snap.PROMPT] + rows[:, snap.GENERATED]
        waiting = np.arange(len(rows)) >= sent.snapshot.running
        left = np.where((rows[:, snap.PREFILLING] == 1) | waiting, known - rows[:, snap.COMPUTED], 0).sum()
        left += sum(answer.prompt_tokens for answer in ledger) + sent.answer.prompt_tokens
        found.append(left / calibration.prefill_tokens_per_s + calibration.decode_step_s)
    return np.array(found)


def lps(run: Run, calibration: Calibration) -> Floats:
    """State-dependent limited processor sharing: a mean wait, plus the prompt's own prefill."""
    wait_s = engine_lps(calibration.profile, calibration.mean, run.per_s, cap_s=60.0).wait_s
    own = np.array([sent.answer.prompt_tokens for sent in run.sent]) / calibration.prefill_tokens_per_s
    return np.asarray(wait_s + own + calibration.decode_step_s)


ESTIMATORS: Mapping[str, Callable[[Run, Calibration], Floats]] = {
    "BEA": bea,
    "BEA, drift factor": bea_with_drift,
    "BEA, true lengths": bea_true_lengths,
    "BEA, no ledger": bea_without_ledger,
    "BEA on the shadow": bea_on_shadow,
    "prefill throughput": prefill_throughput,
    "LPS": lps,
}
