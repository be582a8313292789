"""Writes sweep directories that look like real ones: paired workloads, queues, labels, failures."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rbx.config.policy import BearPolicy, RouteBalancePolicy, RoutedPolicy
from rbx.durable import write_table
from rbx.sweep.records import SCORING_WAIT, records_schema
from rbx.sweep.store import CellSpec, SweepStore

Floats = NDArray[np.float64]
Policy = RouteBalancePolicy | RoutedPolicy | BearPolicy
Tamper = Callable[[dict[str, Any], dict[str, Any]], None]

MODELS = ("Qwen2.5-3B", "Qwen2.5-7B", "Qwen2.5-32B", "Qwen2.5-72B")
TIERS = ("3b-a30", "7b-a30", "32b-v100", "72b-h100")
REPLICAS = np.array([4, 4, 3, 2])
TPOT_S = np.array([0.012, 0.017, 0.028, 0.024])
PRICE_IN = np.array([0.06, 0.07, 0.15, 0.38])
PRICE_OUT = np.array([0.06, 0.07, 0.20, 0.40])
MEAN_SCORE = np.array([0.35, 0.41, 0.50, 0.53])
MEAN_TOKENS = np.array([210.0, 230.0, 260.0, 280.0])

POLICIES: tuple[Policy, ...] = (
    RouteBalancePolicy(weights=(1 / 3, 1 / 3, 1 / 3)),
    RouteBalancePolicy(weights=(0.8, 0.1, 0.1)),
    RouteBalancePolicy(weights=(0.1, 0.8, 0.1)),
    RouteBalancePolicy(weights=(0.1, 0.1, 0.8)),
    RouteBalancePolicy(weights=(0.5, 0.3, 0.2)),
    RoutedPolicy(router="passthrough", dispatch="round-robin"),
    RoutedPolicy(router="passthrough", dispatch="shortest-queue"),
    RoutedPolicy(router="passthrough", dispatch="random"),
    RoutedPolicy(router="always", dispatch="shortest-queue", model=MODELS[0]),
    RoutedPolicy(router="always", dispatch="shortest-queue", model=MODELS[3]),
)


ON_TIME_POLICIES: tuple[Policy, ...] = (
    BearPolicy(),
    BearPolicy(ttft="lps"),
    BearPolicy(rule="soft", ttft=None),
    RoutedPolicy(router="passthrough", dispatch="round-robin"),
    RouteBalancePolicy(weights=(1 / 3, 1 / 3, 1 / 3)),
    RouteBalancePolicy(weights=(0.8, 0.1, 0.1)),
)


@dataclass(frozen=True)
class SweepShape:
    """What to write; ``tamper`` may spoil columns and summary of the cell it is keyed by (its number).

    ``ttft_target`` gives each request a TTFT target, and policies of kind ``bear`` with an estimator
    predictions of TTFT.
    """

    policies: tuple[Policy, ...] = POLICIES
    rates_per_s: tuple[float, ...] = (6.0, 12.0, 18.0)
    seeds: tuple[int, ...] = (0,)
    n_prompts: int = 120
    n_requests: int = 150
    failures: float = 0.0
    unlabelled: float = 0.0
    slo: bool = True
    ttft_target: bool = False
    cost_weight_per_usd: float = 500.0
    pool: str = "example"
    synthetic: bool = True
    skip: frozenset[int] = frozenset()
    tamper: dict[int, Tamper] = field(default_factory=dict)
    name: str = "example"


def write_sweep(folder: Path, shape: SweepShape) -> Path:
    """Write a whole sweep directory and return it."""
    world = _World(shape)
    store = SweepStore(folder)
    store.cells.mkdir(parents=True)
    specs = [
        _spec(policy, rate, seed, shape)
        for rate in shape.rates_per_s
        for seed in shape.seeds
        for policy in shape.policies
    ]
    store.write_manifest(_manifest(shape, specs))
    write_table(world.labels(), folder / "labels.parquet")
    policies = {policy.label: policy for policy in shape.policies}
    for number, spec in enumerate(specs):
        if number in shape.skip:
            continue
        columns, summary = world.run(spec, policies[spec.label])
        if number in shape.tamper:
            shape.tamper[number](columns, summary)
        store.write_cell(as_records(columns), summary)
    return folder


def as_records(columns: dict[str, Any]) -> pa.Table:
    """Columns (lists or arrays; NaN stands for null) as a table of records."""
    arrays = []
    schema = records_schema(
        scored_before_batch=SCORING_WAIT.name in columns,
        filtered="admission" in columns,
        cascaded="models_asked" in columns,
    )
    for each in schema:
        values = columns[each.name]
        array = values if isinstance(values, pa.Array) else pa.array(values, from_pandas=True)
        kind = each.type
        arrays.append(array.dictionary_encode() if pa.types.is_dictionary(kind) else array.cast(kind))
    return pa.Table.from_arrays(arrays, schema=schema)


def _spec(policy: Policy, rate_per_s: float, seed: int, shape: SweepShape) -> CellSpec:
    key = f"{policy.label}|{rate_per_s}|{seed}"
    return CellSpec(
        cell_id=f"{zlib.crc32(key.encode()):08x}{seed:08x}",
        label=policy.label,
        policy=policy.model_dump(mode="json"),
        rate_per_s=rate_per_s,
        load=rate_per_s / 20.0,
        seed=seed,
        workload_hash=f"{zlib.crc32(f'{rate_per_s}|{seed}'.encode()):016x}",
        n_requests=shape.n_requests,
    )


class _World:
    """Prompts with latent difficulty, noisy predictions of them, and tiers that slow down with load."""

    def __init__(self, shape: SweepShape) -> None:
        rng = np.random.default_rng(7)
        n = shape.n_prompts
        self.shape = shape
        self.prompt_ids = np.array([f"p{index:05d}" for index in range(n)])
        ease = rng.normal(0, 0.35, n)[:, None]
        score = MEAN_SCORE + ease + rng.normal(0, 0.25, (n, len(MODELS)))
        self.score: Floats = np.clip(score, 0, 1).astype(np.float64).round(1)
        self.score[rng.random(self.score.shape) < shape.unlabelled] = np.nan
        self.predicted = np.clip(np.nan_to_num(self.score, nan=0.4) + rng.normal(0, 0.3, score.shape), 0, 1)
        self.output = np.maximum(
            1, rng.lognormal(0, 0.6, (n, 1)) * MEAN_TOKENS * rng.uniform(0.8, 1.2, score.shape)
        ).astype(np.int64)
        self.input = rng.integers(20, 600, n)

    def labels(self) -> pa.Table:
        n, m = self.score.shape
        return pa.table(
            {
                "prompt_id": np.repeat(self.prompt_ids, m),
                "model": list(MODELS) * n,
                "score": pa.array(self.score.ravel(), from_pandas=True),
                "output_tokens": self.output.ravel(),
                "input_tokens": np.repeat(self.input, m),
            }
        )

    def run(self, spec: CellSpec, policy: Policy) -> tuple[dict[str, Any], dict[str, Any]]:
        shape, n = self.shape, spec.n_requests
        order = np.random.default_rng([spec.seed, 1])
        passes = -(-n // shape.n_prompts)
        prompt = np.concatenate([order.permutation(shape.n_prompts) for _ in range(passes)])[:n]
        gaps = np.random.default_rng([spec.seed, 2]).exponential(1 / spec.rate_per_s, n)
        scheduled = np.cumsum(gaps)
        rng = np.random.default_rng([spec.seed, zlib.crc32(spec.label.encode())])
        model = self._choose(policy, prompt, rng)
        share = np.bincount(model, minlength=len(MODELS)) / n
        crowding = 1 + 2.5 * (share * spec.rate_per_s / (REPLICAS * 1.6)) ** 2
        noise = rng.lognormal(0, 0.15, n)
        tokens = self.output[prompt, model]
        decided = scheduled + 0.03 + rng.uniform(0, 0.05, n)
        first = decided + 0.05 * crowding[model] * noise + 0.0002 * self.input[prompt]
        done = first + TPOT_S[model] * crowding[model] * noise * np.maximum(tokens - 1, 0)
        failed = rng.random(n) < shape.failures
        done = np.where(failed, np.nan, done)
        quality = np.where(failed, np.nan, self.score[prompt, model])
        cost = (self.input[prompt] * PRICE_IN[model] + tokens * PRICE_OUT[model]) / 1e6
        columns = self._columns(spec, prompt, scheduled, decided, first, done, model, quality, cost, failed)
        if shape.ttft_target:
            columns |= self._ttft(policy, prompt, scheduled, first, failed, rng)
            columns["slo_met"] &= np.where(failed, False, first - scheduled <= columns["ttft_target_s"])
        return columns, self._summary(spec, model, failed, done)

    def _ttft(
        self,
        policy: Policy,
        prompt: NDArray[np.int64],
        scheduled: Floats,
        first: Floats,
        failed: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> dict[str, Any]:
        """Targets of every request, and noisy predictions of the policies that make them."""
        target = 0.2 + 0.0002 * self.input[prompt]
        columns: dict[str, Any] = {"ttft_target_s": target}
        if isinstance(policy, BearPolicy) and policy.ttft is not None:
            predicted = (first - scheduled) * rng.lognormal(
                0, 0.1 if policy.ttft == "bea" else 0.8, len(prompt)
            )
            columns["predicted_ttft_s"] = np.where(failed, np.nan, predicted)
            columns["on_time_candidates"] = np.where(predicted <= target, rng.integers(1, 13, len(prompt)), 0)
            columns["decision_mode"] = np.where(predicted <= target, "policy", "hopeless")
        return columns

    def _choose(self, policy: Policy, prompt: NDArray[np.int64], rng: np.random.Generator) -> Any:
        if isinstance(policy, RouteBalancePolicy):
            q, latency, cost = policy.weights
            slow, dear = TPOT_S * MEAN_TOKENS, PRICE_OUT * MEAN_TOKENS
            score = q * self.predicted[prompt] - latency * slow / slow.max() - cost * dear / dear.max()
            return np.argmax(score, axis=1)
        if isinstance(policy, BearPolicy):
            slowness = 0.0 if policy.ttft is None else 10.0
            return np.argmax(self.predicted[prompt] - slowness * TPOT_S, axis=1)
        if policy.router == "always":
            return np.full(len(prompt), MODELS.index(str(policy.model)))
        instance_model = np.repeat(np.arange(len(MODELS)), REPLICAS)
        if policy.dispatch == "round-robin":
            return instance_model[np.arange(len(prompt)) % len(instance_model)]
        return instance_model[rng.integers(0, len(instance_model), len(prompt))]

    def _columns(
        self,
        spec: CellSpec,
        prompt: NDArray[np.int64],
        scheduled: Floats,
        decided: Floats,
        first: Floats,
        done: Floats,
        model: NDArray[np.int64],
        quality: Floats,
        cost: Floats,
        failed: NDArray[np.bool_],
    ) -> dict[str, Any]:
        n = len(prompt)
        within_s = 6.0 if self.shape.slo else np.inf
        met = np.where(failed, False, np.nan_to_num(done, nan=np.inf) - scheduled <= within_s)
        replica = np.arange(n) % REPLICAS[model]
        return {
            "cell_id": [spec.cell_id] * n,
            "request": np.arange(n),
            "prompt_id": self.prompt_ids[prompt],
            "attempt": np.ones(n),
            "scheduled_s": scheduled,
            "sent_s": scheduled + 0.001,
            "decided_s": decided,
            "dispatched_s": decided,
            "first_token_s": np.where(failed, np.nan, first),
            "done_s": done,
            "status": np.where(failed, "error", "ok"),
            "instance": [f"{TIERS[m]}/{r}" for m, r in zip(model, replica, strict=True)],
            "tier": np.array(TIERS)[model],
            "model": np.array(MODELS)[model],
            "input_tokens": self.input[prompt],
            "output_tokens": self.output[prompt, model],
            "tokens_source": ["grid"] * n,
            "max_tokens": np.full(n, 4096),
            "predicted_quality": self.predicted[prompt, model],
            "predicted_length_tokens": MEAN_TOKENS[model],
            "predicted_latency_s": TPOT_S[model] * MEAN_TOKENS[model],
            "predicted_ttft_s": pa.nulls(n, pa.float32()),
            "ttft_target_s": pa.nulls(n, pa.float64()),
            "on_time_candidates": pa.nulls(n, pa.int32()),
            "quality": quality,
            "quality_source": ["lookup"] * n,
            "quality_status": np.where(np.isfinite(quality), "ok", "missing"),
            "cost_usd": np.where(failed, 0.0, cost),
            "budget_usd": pa.nulls(n, pa.float64()),
            "exhausted": np.zeros(n, dtype=np.bool_),
            "slo_met": met if self.shape.slo or self.shape.ttft_target else pa.nulls(n, pa.bool_()),
            "batch_wait_s": np.full(n, 0.02),
            "encode_s": np.full(n, 0.006),
            "score_s": np.full(n, 0.0004),
            "batch_id": np.arange(n) // 4,
            "batch_size": np.full(n, 4),
            "decision_mode": ["policy"] * n,
            "config_version": np.ones(n),
            "telemetry_age_s": np.zeros(n),
            "preemptions": np.zeros(n),
        }

    def _summary(
        self, spec: CellSpec, model: NDArray[np.int64], failed: NDArray[np.bool_], done: Floats
    ) -> dict[str, Any]:
        duration = float(np.nanmax(done)) if not failed.all() else 0.0
        load = np.bincount(model, minlength=len(MODELS)) / len(model) / REPLICAS
        busy = {
            f"{tier}/{replica}": min(0.99, 3 * float(load[index])) * duration
            for index, tier in enumerate(TIERS)
            for replica in range(REPLICAS[index])
        }
        n = spec.n_requests
        return {
            "cell_id": spec.cell_id,
            "scheduled": n,
            "sent": n,
            "not_sent": 0,
            "ok": int((~failed).sum()),
            "error": int(failed.sum()),
            "timeout": 0,
            "cancelled": 0,
            "busy_s": busy,
            "steps": 10 * n,
            "preemptions": 0,
            "batches": -(-n // 4),
            "infeasible": 0,
            "alarms": 0,
            "duration_s": duration,
        }


def _manifest(shape: SweepShape, specs: list[CellSpec]) -> dict[str, Any]:
    return {
        "name": shape.name,
        "engine": "sim",
        "simulated": True,
        "synthetic_grid": shape.synthetic,
        "grid": {
            "path": "datasets/example",
            "name": "example",
            "digest": "ab" * 32,
            "metric": "quality",
            "coverage": {"split_prompts": shape.n_prompts, "used_prompts": shape.n_prompts},
        },
        "bundle": {"path": "results/bundles/example", "digest": "cd" * 32, "encoder": "static"},
        "pool": {
            "name": shape.pool,
            "digest": "ef" * 32,
            "instances": [
                {"name": f"{tier}/{replica}", "tier": tier, "model": MODELS[index]}
                for index, tier in enumerate(TIERS)
                for replica in range(REPLICAS[index])
            ],
            "tiers": [
                {
                    "name": tier,
                    "model": MODELS[index],
                    "gpu": tier.split("-")[1].upper(),
                    "instances": int(REPLICAS[index]),
                    "price_in_usd_per_mtok": float(PRICE_IN[index]),
                    "price_out_usd_per_mtok": float(PRICE_OUT[index]),
                }
                for index, tier in enumerate(TIERS)
            ],
        },
        "capacity": {"rate_per_s": 20.0, "policy": "uniform", "how": "closed loop"},
        "config": {
            "name": shape.name,
            "workload": {"seeds": list(shape.seeds), "slo": _slo(shape)},
        },
        "sources": {"name": "file", "workload.seeds": "file", "workload.slo.e2e_s": "--set"},
        "cells": [asdict(spec) for spec in specs],
        "versions": {"rbx": "0.1.0"},
        "created": "2026-01-01T00:00:00+00:00",
        "revision": None,
    }


def _slo(shape: SweepShape) -> dict[str, Any]:
    slo: dict[str, Any] = {"e2e_s": 6.0 if shape.slo else None}
    if shape.ttft_target:
        slo |= {"ttft_target": {"base_s": 0.12}, "cost_weight_per_usd": shape.cost_weight_per_usd}
    return slo
