"""Filters: admission rules in front of a policy, as they stand in an experiment file.

A filter is a name, which takes the defaults, or a mapping with ``kind`` and the rule's fields. Rules and
formulas are in docs/filters.md.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator

from rbx.config.base import PositiveFloat, StrictModel, UnitFloat
from rbx.config.named_entry import named
from rbx.config.newer_fields import NewerFields
from rbx.config.ttft_source import TtftSource

OnEmpty = Literal["all", "cheapest", "shed"]
Confidence = Annotated[float, Field(ge=0.5, le=0.9999, strict=True)]


class FilterRule(StrictModel):
    """What every filter has: what becomes of a request that no candidate passes for.

    ``all``: every candidate, of those that keep to the request's budget if the rule reads it and there are
    any; ``cheapest``: the candidates of the lowest predicted cost; ``shed``: the request is turned away.
    """

    calibrated: ClassVar[bool] = False  # whether it asks how far off predictions have been
    reads_lengths: ClassVar[bool] = False  # whether it asks for predicted lengths, so that prompts are read
    reads_budget: ClassVar[bool] = False
    reads_latency: ClassVar[bool] = False
    kind: str
    on_empty: OnEmpty = "all"

    def lacks(self, *, ttft: bool, tpot: bool, e2e: bool) -> str:
        """What keeps it from saying no to anybody, given which targets a workload has; empty if nothing."""
        return ""

    def idle(self, *, ttft: bool, tpot: bool) -> str:
        """What it says that changes nothing, given which targets a workload has; empty if all counts."""
        return ""

    @property
    def label(self) -> str:
        """Its kind, and what departs from the defaults."""
        words = [self.kind]
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name != "kind" and value != field.default:
                words.append(_SHORT[name].format(value))
        return " ".join(words)


_SHORT = {
    "on_empty": "else {}",
    "ttft_s": "ttft≤{:g}",
    "tpot_s": "tpot≤{:g}",
    "ttft": "{}",
    "tpot": "tpot {}",
    "theta": "θ{:g}",
    "mode": "{}",
    "confidence": "p{:g}",
    "time_budget_s": "≤{:g} s",
}


class LatencyRule(FilterRule):
    """A filter by predicted latency.

    ``ttft_s`` and ``tpot_s`` take the place of the workload's targets, ``ttft`` names the estimator of time
    to first token, ``tpot`` says whether time per token is of the bundle's heads or the static prior.
    """

    reads_latency: ClassVar[bool] = True
    ttft_s: PositiveFloat | None = None
    tpot_s: PositiveFloat | None = None
    ttft: TtftSource = "prefill-throughput"
    tpot: Literal["xgboost", "prior"] = "xgboost"

    def lacks(self, *, ttft: bool, tpot: bool, e2e: bool) -> str:
        """See ``FilterRule.lacks``."""
        if ttft or tpot or self.ttft_s or self.tpot_s:
            return ""
        return "has no target; give ttft_s or tpot_s, its own or in workload.slo"

    def idle(self, *, ttft: bool, tpot: bool) -> str:
        """See ``FilterRule.idle``."""
        for name, judged in (("ttft", ttft or self.ttft_s), ("tpot", tpot or self.tpot_s)):
            if not judged and getattr(self, name) != LatencyRule.model_fields[name].default:
                return f"says where {name} comes from, which has no target; leave {name} out or give {name}_s"
        return ""


class CdfFilter(LatencyRule):
    """P(TTFT ≤ target) ≥ θ, P(TPOT ≤ target) ≥ θ and within budget, P from residuals of held-out requests.

    ``tiered`` lowers θ of TTFT, then that of TPOT, by 0.1 at a time, three rounds, until somebody passes.
    """

    calibrated: ClassVar[bool] = True
    reads_lengths: ClassVar[bool] = True
    reads_budget: ClassVar[bool] = True
    kind: Literal["cdf"] = "cdf"
    theta: UnitFloat = 0.7
    mode: Literal["tiered", "hard"] = "tiered"


class QlmFilter(LatencyRule):
    """Prediction + z·σ within both targets: σ of the residuals of held-out requests, z one-sided."""

    calibrated: ClassVar[bool] = True
    kind: Literal["qlm"] = "qlm"
    confidence: Confidence = 0.95


class SlosServeFilter(LatencyRule):
    """Both predictions within their targets."""

    kind: Literal["slos-serve"] = "slos-serve"


class PolyServeFilter(LatencyRule):
    """TTFT + N·TPOT within target of TTFT + N·target of TPOT, N the predicted output tokens."""

    reads_lengths: ClassVar[bool] = True
    kind: Literal["polyserve"] = "polyserve"

    def lacks(self, *, ttft: bool, tpot: bool, e2e: bool) -> str:
        """See ``FilterRule.lacks``."""
        if (ttft or self.ttft_s) and (tpot or self.tpot_s):
            return ""
        return "adds up both targets; give ttft_s and tpot_s, its own or in workload.slo"


class TimeBillFilter(LatencyRule):
    """TTFT + N·TPOT within a time budget: ``time_budget_s``, or else the workload's ``slo.e2e_s``."""

    reads_lengths: ClassVar[bool] = True
    kind: Literal["timebill"] = "timebill"
    time_budget_s: PositiveFloat | None = None

    @model_validator(mode="after")
    def _one_target(self) -> TimeBillFilter:
        if self.ttft_s is not None or self.tpot_s is not None:
            raise ValueError("timebill has one target, time_budget_s; leave ttft_s and tpot_s out")
        return self

    def idle(self, *, ttft: bool, tpot: bool) -> str:
        """Nothing: both are in the time that it adds up."""
        return ""

    def lacks(self, *, ttft: bool, tpot: bool, e2e: bool) -> str:
        """See ``FilterRule.lacks``."""
        if e2e or self.time_budget_s:
            return ""
        return "has no time budget; give time_budget_s, or workload.slo.e2e_s"


class BudgetFilter(FilterRule):
    """Prompt and predicted answer cost no more than the request's budget (RouteBalance, Eq. 2)."""

    reads_lengths: ClassVar[bool] = True
    reads_budget: ClassVar[bool] = True
    kind: Literal["budget"] = "budget"
    on_empty: OnEmpty = "cheapest"


class NoFilter(FilterRule):
    """Everybody passes, and the policy's own rule for budgets is off: the arm without a filter."""

    kind: Literal["none"] = "none"
    on_empty: Literal["all"] = "all"


AnyFilter = (
    CdfFilter | QlmFilter | SlosServeFilter | PolyServeFilter | TimeBillFilter | BudgetFilter | NoFilter
)
_KINDS: tuple[str, ...] = tuple(model.model_fields["kind"].default for model in get_args(AnyFilter))

FilterConfig = Annotated[
    Annotated[AnyFilter, Field(discriminator="kind")], BeforeValidator(named("filter", _KINDS))
]
FilterList = Annotated[tuple[FilterConfig | None, ...], Field(min_length=1)]


class FilteredSpec(NewerFields):
    """``filter`` is a list, which multiplies; null in it is the policy without one."""

    newer: ClassVar[frozenset[str]] = frozenset({"filter"})
    filter: FilterList = (None,)


class Filterable(NewerFields):
    """A single policy that may stand behind a filter."""

    newer: ClassVar[frozenset[str]] = frozenset({"filter"})
    filter: FilterConfig | None = None

    @property
    def asks_calibration(self) -> bool:
        """Whether its filter asks how far off predictions have been."""
        return self.filter is not None and self.filter.calibrated

    @property
    def filter_words(self) -> str:
        """What a label says of the filter; nothing without one."""
        return "" if self.filter is None else f" | {self.filter.label}"
