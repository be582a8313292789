"""``rbx train --router``: what can't be trained here is skipped by ``all`` and refused by name."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from rbx.cli.train_routers import train_routers_into
from rbx.errors import BundleError, MissingExtraError
from tests.workplace import ROOT, Workplace

POOL = ROOT / "experiments/pools/paper.yaml"


pytestmark = pytest.mark.skipif(
    find_spec("torch") is not None, reason="torch is installed: nothing is skipped"
)


@pytest.fixture
def train(workplace: Workplace, tmp_path: Path) -> Callable[..., None]:
    """Trains routers into a copy of the workplace's bundle."""
    shutil.copytree(workplace.folder / "results/bundles/tiny", tmp_path / "tiny")
    grid = workplace.folder / "datasets/tiny"

    def trained(*names: str) -> None:
        train_routers_into(
            tmp_path / "tiny",
            grid,
            POOL,
            names,
            metric="quality",
            seed=0,
            encoder_path=None,
            ties_to=None,
            as_json=True,
        )

    return trained


def test_all_says_what_it_leaves_out_and_trains_the_rest(
    train: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train("all")
    said = capsys.readouterr().err
    assert "skipped: router best-route" in said
    assert "pip install -e '.[st]' in rbx's folder" in said
    assert "skipped: router cascade" in said
    made = {path.stem for path in (tmp_path / "tiny" / "routers").glob("*.json")}
    assert {"avengers-pro", "linear", "mlp"} <= made
    assert not {"best-route", "cascade"} & made


def test_by_name_they_fail_with_what_is_needed(train: Callable[..., None]) -> None:
    with pytest.raises(MissingExtraError, match=r"pip install -e '.\[st\]'"):
        train("best-route")
    with pytest.raises(BundleError, match="synthetic grids have none"):
        train("cascade")
