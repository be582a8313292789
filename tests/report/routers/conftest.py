from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rbx.report.paired import Resampling
from rbx.report.routers.population import Material
from rbx.report.routers.study import RouterStudy, StudyOptions, study_routers
from tests.report.routers.made_up import ROUTERS, bundle_of, material_of, view

QUICK = Resampling(n_resamples=300, seed=0)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the cache of the user who runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def material(own_cache: None) -> Material:
    grid = view()
    return material_of(grid, bundle_of(grid, *ROUTERS))


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="session")
def study(material: Material, kept: Path) -> RouterStudy:
    return study_routers(material, StudyOptions(seed=0, resampling=QUICK), kept)
