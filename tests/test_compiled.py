"""Editing a kernel in one file reaches its compiled callers in others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import rbx

SCRIPT = """
import numpy as np
from tests.policy.test_dispatch import place
from rbx.config.policy import RoutedPolicy
import rbx.policy.candidates
print(rbx.policy.candidates.__file__)
_, state = place(RoutedPolicy(router="passthrough", dispatch="round-robin"), 5)
print(int(state.pending_prefill_tokens.sum()))
"""


def run(package_parent: Path, cache: Path) -> list[str]:
    tests_parent = Path(__file__).resolve().parents[1]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{package_parent}{os.pathsep}{tests_parent}",
        "XDG_CACHE_HOME": str(cache),
    }
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        cwd=package_parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.split()


def test_an_edit_in_a_called_kernel_is_never_hidden_by_the_cache(tmp_path: Path) -> None:
    shutil.copytree(Path(rbx.__file__).parent, tmp_path / "rbx", ignore=shutil.ignore_patterns("__pycache__"))
    callee = tmp_path / "rbx" / "policy" / "candidates.py"
    where, before = run(tmp_path, tmp_path / "cache")
    assert where == str(callee)
    assert before == "100"  # five requests of twenty tokens
    text = callee.read_text()
    edited = text.replace(
        "pending_prefill_tokens[i] += input_tokens", "pending_prefill_tokens[i] += 2 * input_tokens"
    )
    assert edited != text
    callee.write_text(edited)
    assert run(tmp_path, tmp_path / "cache")[1] == "200"


def test_a_second_start_finds_the_kernels_compiled(tmp_path: Path) -> None:
    parent = Path(rbx.__file__).parents[1]
    run(parent, tmp_path)
    kernels = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")}
    assert kernels
    run(parent, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")} == kernels
