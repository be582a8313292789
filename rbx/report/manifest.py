"""What a sweep's manifest declares, checked: its cells, its pool, its targets and its labels' digest."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rbx.config.base import NonNegativeFloat, NonNegativeInt, PositiveFloat, UnitFloat, flatten
from rbx.config.experiment import Slo
from rbx.errors import StoreError
from rbx.report.ontime.rule import OnTimeRule
from rbx.report.plain_faults import plain_faults
from rbx.sweep.store import CellSpec, SweepStore

# Cells are files of this name, so a cell must not name a path out of the sweep's directory.
_CellId = Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]+$")]
_Word = Annotated[str, Field(min_length=1)]
_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


@dataclass(frozen=True)
class Manifest:
    """``content`` is the file as it stands; the rest is what the cells are checked against.

    ``tier_model`` maps the name of each tier of the pool to its model; ``has_targets`` says whether
    requests are judged against a target, ``on_time`` by what rule those of TTFT are, None without any;
    ``labels_sha256`` is None in sweeps that kept no such digest.
    """

    content: dict[str, Any]
    specs: tuple[CellSpec, ...]
    tier_model: dict[str, str]
    instances: frozenset[str]
    has_targets: bool
    on_time: OnTimeRule | None
    labels_sha256: str | None

    @property
    def is_foreign(self) -> bool:
        """Whether another tool measured it: nothing is known of prices, quality or decisions."""
        return self.content.get("foreign") is not None

    @property
    def models(self) -> frozenset[str]:
        """Models of the pool."""
        return frozenset(self.tier_model.values())


class _Part(BaseModel):
    """Keys that the report does not read are left alone: later versions add some."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)


class _Policy(_Part):
    kind: _Word
    router: _Word | None = None
    weights: Annotated[list[UnitFloat], Field(min_length=3, max_length=3)] | None = None


class _Cell(_Part):
    cell_id: _CellId
    label: _Word
    policy: _Policy
    rate_per_s: PositiveFloat
    load: PositiveFloat | None
    seed: NonNegativeInt
    workload_hash: _Word
    n_requests: NonNegativeInt


class _Tier(_Part):
    name: _Word
    model: _Word


class _Instance(_Part):
    name: _Word
    tier: _Word
    model: _Word


class _Pool(_Part):
    name: str
    digest: str
    tiers: Annotated[list[_Tier], Field(min_length=1)]
    instances: Annotated[list[_Instance], Field(min_length=1)]


class _Coverage(_Part):
    split_prompts: NonNegativeInt = 0
    used_prompts: NonNegativeInt = 0
    labels_expected: NonNegativeInt = 0
    labels_present: NonNegativeInt = 0


class _Grid(_Part):
    name: str
    metric: str
    coverage: _Coverage | None = None


class _Bundle(_Part):
    encoder: str | None = None


class _Slo(_Part):
    ttft_s: PositiveFloat | None = None
    ttft_target: dict[str, Any] | None = None
    tpot_s: PositiveFloat | None = None
    e2e_s: PositiveFloat | None = None
    cost_weight_per_usd: NonNegativeFloat = Slo().cost_weight_per_usd


class _Workload(_Part):
    slo: _Slo = _Slo()


class _Config(_Part):
    workload: _Workload


class _File(_Part):
    name: _Word
    simulated: bool
    synthetic_grid: bool
    grid: _Grid
    bundle: _Bundle | None
    pool: _Pool
    capacity: dict[str, Any] | None
    config: _Config
    sources: dict[str, str]
    cells: Annotated[list[_Cell], Field(min_length=1)]
    labels_sha256: _Sha256 | None = None


def read_manifest(store: SweepStore) -> Manifest:
    """Read and check the manifest; raises ``StoreError`` naming the file and each key that is wrong."""
    content = store.read_manifest()
    path = store.folder / "manifest.json"
    try:
        file = _File.model_validate(content)
    except ValidationError as error:
        raise StoreError(_refusal(path, plain_faults(error))) from None
    faults = [*_unfit_numbers(content), *_repeated(file)]
    if faults:
        raise StoreError(_refusal(path, faults))
    names = [field.name for field in fields(CellSpec)]
    slo = file.config.workload.slo
    return Manifest(
        content=content,
        specs=tuple(CellSpec(**{name: cell[name] for name in names}) for cell in content["cells"]),
        tier_model={tier.name: tier.model for tier in file.pool.tiers},
        instances=frozenset(instance.name for instance in file.pool.instances),
        has_targets=slo.e2e_s is not None or slo.tpot_s is not None or _has_ttft_targets(slo),
        on_time=OnTimeRule(slo.cost_weight_per_usd) if _has_ttft_targets(slo) else None,
        labels_sha256=file.labels_sha256,
    )


def _has_ttft_targets(slo: _Slo) -> bool:
    return slo.ttft_s is not None or slo.ttft_target is not None


def _unfit_numbers(content: dict[str, Any]) -> list[str]:
    """Keys anywhere in the file that JSON proper has no word for; they are shown, and kept in the summary."""
    return [
        f"{key}: {value} is no number"
        for key, value in flatten(content).items()
        if isinstance(value, float) and not math.isfinite(value)
    ]


def _repeated(file: _File) -> list[str]:
    named = {
        "cells": [cell.cell_id for cell in file.cells],
        "pool.tiers": [tier.name for tier in file.pool.tiers],
        "pool.instances": [instance.name for instance in file.pool.instances],
    }
    return [
        f"{key}: {name!r} stands {count} times"
        for key, names in named.items()
        for name, count in Counter(names).items()
        if count > 1
    ]


def _refusal(path: Path, faults: list[str]) -> str:
    shown = "".join(f"\n  {fault}" for fault in faults[:10])
    more = f"\n  and {len(faults) - 10} more" if len(faults) > 10 else ""
    return f"{path}: not the manifest of a sweep, {len(faults)} fault(s):{shown}{more}"
