"""Two sweeps never measure each other, and a killed one leaves nothing to clean up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rbx.errors import StoreError
from rbx.sweep.live.pool_lock import pool_lock

HOLD = """
import sys, time
from rbx.sweep.live.pool_lock import pool_lock
with pool_lock(sys.argv[1:]):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def holder(*addresses: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, *addresses], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_the_same_servers_are_held_once_however_their_address_is_written() -> None:
    process = holder("http://127.0.0.1:8200", "http://10.0.0.1")
    try:
        for same in ("http://localhost:8200/v1", "http://[::1]:8200/", "http://10.0.0.1:80/v1"):
            with pytest.raises(StoreError, match="another live sweep uses"), pool_lock([same]):
                pass
        with pool_lock(["http://127.0.0.1:8201", "https://10.0.0.1", "launch.yaml"]):
            pass
    finally:
        process.kill()
        process.wait()


def test_all_are_held_or_none() -> None:
    process = holder("http://b:1")
    try:
        with pytest.raises(StoreError, match="b:1"), pool_lock(["http://a:1", "http://b:1", "http://c:1"]):
            pass
        with pool_lock(["http://a:1", "http://c:1"]):
            pass
    finally:
        process.kill()
        process.wait()


def test_a_sweep_that_was_killed_holds_nothing_any_more() -> None:
    process = holder("http://a:1")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with pool_lock(["http://a:1"]):
        pass


def test_one_server_named_twice_is_held_once() -> None:
    with pool_lock(["http://a:1", "http://a:1/v1", "http://A:1/"]):
        pass
