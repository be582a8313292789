"""The command blocks of the documents run as they stand.

A fence ```` ```bash run ```` is executed, in the order of the page, in one fresh copy of the tracked
files per page; ```` ```bash run shared ```` also needs the shared data folder, given to the block as
``RBX_SHARED``. Blocks without ``run`` (the two that install, for instance) are only shown.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK_TIMEOUT_S = 400
_FENCE = re.compile(r"^```bash([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: where it stands, what follows ``bash`` on its fence, and its commands."""

    page: Path
    line: int
    words: tuple[str, ...]
    commands: str


def blocks_of(text: str, page: Path) -> Iterator[Block]:
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Block(page, line, tuple(match[1].split()), match[2])


def copy_of_tree(target: Path) -> Path:
    """The files that git knows, with the working tree's content: what a fresh clone would hold."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listing.stdout.decode().split("\0")):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


def run_block(block: Block, folder: Path, shared: Path | None) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    environment = {**os.environ, "PATH": path, "COLUMNS": "100"}
    if shared is not None:
        environment["RBX_SHARED"] = str(shared)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.commands],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BLOCK_TIMEOUT_S,
        check=False,
    )
    where = f"{block.page.name}:{block.line}"
    if done.returncode:
        pytest.fail(f"{where} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")


@pytest.mark.skipif(os.environ.get("RBX_TEST_DOCS") != "1", reason="minutes long; set RBX_TEST_DOCS=1")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_blocks_run(page: Path, tmp_path: Path) -> None:
    blocks = [block for block in blocks_of(page.read_text(encoding="utf-8"), page) if "run" in block.words]
    if not blocks:
        pytest.skip("no runnable block on this page")
    shared = Path(os.environ.get("RBX_SHARED", ROOT.parent / "shared"))
    found = shared if (shared / "data").is_dir() else None
    folder = copy_of_tree(tmp_path)
    for block in blocks:
        if found is not None or "shared" not in block.words:
            run_block(block, folder, found)


def test_the_readme_opens_with_the_two_commands_and_has_runnable_blocks() -> None:
    readme = ROOT / "README.md"
    blocks = list(blocks_of(readme.read_text(encoding="utf-8"), readme))
    assert [line.split("#")[0].strip() for line in blocks[0].commands.splitlines()] == [
        "make run",
        "make test",
    ]
    assert sum("run" in block.words for block in blocks) >= 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_fences_use_known_words(page: Path) -> None:
    for block in blocks_of(page.read_text(encoding="utf-8"), page):
        assert set(block.words) <= {"run", "shared"}, f"{page.name}:{block.line}"


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name
)
def test_links_between_files_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_a_failing_block_is_named(tmp_path: Path) -> None:
    (block,) = blocks_of("text\n\n```bash run\necho seen; false\necho unseen\n```\n", Path("page.md"))
    with pytest.raises(pytest.fail.Exception, match=r"page\.md:3 ended with 1\nseen\n") as caught:
        run_block(block, tmp_path, None)
    assert "unseen" not in str(caught.value)
