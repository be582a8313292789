"""What the card says of the licences of the prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def licence_lines(provenance: Mapping[str, Any]) -> list[str]:
    """One line a source from the provenance of ``collect``: its name, origin, commit and licence."""
    return [_line(name, source) for name, source in provenance["prompt_sources"].items()]


def _line(name: str, source: Mapping[str, Any]) -> str:
    origin = source.get("hub") or ", ".join(source["files"])
    commit = source.get("commit")
    place = f"{origin} at {commit[:12]}" if commit else origin
    return f"{name} ({place}): {source['licence']}"
