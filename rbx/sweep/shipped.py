"""What the cells of a sweep share, as the content of files: for machines that do not see ours."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import rbx
from rbx.compiled import sources_digest
from rbx.config.experiment import Experiment
from rbx.errors import StoreError
from rbx.policy.plugin import installed_plugins
from rbx.sweep.context import SweepContext
from rbx.sweep.loading import load_context
from rbx.sweep.provenance import versions

_SWEEP = ("manifest.json", "labels.parquet", "predictions.parquet")
_POOL, _BUNDLE = "pool.yaml", "bundle"


def packed(folder: Path, experiment: Experiment) -> dict[str, bytes]:
    """What ``load_context`` reads of the prepared sweep in ``folder``, under the names of ``unpacked``."""
    files = {f"sweep/{name}": (folder / name).read_bytes() for name in _SWEEP}
    files[_POOL] = experiment.pool.read_bytes()
    for path in sorted(experiment.bundle.rglob("*")):
        if path.is_file():
            name = PurePosixPath(_BUNDLE, *path.relative_to(experiment.bundle).parts)
            files[str(name)] = path.read_bytes()
    return files


def unpacked(files: Mapping[str, bytes]) -> SweepContext:
    """The context that the sweep's own machine has."""
    with TemporaryDirectory(prefix="rbx-") as scratch:
        root = Path(scratch)
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return load_context(root / "sweep", pool_file=root / _POOL, bundle_folder=root / _BUNDLE)


def code_identity() -> dict[str, str]:
    """What must agree between two machines for a cell to have the same bytes on both."""
    found = versions()
    found["python"] = found["python"].rpartition(".")[0]
    sources = sources_digest(Path(rbx.__file__).parent)
    plugins = {f"policy plug-in {name}": str(each) for name, each in installed_plugins().items()}
    return {**found, **plugins, "sources of rbx": sources, "machine": platform.machine()}


def check_identity(expected: Mapping[str, str]) -> None:
    """Raises ``StoreError`` with what differs here."""
    ours = code_identity()
    names = sorted({*ours, *expected})
    differing = [
        f"{name} {ours.get(name, 'absent')} (here {expected.get(name, 'absent')})"
        for name in names
        if ours.get(name) != expected.get(name)
    ]
    if differing:
        raise StoreError(
            f"a Ray worker on {platform.node()} would not compute what this machine does: it has "
            f"{', '.join(differing)}; install the same on every node"
        )
