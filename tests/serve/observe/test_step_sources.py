"""Steps out of a ring and out of a log, as often as someone comes for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbx.engine.step_trace import read_step_trace
from rbx.errors import DatasetError
from rbx.serve.observe.iteration_log import IterationLog
from rbx.serve.observe.recording import Recording
from rbx.serve.observe.step_ring import StepRing
from tests.serve.plugin.servers import execute, state_file


def line(number: int, prefills: tuple[int, int], decodes: int, ms: float, **others: Any) -> str:
    """One of vLLM's own lines, as ``--enable-logging-iteration-details`` writes them."""
    engine, generated, dummy = (
        others.get("engine", 0),
        others.get("generated", decodes),
        others.get("dummy", ""),
    )
    return (
        f"(APIServer pid=7) INFO 11-30 10:00:00 [loggers.py:199] Engine {engine:03d}: Iteration({number}): "
        f"{prefills[0]} context requests, {prefills[1]} context tokens, {decodes} generation requests, "
        f"{generated} generation tokens, iteration elapsed time: {ms:.2f} ms{dummy}"
        ", GPU KV cache usage: 0.4%\n"
    )


def test_a_ring_gives_each_step_once(tmp_path: Path) -> None:
    file = state_file(tmp_path)
    ring = StepRing(file.path)
    assert len(ring.take()[0]["start_s"]) == 0
    for k in range(5):
        execute(file, k, k + 0.5, decodes=k + 1)
    columns, lost = ring.take()
    assert (columns["decodes"].tolist(), lost) == ([1, 2, 3, 4, 5], 0)
    execute(file, 9.0, 9.5, decodes=7, prefill=3)
    columns, lost = ring.take()
    assert {name: values.tolist() for name, values in columns.items()} == {
        "start_s": [9.0],
        "end_s": [9.5],
        "decodes": [7],
        "decode_context_tokens": [350],
        "prefill_tokens": [3],
        "prefill_chunk_squared_tokens": [9],
        "prefill_cross_tokens": [0],
        "prefill_requests": [1],
    }
    assert lost == 0


def test_steps_overwritten_before_they_were_read_are_counted(tmp_path: Path) -> None:
    file = state_file(tmp_path, ring_capacity=4)
    ring = StepRing(file.path)
    for k in range(11):
        execute(file, k, k + 0.5, decodes=k + 1)
    columns, lost = ring.take()
    assert (columns["decodes"].tolist(), lost) == ([8, 9, 10, 11], 7)


def test_a_ring_tells_when_its_server_is_gone(tmp_path: Path) -> None:
    file = state_file(tmp_path)
    ring = StepRing(file.path)
    assert not ring.ended
    file.close()
    assert ring.ended


def test_a_log_gives_the_steps_of_its_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("INFO starting\n" + line(0, (2, 100), 0, 20.5) + line(1, (0, 0), 2, 4.0)[:60])
    log = IterationLog(path)
    columns, lost = log.take()
    assert lost == 0
    assert columns["prefill_tokens"].tolist() == [100]
    path.write_text(
        "INFO starting\n"
        + line(0, (2, 100), 0, 20.5)
        + line(1, (0, 0), 2, 4.0)
        + line(2, (0, 0), 0, 1.0, dummy=" (dummy)")
        + line(3, (1, 7), 2, 6.25)
    )
    columns, _ = log.take()
    assert columns["decodes"].tolist() == [2, 2]
    assert columns["prefill_tokens"].tolist() == [0, 7]
    assert columns["prefill_requests"].tolist() == [0, 1]
    np.testing.assert_allclose(columns["end_s"] - columns["start_s"], [0.004, 0.00625])
    np.testing.assert_allclose(columns["start_s"], [0.0205, 0.0245])
    assert len(log.take()[0]["decodes"]) == 0


def test_logs_of_several_engines_or_of_speculation_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(line(0, (1, 10), 0, 5.0, engine=1))
    with pytest.raises(DatasetError, match="engine 001"):
        IterationLog(path).take()
    path.write_text(line(0, (0, 0), 2, 5.0, generated=5))
    with pytest.raises(DatasetError, match="speculative"):
        IterationLog(path).take()
    with pytest.raises(DatasetError, match="no such log"):
        IterationLog(tmp_path / "absent.log")


def test_a_recording_is_what_came_after_its_start(tmp_path: Path) -> None:
    file = state_file(tmp_path)
    execute(file, 0.0, 1.0, decodes=9)
    recording = Recording(StepRing(file.path))
    execute(file, 1.0, 2.0, decodes=1)
    assert recording.collect() == 1
    execute(file, 2.5, 3.0, decodes=2)
    assert recording.collect() == 2
    recording.write(tmp_path / "trace.parquet", {"url": "here"})
    trace = read_step_trace(tmp_path / "trace.parquet")
    assert trace.decodes.tolist() == [1, 2]
    assert trace.context is not None
    assert (trace.metadata["model"], trace.metadata["url"], trace.metadata["lost_steps"]) == (
        "tiny",
        "here",
        0,
    )
    assert trace.metadata["engine"]["kv_blocks"] == 40


def test_a_log_becomes_a_trace_without_contexts(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(line(0, (1, 10), 0, 5.0))
    recording = Recording(IterationLog(path))
    with path.open("a") as log:
        log.write(line(1, (0, 0), 1, 2.0) + line(2, (0, 0), 1, 2.0))
    assert recording.collect() == 2
    recording.write(tmp_path / "trace.parquet", {})
    trace = read_step_trace(tmp_path / "trace.parquet")
    assert trace.context is None
    assert trace.decodes.tolist() == [1, 1]


def test_a_recording_without_steps_is_no_trace(tmp_path: Path) -> None:
    recording = Recording(StepRing(state_file(tmp_path).path))
    recording.collect()
    with pytest.raises(DatasetError, match="not one step"):
        recording.write(tmp_path / "trace.parquet", {})
