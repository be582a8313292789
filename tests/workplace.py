"""A directory in which ``rbx`` is run as a user runs it, and the small job done there."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

DATASET = {
    "name": "tiny",
    "description": "A small synthetic grid.",
    "source": {"kind": "synth", "preset": "quickstart", "n": 300, "seed": 0},
}

EXPERIMENT = {
    "name": "tiny",
    "grid": "datasets/tiny",
    "bundle": "results/bundles/tiny",
    "pool": str(ROOT / "experiments/pools/paper.yaml"),
    "workload": {
        "rates_per_s": [8.0, 20.0],
        "n_requests": 150,
        "seeds": [0, 1],
        "slo": {"ttft_target": {}, "e2e_s": 10.0},
    },
    "policies": [
        {"kind": "routebalance", "weights": [[0.333, 0.334, 0.333], [0.8, 0.1, 0.1]]},
        {"kind": "bear"},
        {"kind": "passthrough"},
        {"kind": "mix", "shares": {"Qwen2.5-3B": 1.0, "Qwen2.5-72B": 1.0}},
    ],
}
N_CELLS = 2 * 2 * (2 + 1 + 3 + 1)


@dataclass(frozen=True)
class Workplace:
    """A directory in which ``rbx`` is run."""

    folder: Path

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "rbx", *words]

    def rbx(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*words), cwd=self.folder, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == code, (
            f"rbx {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done

    def cells(self, out: str) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.folder / out / "cells").glob("*.parquet")}
