"""Residuals and their distribution, against counting, and as files of a bundle."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.errors import BundleError
from rbx.heads.bundle import Bundle
from rbx.heads.calibration import Calibration
from rbx.heads.residuals import Residuals
from rbx.heads.train import TrainOptions, train_bundle
from tests.heads import pools
from tests.heads.conftest import HashEncoder

SECONDS = st.floats(-10.0, 10.0, allow_nan=False)
TIERS = st.lists(st.lists(SECONDS, min_size=1, max_size=20), min_size=1, max_size=4)


@given(tiers=TIERS, slack=st.lists(SECONDS, min_size=1, max_size=8), seed=st.integers(0, 2**16))
def test_the_share_within_a_slack_is_counted(tiers: list[list[float]], slack: list[float], seed: int) -> None:
    residuals = Residuals.of([np.array(values) for values in tiers])
    at = np.random.default_rng(seed).integers(0, len(tiers), len(slack))
    found = residuals.share_within(np.array(slack), at)
    expected = [
        sum(value <= limit for value in tiers[t]) / len(tiers[t])
        for limit, t in zip(slack, at.tolist(), strict=True)
    ]
    assert found.tolist() == expected


def test_known_residuals_give_known_shares_and_spreads() -> None:
    residuals = Residuals.of([np.array([3.0, -1.0, 1.0]), np.array([5.0])])
    slack, tier = np.array([-1.5, -1.0, 1.0, np.inf, -np.inf, 5.0]), np.array([0, 0, 0, 0, 0, 1])
    assert residuals.share_within(slack, tier).tolist() == [0.0, 1 / 3, 2 / 3, 1.0, 0.0, 1.0]
    assert residuals.std_s.tolist() == [pytest.approx(np.sqrt(8 / 3)), 0.0]


@pytest.mark.parametrize(
    ("seconds", "starts"),
    [
        ([1.0, 0.0], [0, 2]),
        ([0.0, np.nan], [0, 2]),
        ([0.0], [0, 0, 1]),
        ([0.0], [0, 2]),
        ([], [0, 0]),
    ],
)
def test_residuals_that_do_not_hold_are_refused(seconds: list[float], starts: list[int]) -> None:
    with pytest.raises(BundleError, match="residuals"):
        Residuals(np.array(seconds), np.array(starts, dtype=np.int64))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("rbx.heads.train.load_encoder", lambda name, progress: HashEncoder())
        return train_bundle(pools.view(), pools.pool(), TrainOptions(compare=False)).bundle


def calibration() -> Calibration:
    residuals = Residuals.of([np.array([-0.1, 0.2]), np.array([0.0, 0.5, 0.4])])
    return Calibration(("large-a", "tiny-b"), {"bea": residuals}, {"prior": residuals}, {"seed": 3})


def test_a_bundle_keeps_its_calibration_and_stays_the_bundle_it_was(trained: Bundle, tmp_path: Path) -> None:
    fuller = dataclasses.replace(trained, calibration=calibration())
    fuller.save(tmp_path / "bundle")
    again = Bundle.load(tmp_path / "bundle")
    assert again.calibration is not None
    assert again.digest == trained.digest == fuller.digest
    assert again.calibration.digest == calibration().digest
    assert again.calibration.ttft["bea"].of_tier(1).tolist() == [0.0, 0.4, 0.5]
    assert again.calibration.how == {"seed": 3}
    trained.save(tmp_path / "bundle")
    assert Bundle.load(tmp_path / "bundle").calibration is None


def test_a_calibration_that_was_tampered_with_is_refused() -> None:
    files = calibration().files()
    for name in files:
        with pytest.raises(BundleError, match="calibrate the bundle again"):
            Calibration.of_files({**files, name: b"nothing"})
        with pytest.raises(BundleError, match="calibrate the bundle again"):
            Calibration.of_files({other: content for other, content in files.items() if other != name})
    files["calibration.json"] = files["calibration.json"].replace(b'"tiny-b"', b'"tiny-b", "more"')
    with pytest.raises(BundleError, match="differ in number"):
        Calibration.of_files(files)
    assert Calibration.of_files({"knn.npz": b""}) is None


def test_other_residuals_are_another_calibration() -> None:
    one = calibration()
    other = dataclasses.replace(one, how={"seed": 4})
    assert one.digest != other.digest
