"""What the section "Try it" of docs/serving.md tells a reader to run, run as it stands."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.launch.processes import ROOT, Running, running

ADDRESS = "http://127.0.0.1:8200"
PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## Try it\n")[2].partition("\n## ")[0]
LAUNCH, CURLS = re.findall(r"^```bash\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
(CLIENT,) = re.findall(r"^```python\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
MODELS = {"Qwen2.5-72B", "Qwen2.5-14B", "Qwen2.5-7B", "Qwen2.5-3B"}


@pytest.fixture(
    scope="module",
    params=[LAUNCH, "rbx launch experiments/pools/paper.yaml --set launcher.time_scale=20"],
    ids=["launch file", "pool file"],
)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The command on a free port in a folder with the experiments; Ctrl-C must end all of it."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copytree(ROOT / "experiments", folder / "experiments")
    program, *arguments = shlex.split(request.param)
    assert program == "rbx"
    with running([*arguments, "--port", "0"], folder) as command:
        command.wait_for("Ctrl-C")
        assert len(command.left()) >= 2
        yield command
        command.process.send_signal(signal.SIGINT)
        assert command.process.wait(30.0) == 0, command.said
        assert command.left() == []
        assert "everything has ended" in command.said


def at(served: Running, commands: str) -> str:
    """The commands with the address where it really listens."""
    assert ADDRESS in commands
    return commands.replace(ADDRESS, served.url)


def read(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def chunks(stream: str) -> list[dict[str, Any]]:
    """The JSON events of a stream that ends as it should."""
    *events, done, rest = stream.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def test_curl(served: Running, tmp_path: Path) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    commands = at(served, CURLS).replace("\\\n", " ").splitlines()
    heard = [read([curl, "-f", *shlex.split(command)[1:]], tmp_path) for command in commands]
    ready, listed, plain, streamed, estimate, config = heard

    assert sum(len(names) for names in json.loads(ready)["models"].values()) == 13
    assert {each["id"] for each in json.loads(listed)["data"]} == {"auto", "rbx", *MODELS}
    answer = json.loads(plain)
    assert answer["model"] in MODELS
    assert answer["choices"][0]["message"]["content"]
    assert answer["usage"]["completion_tokens"] >= 1
    events = chunks(streamed)
    assert "".join(event["choices"][0]["delta"].get("content") or "" for event in events)
    assert events[-1]["choices"][0]["finish_reason"] in ("stop", "length")
    told = json.loads(estimate)
    assert told["predictions"] == "mean"
    assert {each["model"] for each in told["models"]} == MODELS
    assert len(told["instances"]) == 13
    assert json.loads(config)["config"]["policy"]["kind"] == "passthrough"


def test_the_official_client(served: Running, tmp_path: Path) -> None:
    pytest.importorskip("openai")
    program = tmp_path / "client.py"
    program.write_text(at(served, CLIENT))
    shown = read([sys.executable, str(program)], tmp_path).splitlines()
    model, cost_usd, exhausted = shown[0].split()
    assert model in MODELS
    assert 0.0 < float(cost_usd) <= 1e-5
    assert exhausted in ("true", "false")
    plain, streamed, refused = shown[1:]
    assert plain.split()
    assert streamed.split()
    assert refused.strip() == "model_not_found"
