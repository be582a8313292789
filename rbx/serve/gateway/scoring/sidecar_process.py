"""The process of a sidecar: started, looked after, and ended with the gateway."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path

from rbx.config.deployment import ScoringQueue
from rbx.config.policy import RoutedPolicy
from rbx.config.policy_spec import policy_spec
from rbx.config.pool import Pool
from rbx.errors import ConfigError, ServerError
from rbx.heads.bundle import Bundle
from rbx.serve.gateway.scoring.router import scoring_identity
from rbx.serve.launch.child import Child

START_S = 120.0
GRACE_S = 3.0
_LOOK_S = 0.05
_SHOWN_LINES = 5


class SidecarProcess:
    """One ``rbx scoring-service`` after another, for the same policy, pool and bundle.

    It lives under ``rbx.serve.launch.guard``: however the gateway ends, it ends too, and its folder goes.
    """

    def __init__(
        self, bundle: Bundle, pool: Pool, policy: RoutedPolicy, queue: ScoringQueue, within_s: float
    ) -> None:
        """Nothing is started; raises ``ConfigError`` for a bundle that was never on disk."""
        if bundle.folder is None:
            raise ConfigError(f"policy {policy.label}: a sidecar reads the bundle from disk; save it first")
        self._bundle, self._pool, self._policy = bundle, pool, policy
        self._queue, self._within_s = queue, within_s
        self._child: Child | None = None
        self._folder: Path | None = None
        self.pid: int | None = None

    async def start(self) -> str:
        """Start it and wait until it answers: its URL. Raises ``ServerError`` with the end of its output."""
        await self.end()
        try:
            child, told = self._begun()
        except OSError as error:
            await self.end()
            raise ServerError(f"the scoring sidecar can't be started: {error}") from None
        until_s = asyncio.get_running_loop().time() + START_S
        while not told.exists():
            if child.ending is not None or asyncio.get_running_loop().time() > until_s:
                why = child.ending or f"does not answer within {START_S:g} s"
                words = _last_words(child)
                await self.end()
                raise ServerError(f"the scoring sidecar {why}: {words}")
            await asyncio.sleep(_LOOK_S)
        note = json.loads(told.read_text(encoding="utf-8"))
        if note["scores_by"] != scoring_identity(self._policy, self._bundle):
            await self.end()
            raise ServerError(
                f"{self._bundle.folder}: no longer the bundle that the gateway has read; start it again"
            )
        self.pid = int(note["pid"])
        return str(note["url"])

    async def ended(self) -> str:
        """Wait for an end that nobody asked for, and clear up: how it ended, and its last words."""
        child = self._child
        assert child is not None
        while (ending := child.ending) is None:
            await asyncio.sleep(_LOOK_S)
        words = _last_words(child)
        await self.end()
        return f"{ending}: {words}"

    async def end(self) -> None:
        """End it, if it runs, and leave nothing behind."""
        child, self._child = self._child, None
        folder, self._folder = self._folder, None
        if child is not None:
            child.let_go()
            await child.ended()
        if folder is not None:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    def _begun(self) -> tuple[Child, Path]:
        """The process, and the file in which it tells that it answers; raises ``OSError``."""
        self._folder = folder = Path(tempfile.mkdtemp(prefix="rbx-sidecar-"))
        pool = json.dumps(self._pool.model_dump(mode="json"))
        (folder / "pool.yaml").write_text(pool, encoding="utf-8")
        told = folder / "told.json"
        log = folder / "service.log"
        self._child = Child("scoring", self._command(folder, told), {}, log, GRACE_S, scratch=folder)
        return self._child, told

    def _command(self, folder: Path, told: Path) -> list[str]:
        spec = {**policy_spec(self._policy), "deployment": ["in-batch"]}
        return [
            *(sys.executable, "-m", "rbx", "scoring-service", "--bundle", str(self._bundle.folder)),
            *("--pool", str(folder / "pool.yaml"), "--policy", json.dumps(spec), "--told", str(told)),
            *("--max-size", str(self._queue.max_size), "--window", repr(self._queue.window_s)),
            *("--within", repr(self._within_s)),
        ]


def _last_words(child: Child) -> str:
    try:
        return " ".join(child.last_lines(_SHOWN_LINES))
    except OSError:  # whoever clears temporary folders has been here
        return f"{child.log} can't be read"
