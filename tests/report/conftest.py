"""One analysed sweep for all tests that only read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbx.report.analysis import Analysis, analyse
from rbx.report.load import Sweep, read_sweep
from rbx.report.paired import Resampling
from tests.report.sweeps import SweepShape, write_sweep


@pytest.fixture(scope="session")
def sweep_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds, repeated prompts, failures and missing labels."""
    shape = SweepShape(seeds=(0, 1), n_prompts=80, n_requests=110, failures=0.03, unlabelled=0.04)
    return write_sweep(tmp_path_factory.mktemp("results") / "example", shape)


@pytest.fixture(scope="session")
def sweep(sweep_folder: Path) -> Sweep:
    return read_sweep(sweep_folder)


@pytest.fixture(scope="session")
def analysis(sweep: Sweep) -> Analysis:
    return analyse(sweep, baseline=None, resampling=Resampling(n_resamples=800))
