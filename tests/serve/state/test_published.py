"""Reading a published state: what is whole, what is refused, and the join with predictions."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbx.engine import snapshot_columns as snap
from rbx.errors import EngineError
from rbx.serve.plugin.layout import HEADER, SEQUENCE_AT, SNAPSHOT_AT, published_id
from rbx.serve.state import published
from rbx.serve.state.engine_ids import row_id
from rbx.serve.state.published import PublishedState, live_states, with_predictions
from tests.serve.plugin.servers import COEFFICIENTS, publish, state_file


def rewrite_header(path: Path, name: str, value: Any) -> None:
    header = np.memmap(path, HEADER, mode="r+", shape=(1,))
    header[name] = value
    header.flush()


def test_a_snapshot_comes_back_as_it_was_published(tmp_path: Path) -> None:
    file = state_file(tmp_path)
    state = PublishedState(file.path, COEFFICIENTS)
    publish(file, 7, 100.0, waiting=3, unmodelled=2)
    snapshot = state.read(100.5)
    assert (snapshot.version, snapshot.stamp_s, snapshot.running, snapshot.free_blocks) == (7, 100.0, 0, 40)
    assert snapshot.requests[:, snap.PROMPT].tolist() == [10, 11, 12]
    assert snapshot.profile.limits.kv_blocks == 40
    assert not snapshot.profile.limits.async_scheduling
    assert state.unmodelled == 2
    assert state.ids.tolist() == [published_id(f"w{k}", suffixed=False) for k in range(3)]


def test_before_the_first_publication_nothing_runs(tmp_path: Path) -> None:
    snapshot = PublishedState(state_file(tmp_path).path, COEFFICIENTS).read(1.0)
    assert len(snapshot.requests) == len(snapshot.steps) == 0


def test_predictions_are_joined_by_id(tmp_path: Path) -> None:
    file = state_file(tmp_path)
    publish(file, 1, 1.0, waiting=3)
    state = PublishedState(file.path, COEFFICIENTS)
    snapshot = state.read(2.0)
    joined = with_predictions(snapshot, state.ids, {published_id("w1", suffixed=False): 17, 5: 99})
    assert joined.requests[:, snap.PREDICTED].tolist() == [0, 17, 0]
    others = [column for column in range(snap.N_REQUEST) if column != snap.PREDICTED]
    assert np.array_equal(joined.requests[:, others], snapshot.requests[:, others])
    with pytest.raises(EngineError, match="2 names for 3 requests"):
        with_predictions(snapshot, state.ids[:2], {})


def test_the_ids_are_those_that_vllm_makes_of_a_header() -> None:
    assert row_id("abc", "completions") == published_id("cmpl-abc-0-12345678")
    assert row_id("abc", "completions", 2) == published_id("cmpl-abc-2-12345678")
    assert row_id("abc", "chat/completions") == published_id("chatcmpl-abc-12345678")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("magic", b"SOMETHIN", "no published state"),
        ("layout", 99, "layout 99"),
        ("request_columns", 3, "3 request columns"),
        ("row_capacity", 10**9, "can't hold"),
        ("kv_blocks", 1, "can't hold one request"),
        ("status", 1, "stopped publishing"),
        ("status", 2, "has ended"),
        ("pid", 2**22 + 12345, "has ended"),
    ],
)
def test_a_file_that_is_no_live_state_is_refused(tmp_path: Path, name: str, value: Any, words: str) -> None:
    file = state_file(tmp_path)
    rewrite_header(file.path, name, value)
    with pytest.raises(EngineError, match=words):
        PublishedState(file.path, COEFFICIENTS)


@pytest.mark.parametrize("content", [b"", b"RBXSTATE", b"x" * 10_000])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "engine.rbxstate"
    path.write_bytes(content)
    with pytest.raises(EngineError, match="published state"):
        PublishedState(path, COEFFICIENTS)
    with pytest.raises(EngineError, match="no published state here"):
        PublishedState(tmp_path / "absent", COEFFICIENTS)


def test_a_server_that_ends_later_is_noticed_once_its_word_is_old(tmp_path: Path) -> None:
    file = state_file(tmp_path)
    publish(file, 1, 100.0)
    state = PublishedState(file.path, COEFFICIENTS)
    state.read(100.0)
    file.stop("disk full")
    with pytest.raises(EngineError, match="disk full"):
        state.read(100.0)
    file.close()
    with pytest.raises(EngineError, match="has ended"):
        state.read(102.0)


def test_clocks_that_jump_are_refused(tmp_path: Path) -> None:
    file = state_file(tmp_path)
    publish(file, 5, 100.0)
    state = PublishedState(file.path, COEFFICIENTS)
    assert state.read(99.9).stamp_s == 100.0  # published between the caller's look at the clock and now
    with pytest.raises(EngineError, match=r"stamp_s is 100\.0 and now_s is 99\.0"):
        state.read(99.0)
    with pytest.raises(EngineError, match="now_s is nan"):
        state.read(float("nan"))
    publish(file, 6, 50.0)
    with pytest.raises(EngineError, match="the clock jumped"):
        state.read(101.0)


def test_a_snapshot_that_does_not_show_all_requests_is_none(tmp_path: Path) -> None:
    file = state_file(tmp_path)
    publish(file, 1, 1.0, left_out=2)
    with pytest.raises(EngineError, match="2 requests beyond the 1 published"):
        PublishedState(file.path, COEFFICIENTS).read(1.0)


def test_counts_that_cannot_be_are_refused_with_their_field(tmp_path: Path) -> None:
    file = state_file(tmp_path)
    publish(file, 1, 1.0, free_blocks=41)
    with pytest.raises(EngineError, match="free_blocks"):
        PublishedState(file.path, COEFFICIENTS).read(1.0)


@pytest.mark.parametrize("fault", ["odd", "checksum"])
def test_a_torn_snapshot_is_given_up_after_many_tries(
    tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = state_file(tmp_path)
    publish(file, 1, 1.0)
    place = SEQUENCE_AT if fault == "odd" else SNAPSHOT_AT
    words = np.memmap(file.path, "<u8", mode="r+", offset=place, shape=(1,))
    words[0] += 1
    words.flush()
    state = PublishedState(file.path, COEFFICIENTS)
    monkeypatch.setattr(published, "PAUSE_S", 0.0)
    with pytest.raises(EngineError, match="no whole snapshot"):
        state.read(1.0)


def write_forever(folder: Path) -> None:
    file = state_file(folder, row_capacity=256, max_num_seqs=256, max_num_batched_tokens=256)
    version = 0
    while True:
        version += 1
        publish(file, version, float(version), waiting=1 + version % 200)


def test_readers_never_see_half_a_snapshot(tmp_path: Path) -> None:
    """A writer as fast as it can be, whose every snapshot is recognisable as one whole."""
    writer = multiprocessing.get_context("spawn").Process(target=write_forever, args=(tmp_path,), daemon=True)
    writer.start()
    try:
        until_s = time.monotonic() + 30.0
        while not (paths := live_states(tmp_path)) and time.monotonic() < until_s:
            time.sleep(0.05)
        state, versions = PublishedState(paths[0], COEFFICIENTS), set()
        until_s = time.monotonic() + 1.0
        while time.monotonic() < until_s:
            snapshot = state.read(1e9)
            if snapshot.version:
                assert len(snapshot.requests) == 1 + snapshot.version % 200
                assert snapshot.stamp_s == snapshot.version
                versions.add(snapshot.version)
    finally:
        writer.terminate()
        writer.join()
    assert len(versions) > 10


def test_it_belongs_to_the_process_that_made_it(tmp_path: Path) -> None:
    assert str(os.getpid()) in state_file(tmp_path).path.name
