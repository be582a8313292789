"""Rules of the tree that no single module can break unseen."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbx.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "rbx").rglob("*.py"))
PYTHON = sorted(path for folder in ("rbx", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))

LAYERS = (
    ("errors", "cache_home", "compiled", "durable", "ending", "hub", "ray_cluster"),
    ("config", "grid"),
    ("engine", "heads"),
    ("label", "policy"),
    ("load", "scheduler", "serve"),
    ("sweep",),
    ("report",),
    ("cli",),
    ("__main__",),
)
RANK = {package: rank for rank, layer in enumerate(LAYERS) for package in layer}
BESIDE = {
    ("compiled", "cache_home"),
    ("durable", "errors"),
    ("ray_cluster", "errors"),
    ("grid", "config"),
    ("heads", "engine"),
    ("serve", "scheduler"),
    ("serve", "load"),
}

UNSAFE_MODULES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
UNSAFE_NAMES = {"trust_remote_code", "allow_pickle", "read_pickle", "to_pickle"}
HEAVY = {"faiss", "matplotlib", "numba", "numpy", "onnxruntime", "pandas", "pyarrow", "scipy", "xgboost"}
MAX_LINES = 500
COMPILED = ROOT / "rbx" / "compiled.py"


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imported_modules(path: Path) -> Iterator[str]:
    """Full names of everything a file imports, at any depth, type-checking imports included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            # `from rbx import engine` names a package as well as `from rbx.engine import x` does.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def allowed(importer: str, imported: str) -> bool:
    if importer == imported or RANK[imported] < RANK[importer]:
        return True
    return (importer, imported) in BESIDE


def test_every_package_has_a_layer() -> None:
    packages = {path.relative_to(ROOT / "rbx").parts[0].removesuffix(".py") for path in SOURCES}
    assert packages - {"__init__"} <= set(RANK)


def test_the_order_itself_holds() -> None:
    assert allowed("cli", "engine")
    assert allowed("heads", "engine")
    assert not allowed("engine", "heads")
    assert not allowed("config", "grid")
    assert not allowed("sweep", "report")


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_imports_go_one_way(path: Path) -> None:
    importer = path.relative_to(ROOT / "rbx").parts[0].removesuffix(".py")
    for name in imported_modules(path):
        parts = name.split(".")
        if parts[0] == "rbx" and len(parts) > 1 and parts[1] in RANK:
            assert allowed(importer, parts[1]), f"{relative(path)} imports {name}"


@pytest.mark.parametrize("path", PYTHON, ids=relative)
def test_files_stay_readable(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", [path for path in PYTHON if path != Path(__file__)], ids=relative)
def test_nothing_runs_code_out_of_data(path: Path) -> None:
    for name in imported_modules(path):
        assert name.split(".")[0] not in UNSAFE_MODULES, f"{relative(path)} imports {name}"
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        used = (
            node.arg
            if isinstance(node, ast.keyword)
            else node.attr
            if isinstance(node, ast.Attribute)
            else None
        )
        switched_off = isinstance(node, ast.keyword) and getattr(node.value, "value", None) is False
        assert used not in UNSAFE_NAMES or switched_off, (
            f"{relative(path)}:{getattr(node, 'lineno', '?')}: {used}"
        )


def tracked_text_files() -> Iterator[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    for name in listing.stdout.decode().split("\0"):
        path = ROOT / name
        if name and path.is_file() and b"\0" not in path.read_bytes()[:8192]:
            yield path


def test_no_tracked_file_names_a_folder_of_someones_machine() -> None:
    machine = re.compile(r"(?<![\w.}])/(?:work|root|home|tmp)/\w")
    found = [
        f"{relative(path)}:{number}: {line.strip()[:120]}"
        for path in tracked_text_files()
        for number, line in enumerate(
            path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1
        )
        if machine.search(line)
    ]
    assert found == []


def heavy_modules_after(arguments: list[str]) -> list[str]:
    program = (
        "import sys\n"
        "from rbx.cli.main import run\n"
        f"code = run({arguments!r})\n"
        f"print('heavy:', *sorted({HEAVY!r} & set(sys.modules)))\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


def test_help_loads_no_numeric_library() -> None:
    assert heavy_modules_after(["--help"]) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command_loads_no_numeric_library(name: str) -> None:
    assert heavy_modules_after([name, "--help"]) == []


def test_every_kernel_is_compiled_through_the_one_module_that_guards_the_cache() -> None:
    importers = {path for path in SOURCES if any(name.startswith("numba") for name in imported_modules(path))}
    assert importers == {COMPILED}
