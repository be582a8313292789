"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with real grids, traces and profiles; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("RBX_SHARED", ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip("the shared data folder is absent; set RBX_SHARED to run this test")
    return folder
