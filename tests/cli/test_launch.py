"""``rbx launch`` and ``rbx serve`` from the outside: processes, ports, signals and messages."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from rbx.cli.main import run
from rbx.config.endpoints import load_endpoints
from tests.cli.launching import launch_file
from tests.serve.launch.processes import POOLS, ROOT, Running, running

POOL = str(POOLS / "paper.yaml")
ASKED = {"model": "auto", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}


def ask(url: str, **changes: Any) -> httpx.Response:
    with httpx.Client(trust_env=False, timeout=60) as client:
        return client.post(f"{url}/v1/chat/completions", json={**ASKED, **changes})


def ports(path: Path) -> list[int]:
    return [httpx.URL(each.url).port or 0 for each in load_endpoints(path).value.instances.values()]


def free(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) != 0


def mock_launch(folder: Path, *more: str) -> list[str]:
    document = yaml.safe_load((ROOT / "experiments/launch/mock-paper.yaml").read_text())
    document["pool"] = POOL
    document["launcher"]["time_scale"] = 20.0
    path = launch_file(folder, **document)
    return ["launch", path, "--port", "0", "--endpoints-out", "endpoints.yaml", *more]


def up(command: Running) -> str:
    url = command.url
    command.wait_for("Ctrl-C")
    return url


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_papers_pool_is_served_until_a_signal_and_nothing_is_left(
    tmp_path: Path, number: signal.Signals
) -> None:
    with running(mock_launch(tmp_path), tmp_path) as command:
        url = up(command)
        assert "13 of 13 answer" in command.said
        plain = ask(url)
        assert plain.status_code == 200
        assert plain.json()["usage"]["completion_tokens"] == 5
        streamed = ask(url, stream=True, model="Qwen2.5-3B")
        assert streamed.headers["x-rbx-model"] == "Qwen2.5-3B"
        assert streamed.content.endswith(b"data: [DONE]\n\n")
        taken = [*ports(tmp_path / "endpoints.yaml"), httpx.URL(url).port or 0]
        assert len(set(taken)) == 14
        assert not any(free(port) for port in taken)
        assert command.left()

        command.process.send_signal(number)
        assert command.process.wait(30.0) == 0
        assert command.left() == []
        assert all(free(port) for port in taken)
        assert "everything has ended" in command.said
        assert "Traceback" not in command.said
        assert "Ctrl-C" in (tmp_path / "results/launch/paper/mock-tier.log").read_text()


def test_what_is_launched_does_not_outlive_a_killed_rbx(tmp_path: Path) -> None:
    with running(mock_launch(tmp_path), tmp_path) as command:
        up(command)
        taken = ports(tmp_path / "endpoints.yaml")
        assert command.left()
        command.process.kill()
        command.process.wait()
        command.nothing_left()
        assert all(free(port) for port in taken)


def test_a_second_launch_into_the_same_logs_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    logs = str(tmp_path / "logs")
    with running(mock_launch(tmp_path, "--no-gateway", "--logs", logs), tmp_path) as command:
        command.wait_for("13 instances")
        other = tmp_path / "other"
        other.mkdir()
        with running(mock_launch(other, "--no-gateway", "--logs", logs), other) as second:
            assert second.process.wait(60.0) == 1
            assert f"{logs}: another launch keeps its logs" in second.said
            assert "--logs" in second.said
            assert second.left() == []
        command.process.kill()
        command.process.wait()
        with running(mock_launch(other, "--no-gateway", "--logs", logs), other) as second:
            second.wait_for("13 instances")
            second.process.send_signal(signal.SIGINT)
            assert second.process.wait(30.0) == 130


def test_ctrl_c_while_tiers_come_up_leaves_nothing(tmp_path: Path) -> None:
    with running(mock_launch(tmp_path), tmp_path) as command:
        command.wait_for("13 instances")
        command.process.send_signal(signal.SIGINT)
        assert command.process.wait(30.0) == 130
        assert command.left() == []
        assert "stopped before everything was up" in command.said


def test_a_process_that_dies_while_serving_ends_the_rest(tmp_path: Path) -> None:
    with running(mock_launch(tmp_path), tmp_path) as command:
        up(command)
        guards = [pid for pid in command.left() if b"guard.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        (served,) = [pid for pid in command.left() if pid not in guards]
        os.kill(served, signal.SIGKILL)
        assert command.process.wait(30.0) == 1
        assert command.left() == []
        assert "mock-tier ended with exit code 137" in command.said
        assert "the last lines of" in command.said


def test_a_server_of_another_model_is_not_taken_for_ours(tmp_path: Path) -> None:
    with running(mock_launch(tmp_path, "--no-gateway"), tmp_path) as command:
        command.wait_for("all instances are ready")
        document = yaml.safe_load((tmp_path / "endpoints.yaml").read_text())
        places = document["instances"]
        places["72b-a100x4/0"], places["3b-a30/0"] = places["3b-a30/0"], places["72b-a100x4/0"]
        (tmp_path / "swapped.yaml").write_text(yaml.safe_dump(document))
        other = tmp_path / "other"
        other.mkdir()
        swapped = ["launch", POOL, "--endpoints", str(tmp_path / "swapped.yaml"), "--port", "0"]
        with running(swapped, other) as second:
            assert second.process.wait(60.0) == 1
            assert "2 of 13 instances are not what the pool says" in second.said
            for name, theirs, ours in (("72b-a100x4/0", "3B", "72B"), ("3b-a30/0", "72B", "3B")):
                url = places[name]["url"]
                assert f"{name} at {url} serves Qwen2.5-{theirs}, not 'Qwen2.5-{ours}'" in second.said
        right = ["launch", POOL, "--endpoints", str(tmp_path / "endpoints.yaml"), "--port", "0"]
        with running(right, other) as second:
            assert ask(up(second)).status_code == 200
            second.process.send_signal(signal.SIGINT)
            assert second.process.wait(30.0) == 0
        serve = ["serve", "--pool", POOL, "--endpoints", str(tmp_path / "endpoints.yaml"), "--port", "0"]
        with running(serve, other) as second:
            url = up(second)
            assert ask(url).status_code == 200
            taken = httpx.URL(url).port
            assert run([*serve[:-1], str(taken)]) == 1
            second.process.send_signal(signal.SIGTERM)
            assert second.process.wait(30.0) == 0
        assert len(command.left()) == 2  # attaching ended nothing


def test_usage_that_does_not_hold_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    endpoints = tmp_path / "endpoints.yaml"
    names = [
        f"{tier}/{k}"
        for tier, n in (("72b-a100x4", 2), ("14b-v100x4", 3), ("7b-a30", 5), ("3b-a30", 3))
        for k in range(n)
    ]
    endpoints.write_text(
        yaml.safe_dump({"instances": {name: {"url": f"http://127.0.0.1:9/{name}"} for name in names}})
    )
    serve = ["serve", "--pool", POOL, "--endpoints", str(endpoints), "--port", "0"]
    for more, code, words in (
        (["--host", "0.0.0.0"], 2, "--token-env"),
        (["--host", "0.0.0.0", "--token-env", "RBX_NOT_SET"], 1, "RBX_NOT_SET"),
        (["--policy", "fastest"], 1, "'fastest' is neither one of"),
        (["--policy", "bear"], 1, "--bundle"),
        (["--policy", "{kind: always, model: GPT}"], 1, "GPT"),
        (["--policy", "random", "--config", str(endpoints)], 2, "give one of them"),
        (["--set", "watch.period_s=-1"], 1, "watch.period_s"),
    ):  # fmt: skip
        assert run([*serve, *more]) == code, more
        assert words in capsys.readouterr().err
    missing = launch_file(tmp_path, pool=POOL, launcher={"kind": "local", "tiers": {"x": {}}})
    for arguments, code, words in (
        ([POOL, "--launcher", "local"], 1, "needs 28 GPUs" if _vllm() else "no program 'vllm'"),
        ([missing], 1, "has no tier x"),
        ([POOL, "--launcher", "mock", "--endpoints", str(endpoints)], 2, "--launcher attach"),
        ([POOL, "--set", "launcher.time_scale=0"], 1, "launcher.time_scale"),
    ):
        assert run(["launch", *arguments, "--port", "0"]) == code, arguments
        assert words in capsys.readouterr().err


def _vllm() -> bool:
    import shutil

    return shutil.which("vllm") is not None
