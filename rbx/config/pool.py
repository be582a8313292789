"""The pool file: tiers (one model on one GPU type), their prices, limits and step time.

A *tier* is one (model, GPU type) pair, an *instance* one server of it. Each number that prices a
step or a token carries its origin in ``source``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from rbx.config.base import (
    Loaded,
    Name,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    StrictModel,
    Text,
    chosen_by,
    digest,
    load,
)
from rbx.config.unmodelled import refuse_unmodelled


class StepTimeModel(StrictModel):
    """Seconds of a step as a sum of terms, the first of which every step pays."""

    source: str = Field(min_length=1)

    @property
    def seconds(self) -> tuple[float, ...]:
        """The coefficients in the order of the file's keys."""
        keys = (key for key in type(self).model_fields if key not in ("feature_set", "source"))
        return tuple(getattr(self, key) for key in keys)


class StepTimeA(StepTimeModel):
    """T = b0 + b1·tokens + b2·Σ decode context + b3·Σ prefill attention work.

    The four-coefficient model of arXiv 2607.18253; the work of a prefill chunk of ``n`` tokens over
    ``c`` tokens of context is n·c + n·(n+1)/2.
    """

    feature_set: Literal["A"] = "A"
    b0_s: PositiveFloat
    b1_s_per_token: NonNegativeFloat
    b2_s_per_context_token: NonNegativeFloat
    b3_s_per_attention_unit: NonNegativeFloat


class StepTimeB(StepTimeModel):
    """T = b0 + p·prefill tokens + d·decodes + x·Σ decode context + s·Σ n² + r·Σ n·c over prefill chunks.

    ``n`` are the tokens of a chunk, ``c`` those computed before it. Prefill and decode tokens have
    prices of their own.
    """

    feature_set: Literal["B"]
    b0_s: PositiveFloat
    prefill_s_per_token: NonNegativeFloat
    decode_s_per_seq: NonNegativeFloat
    context_s_per_token: NonNegativeFloat
    chunk_s_per_squared_token: NonNegativeFloat
    cross_s_per_token_pair: NonNegativeFloat


class StepTimeC(StepTimeModel):
    """T = b0 + p·prefill tokens + d·decodes: all that a log without contexts can be fitted to."""

    feature_set: Literal["C"]
    b0_s: PositiveFloat
    prefill_s_per_token: NonNegativeFloat
    decode_s_per_seq: NonNegativeFloat


StepTime = Annotated[
    StepTimeA | StepTimeB | StepTimeC,
    chosen_by("feature_set", {"A": StepTimeA, "B": StepTimeB, "C": StepTimeC}, default="A"),
]


class EngineLimits(StrictModel):
    """The vLLM settings that decide how a step is formed.

    ``kv_blocks`` are the blocks that hold tokens: vLLM's ``num_gpu_blocks`` less its null block.
    """

    max_num_seqs: PositiveInt = 256
    max_num_batched_tokens: PositiveInt = 2048
    max_model_len: PositiveInt = 8192
    block_size: PositiveInt = 16
    kv_blocks: PositiveInt
    chunked_prefill: bool = True
    async_scheduling: bool = True
    reserve_full_prompt: bool = True

    @model_validator(mode="before")
    @classmethod
    def _modelled(cls, data: Any) -> Any:
        if isinstance(data, dict):
            refuse_unmodelled(data)
        return data

    @model_validator(mode="after")
    def _consistent(self) -> EngineLimits:
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError("max_num_batched_tokens must be at least max_num_seqs, as vLLM demands")
        if not self.chunked_prefill and self.max_num_batched_tokens < self.max_model_len:
            raise ValueError("without chunked_prefill, max_num_batched_tokens must reach max_model_len")
        if self.kv_blocks * self.block_size < self.max_model_len:
            raise ValueError(
                f"kv_blocks × block_size = {self.kv_blocks * self.block_size} tokens can't hold one "
                f"request of max_model_len = {self.max_model_len}"
            )
        return self


class Tier(StrictModel):
    """One (model, GPU type) pair with its instances' number, prices, limits and step time.

    ``tpot_prior_s`` is the static prior of the latency head: seconds per output token at low load.
    """

    name: Name
    model: Text
    gpu: Text
    gpus_per_instance: PositiveInt = 1
    instances: PositiveInt
    price_in_usd_per_mtok: NonNegativeFloat
    price_out_usd_per_mtok: NonNegativeFloat
    tpot_prior_s: PositiveFloat
    limits: EngineLimits
    step_time: StepTime


class Pool(StrictModel):
    """All tiers of a deployment."""

    name: Name
    notes: str = ""
    tiers: tuple[Tier, ...] = Field(min_length=1)

    @field_validator("tiers")
    @classmethod
    def _unique(cls, tiers: tuple[Tier, ...]) -> tuple[Tier, ...]:
        names = [tier.name for tier in tiers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"tier names given twice: {', '.join(twice)}")
        return tiers

    @property
    def models(self) -> tuple[str, ...]:
        """Distinct models in the order of the file; the model axis of every array."""
        return tuple(dict.fromkeys(tier.model for tier in self.tiers))

    @property
    def instances(self) -> tuple[Instance, ...]:
        """All instances in the order of the file; the instance axis of every array."""
        flat = [
            (position, tier, replica)
            for position, tier in enumerate(self.tiers)
            for replica in range(tier.instances)
        ]
        return tuple(
            Instance(index, f"{tier.name}/{replica}", position, tier, self.models.index(tier.model))
            for index, (position, tier, replica) in enumerate(flat)
        )

    @property
    def digest(self) -> str:
        """Identity of everything that can change a result (notes and sources left out)."""
        data = self.model_dump(mode="json", exclude={"notes"})
        for tier in data["tiers"]:
            tier["step_time"].pop("source")
        return digest(data)


@dataclass(frozen=True)
class Instance:
    """One server: its index on the instance axis, its tier and its model's index."""

    index: int
    name: str
    tier_index: int
    tier: Tier
    model_index: int


def load_pool(path: Path, overrides: list[str] | None = None) -> Loaded[Pool]:
    """Read and validate a pool file; raises ``ConfigError`` with every fault."""
    return load(Pool, path, overrides)
