"""The texts of a grid that a live cell needs: the prompts to send, and the answers to compare with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rbx.errors import DatasetError
from rbx.grid.store import read_tables
from rbx.load.client.hashed import fingerprint


@dataclass(frozen=True)
class GridTexts:
    """``prompt`` by prompt id; ``answer`` holds the fingerprint of a text by (prompt id, model).

    Pairs without a text, such as those of synthetic grids, are absent.
    """

    prompt: Mapping[str, str]
    answer: Mapping[tuple[str, str], str]

    def matches(self, prompt_id: str, model: str, served: str) -> bool | None:
        """Whether ``served`` is the grid's answer's fingerprint; None where there is nothing to compare."""
        known = self.answer.get((prompt_id, model))
        return None if known is None else known == served


def read_texts(folder: Path, digest: str) -> GridTexts:
    """Texts of the grid that the sweep was planned on; raises ``DatasetError`` where it is another now."""
    manifest, tables = read_tables(folder)
    if manifest.digest != digest:
        raise DatasetError(f"{folder}: changed while the sweep was planned; run the command again")
    responses = tables.responses
    return GridTexts(
        prompt=dict(
            zip(tables.prompts["prompt_id"].to_pylist(), tables.prompts["prompt"].to_pylist(), strict=True)
        ),
        answer={
            (prompt_id, model): fingerprint(text)
            for prompt_id, model, text in zip(
                responses["prompt_id"].to_pylist(),
                responses["model"].to_pylist(),
                responses["response"].to_pylist(),
                strict=True,
            )
            if text is not None
        },
    )
