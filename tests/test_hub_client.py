"""The hub's own client against a hub on loopback, in a process that sees no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.grid.sources import write_jsonl
from tests.hub_server import COMMIT, serving
from tests.workplace import ROOT

PROGRAM = """
import json
from rbx.config.labelling import Prompts
from rbx.errors import DatasetError
from rbx.label.prompts.collect import collect
try:
    found = collect(Prompts.model_validate({"sources": [{"kind": "mix_instruct"}]}), lambda said: None)
    print(json.dumps([found.questions[0].prompt, found.provenance["prompts"]["mix_instruct"]]))
except DatasetError as error:
    print(error)
"""
REPOSITORY = "llm-blender/mix-instruct"


def run_program(home: Path, endpoint: str, **more: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    ours = {"HF_HOME": str(home), "HF_ENDPOINT": endpoint, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=inherited | ours | more,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(folder: Path) -> bytes:
    row = {"id": "laion/1", "instruction": "Name a tree.", "input": "", "output": "An oak."}
    return write_jsonl(folder / "rows.jsonl", [row]).read_bytes()


def test_the_file_that_is_needed_comes_and_is_used_offline_later(tmp_path: Path) -> None:
    names = ("train_data_prepared.jsonl", "val_data_prepared.jsonl", "README.md")
    with serving(REPOSITORY, {name: rows(tmp_path) for name in names}) as hub:
        online = run_program(tmp_path / "home", hub.url)
    assert hub.fetched == ["train_data_prepared.jsonl"]
    assert "Name a tree." in online
    assert COMMIT in online
    # The server is gone.
    assert run_program(tmp_path / "home", hub.url, HF_HUB_OFFLINE="1") == online


def test_a_gate_and_an_empty_cache_say_how_to_go_on(tmp_path: Path) -> None:
    with serving(REPOSITORY, {"train_data_prepared.jsonl": rows(tmp_path)}, gated=True) as hub:
        refused = run_program(tmp_path / "home", hub.url, HF_TOKEN="hf_not_to_be_shown")
    assert hub.fetched == []
    assert refused.startswith(
        f"{REPOSITORY} can't be fetched from the hub (GatedRepoError: 403 Client Error."
    )
    assert f"accept its licence at https://huggingface.co/datasets/{REPOSITORY} and set HF_TOKEN" in refused
    assert "hf_not_to_be_shown" not in refused
    offline = run_program(tmp_path / "home", hub.url, HF_HUB_OFFLINE="1")
    assert "(LocalEntryNotFoundError: " in offline
    assert offline.rstrip().endswith("--set source.prompts.sources.0.path=DIR")
