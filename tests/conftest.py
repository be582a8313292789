"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from tests.workplace import DATASET, EXPERIMENT, ROOT, Workplace

if find_spec("hypothesis") is not None:  # the environment of vLLM has none
    from hypothesis import settings

    # How long an example takes says more about the machine's other work than about the code.
    settings.register_profile("rbx", deadline=None)
    settings.load_profile("rbx")

# nohup and job runners have signals ignored, and every command that a test starts would inherit that.
for _number, _usual in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _usual)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with real grids, traces and profiles; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("RBX_SHARED", ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip("the shared data folder is absent; set RBX_SHARED to run this test")
    return folder


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    place = Workplace(tmp_path_factory.mktemp("workplace"))
    (place.folder / "tiny-dataset.yaml").write_text(yaml.safe_dump(DATASET))
    (place.folder / "tiny.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    place.rbx("build-dataset", "tiny-dataset.yaml")
    pool = str(ROOT / "experiments/pools/paper.yaml")
    place.rbx("train", "datasets/tiny", "--pool", pool, "--out", "results/bundles/tiny", "--no-compare")
    return place


@pytest.fixture(scope="session")
def finished(workplace: Workplace) -> dict[str, bytes]:
    """Cells of one uninterrupted run with one job in ``results/whole``."""
    workplace.rbx("sweep", "tiny.yaml", "--out", "results/whole", "--jobs", "1")
    return workplace.cells("results/whole")
