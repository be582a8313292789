"""The cookbook done as it stands: its package installed, its experiment swept, its cells looked at."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from tests.workplace import ROOT, Workplace

PAGE = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
_FILE = re.compile(
    r"^[^\n]*`((?:my-policies/)?[\w-]+\.(?:toml|py|yaml))`[^\n]*\n\n```\w+\n(.*?)^```$", re.M | re.S
)
FILES = dict(_FILE.findall(PAGE))
NAME = "results/my-policies"


@dataclass(frozen=True)
class Kitchen:
    """The reader's folder, and the environment in which the package is installed."""

    place: Workplace
    installed: Path

    def rbx(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.place.command(*words),
            cwd=self.place.folder,
            env={**os.environ, "PYTHONPATH": f"{self.installed}{os.pathsep}{ROOT}"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def sweep(self, *words: str) -> dict[str, Any]:
        done = self.rbx("sweep", "my-policies.yaml", "--json", "--jobs", "2", *words)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def manifest(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.place.folder / NAME / "manifest.json").read_text())
        return found

    def records(self) -> dict[str, dict[str, list[Any]]]:
        """Columns of each cell, by its label."""
        cells = self.place.folder / NAME / "cells"
        return {
            cell["label"]: pq.read_table(cells / f"{cell['cell_id']}.parquet").to_pydict()
            for cell in self.manifest()["cells"]
        }


def install(source: Path, target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    command += [
        "--no-index",
        "--disable-pip-version-check",
        "--upgrade",
        "--target",
        str(target),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def kitchen(workplace: Workplace, tmp_path_factory: pytest.TempPathFactory) -> Kitchen:
    folder = tmp_path_factory.mktemp("reader")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    shutil.copytree(ROOT / "experiments", folder / "experiments")
    for name, of_ours in (
        ("datasets/quickstart", "datasets/tiny"),
        ("results/bundles/quickstart", "results/bundles/tiny"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(workplace.folder / of_ours, folder / name)
    cook = Kitchen(Workplace(folder), tmp_path_factory.mktemp("installed"))
    install(folder / "my-policies", cook.installed)
    cook.sweep()
    return cook


def test_the_page_shows_whole_files_and_each_policy_in_forty_lines() -> None:
    assert set(FILES) == {
        "my-policies/pyproject.toml",
        "my-policies/thrifty.py",
        "my-policies/bargain.py",
        "my-policies.yaml",
    }
    for name in ("thrifty", "bargain"):
        assert len(FILES[f"my-policies/{name}.py"].splitlines()) <= 40


def test_every_policy_of_the_page_is_a_cell_that_serves_everyone(kitchen: Kitchen) -> None:
    records = kitchen.records()
    assert set(records) == {
        "thrifty slack=0/shortest-queue",
        "thrifty slack=0/power-of-d",
        "thrifty slack=0.2/shortest-queue",
        "thrifty slack=0.2/power-of-d",
        "bargain per_usd=1000",
        "knn/shortest-queue",
    }
    for columns in records.values():
        assert len(columns["status"]) == 200
        assert set(columns["status"]) == {"ok"}


def test_the_router_does_what_the_page_says(kitchen: Kitchen) -> None:
    """Recomputed from the predictions that the sweep has stored: cheapest within the slack of the best."""
    experiment = yaml.safe_load(FILES["my-policies.yaml"])
    pool = yaml.safe_load((kitchen.place.folder / experiment["pool"]).read_text())
    prices = {
        tier["model"]: (tier["price_in_usd_per_mtok"], tier["price_out_usd_per_mtok"])
        for tier in pool["tiers"]
    }
    predictions = pq.read_table(kitchen.place.folder / NAME / "predictions.parquet").to_pylist()
    of_prompt: dict[str, list[dict[str, Any]]] = {}
    for row in predictions:
        of_prompt.setdefault(row["prompt_id"], []).append(row)
    records = kitchen.records()
    for slack in (0.0, 0.2):
        for dispatch in ("shortest-queue", "power-of-d"):
            columns = records[f"thrifty slack={slack:g}/{dispatch}"]
            for prompt, model, tokens in zip(
                columns["prompt_id"], columns["model"], columns["input_tokens"], strict=True
            ):
                rows = of_prompt[prompt]
                bar = max(row["quality"] for row in rows) - slack
                cost = {
                    row["model"]: tokens * prices[row["model"]][0]
                    + min(row["length_tokens"], 4096) * prices[row["model"]][1]
                    for row in rows
                    if row["quality"] >= bar
                }
                assert cost[model] == pytest.approx(min(cost.values()), rel=1e-9)
    cost_usd = {label: float(np.sum(columns["cost_usd"])) for label, columns in records.items()}
    assert cost_usd["thrifty slack=0.2/shortest-queue"] < 0.9 * cost_usd["knn/shortest-queue"]
    assert cost_usd["bargain per_usd=1000"] < cost_usd["knn/shortest-queue"]


def test_the_manifest_says_whose_policies_ran(kitchen: Kitchen) -> None:
    plugins = kitchen.manifest()["plugins"]
    assert {name: (each["distribution"], each["version"]) for name, each in plugins.items()} == {
        "thrifty": ("my-policies", "0.1.0"),
        "bargain": ("my-policies", "0.1.0"),
    }


def test_a_cell_runs_again_when_its_code_changed_and_only_then(kitchen: Kitchen) -> None:
    before = kitchen.manifest()["cells"]
    assert kitchen.sweep() == {"folder": NAME, "planned": 6, "resumed": 6, "ran": 0, "left": 0}
    source = kitchen.place.folder / "my-policies" / "bargain.py"
    source.write_text(source.read_text() + "# another edition\n")
    install(kitchen.place.folder / "my-policies", kitchen.installed)
    assert kitchen.sweep()["ran"] == 1
    ids = [
        {cell["label"]: cell["cell_id"] for cell in cells} for cells in (before, kitchen.manifest()["cells"])
    ]
    assert [label for label in ids[0] if ids[0][label] != ids[1][label]] == ["bargain per_usd=1000"]


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        ("[{kind: plugin, name: spendthrift}]", "installed here: bargain (my-policies 0.1.0), thrifty"),
        ("[{kind: plugin, name: thrifty, options: {slak: 0.1}}]", "unexpected keyword argument 'slak'"),
        ("[{kind: plugin, name: bargain, dispatch: [random]}]", "leave dispatch out"),
        (
            "[{kind: plugin, name: bargain, options: {per_usd: dear}}]",
            "bargain (my-policies 0.1.0) failed to assign",
        ),
    ],
)
def test_what_does_not_hold_is_told_without_a_traceback(kitchen: Kitchen, policies: str, said: str) -> None:
    done = kitchen.rbx(
        "sweep", "my-policies.yaml", "--out", "results/refused", "--set", f"policies={policies}"
    )
    assert done.returncode == 1
    assert said in re.sub(r"\s+", " ", done.stderr)
    assert "Traceback" not in done.stderr
