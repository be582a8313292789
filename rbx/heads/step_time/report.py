"""What a fit of step times found, as data and as the block to paste into a pool file."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from rbx.errors import DatasetError, UsageError
from rbx.heads.manifest import canonical
from rbx.heads.step_time.accuracy import Accuracy


@dataclass(frozen=True)
class TraceFile:
    """One trace that was read: its name, digest and number of rows."""

    name: str
    sha256: str
    steps: int


@dataclass(frozen=True)
class Coefficient:
    """Seconds per unit of one term with the 95 % interval over training blocks."""

    name: str
    seconds: float
    low: float
    high: float

    @property
    def measured(self) -> bool:
        """False for a 0 that no resample doubts: its term never occurs, or it is held from being negative."""
        return not self.seconds == self.low == self.high == 0.0


FEWEST_BLOCKS = 5  # held out, for an interval over them


@dataclass(frozen=True)
class ModelFit:
    """One step-time model: fitted on the training blocks, measured on the held-out ones.

    ``mape_low`` and ``mape_high`` are the 95 % interval over held-out blocks, None where there are fewer than
    ``FEWEST_BLOCKS``. ``unidentified`` says what
    the trace leaves open, in words.
    """

    feature_set: str
    fit_id: str
    coefficients: tuple[Coefficient, ...]
    condition_number: float
    unidentified: tuple[str, ...]
    accuracy: tuple[Accuracy, ...]
    mape_low: float | None
    mape_high: float | None

    def on(self, kind: str) -> Accuracy:
        """The errors on one kind of steps."""
        return next(row for row in self.accuracy if row.kind == kind)

    @property
    def mape(self) -> float:
        """Held-out mean absolute percentage error over all steps."""
        value = self.on("all").mape
        assert value is not None  # held-out blocks have steps
        return value


@dataclass(frozen=True)
class Stalls:
    """Steps that took far longer than their make-up explains; none of them was fitted.

    ``share`` is of all usable steps, ``mean_s`` their mean length beyond what the model gives and
    ``time_share`` the part of the whole time that this makes.
    """

    n: int
    share: float
    mean_s: float | None
    time_share: float


@dataclass(frozen=True)
class StepTimeReport:
    """The fits of all models that the trace allows; ``recommended`` names one of them.

    ``missing`` says which loads no fitted step has, without which no model can price a server.
    """

    traces: tuple[TraceFile, ...]
    holdout: float
    block_s: float
    seed: int
    n_first: int
    n_train: int
    n_test: int
    blocks_train: int
    blocks_test: int
    stalls: Stalls
    models: tuple[ModelFit, ...]
    recommended: str
    missing: tuple[str, ...]
    notes: tuple[str, ...]

    def model(self, feature_set: str) -> ModelFit:
        """The fit of one model; raises ``UsageError`` for one that was not fitted."""
        found = {model.feature_set: model for model in self.models}
        if feature_set not in found:
            raise UsageError(
                f"model {feature_set} was not fitted: the trace has no context sums. It allows "
                f"{', '.join(found)}; record with the exact recorder for the others"
            )
        return found[feature_set]

    def as_json(self) -> dict[str, Any]:
        """Plain data; figures that can't be estimated are null."""
        data: dict[str, Any] = json.loads(canonical(dataclasses.asdict(self)))
        return data


def pool_fragment(report: StepTimeReport, feature_set: str) -> str:
    """The ``step_time:`` block of a tier, as YAML.

    Raises ``DatasetError`` where the steps lack a load that every model prices, and ``UsageError`` for a
    model that was not fitted.
    """
    model = report.model(feature_set)
    if report.missing:
        raise DatasetError(
            f"{', '.join(trace.name for trace in report.traces)}: no step_time block: "
            f"{'; '.join(report.missing)}. Record prompts and answers of many lengths, few and many at once; "
            "rbx pool observe --drive sends such a load"
        )
    lines = ["step_time:", f"  feature_set: {model.feature_set}"]
    lines += [f"  {item.name}: {item.seconds:.9g}" for item in model.coefficients]
    lines.append(f'  source: "{model.fit_id}"')
    return "\n".join(lines) + "\n"
