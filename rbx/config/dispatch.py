"""Dispatchers as they stand in an experiment file: a name, or a mapping with the dispatcher's constants.

``power-of-d`` alone takes the defaults; ``{kind: power-of-d, d: [2, 3]}`` stands for two dispatchers. A
constant that its dispatcher does not have is refused.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag

from rbx.config.base import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, StrictModel
from rbx.config.multiplied import multiplied
from rbx.config.named_entry import named

Dispatch = Literal["round-robin", "shortest-queue", "random"]

_Quantile = Annotated[float, Field(gt=0, lt=1, strict=True)]
_Weight = Annotated[float, Field(gt=0, le=1, strict=True)]


class ScoredDispatcher(StrictModel):
    """A dispatcher that gives each instance a number and takes the lowest; formulas in docs/bear.md.

    ``short`` are the names of its constants in labels.
    """

    short: ClassVar[dict[str, str]] = {}
    kind: str

    @property
    def label(self) -> str:
        """Its kind, and the constants that depart from the defaults."""
        words = [self.kind]
        for name, letters in self.short.items():
            value = getattr(self, name)
            if value != type(self).model_fields[name].default:
                words.append(letters if isinstance(value, (bool, dict)) else f"{letters}{_shown(value)}")
        return " ".join(words)


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


class PowerOfD(ScoredDispatcher):
    """The shortest queue among ``d`` candidates drawn at random."""

    short: ClassVar[dict[str, str]] = {"d": "d="}
    kind: Literal["power-of-d"] = "power-of-d"
    d: PositiveInt = 2


class LeastWork(ScoredDispatcher):
    """Least seconds of backlog; ``decode_weight`` weighs the decodes against the prefills."""

    short: ClassVar[dict[str, str]] = {"decode_weight": "decode×"}
    kind: Literal["least-work"] = "least-work"
    decode_weight: NonNegativeFloat = 1.0


class LmDeploy(ScoredDispatcher):
    """Fewest requests for the speed: N/speed^``speed_power``.

    ``requests_per_s`` gives the speed of each model; without it they follow from the step times.
    """

    short: ClassVar[dict[str, str]] = {"speed_power": "speed^", "requests_per_s": "given speeds"}
    kind: Literal["lmdeploy"] = "lmdeploy"
    speed_power: Annotated[float, Field(ge=0, le=10, strict=True)] = 1.0
    requests_per_s: dict[str, PositiveFloat] | None = None


class Mooncake(ScoredDispatcher):
    """Least prefill time in line; ``step_share`` of a step's fixed time is charged to every prompt."""

    short: ClassVar[dict[str, str]] = {"step_share": "step×"}
    kind: Literal["mooncake"] = "mooncake"
    step_share: NonNegativeFloat = 1.0


class EwmaLatency(ScoredDispatcher):
    """Lowest exponential average of past TTFTs; ``ewma_weight`` is the newest one's."""

    short: ClassVar[dict[str, str]] = {"ewma_weight": "a"}
    kind: Literal["ewma-latency"] = "ewma-latency"
    ewma_weight: _Weight = 0.3


class Llumnix(ScoredDispatcher):
    """Most free KV blocks for each request there; without Llumnix's migration."""

    kind: Literal["llumnix"] = "llumnix"


class VllmSr(ScoredDispatcher):
    """The model of the lowest TTFT and TPOT percentiles over a window, then its shortest queue.

    Below ``least_samples`` an exponential average stands for a percentile. A model without data is left
    out, so the first to answer keeps everything; ``warm_up_requests`` sends as many to each model first.
    """

    short: ClassVar[dict[str, str]] = {
        "window": "n",
        "ewma_weight": "a",
        "ttft_quantile": "ttft-q",
        "tpot_quantile": "tpot-q",
        "least_samples": "least",
        "warm_up_requests": "warm",
    }
    kind: Literal["vllm-sr"] = "vllm-sr"
    window: PositiveInt = 1000
    ewma_weight: _Weight = 0.3
    ttft_quantile: _Quantile = 0.95
    tpot_quantile: _Quantile = 0.9
    least_samples: PositiveInt = 3
    warm_up_requests: NonNegativeInt = 0


class PredictedLatency(ScoredDispatcher):
    """Online quantile models of TTFT and TPOT, then the headroom to the targets, as llm-d does it.

    ``headroom`` says which of the instances within the target is taken: the tightest or the roomiest.
    ``tpot_target_s`` adds a target for TPOT, which weighs ``1 − ttft_weight``. ``by_tier`` tells the
    models which tier an instance is of; llm-d's take every instance for the same.
    """

    short: ClassVar[dict[str, str]] = {
        "quantile": "q",
        "retrain_every": "every",
        "window": "n",
        "trees": "trees",
        "depth": "depth",
        "headroom": "",
        "ttft_weight": "ttft×",
        "tpot_target_s": "tpot",
        "by_tier": "by tier",
    }
    kind: Literal["predicted-latency"] = "predicted-latency"
    quantile: _Quantile = 0.9
    retrain_every: PositiveInt = 250
    window: PositiveInt = 2000
    trees: PositiveInt = 100
    depth: Annotated[int, Field(ge=1, le=12, strict=True)] = 4
    headroom: Literal["least", "most"] = "least"
    ttft_weight: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.8
    tpot_target_s: PositiveFloat | None = None
    by_tier: bool = False


ScoreConfig = Annotated[
    PowerOfD | LeastWork | LmDeploy | Mooncake | EwmaLatency | Llumnix | VllmSr | PredictedLatency,
    Field(discriminator="kind"),
]

_NAMES = get_args(Dispatch)
_SCORED: dict[str, type[ScoredDispatcher]] = {
    model.model_fields["kind"].default: model for model in get_args(get_args(ScoreConfig)[0])
}


def _tag(entry: Any) -> str:
    return "name" if isinstance(entry, str) else "scored"


DispatchConfig = Annotated[
    Annotated[Dispatch, Tag("name")] | Annotated[ScoreConfig, Tag("scored")],
    Discriminator(_tag),
    BeforeValidator(named("dispatcher", _SCORED, plain=_NAMES)),
]
DispatchList = Annotated[tuple[DispatchConfig, ...], BeforeValidator(multiplied), Field(min_length=1)]


def dispatch_label(dispatch: DispatchConfig) -> str:
    """The name of a dispatcher in labels."""
    return dispatch if isinstance(dispatch, str) else dispatch.label
