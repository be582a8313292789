"""A page in a real browser: what stands in it after its scripts have run."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_VOID = {"meta", "link", "br", "img", "hr", "input"}


class Parsed(HTMLParser):
    """Checks nesting and collects ids, attributes, levels of headings and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.headings: list[int] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)

    def assert_self_contained(self) -> None:
        """Nothing is fetched, links stay on the page, ids are unique."""
        assert not [each for each in self.attributes if each[1] in ("src", "srcset", "action")]
        links = [value for _, name, value in self.attributes if name in ("href", "xlink:href")]
        assert links
        assert all(link.startswith("#") and link[1:] in self.ids for link in links)
        assert len(self.ids) == len(set(self.ids))


def rendered(page: Path, folder: Path) -> str:
    """The page's document as a browser holds it; skips where there is no browser."""
    browser = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"no browser: none of {', '.join(_NAMES)}")
    profile = folder / "browser"
    done = subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={profile}",
            "--enable-logging=stderr",
            "--dump-dom",
            page.resolve().as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    complaints = [
        line for line in done.stderr.splitlines() if re.search(r"CONSOLE.*(error|refused)", line, re.I)
    ]
    assert complaints == []
    return done.stdout
