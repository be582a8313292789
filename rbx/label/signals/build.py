"""The signals that a spec asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rbx.config.labelling import (
    BySourceSignal,
    CodeSignal,
    EndpointJudge,
    ExactSignal,
    JudgeSignal,
    JudgeSpec,
    Judging,
    LengthBucketSignal,
    LengthSignal,
    NumericSignal,
    PlainSignal,
    SignalSpec,
    TokenF1Signal,
)
from rbx.heads.encoder import load_encoder
from rbx.label.answer import Signal
from rbx.label.open_files import allow_open_files
from rbx.label.signals.by_source import BySource
from rbx.label.signals.code import CodePassRate
from rbx.label.signals.exact import exact_signal
from rbx.label.signals.length import length_bucket_signal, length_signal
from rbx.label.signals.numeric import numeric_signal
from rbx.label.signals.once import Once
from rbx.label.signals.only_sources import OnlySources
from rbx.label.signals.similarity import Similarity
from rbx.label.signals.token_f1 import token_f1_signal

FILES_OF_A_PROCESS = 4  # pipes for its task and report, and what watches it

MakeJudge: TypeAlias = Callable[[JudgeSpec, str], Signal]


def build_signals(judging: Judging, max_tokens: int, make_judge: MakeJudge) -> list[Signal]:
    """The spec's signals in its order; ``make_judge(judge, name)`` makes the signal ``name`` of a judge.

    Raises ``ConfigError`` where running an answer's code is asked for and not allowed, or more files would
    be open at once than may be, and whatever ``load_encoder`` and ``make_judge`` raise.
    """
    judges = {judge.name: judge for judge in judging.judges}
    allow_open_files(_open_files(judging), "judges and signals")
    built: dict[str, Signal] = {}
    for spec in judging.signals:
        if isinstance(spec, JudgeSignal):
            built[spec.name] = _limited(spec, make_judge(judges[spec.judge], spec.name))
        elif not isinstance(spec, BySourceSignal):
            built[spec.name] = _limited(spec, _plain(spec, max_tokens))
    for spec in judging.signals:
        if isinstance(spec, BySourceSignal):  # made of the others, wherever in the list they stand
            for name in {*spec.rules.values(), *([spec.otherwise] if spec.otherwise else [])}:
                if not isinstance(built[name], Once):
                    built[name] = Once(built[name])
            rules = {place: built[name] for place, name in spec.rules.items()}
            otherwise = built[spec.otherwise] if spec.otherwise else None
            built[spec.name] = _limited(spec, BySource(spec.name, rules, otherwise))
    return [built[spec.name] for spec in judging.signals]


def _open_files(judging: Judging) -> int:
    """Connections of the judges, a client for each signal, and pipes of processes that run code."""
    judges = {
        judge.name: judge.endpoint.concurrency if isinstance(judge, EndpointJudge) else judge.concurrency
        for judge in judging.judges
    }
    return sum(
        judges[spec.judge]
        if isinstance(spec, JudgeSignal)
        else spec.concurrency * FILES_OF_A_PROCESS
        if isinstance(spec, CodeSignal)
        else 0
        for spec in judging.signals
    )


def _limited(spec: SignalSpec, signal: Signal) -> Signal:
    return OnlySources(signal, frozenset(spec.sources)) if spec.sources else signal


def _plain(spec: PlainSignal, max_tokens: int) -> Signal:
    if isinstance(spec, NumericSignal):
        return numeric_signal(spec)
    if isinstance(spec, ExactSignal):
        return exact_signal(spec)
    if isinstance(spec, TokenF1Signal):
        return token_f1_signal(spec)
    if isinstance(spec, LengthSignal):
        return length_signal(spec, max_tokens)
    if isinstance(spec, LengthBucketSignal):
        return length_bucket_signal(spec, max_tokens)
    if isinstance(spec, CodeSignal):
        return CodePassRate(spec)
    return Similarity(spec.name, load_encoder(spec.encoder))
