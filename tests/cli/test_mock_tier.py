from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from rbx.cli.main import run
from rbx.config.endpoints import load_endpoints
from rbx.config.pool import load_pool

ROOT = Path(__file__).resolve().parents[2]
POOL = str(ROOT / "experiments" / "pools" / "qwen3-8b-x3.yaml")
SCRIPT = [sys.executable, "-c", "from rbx.cli.main import main; main()", "mock-tier"]


@contextmanager
def running(arguments: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command once it says that it serves."""
    with log.open("wb") as out, subprocess.Popen([*SCRIPT, *arguments], stdout=out, stderr=out) as process:
        try:
            end_s = time.monotonic() + 180.0
            while b"Ctrl-C" not in log.read_bytes():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < end_s, log.read_text()
                time.sleep(0.1)
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_serves_until_it_is_told_to_end(tmp_path: Path, number: signal.Signals) -> None:
    out, log = tmp_path / "endpoints.yaml", tmp_path / "log"
    faults = tmp_path / "faults.yaml"
    faults.write_text("faults: [{kind: status, target: 8b-h100/2, code: 503}]")
    arguments = [
        POOL,
        "--port",
        "0",
        "--time-scale",
        "20",
        "--endpoints-out",
        str(out),
        "--faults",
        str(faults),
    ]
    with running(arguments, log) as process:
        endpoints = load_endpoints(out).value.of(load_pool(Path(POOL)).value)
        shown = log.read_text()
        assert [endpoint.url in shown for endpoint in endpoints] == [True] * 3
        body = {"prompt": "hello", "max_tokens": 3}
        answers = [httpx.post(f"{endpoint.url}/completions", json=body) for endpoint in endpoints]
        assert [answer.status_code for answer in answers] == [200, 200, 503]
        assert answers[0].json()["model"] == "Qwen3-8B"
        found = re.search(r"http://\S+/faults", shown)
        assert found is not None
        assert httpx.delete(found[0]).status_code == 200
        assert httpx.post(f"{endpoints[2].url}/completions", json=body).status_code == 200

        process.send_signal(number)
        assert process.wait(20.0) == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{endpoints[0].url}/models")
    assert "Traceback" not in log.read_text()


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    out = tmp_path / "endpoints.yaml"
    with running([POOL, "--port", "0", "--endpoints-out", str(out)], tmp_path / "log"):
        url = load_endpoints(out).value.instances["8b-h100/0"].url
        port = httpx.URL(url).port
        done = subprocess.run(
            [*SCRIPT, POOL, "--port", str(port)], capture_output=True, text=True, check=False, timeout=120
        )
    assert done.returncode == 1
    assert f"port {port} is in use" in done.stderr


def test_faults_that_do_not_hold_are_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text("faults: [{kind: slow, factor: 0}, {kind: refuse, target: x, end_s: -1}]")
    assert run(["mock-tier", POOL, "--port", "0", "--faults", str(file)]) == 1
    said = capsys.readouterr().err
    assert "faults.0.slow.factor" in said
    assert "faults.1.refuse.end_s" in said
    file.write_text("faults: [{kind: refuse, target: x}]")
    assert run(["mock-tier", POOL, "--port", "0", "--faults", str(file)]) == 1
    assert "named x" in capsys.readouterr().err
