"""A cell read back is the cell that ran."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rbx.errors import StoreError
from rbx.sweep.compare.cell_run import read_cell_run, to_cell_run
from rbx.sweep.store import SweepStore
from tests.sweep.compare.live_scenes import Scene, write_store


def test_requests_come_back_with_servers_lengths_and_tokens(
    scenes: tuple[Scene, ...], tmp_path: Path
) -> None:
    scene = scenes[0]
    write_store(tmp_path / "live", [scene])
    run = read_cell_run(SweepStore(tmp_path / "live"), scene.spec, scene.context.pool)
    np.testing.assert_array_equal(run.instance, scene.outcome.instance)
    np.testing.assert_array_equal(run.output_tokens, scene.outcome.output_tokens)
    np.testing.assert_array_equal(run.by_length, scene.outcome.wanted_tokens >= scene.outcome.max_tokens)
    assert 0 < run.by_length.sum() < len(run)
    assert run.placed.all()
    for row in range(len(run)):
        tokens_s = run.tokens_s(row)
        assert tokens_s is not None
        assert len(tokens_s) == run.output_tokens[row]
        assert tokens_s[0] == pytest.approx(run.first_token_s[row], abs=0.02)


def test_tokens_without_a_chunk_came_at_the_end_or_in_the_longest_gaps_unless_they_are_many(
    scenes: tuple[Scene, ...],
) -> None:
    scene = scenes[0]
    whole = scene.live.to_pylist()
    row = next(n for n, entry in enumerate(whole) if len(entry["chunk_s"]) > 60)
    stamps = np.array(whole[row]["chunk_s"])

    def without(*positions: int) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
        cut = [dict(entry) for entry in whole]
        kept = np.delete(stamps, positions)
        cut[row] |= {"chunk_s": kept.tolist(), "chunk_tokens": [1] * len(kept)}
        table = pa.Table.from_pylist(cut, schema=scene.live.schema)
        return to_cell_run(scene.spec, scene.records, table, scene.context.pool).tokens_s(row)

    last = len(stamps) - 1
    at_the_end = without(last)
    assert at_the_end is not None
    np.testing.assert_allclose(at_the_end, stamps, atol=1e-4)
    held_back = without(20, last)
    assert held_back is not None
    assert len(held_back) == len(stamps)
    # Wherever it is put, no token moves by more than a step or two.
    assert np.abs(held_back - stamps).max() < 3 * np.diff(stamps).max()
    assert without(*range(10, 10 + len(stamps) // 5)) is None


def test_a_request_without_server_or_dispatch_is_not_placed_unless_it_was_sent_to_one(
    scenes: tuple[Scene, ...],
) -> None:
    scene = scenes[0]
    rows = scene.records.to_pylist()
    rows[0] |= {"instance": None}
    rows[1] |= {"dispatched_s": None}
    records = pa.Table.from_pylist(rows, schema=scene.records.schema)
    run = to_cell_run(scene.spec, records, scene.live, scene.context.pool)
    assert not run.placed[0]
    assert run.placed[1]
    assert run.dispatched_s[1] == run.sent_s[1]
    assert run.placed[2:].all()


def test_a_cell_without_stamps_is_told_by_file(scenes: tuple[Scene, ...], tmp_path: Path) -> None:
    scene = scenes[0]
    folder = write_store(tmp_path / "live", [scene])
    (folder / "live" / f"{scene.spec.cell_id}.parquet").unlink()
    with pytest.raises(StoreError, match=rf"live/{scene.spec.cell_id}\.parquet"):
        read_cell_run(SweepStore(folder), scene.spec, scene.context.pool)
