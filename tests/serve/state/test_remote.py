"""The published state of a server on another host."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx
import pytest

from rbx.engine import snapshot_columns as snap
from rbx.errors import EngineError, ServerError
from rbx.serve.plugin.layout import published_id
from rbx.serve.state.published import StateBytes
from rbx.serve.state.remote import PATH, RemoteState
from tests.serve.plugin.servers import COEFFICIENTS, publish, state_file


def remote(answer: Callable[[httpx.Request], httpx.Response], *times_s: float) -> RemoteState:
    """A reader whose clock shows ``times_s`` one after the other."""
    clock = iter(times_s or (1000.0, 1000.0))
    client = httpx.Client(transport=httpx.MockTransport(answer))
    return RemoteState("http://far:8000/v1/", COEFFICIENTS, client, 3, clock=lambda: next(clock))


def test_stamps_are_moved_to_the_readers_clock(tmp_path: Path) -> None:
    file = state_file(tmp_path)
    publish(file, 4, 50.0, waiting=2)
    state = StateBytes(file.path)
    asked: list[httpx.URL] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url)
        return httpx.Response(200, content=state.message(50.25))

    reader = remote(answer, 1000.0, 1000.5)
    snapshot = reader.read()
    assert asked == [httpx.URL(f"http://far:8000{PATH}?rank=3")]
    assert snapshot.stamp_s == pytest.approx(1000.25 - 0.25)
    assert snapshot.requests[:, snap.PROMPT].tolist() == [10, 11]
    assert reader.ids.tolist() == [published_id(f"w{k}", suffixed=False) for k in range(2)]
    assert snapshot.profile.limits.kv_blocks == 40


def test_steps_in_flight_move_along(tmp_path: Path) -> None:
    file = state_file(tmp_path)
    publish(file, 4, 50.0, 0, in_flight=1, step_start_s=[49.9, 0.0], steps=[[1, 5, 0, 0, 0], [0] * 5])
    state = StateBytes(file.path)
    snapshot = remote(lambda _: httpx.Response(200, content=state.message(50.0)), 1000.0, 1000.0).read()
    assert snapshot.stamp_s - snapshot.step_start_s[0] == pytest.approx(0.1)


def answered(content: bytes, request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, content=content)


def test_what_is_no_state_is_refused(tmp_path: Path) -> None:
    file = state_file(tmp_path)
    publish(file, 1, 1.0)
    whole = StateBytes(file.path).message(1.0)
    for content in (b"", b"hello" * 1000, whole[:-8], whole + bytes(8)):
        reader = remote(partial(answered, content))
        with pytest.raises(EngineError, match="far:8000"):
            reader.read()


def test_a_server_without_the_plugin_is_told_what_it_needs() -> None:
    with pytest.raises(ServerError, match="VLLM_PLUGINS=rbx-state"):
        remote(lambda _: httpx.Response(404, json={"detail": "Not Found"})).read()

    def nobody(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectTimeout("too slow")

    with pytest.raises(ServerError, match="no answer: too slow"):
        remote(nobody).read()


def test_a_dead_server_sends_nothing(tmp_path: Path) -> None:
    file = state_file(tmp_path)
    state = StateBytes(file.path)
    file.close()
    with pytest.raises(EngineError, match="has ended"):
        state.message(1.0)
