"""DeepEval writes nothing, sends nothing and says nothing of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rbx.errors import MissingExtraError
from rbx.label.judge.quiet import ENVIRONMENT, prepare_deepeval
from tests.label.scripted_server import answer, scripted
from tests.workplace import ROOT

PROGRAM = """
import asyncio, json, os, sys

connected, written = [], []

def watch(event, arguments):
    if event in ("socket.connect", "socket.sendto"):
        connected.append(str(arguments[1]))
    elif event == "socket.getaddrinfo":
        connected.append(str(arguments[:2]))
    elif event in ("os.mkdir", "os.rename", "os.remove"):
        written.append(str(arguments[0]))
    elif event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
        written.append(str(arguments[0]))

sys.addaudithook(watch)

from rbx.label.answer import Verdict
from tests.label.judge.judging import HARMFUL, answer_to, build_judge, scored, spec

judge = build_judge(spec(sys.argv[1]), "quality")
found = asyncio.run(scored(judge, [answer_to(), answer_to(HARMFUL)] * 3))
print(json.dumps({
    "scores": [each.score for each in found],
    "connected": sorted(set(connected)),
    "written": sorted(set(written)),
    "from_dotenv": os.environ.get("OPENAI_API_KEY"),
}))
"""


def test_a_judging_process_touches_the_judges_server_alone(tmp_path: Path) -> None:
    work, home, scratch = (tmp_path / name for name in ("work", "home", "scratch"))
    for folder in (work, home, scratch):
        folder.mkdir()
    (work / ".env").write_text("OPENAI_API_KEY=sk-from-dotenv\n")
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    more = {
        "HOME": str(home),
        "TMPDIR": str(scratch),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with scripted(lambda path, body: answer('{"reason": "fine", "score": 7}')) as server:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, server.url],
            cwd=work,
            env=kept | more,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert told["scores"] == [0.7] * 6
    assert told["from_dotenv"] is None
    assert told["connected"] == [str(("127.0.0.1", urlsplit(server.url).port))]
    # Python itself tries whether it can write to the folder for temporary files.
    assert [path for path in told["written"] if path != os.devnull and Path(path).parent != scratch] == []
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".env", "home", "scratch", "work"]


def test_without_deepeval_the_install_line_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT:
        monkeypatch.setenv(name, os.environ.get(name, ""))
    prepare_deepeval.cache_clear()
    monkeypatch.setitem(sys.modules, "deepeval", None)
    with pytest.raises(MissingExtraError, match=r"pip install -e '.\[judge\]'"):
        prepare_deepeval()


def test_a_variable_that_deepeval_refuses_is_named_without_its_value(tmp_path: Path) -> None:
    program = "from rbx.label.judge.quiet import prepare_deepeval as p\np()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TEMPERATURE": "sk-secret"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "ConfigError: DeepEval refuses the environment variables TEMPERATURE" in done.stderr
    assert "sk-secret" not in done.stderr
