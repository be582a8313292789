"""The judges that a command line chooses of those in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from rbx.config.base import load, read_yaml
from rbx.config.labelling import BySourceSignal, JudgeSignal, Judging, LabelSource
from rbx.errors import ConfigError, UsageError
from rbx.grid.spec import load_spec

J = TypeVar("J", bound=Judging)


def load_judging(path: Path, overrides: list[str] | None = None) -> Judging:
    """Judges and signals of a file of their own, or of a data set spec with source ``label``.

    Raises ``ConfigError``.
    """
    if "source" not in read_yaml(path):
        return load(Judging, path, overrides).value
    source = load_spec(path, overrides).value.source
    if not isinstance(source, LabelSource):
        raise ConfigError(f"{path}: source.kind {source.kind} has no judges; only label has")
    return source


def only_judges(judging: J, judges: Sequence[str], *, rules: bool) -> J:
    """``judging`` with the signals of these judges alone, of all if none is named.

    ``rules`` keeps the signals that need no judge. Raises ``UsageError`` for an unknown judge, and for
    one without a signal.
    """
    known = [judge.name for judge in judging.judges]
    if unknown := [name for name in judges if name not in known]:
        raise UsageError(f"--judge {unknown[0]}: the judges are {', '.join(known) or 'none'}")
    if not judges:
        return judging
    kept = {
        signal.name
        for signal in judging.signals
        if (signal.judge in judges if isinstance(signal, JudgeSignal) else rules)
    }
    for signal in judging.signals:
        if isinstance(signal, BySourceSignal) and not {*signal.rules.values(), signal.otherwise} <= {
            *kept,
            None,
        }:
            kept.discard(signal.name)
    if not kept:
        raise UsageError(f"--judge {judges[0]}: no signal uses that judge")
    return judging.model_copy(update={"signals": tuple(s for s in judging.signals if s.name in kept)})
