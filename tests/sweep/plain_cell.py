"""One cell read step by step: batches, snapshots, ledger and Algorithm 1 in plain Python.

Shares the engine with the product (the engine has an oracle of its own in ``tests/engine``) and
nothing of ``rbx.policy``, ``rbx.scheduler`` or ``rbx.sweep.simulate``.
"""

from __future__ import annotations

import numpy as np

from rbx.engine.simulator import EngineSim
from rbx.engine.telemetry import tpot_features
from rbx.sweep.context import SweepContext
from rbx.sweep.workload import Arriving
from tests.policy.algorithm1 import Ask, Server, assign

TABLE = [(0.3, 4, 0.05), (0.7, 16, 0.1), (float("inf"), 32, 0.2)]


def assignments(
    context: SweepContext, arriving: Arriving, weights: tuple[float, float, float]
) -> dict[int, tuple[int, int, float]]:
    """Request → (instance, cap, time decided)."""
    scheduler, times, prompts = context.experiment.scheduler, context.times, context.prompts
    instances = context.pool.instances
    engine = EngineSim([i.tier for i in instances], len(arriving.prompt))
    tiers = np.array([i.tier_index for i in instances])
    waiting = list(range(len(arriving.prompt)))
    last_used = [-1] * len(instances)
    sent: list[tuple[float, int, int, float]] = []  # arrives at, instance, input, predicted length
    result: dict[int, tuple[int, int, float]] = {}
    free_s, size, window_s, sequence = 0.0, 4, 0.05, 0
    while waiting:
        first_s = arriving.scheduled_s[waiting[0]]
        due_s = max(first_s + window_s, free_s)
        if len(waiting) >= size:
            due_s = max(min(first_s + window_s, arriving.scheduled_s[waiting[size - 1]]), free_s)
        batch = [r for r in waiting[:size] if arriving.scheduled_s[r] <= due_s]
        waiting = waiting[len(batch) :]
        tokens = [int(prompts.input_tokens[arriving.prompt[r]]) for r in batch]
        now_s = (
            due_s
            + times.encode_s_per_request * len(batch)
            + times.encode_s_per_token * sum(min(t, 256) for t in tokens)
        )
        engine.advance(now_s)
        seen = engine.telemetry()
        servers = [
            Server(
                i.model_index,
                i.tier.price_in_usd_per_mtok / 1e6,
                i.tier.price_out_usd_per_mtok / 1e6,
                i.tier.limits.max_num_seqs,
                i.tier.limits.max_model_len,
                int(seen.running[k]),
                int(seen.waiting[k]),
                int(seen.pending_prefill_tokens[k]),
                float(seen.pending_decode_tokens[k]),
                True,
                last_used[k],
            )
            for k, i in enumerate(instances)
        ]
        for arrives_s, k, tokens_in, length in sent:
            if arrives_s > now_s:  # on the wire: the snapshot can't show it
                server = servers[k]
                if server.running < server.max_num_seqs and server.waiting == 0:
                    server.running += 1
                else:
                    server.waiting += 1
                server.pending_prefill += tokens_in
                server.pending_decode += length
        busy = sum(server.waiting > 0 for server in servers) / len(servers)
        size, window_s = next((s, w) for below, s, w in TABLE if busy < below)
        tpot_s = [float(t) for t in context.tpot.predict(tpot_features(seen), tiers)]
        batch.sort(key=lambda r: -max(prompts.length_tokens[arriving.prompt[r]]))
        asks = [
            Ask(
                int(prompts.input_tokens[arriving.prompt[r]]),
                context.experiment.workload.max_output_tokens,
                float(arriving.budget_usd[r]),
                prompts.quality[arriving.prompt[r]].tolist(),
                prompts.length_tokens[arriving.prompt[r]].tolist(),
            )
            for r in batch
        ]
        placed = assign(asks, servers, tpot_s, weights, minmax=False, sequence=sequence)
        sequence += len(batch)
        last_used = [server.last_used for server in servers]
        free_s = now_s + times.fixed_s + times.per_request_s * len(batch)
        for r, ask, choice in zip(batch, asks, placed, strict=True):
            k = choice.instance
            true = int(prompts.output_tokens[arriving.prompt[r], instances[k].model_index])
            engine.submit(
                k,
                free_s + scheduler.network_s,
                ask.input_tokens,
                min(true, choice.cap),
                max(round(choice.length), 1),
                true >= choice.cap,
            )
            sent.append((free_s + scheduler.network_s, k, ask.input_tokens, choice.length))
            result[r] = (k, choice.cap, free_s)
    return result
