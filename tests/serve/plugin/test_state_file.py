"""Files of published states: who may read them, and whose they are."""

from __future__ import annotations

import multiprocessing
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from rbx.serve.plugin.layout import HEADER, published_id
from rbx.serve.plugin.processes import process_started, runs
from rbx.serve.plugin.state_file import private_directory, remove_stale, state_directory
from rbx.serve.state.published import live_states
from tests.serve.plugin.servers import state_file


def test_only_the_user_can_read_it(tmp_path: Path) -> None:
    file = state_file(tmp_path / "states")
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700


def test_the_folder_is_the_one_in_the_environment_or_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RBX_STATE_DIR", "somewhere")
    assert state_directory() == Path("somewhere")
    monkeypatch.delenv("RBX_STATE_DIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "runtime")
    assert state_directory() == Path("runtime/rbx")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert state_directory().name == f"rbx-{os.getuid()}"


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(PermissionError, match="RBX_STATE_DIR"):
        private_directory(tmp_path)


def test_each_rank_of_a_process_has_its_own(tmp_path: Path) -> None:
    first, second = state_file(tmp_path), state_file(tmp_path, rank=1)
    assert live_states(tmp_path) == sorted([first.path, second.path])
    first.close()
    assert live_states(tmp_path) == [second.path]


def test_what_dead_processes_left_is_known_and_removed_by_the_next_server(tmp_path: Path) -> None:
    other = multiprocessing.get_context("spawn").Process(target=state_file, args=(tmp_path,))
    other.start()
    other.join()
    (left,) = tmp_path.glob("*.rbxstate")
    assert live_states(tmp_path) == []
    alien = tmp_path / "notes.rbxstate"
    alien.write_bytes(b"not a state")
    mine = state_file(tmp_path)
    assert not left.exists()
    assert alien.exists()
    assert live_states(tmp_path) == [mine.path]


def test_a_process_id_used_again_is_no_sign_of_life(tmp_path: Path) -> None:
    me = os.getpid()
    started = process_started(me)
    assert runs(me, started)
    assert runs(me, 0)  # a system that does not tell
    if started:
        assert not runs(me, started + 1)
        file = state_file(tmp_path)
        header = np.memmap(file.path, HEADER, mode="r+", shape=(1,))
        header["pid_started"] = started + 1
        header.flush()
        assert live_states(tmp_path) == []
        remove_stale(tmp_path)
        assert not file.path.exists()


def test_an_id_is_the_same_with_and_without_vllms_random_end() -> None:
    assert published_id("cmpl-abc-0-0123abcd") == published_id("cmpl-abc-0", suffixed=False)
    assert published_id("cmpl-abc-0-0123abcd") != published_id("cmpl-abc-1-0123abcd")
    assert -(2**63) <= published_id("x") < 2**63
