"""A package with policies, put where Python finds it without an installer."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest


def plug_in(
    patch: pytest.MonkeyPatch,
    folder: Path,
    module: str,
    source: str,
    *,
    version: str = "1.0",
    name: str | None = None,
) -> None:
    """Module ``module``, whose function ``make`` is offered under ``name``; gone at the end of the test."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(textwrap.dedent(source))
    info = folder / f"dist_{module}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: dist-{module}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[rbx.policies]\n{name or module} = {module}:make\n")
    patch.syspath_prepend(str(folder))
