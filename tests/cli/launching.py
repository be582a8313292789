"""Launch files for tests, with commands of our own in vLLM's place."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from tests.serve.launch.processes import POOLS


def launch_file(folder: Path, **document: Any) -> str:
    path = folder / "launch.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def local_launch(folder: Path, script: str, **more: Any) -> list[str]:
    """Tiers of a command that only runs ``script``."""
    pool = yaml.safe_load((POOLS / "paper.yaml").read_text())
    pool["tiers"] = [{**pool["tiers"][3], "instances": 2}]
    (folder / "pool.yaml").write_text(yaml.safe_dump(pool))
    tier = {"command": [sys.executable, "-c", script], "gpus": 0}
    path = launch_file(
        folder,
        pool="pool.yaml",
        launcher={"kind": "local", "tiers": {"3b-a30": tier}, "grace_s": 1.0},
        **more,
    )
    return ["launch", path, "--port", "0"]
