"""One sweep with TTFT targets, two seeds, failures and missing labels, for tests that only read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbx.report.analysis import Analysis, analyse
from rbx.report.load import read_sweep
from rbx.report.ontime.study import OnTimeStudy
from rbx.report.paired import Resampling
from tests.report.sweeps import ON_TIME_POLICIES, SweepShape, write_sweep

RESAMPLES = 400


@pytest.fixture(scope="session")
def timed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shape = SweepShape(
        policies=ON_TIME_POLICIES,
        rates_per_s=(3.0, 6.0, 12.0),
        seeds=(0, 1),
        n_prompts=80,
        n_requests=110,
        failures=0.03,
        unlabelled=0.04,
        ttft_target=True,
    )
    return write_sweep(tmp_path_factory.mktemp("results") / "timed", shape)


@pytest.fixture(scope="session")
def timed_analysis(timed_folder: Path) -> Analysis:
    return analyse(read_sweep(timed_folder), baseline=None, resampling=Resampling(n_resamples=RESAMPLES))


@pytest.fixture(scope="session")
def study(timed_analysis: Analysis) -> OnTimeStudy:
    assert timed_analysis.on_time is not None
    return timed_analysis.on_time
