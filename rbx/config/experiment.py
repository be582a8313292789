"""The experiment file of ``rbx sweep``: grid, bundle, pool, workload, scheduler and policies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from rbx.config.base import (
    Loaded,
    Name,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    StrictModel,
    Text,
    UnitFloat,
    load,
)
from rbx.config.filter import FilteredSpec
from rbx.config.live import Live, OpenAiTarget
from rbx.config.newer_fields import NewerFields
from rbx.config.policy import BearSpec, CostWeight, ExternalSpec, PolicySpec
from rbx.config.references import SIMULATED_ONLY
from rbx.config.routed_policy import RouterName
from rbx.config.scoring_cost import ScoringCost


class RandomGaps(StrictModel):
    """``span: exact`` stretches the times so that the last falls on n/λ, as vLLM's benchmark client does."""

    span: Literal["drawn", "exact"] = "drawn"


class PoissonArrivals(RandomGaps):
    """Independent exponential gaps."""

    kind: Literal["poisson"] = "poisson"


class ConstantArrivals(StrictModel):
    """Equal gaps of 1/λ."""

    kind: Literal["constant"]


class GammaArrivals(RandomGaps):
    """Gamma gaps of shape ``burstiness``: 1 is Poisson, below 1 bursty (vLLM's definition)."""

    kind: Literal["gamma"]
    burstiness: Annotated[float, Field(ge=0.01, le=1e6, strict=True)]


class SquareArrivals(StrictModel):
    """Poisson whose rate alternates low, high; each phase lasts ``phase_s``; λ is the mean rate.

    ``low_over_mean`` is the low rate as a fraction of λ; the high rate follows from the mean.
    """

    kind: Literal["square"]
    low_over_mean: Annotated[float, Field(ge=0, lt=1, strict=True)]
    phase_s: PositiveFloat = 30.0


class MmppArrivals(StrictModel):
    """Poisson whose rate jumps at random between low and high (a two-state Markov-modulated process).

    ``rate_ratio`` is high ÷ low, ``high_share`` the share of time in the high state, ``correlation_s``
    the time after which the autocorrelation of the rate has fallen to 1/e; λ is the mean rate.
    """

    kind: Literal["mmpp"]
    rate_ratio: Annotated[float, Field(gt=1, le=1e6, strict=True)]
    high_share: Annotated[float, Field(gt=0, lt=1, strict=True)] = 0.2
    correlation_s: PositiveFloat = 2.0


class TraceArrivals(StrictModel):
    """Arrival times of a trace file, rescaled in time to λ; lengths of the trace are not used."""

    kind: Literal["trace"]
    path: Path
    format: Literal["azure", "mooncake"]


Arrivals = Annotated[
    PoissonArrivals | ConstantArrivals | GammaArrivals | SquareArrivals | MmppArrivals | TraceArrivals,
    Field(discriminator="kind"),
]


class TtftTarget(StrictModel):
    """A TTFT target per request: clip((base + slope·prompt tokens)·U(1 − jitter, 1 + jitter), low, high).

    The defaults are those of BEAR's launch scripts: (155 + 0.035·tokens)·U(0.98, 1.02) within 150 to
    1,120 ms (arXiv 2607.18253; its page prints 0.0035).
    """

    base_s: NonNegativeFloat = 0.155
    per_prompt_token_s: NonNegativeFloat = 3.5e-5
    jitter: Annotated[float, Field(ge=0, lt=1, strict=True)] = 0.02
    low_s: PositiveFloat = 0.15
    high_s: PositiveFloat = 1.12

    @model_validator(mode="after")
    def _ordered(self) -> TtftTarget:
        if self.high_s < self.low_s:
            raise ValueError("high_s lies below low_s")
        return self


class Slo(NewerFields):
    """Targets that a request meets or misses; a missing one is not judged.

    ``ttft_s`` is one target for all, ``ttft_target`` one that follows from the prompt; ``tpot_s`` is of
    the mean time between tokens, which an answer of one token meets. An answer in time
    is worth quality − λ·cost, a late one nothing (OnTimeUtility); λ is ``cost_weight_per_usd``.
    """

    newer: ClassVar[frozenset[str]] = frozenset({"tpot_s"})
    ttft_s: PositiveFloat | None = None
    ttft_target: TtftTarget | None = None
    tpot_s: PositiveFloat | None = None
    e2e_s: PositiveFloat | None = None
    cost_weight_per_usd: CostWeight = 500.0

    @property
    def targeted(self) -> dict[str, bool]:
        """Which of TTFT, TPOT and E2E have a target."""
        ttft = self.ttft_s is not None or self.ttft_target is not None
        return {"ttft": ttft, "tpot": self.tpot_s is not None, "e2e": self.e2e_s is not None}

    @model_validator(mode="after")
    def _one_ttft(self) -> Slo:
        if self.ttft_s is not None and self.ttft_target is not None:
            raise ValueError("give either ttft_s or ttft_target")
        return self


class Budget(StrictModel):
    """A share of the requests carries a budget drawn uniformly between two bounds, in USD."""

    share: UnitFloat
    low_usd: PositiveFloat
    high_usd: PositiveFloat

    @model_validator(mode="after")
    def _ordered(self) -> Budget:
        if self.high_usd < self.low_usd:
            raise ValueError("high_usd lies below low_usd")
        return self


class Workload(StrictModel):
    """Which prompts arrive, when, how often and under which targets.

    Rates are given in requests per second (``rates_per_s``), as fractions of the pool's measured
    capacity (``loads``; see ``rbx.sweep.capacity``), or both. A cell has ``n_requests``, or as many as
    fill ``duration_s`` at its rate, or one pass over the prompts; ``sources`` keeps prompts of these
    sources of the grid alone, ``n_prompts`` that many of them, the same for every seed.

    Answers are scored by the label ``scored_by``, which may be another than the bundle predicts, by
    default ``metric``. One that was cut to a share s of its recorded length has no label; with
    ``cut_quality_exponent`` e its score is taken to be label · s^e, an assumption that records name; with
    ``cut_quality: rescore`` the part of the recorded text that was delivered is graded as the label was.
    """

    split: Literal["test", "train", "all"] = "test"
    sources: tuple[Text, ...] = ()
    metric: str = "quality"
    scored_by: Text | None = None
    n_prompts: PositiveInt | None = None
    cut_quality_exponent: Annotated[float, Field(ge=0, le=100, strict=True)] | None = None
    cut_quality: Literal["rescore"] | None = None
    n_requests: PositiveInt | None = None
    duration_s: PositiveFloat | None = None
    arrivals: Arrivals = PoissonArrivals()
    rates_per_s: tuple[Annotated[float, Field(ge=1e-6, le=1e6, strict=True)], ...] = ()
    loads: tuple[PositiveFloat, ...] = ()
    seeds: tuple[NonNegativeInt, ...] = (0,)
    max_output_tokens: PositiveInt = 4096
    slo: Slo = Slo()
    budget: Budget | None = None

    @field_validator("rates_per_s", "loads", "seeds", "sources")
    @classmethod
    def _no_repeats(cls, values: tuple[float | str, ...]) -> tuple[float | str, ...]:
        if len(set(values)) != len(values):
            raise ValueError("a value is given twice")
        return values

    @model_validator(mode="after")
    def _some_rate(self) -> Workload:
        if not (self.rates_per_s or self.loads):
            raise ValueError("give rates_per_s, loads or both")
        if self.n_requests is not None and self.duration_s is not None:
            raise ValueError("give either n_requests or duration_s")
        if self.cut_quality is not None and self.cut_quality_exponent is not None:
            raise ValueError("give either cut_quality or cut_quality_exponent")
        if not self.seeds:
            raise ValueError("seeds is empty")
        return self


class Batching(StrictModel):
    """When a batch of waiting requests is closed.

    ``adaptive`` follows the share of busy instances: below 0.3 → 4 requests / 50 ms, below 0.7 →
    16 / 100 ms, else 32 / 200 ms. ``fixed`` keeps ``max_size`` and ``window_s``. ``eager`` closes
    at once while no decision is under way and nothing is busy.
    """

    mode: Literal["adaptive", "fixed"] = "adaptive"
    max_size: PositiveInt = 4
    window_s: NonNegativeFloat = 0.05
    eager: bool = False


class DecisionCost(StrictModel):
    """Simulated time of one batch's decision: fixed + per request + encoder time, in seconds.

    The encoder's share is ``encode_s_per_request + encode_s_per_token · min(tokens,
    encode_max_tokens)`` of each request of the batch. ``rbx bench decision-cost`` measures them all;
    results never depend on how busy the machine of the sweep was. ``null`` fields take the constants
    of the bundle's encoder.
    """

    fixed_s: NonNegativeFloat = 0.0005
    per_request_s: NonNegativeFloat = 0.0003
    encode_s_per_request: NonNegativeFloat | None = None
    encode_s_per_token: NonNegativeFloat | None = None
    encode_max_tokens: PositiveInt | None = None


class Telemetry(StrictModel):
    """How the scheduler sees the pool: the newest snapshot is ``delay_s`` to ``delay_s + period_s`` old.

    A period of 0 reads every instance at each decision, as RouteBalance does; a positive one scrapes
    on a clock and decides on what the last scrape showed. ``delay_s`` is how long a snapshot travels.
    """

    period_s: Annotated[float, Field(ge=0, le=3600, strict=True)] = 0.0
    delay_s: Annotated[float, Field(ge=0, le=3600, strict=True)] = 0.0

    @field_validator("period_s")
    @classmethod
    def _a_period(cls, value: float) -> float:
        if 0.0 < value < 1e-6:
            raise ValueError("a scrape every microsecond is the shortest period; 0 reads at each decision")
        return value


class SchedulerConfig(NewerFields):
    """The runtime around a policy. ``ledger: false`` forgets what telemetry does not show (an ablation).

    ``scoring_cost`` is what it costs to have a router score prompts, in virtual time; a router that is not
    named costs what ``decision_cost`` says of the encoder.
    """

    newer: ClassVar[frozenset[str]] = frozenset({"scoring_cost"})
    batching: Batching = Batching()
    order: Literal["lpt", "fifo"] = "lpt"
    decision_cost: DecisionCost = DecisionCost()
    scoring_cost: dict[RouterName, ScoringCost] = Field(default_factory=dict)
    telemetry: Telemetry = Telemetry()
    ledger: bool = True
    network_s: Annotated[float, Field(ge=0, le=3600, strict=True)] = 0.001


class TierLoss(StrictModel):
    """From ``at_s`` of a cell on ``tier`` takes no request any more; what runs on it is served to its end.

    At 0 the scheduler runs as if the tier were not in its pool: RouteBalance's test of a lost tier.
    """

    tier: Name
    at_s: Annotated[float, Field(ge=0, le=1e9, strict=True)] = 0.0


class TierPrice(StrictModel):
    """What a tier charges, in place of the pool's prices."""

    in_usd_per_mtok: NonNegativeFloat
    out_usd_per_mtok: NonNegativeFloat


# These never read a prompt. For the others a simulator leaves a training prompt out of what it is predicted
# from; a gateway can't tell that it was one.
_BLIND = ("passthrough", "always", "random", "mix", "external")


def _reads_prompts(policy: PolicySpec) -> bool:
    rules = policy.filter if isinstance(policy, FilteredSpec) else ()
    return policy.kind not in _BLIND or any(rule is not None and rule.reads_lengths for rule in rules)


class Experiment(StrictModel):
    """A grid of cells: every policy × rate × seed on one pool, grid and bundle.

    ``engine: live`` sends the requests to real servers; ``live`` says where they are. ``prices`` are of
    tiers by name; those not named keep the pool's.
    """

    name: Name
    grid: Path
    bundle: Path
    pool: Path
    engine: Literal["sim", "live"] = "sim"
    workload: Workload
    live: Live | None = None
    scheduler: SchedulerConfig = SchedulerConfig()
    tier_loss: TierLoss | None = None
    prices: dict[Name, TierPrice] = Field(default_factory=dict)
    policies: tuple[PolicySpec, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _targets_for_the_hard_rule(self) -> Experiment:
        slo = self.workload.slo
        if slo.ttft_s is None and slo.ttft_target is None:
            for number, policy in enumerate(self.policies):
                if isinstance(policy, BearSpec) and policy.rule == "hard":
                    raise ValueError(
                        f"policies.{number}: without a TTFT target the hard rule of bear knows no latency; "
                        "give workload.slo.ttft_target (such as {}) or ttft_s, or take rule: soft"
                    )
        return self

    @model_validator(mode="after")
    def _targets_for_filters(self) -> Experiment:
        targeted = self.workload.slo.targeted
        for number, policy in enumerate(self.policies):
            for rule in policy.filter if isinstance(policy, FilteredSpec) else ():
                if rule is None:
                    continue
                fault = rule.lacks(**targeted) or rule.idle(ttft=targeted["ttft"], tpot=targeted["tpot"])
                if fault:
                    raise ValueError(f"policies.{number}: filter {rule.kind} {fault}")
        return self

    @model_validator(mode="after")
    def _engine_and_target(self) -> Experiment:
        external = [n for n, policy in enumerate(self.policies) if isinstance(policy, ExternalSpec)]
        if self.engine == "sim":
            if self.live is not None:
                raise ValueError("live belongs to engine: live")
            if external:
                raise ValueError(f"policies.{external[0]}: external belongs to engine: live")
            return self
        if self.live is None:
            raise ValueError("engine: live needs live.target: where the servers are")
        if self.workload.loads:
            raise ValueError("workload.loads are of a simulated pool's capacity; give rates_per_s")
        if self.scheduler.telemetry != Telemetry():
            raise ValueError("scheduler.telemetry is for simulated pools; live ones are watched")
        if self.prices:
            raise ValueError("prices belongs to simulated pools; edit the pool file")
        if self.tier_loss is not None:
            raise ValueError("tier_loss is of a simulated pool; take an instance away instead")
        if self.workload.cut_quality_exponent is not None:
            raise ValueError("workload.cut_quality_exponent is a model for answers without text; judge them")
        if self.workload.cut_quality is not None:
            raise ValueError("workload.cut_quality is of recorded answers; live ones are new: judge them")
        if self.scheduler.scoring_cost:
            raise ValueError("scheduler.scoring_cost is for simulated pools; live ones take what they take")
        for number, policy in enumerate(self.policies):
            if isinstance(policy, BearSpec) and any(policy.true_lengths):
                raise ValueError(f"policies.{number}: nobody knows true_lengths of live answers")
            if policy.kind in SIMULATED_ONLY:
                why = SIMULATED_ONLY[policy.kind]
                raise ValueError(f"policies.{number}: {policy.kind} is for simulated sweeps alone: {why}")
            if self.workload.split != "test" and _reads_prompts(policy):
                raise ValueError(
                    f"policies.{number}: a gateway predicts prompts of the {self.workload.split} split from "
                    "their own labels; workload.split must be test"
                )
        if isinstance(self.live.target, OpenAiTarget):
            if len(external) < len(self.policies):
                raise ValueError("live.target: what decides behind it is not ours: policies must be external")
            if self.workload.budget is not None:
                raise ValueError("workload.budget: nothing behind an openai target keeps to budgets")
        return self


def load_experiment(path: Path, overrides: list[str] | None = None) -> Loaded[Experiment]:
    """Read and validate an experiment file; raises ``ConfigError`` with every fault."""
    return load(Experiment, path, overrides)
