"""Files under the name of a published state that are none, are cut short, or hold what can't be."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from rbx.errors import EngineError
from rbx.serve.observe.server import ServerIdentity
from rbx.serve.observe.session import state_file as chosen_state
from rbx.serve.observe.step_ring import StepRing
from rbx.serve.plugin.layout import HEADER, MESSAGE, STEPS_AT
from rbx.serve.plugin.processes import runs
from rbx.serve.plugin.state_file import remove_stale
from rbx.serve.state.published import PublishedState, StateBytes, live_states
from rbx.serve.state.remote import RemoteState
from tests.serve.plugin.servers import COEFFICIENTS, execute, publish, state_file

HANGS_S = 20.0
IMPOSSIBLE_PIDS = [2**62, -(2**63), -1, 0]
TINY = ServerIdentity("http://x", "tiny", None, None, None, None)


def rewrite(path: Path, name: str, value: Any) -> None:
    header = np.memmap(path, HEADER, mode="r+", shape=(1,))
    header[name] = value
    header.flush()


def answer_of(question: Callable[[], Any]) -> Any:
    """What ``question`` answers; fails if it does not answer at all."""
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(question()), daemon=True)
    asking.start()
    asking.join(HANGS_S)
    assert answers, "still waiting, or an exception above"
    return answers[0]


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_pipe(path: Path) -> None:
    os.mkfifo(path.with_suffix(".pipe"))
    path.symlink_to(path.with_suffix(".pipe"))


def folder(path: Path) -> None:
    path.mkdir()


def listener(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def dangling(path: Path) -> None:
    path.symlink_to("absent")


@pytest.mark.parametrize("make", [pipe, link_to_pipe, folder, listener, dangling])
def test_what_is_no_regular_file_is_passed_over_at_once(
    tmp_path: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    states = Path()
    make(states / "a.rbxstate")
    mine = answer_of(lambda: state_file(states))  # removes what is stale
    assert answer_of(lambda: live_states(states)) == [mine.path]
    assert answer_of(lambda: chosen_state(states, TINY)) == mine.path
    assert os.path.lexists("a.rbxstate")
    with pytest.raises(EngineError, match=r"a\.rbxstate"):
        StateBytes(states / "a.rbxstate")


@pytest.mark.parametrize("left_bytes", [0, 100, 4096, 8192])
def test_a_file_cut_short_under_its_reader_is_refused(tmp_path: Path, left_bytes: int) -> None:
    file = state_file(tmp_path, row_capacity=4096)
    publish(file, 1, 1.0, waiting=1)
    execute(file, 1.0, 1.5)
    state, raw, ring = PublishedState(file.path, COEFFICIENTS), StateBytes(file.path), StepRing(file.path)
    assert len(ring.take()[0]["start_s"]) == 1
    os.truncate(file.path, left_bytes)
    for read in (lambda: state.read(1.0), lambda: raw.message(1.0), raw.require_writer, raw.copy):
        with pytest.raises(EngineError, match=f"{left_bytes} bytes are left"):
            read()
    columns, lost = ring.take()
    assert ({len(values) for values in columns.values()}, lost, ring.ended) == ({0}, 0, True)
    assert ring.describe()["model"] == "tiny"  # so that what was recorded can still be written
    assert live_states(tmp_path) == []


@pytest.mark.parametrize("pid", IMPOSSIBLE_PIDS)
def test_numbers_that_no_process_can_have_are_dead(tmp_path: Path, pid: int) -> None:
    assert not runs(pid, 0)
    file = state_file(tmp_path)
    rewrite(file.path, "pid", pid)
    rewrite(file.path, "pid_started", 0)
    assert live_states(tmp_path) == []
    with pytest.raises(EngineError, match=rf"process {pid}\) has ended"):
        PublishedState(file.path, COEFFICIENTS)
    remove_stale(tmp_path)
    assert not file.path.exists()


def test_texts_that_are_no_utf_8_are_shown_as_far_as_they_go(tmp_path: Path) -> None:
    stopped, other = state_file(tmp_path), state_file(tmp_path, rank=1)
    rewrite(other.path, "served_name", b"\xff\xfe")
    rewrite(other.path, "vllm_version", b"0.\xc3")
    assert chosen_state(tmp_path, TINY) == stopped.path
    assert StepRing(other.path).describe()["vllm_version"] == "0.\ufffd"
    stopped.stop("x" + "é" * 300)  # the 512 bytes that fit end in half a character
    with pytest.raises(EngineError, match=r"stopped publishing: xé+\ufffd"):
        StateBytes(stopped.path).require_writer()
    assert live_states(tmp_path) == [other.path]


@pytest.mark.parametrize("status", [-1, 3, 99, 2**62])
def test_an_unknown_status_is_refused(tmp_path: Path, status: int) -> None:
    file = state_file(tmp_path)
    publish(file, 1, 1.0)
    state, message = PublishedState(file.path, COEFFICIENTS), bytearray(StateBytes(file.path).message(1.0))
    rewrite(file.path, "status", status)
    with pytest.raises(EngineError, match=f"status is {status}"):
        state.read(1.0)
    with pytest.raises(EngineError, match=f"status is {status}"):
        PublishedState(file.path, COEFFICIENTS)
    assert live_states(tmp_path) == []
    np.frombuffer(message, HEADER, 1)["status"] = status
    with pytest.raises(EngineError, match=f"status is {status}"):
        far(bytes(message)).read()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("requests", -1),
        ("requests", -(2**63)),
        ("requests", 9),
        ("requests", 2**62),
        ("left_out", -3),
        ("unmodelled", -1),
        ("in_flight", -1),
        ("in_flight", 3),
        ("version", -1),
        ("running", -1),
        ("free_blocks", -1),
        ("stamp_s", -np.inf),
    ],
)
def test_scalars_that_cannot_be_are_refused_with_their_field(tmp_path: Path, name: str, value: float) -> None:
    """Their checksum is right: the writer itself, or whoever stands in for it, has put them there."""
    file = state_file(tmp_path)
    rows = 0 if name == "requests" and value < 0 else 8
    scalars: dict[str, Any] = {"version": 1, "stamp_s": 1.0, "waiting": rows} | {name: value}
    publish(file, **scalars)
    state = PublishedState(file.path, COEFFICIENTS)
    with pytest.raises(EngineError, match=f"{name} is"):
        state.read(1.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("left_out", -3), ("in_flight", -1), ("stamp_s", np.nan), ("stamp_s", np.inf), ("requests", -1)],
)
def test_a_message_with_them_is_refused_too(tmp_path: Path, name: str, value: float) -> None:
    file = state_file(tmp_path)
    publish(file, 1, 1.0)
    message = bytearray(StateBytes(file.path).message(1.0))
    assert len(far(bytes(message)).read().requests) == 1
    np.frombuffer(message, MESSAGE, 1)["snapshot"][name] = value
    with pytest.raises(EngineError, match=f"{name} is|do not hold -1 requests"):
        far(bytes(message)).read()


@pytest.mark.parametrize("now_s", [np.nan, np.inf, -np.inf])
def test_a_message_needs_its_time(tmp_path: Path, now_s: float) -> None:
    file = state_file(tmp_path)
    publish(file, 1, 1.0)
    with pytest.raises(EngineError, match="now_s is"):
        far(StateBytes(file.path).message(now_s)).read()


@pytest.mark.parametrize("name", ["chunked_prefill", "async_scheduling", "reserve_full_prompt"])
def test_a_switch_is_on_or_off(tmp_path: Path, name: str) -> None:
    with pytest.raises(EngineError, match=f"{name} is 7; it is 0 or 1"):
        PublishedState(state_file(tmp_path, **{name: 7}).path, COEFFICIENTS)


def test_a_count_of_steps_that_goes_back_is_refused(tmp_path: Path) -> None:
    file = state_file(tmp_path)
    ring = StepRing(file.path)
    count = np.memmap(file.path, "<i8", mode="r+", offset=STEPS_AT, shape=(1,))
    count[0] = -5
    count.flush()
    with pytest.raises(EngineError, match="steps is -5 after 0"):
        ring.take()


def far(content: bytes) -> RemoteState:
    client = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, content=content)))
    return RemoteState("http://far:8000", COEFFICIENTS, client)
