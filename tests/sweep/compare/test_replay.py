"""Replays with the true step times are the run itself; with others they show it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rbx.sweep.compare.replay import replay, time_outside_s
from rbx.sweep.compare.servers import Tiers, scaled_servers
from tests.sweep.compare.live_scenes import Scene


def nothing(servers: Tiers) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.zeros(len(servers))


def test_the_true_servers_give_every_time_to_the_last_bit(scenes: tuple[Scene, ...], servers: Tiers) -> None:
    for scene in scenes:
        run, network_s = scene.cell, scene.context.experiment.scheduler.network_s
        again = replay(run, servers, network_s, nothing(servers))
        np.testing.assert_array_equal(again.first_token_s, run.first_token_s)
        np.testing.assert_array_equal(again.done_s, run.done_s)
        assert not again.misfit.any()


def test_slower_servers_show_by_as_much(scenes: tuple[Scene, ...], servers: Tiers) -> None:
    scene = scenes[0]
    run = scene.cell
    again = replay(run, scaled_servers(scene.context.pool, 1.0), 0.001, nothing(servers))
    gaps = np.where(run.output_tokens > 20, run.output_tokens - 1, np.nan)
    tpot = (again.done_s - again.first_token_s) / gaps
    error = np.nanmean(tpot) / np.nanmean((run.done_s - run.first_token_s) / gaps) - 1.0
    assert error == pytest.approx(0.25, abs=0.02)


def test_time_outside_moves_tokens_and_is_found_again(scenes: tuple[Scene, ...], servers: Tiers) -> None:
    run, network_s = scenes[0].cell, 0.001
    outside_s = np.linspace(0.0, 0.012, len(servers), dtype=np.float64)
    late = replay(run, servers, network_s, outside_s)
    moved = replace(run, first_token_s=late.first_token_s, done_s=late.done_s)
    bare = replay(run, servers, network_s, nothing(servers))
    everyone = np.ones(len(run), dtype=np.bool_)
    found = time_outside_s(moved, bare, everyone, len(servers))
    np.testing.assert_allclose([np.median(each) for each in found], outside_s, atol=1e-9)


def test_requests_that_do_not_fit_and_those_that_failed(scenes: tuple[Scene, ...], servers: Tiers) -> None:
    run = scenes[0].cell
    ok, inputs = run.ok.copy(), run.input_tokens.copy()
    ok[3], inputs[5] = False, 5_000
    tokens = run.output_tokens.copy()
    tokens[3] = 0
    again = replay(
        replace(run, ok=ok, input_tokens=inputs, output_tokens=tokens), servers, 0.001, nothing(servers)
    )
    assert again.misfit.tolist() == [row == 5 for row in range(len(run))]
    assert np.isnan(again.done_s[5])
    assert np.isfinite(again.done_s[3])  # a load of one token
    assert again.done_s[3] == again.first_token_s[3]
