"""A process that runs vLLM's batch API on one model, seen from the one that asks it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from rbx.config.labelling import Candidate, Generation
from rbx.errors import ServerError
from rbx.label.recipe import sampling

MAX_LINE_BYTES = 1 << 30
LOG_LINES = 12
# One process, so that ending it frees everything; and nothing is reported to anybody.
ENVIRONMENT = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


@asynccontextmanager
async def running_engine(
    candidate: Candidate, generation: Generation, log: Path
) -> AsyncIterator[OfflineEngine]:
    """Load the model in a process of its own, which may take minutes, and end it with the block.

    Raises ``ServerError`` where vLLM does not take the model; vLLM's own words are in ``log``.
    """
    who = f"{candidate.name}: vLLM with {candidate.weights}"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rbx.label.offline_worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=output,
            env={**ENVIRONMENT, **os.environ},
            limit=MAX_LINE_BYTES,
            start_new_session=True,  # Ctrl-C is for us: the batch under way is finished first
        )
    try:
        engine = OfflineEngine(process, who, log)
        if fault := (await engine.exchange(_setup(candidate, generation))).get("fault"):
            raise ServerError(f"{who} can't be run: {fault}; its log is {log}")
        yield engine
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with any that it started
        await process.wait()


class OfflineEngine:
    """The process of ``running_engine``; ``ServerError`` where it dies."""

    def __init__(self, process: asyncio.subprocess.Process, who: str, log: Path) -> None:
        """``who`` is what messages call it."""
        self._process = process
        self._who = who
        self._log = log

    async def ask(self, prompts: Sequence[str]) -> list[dict[str, Any]]:
        """A reply of ``rbx.label.offline_worker`` to each prompt."""
        replies: list[dict[str, Any]] = await self.exchange(list(prompts))
        return replies

    async def exchange(self, document: Any) -> Any:
        """Send a line and wait for the one that answers it."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        line = b""
        with suppress(ConnectionError):
            stdin.write(json.dumps(document).encode() + b"\n")
            await stdin.drain()
            line = await stdout.readline()
        if not line.endswith(b"\n"):
            raise ServerError(await self._obituary())
        return json.loads(line)

    async def _obituary(self) -> str:
        code = await self._process.wait()
        text = self._log.read_text(encoding="utf-8", errors="replace")
        last = "\n".join(f"    {line}" for line in text.splitlines()[-LOG_LINES:])
        why = " (killed, perhaps for lack of memory)" if code == -signal.SIGKILL else ""
        return (
            f"{self._who} ended with code {code}{why}; the answers so far are kept: mend it and run the same "
            f"command again. The end of its log, {self._log}:\n{last}"
        )


def _setup(candidate: Candidate, generation: Generation) -> dict[str, Any]:
    extra = dict(generation.extra)
    chat_template_kwargs = extra.pop("chat_template_kwargs", None)
    return {
        "weights": candidate.weights,
        "engine": candidate.engine,
        "api": generation.api,
        "system": generation.system,
        "sampling": {**sampling(generation), **extra},
        "chat_template_kwargs": chat_template_kwargs,
    }
