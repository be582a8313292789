"""Lengths that the simulator is given after a live run, against a plain count."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from rbx.sweep.compare.lengths import delivered_lengths
from tests.sweep.compare.live_scenes import Scene


def test_pairs_that_were_served_have_their_median_and_others_the_grids(scenes: tuple[Scene, ...]) -> None:
    context = scenes[0].context
    prompts, instances = context.prompts, context.pool.instances
    runs, workloads = [scene.cell for scene in scenes], [scene.arriving for scene in scenes]
    found = delivered_lengths(prompts, context.pool, runs, workloads)
    by_pair: dict[tuple[int, int], list[int]] = defaultdict(list)
    for run, workload in zip(runs, workloads, strict=True):
        for row in range(len(run)):
            pair = (int(workload.prompt[row]), instances[int(run.instance[row])].model_index)
            grid, tokens = int(prompts.output_tokens[pair]), int(run.output_tokens[row])
            by_pair[pair].append(max(tokens + 1, grid) if run.by_length[row] else tokens)
    assert found.seen.sum() == len(by_pair) > 100
    for pair, all_tokens in by_pair.items():
        assert found.prompts.output_tokens[pair] == sorted(all_tokens)[(len(all_tokens) - 1) // 2]
    # Nothing but the cap changed a length, and cut answers keep what the grid says.
    np.testing.assert_array_equal(found.prompts.output_tokens[found.seen], prompts.output_tokens[found.seen])
    assert found.prompts.score is prompts.score


def test_a_model_that_says_half_as_much_is_taken_to_do_so_everywhere(scenes: tuple[Scene, ...]) -> None:
    context, scene = scenes[0].context, scenes[0]
    run = scene.cell
    half = replace(
        run,
        output_tokens=np.maximum(run.output_tokens // 2, 1),
        by_length=np.zeros(len(run), dtype=np.bool_),
    )
    few = replace(half, ok=np.arange(len(run)) < 60)
    found = delivered_lengths(context.prompts, context.pool, [few], [scene.arriving])
    unseen = ~found.seen
    assert unseen.sum() > 50
    ratio = found.prompts.output_tokens[unseen].sum() / context.prompts.output_tokens[unseen].sum()
    # Caps of 400 tokens make some of the halved answers shorter still.
    assert ratio == pytest.approx(0.48, abs=0.06)
