"""Pages from their templates: one file each, with styles and scripts inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

_TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **values: Any) -> str:
    """The page of a template that extends ``layout.html.j2``; every text among ``values`` is escaped."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(css=_asset("page.css"), js=_asset("page.js"), **values)


def _asset(name: str) -> Markup:
    # Our own files, not data: they stand inside <style> and <script>, where escapes are not read.
    return Markup((_TEMPLATES / name).read_text(encoding="utf-8"))
