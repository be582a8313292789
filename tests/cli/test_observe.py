"""``rbx pool observe`` beside a server that publishes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rbx.cli.main import run
from rbx.engine.step_trace import read_step_trace
from rbx.serve.plugin.state_file import StateFile
from tests.serve.observe.servers import fake_server
from tests.serve.plugin.servers import execute, state_file


@contextmanager
def steps_running(file: StateFile) -> Iterator[None]:
    """Execute a step every few milliseconds meanwhile."""
    stop = threading.Event()

    def go() -> None:
        while not stop.is_set():
            start_s = time.monotonic()
            time.sleep(0.004)
            execute(file, start_s, time.monotonic(), decodes=2)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_driven_observation_writes_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "traces" / "t.parquet"
    file = state_file(tmp_path / "states", ring_capacity=4096)
    with fake_server() as fake, steps_running(file):
        command = ["pool", "observe", fake.url, "--state", str(tmp_path / "states"), "--out", str(out)]
        assert run([*command, "--drive", "--duration", "1"]) == 0
        assert len(fake.asked) > 10
    trace = read_step_trace(out)
    assert len(trace) > 50
    assert trace.metadata["model"] == "tiny"
    assert trace.metadata["vllm_version"] == "0.32.0"
    assert trace.metadata["engine"]["max_num_seqs"] == 4
    shown = capsys.readouterr()
    assert f"rbx train step-time {out}" in shown.out
    assert "requests" in shown.err


@pytest.mark.parametrize("background", [False, True])
def test_ctrl_c_keeps_what_there_is(
    background: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if background else signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    out = tmp_path / "t.parquet"
    file = state_file(tmp_path / "states", ring_capacity=4096)
    with fake_server() as fake, steps_running(file):
        threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        began_s = time.monotonic()
        code = run(
            ["pool", "observe", fake.url, "--state", str(file.path), "--duration", "60", "--out", str(out)]
        )
    assert code == 0
    assert time.monotonic() - began_s < 30.0
    assert len(read_step_trace(out)) > 50
    assert "stopped early" in capsys.readouterr().out


def test_the_end_of_the_server_ends_the_observation(tmp_path: Path) -> None:
    out = tmp_path / "t.parquet"
    file = state_file(tmp_path / "states", ring_capacity=4096)
    with fake_server() as fake, steps_running(file):
        threading.Timer(1.0, file.close).start()
        began_s = time.monotonic()
        assert run(["pool", "observe", fake.url, "--state", str(file.path), "--out", str(out)]) == 0
    assert time.monotonic() - began_s < 30.0
    assert len(read_step_trace(out)) > 10


def test_a_log_needs_no_plugin(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("INFO starting\n")
    text = (
        "Engine 000: Iteration(1): 1 context requests, 9 context tokens, 0 generation requests, 0 generation "
        "tokens, iteration elapsed time: 3.00 ms, GPU KV cache usage: 0.0%\n"
    )
    over = threading.Event()
    written = 0

    def keep_logging() -> None:
        nonlocal written
        with log.open("a", buffering=1) as file:
            while not over.wait(0.05):
                file.write(text)
                written += 1

    logging = threading.Thread(target=keep_logging)
    with fake_server() as fake:
        logging.start()
        out = tmp_path / "t.parquet"
        words = ["pool", "observe", fake.url, "--log", str(log), "--duration", "2", "--out", str(out)]
        try:
            assert run(words) == 0
        finally:
            over.set()
            logging.join()
    trace = read_step_trace(out)
    assert trace.context is None
    assert 1 <= len(trace) <= written
    assert trace.metadata["engine"] == {"block_size": 16, "kv_blocks": 40, "max_model_len": 128}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--state", "a", "--log", "b"], "two sources"),
        (["--out", "trace.csv"], "Parquet"),
        (["--log", "absent.log"], "no such log"),
        (["--state", "absent"], "PublishingScheduler"),
    ],
)
def test_what_cannot_be_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with fake_server() as fake:
        assert run(["pool", "observe", fake.url, "--out", "t.parquet", "--duration", "1", *options]) in (1, 2)
    assert words in capsys.readouterr().err


def test_two_servers_of_one_kind_must_be_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state_file(tmp_path), state_file(tmp_path, rank=1)
    out = str(tmp_path / "t.parquet")
    with fake_server() as fake:
        assert run(["pool", "observe", fake.url, "--state", str(tmp_path), "--out", out]) == 2
    assert "name one by --state" in capsys.readouterr().err


def test_prompts_beyond_the_context_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state_file(tmp_path)
    command = ["--state", str(tmp_path), "--out", str(tmp_path / "t.parquet"), "--drive"]
    with fake_server() as fake:
        code = run(["pool", "observe", fake.url, *command, "--max-prompt", "100", "--max-answer", "40"])
    assert code == 2
    assert "pass the server's 128" in capsys.readouterr().err


@pytest.mark.parametrize(
    "out", ["file/t.parquet", "file/deep/t.parquet", "folder.parquet", "/proc/none/t.parquet"]
)
def test_a_place_that_cannot_be_written_is_told_before_observing(
    out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.parquet").mkdir()
    state_file(tmp_path / "states")
    target = str(tmp_path / out)
    with fake_server() as fake:
        command = ["pool", "observe", fake.url, "--state", str(tmp_path / "states"), "--out", target]
        began_s = time.monotonic()
        assert run([*command, "--drive", "--duration", "60"]) == 1
        assert time.monotonic() - began_s < 30.0
        assert fake.asked == []
    assert f"{target}: can't be written" in capsys.readouterr().err
