"""Small broadcasts against scripted servers, and what they leave in the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rbx.config.labelling import LabelSource
from rbx.label.answer import Question
from rbx.label.broadcast import BroadcastReport, broadcast
from rbx.label.journal import Journal
from rbx.label.progress import Silent
from tests.label.scripted_server import Scripted


def questions(n: int) -> list[Question]:
    return [Question(f"id{i:04}", f"prompt {i}", "tests", None, None, None, False, 2) for i in range(n)]


def endpoint(server: Scripted | str, **more: Any) -> dict[str, Any]:
    """An endpoint whose faults show within a second."""
    url = server if isinstance(server, str) else server.url
    quick = {"backoff_s": 0.001, "deadline_s": 10.0, "attempts": 2, "concurrency": 4}
    return {"url": url, "served_name": "scripted", **quick, **more}


def model(name: str, server: Scripted | str, **more: Any) -> dict[str, Any]:
    """A candidate; keys of an endpoint go there."""
    own: dict[str, Any] = {key: more.pop(key) for key in ("tokenizer", "weights", "engine") if key in more}
    return {"name": name, "endpoint": endpoint(server, **more), **own}


def source(*models: dict[str, Any], **generation: Any) -> LabelSource:
    document = {
        "kind": "label",
        "prompts": {"sources": [{"kind": "gsm8k"}]},
        "generation": generation,
        "models": list(models),
        "signals": [{"kind": "exact", "name": "exact"}],
        "quality": "exact",
    }
    return LabelSource.model_validate(document)


def run(
    path: Path,
    asked: Sequence[Question],
    of: LabelSource,
    *,
    stop: asyncio.Event | None = None,
    retry_failed: bool = False,
) -> BroadcastReport:
    async def work() -> BroadcastReport:
        with Journal(path) as journal:
            return await broadcast(
                asked, of, journal, Silent(), stop or asyncio.Event(), retry_failed=retry_failed
            )

    return asyncio.run(work())


def rows(path: Path) -> list[dict[str, Any]]:
    with Journal(path) as journal:
        return [entry.row for entry in journal.entries()]
