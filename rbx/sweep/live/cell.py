"""One live cell: servers made ready, warmed up, loaded on schedule, drained, and everything kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter

from rbx.config.live import Live, OpenAiTarget
from rbx.config.policy import SinglePolicy
from rbx.config.pool import Instance, Pool
from rbx.errors import ConfigError, StoreError
from rbx.load.client.health import ClientHealth
from rbx.load.client.request import LoadTarget
from rbx.load.client.result import LoadResult
from rbx.sweep.context import SweepContext
from rbx.sweep.live.fault import TargetFault
from rbx.sweep.live.identity import Identity
from rbx.sweep.live.prefix_cache import prefix_hits, salt
from rbx.sweep.live.records import Answer, Reading
from rbx.sweep.live.schedule import Asking
from rbx.sweep.live.sending import FOLDER, Sender, by_status, never_sent
from rbx.sweep.live.server_pages import mock_lag_s, write_pages
from rbx.sweep.live.summary import LiveSummary, PrefixCache
from rbx.sweep.live.table import live_table, write_live
from rbx.sweep.live.target import Installed, LiveTarget
from rbx.sweep.live.texts import GridTexts
from rbx.sweep.live.validity import lagging, lengths_by_tier, matches_by_tier, reasons, warnings
from rbx.sweep.live.watching import Onlooker
from rbx.sweep.served import write_served
from rbx.sweep.store import CellSpec, CellSummary, SweepStore
from rbx.sweep.workload import Arriving, draw_workload

_POLICY: TypeAdapter[Any] = TypeAdapter(SinglePolicy)
# Somebody else's requests may run there; ours of the warm-up are over before this.
_IDLE_WITHIN_S = 60.0


@dataclass(frozen=True)
class _Run:
    """What a cell that was sent has given."""

    identity: Identity
    installed: Installed
    warm_up: dict[str, int]
    health: ClientHealth
    results: list[LoadResult]
    prefix: PrefixCache | None
    lost: str | None
    drained: bool | None
    lag_s: float | None


class LiveCell:
    """Runs one cell on a target and writes it; a cell that can't be run is kept too, as an invalid one."""

    def __init__(
        self,
        context: SweepContext,
        live: Live,
        texts: GridTexts,
        cell: CellSpec,
        store: SweepStore,
        onlooker: Onlooker,
    ) -> None:
        """Draw the workload; raises ``StoreError`` where it is not the planned one."""
        self._context, self._live, self._cell = context, live, cell
        self._store, self._onlooker = store, onlooker
        self._prompts = [texts.prompt[prompt_id] for prompt_id in context.prompts.prompt_ids]
        self._arriving = _drawn(context, cell)
        self._reading = Reading(
            cell.cell_id,
            context,
            self._arriving,
            texts,
            sole_instance(live, context.pool),
            ignores_eos=bool((live.body or {}).get("ignore_eos")),
        )
        self._journal = store.folder / FOLDER / f"{cell.cell_id}.jsonl"
        # Another one at each try: a cell that was killed has left its blocks in the caches.
        self._salt = f"{cell.cell_id}-{uuid4().hex[:8]}"

    async def run(self, target: LiveTarget) -> CellSummary:
        """Run and keep it; raises ``LoadError`` and ``StoreError``, and then nothing is kept."""
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._onlooker.begun(self._cell)
        try:
            run = await self._run(target)
        except TargetFault as fault:
            return self._keep_failed(target, started, fault)
        except asyncio.CancelledError:
            self._journal.unlink(missing_ok=True)  # given up; what it held is of no use, and may be unwanted
            raise
        return self._keep(target, started, run)

    async def _run(self, target: LiveTarget) -> _Run:
        policy = _POLICY.validate_python(self._cell.policy)
        await self._ready(target)
        identity = await target.identity()
        await target.install(policy)
        sender = Sender(
            self._live.client,
            LoadTarget(target.url, target.key),
            self._journal,
            keep_text=self._live.keep_text,
        )
        warm_up = await self._warm_up(target, sender)
        self._onlooker.phase("waiting until nothing runs")
        await self._idle(target)
        # Once more: what a policy has learned from the warm-up is no part of the cell.
        installed = await target.install(policy)
        if self._live.prefix_cache == "reset":
            await target.reset_prefix_caches()
        before = await target.pages()
        self._onlooker.phase("sending")
        asking = self._asking(target, self._salt)
        lengths = self._lengths() if target.simulated else None
        health, results = await sender.send(
            asking.requests(self._arriving, self._prompts, lengths),
            self._live.drain_s,
            self._onlooker.counted,
        )
        self._onlooker.phase("draining")
        lost = await target.lost()
        drained = None if lost else await target.drained(_IDLE_WITHIN_S)
        after = await target.pages()
        write_pages(self._store.folder, self._cell.cell_id, "before", before)
        write_pages(self._store.folder, self._cell.cell_id, "after", after)
        hits = prefix_hits(before, after)
        prefix = PrefixCache(
            self._live.prefix_cache, hits.queries, hits.hits, (*hits.missing, *hits.restarted)
        )
        return _Run(identity, installed, warm_up, health, results, prefix, lost, drained, mock_lag_s(after))

    def _lengths(self) -> list[dict[str, int]]:
        """Output tokens of the grid's answers by model, for each row of the prompt table."""
        prompts = self._context.prompts
        return [dict(zip(prompts.models, row, strict=True)) for row in prompts.output_tokens.tolist()]

    async def _ready(self, target: LiveTarget) -> None:
        waiting = "waiting for the servers"
        self._onlooker.phase(waiting, waiting=True)
        await target.ready(lambda why: self._onlooker.phase(f"{waiting}: {why}", waiting=True))

    async def _idle(self, target: LiveTarget) -> None:
        drained = await target.drained(_IDLE_WITHIN_S)
        if drained is None:
            raise TargetFault("not_drained", f"{target.url}: whether anything runs there can't be told")
        if not drained:
            raise TargetFault("not_drained", f"{target.url}: somebody else's requests run there")

    def _asking(self, target: LiveTarget, salted: str) -> Asking:
        extra = salt(salted) if self._live.prefix_cache == "salt" else {}
        return Asking.of(
            self._context.experiment, self._live, target.model, traced=target.traced, extra=extra
        )

    async def _warm_up(self, target: LiveTarget, sender: Sender) -> dict[str, int]:
        n = self._live.warm_up_requests
        if not n:
            return {}
        self._onlooker.phase(f"warming up with {n} requests")
        asking = self._asking(target, f"{self._salt}-warm")
        _, results = await sender.send(
            asking.warm_up(self._prompts, self._cell.rate_per_s, n), self._live.drain_s
        )
        statuses = by_status(results)
        if not statuses.get("ok"):
            fault = next((result for result in results if result.fault is not None), results[0])
            raise TargetFault(
                "not_ready",
                f"{target.url}: no warm-up request was answered: {fault.fault or fault.status}"
                + (f": {fault.detail}" if fault.detail else ""),
            )
        return statuses

    def _keep(self, target: LiveTarget, started: str, run: _Run) -> CellSummary:
        answers = self._reading.answers(run.results)
        asked = [self._reading.asked_tokens(answer) for answer in answers]
        lengths = lengths_by_tier(answers, asked)
        live = LiveSummary(
            reasons=reasons(self._live, run.health, run.installed, answers, lost=run.lost),
            warnings=(
                *run.identity.warnings,
                *warnings(answers, run.warm_up, run.prefix, lengths, drained=run.drained),
                *lagging(run.lag_s),
            ),
            fault=None,
            simulated=target.simulated,
            time_scale=target.time_scale,
            started=started,
            config_version=run.installed.label,
            client=asdict(run.health),
            warm_up=run.warm_up,
            prefix_cache=run.prefix,
            matches=matches_by_tier(answers, [self._reading.matches(answer) for answer in answers]),
            lengths=lengths,
            target=target.describe(),
            identity=run.identity.as_json(),
        )
        return self._write(answers, live)

    def _keep_failed(self, target: LiveTarget, started: str, fault: TargetFault) -> CellSummary:
        asking = Asking.of(self._context.experiment, self._live, "", traced=False, extra={})
        answers = self._reading.answers(never_sent(asking.requests(self._arriving, self._prompts)))
        live = LiveSummary(
            reasons=(f"{fault.kind}: {fault}",),
            warnings=(),
            fault=fault.kind,
            simulated=target.simulated,
            time_scale=target.time_scale,
            started=started,
            config_version=None,
            client={},
            warm_up={},
            prefix_cache=None,
            target=target.describe(),
        )
        return self._write(answers, live)

    def _write(self, answers: Sequence[Answer], live: LiveSummary) -> CellSummary:
        """The summary last: only then is the cell finished."""
        self._onlooker.phase("writing")
        folder, cell_id = self._store.folder, self._cell.cell_id
        digest = write_live(folder, cell_id, live_table(self._reading.live_rows(answers)))
        write_served(folder, cell_id, self._reading.served(answers, keep_text=self._live.keep_text))
        statuses = by_status([answer.result for answer in answers])
        not_sent = statuses.get("not_sent", 0)
        batches = {answer.trace.told["batch_id"] for answer in answers if "batch_id" in answer.trace.told}
        ended = [answer.result.done_s for answer in answers if answer.ok and answer.result.done_s is not None]
        summary = self._store.write_cell(
            self._reading.records(answers),
            {
                "cell_id": cell_id,
                "scheduled": len(answers),
                "sent": len(answers) - not_sent,
                "not_sent": not_sent,
                **{name: statuses.get(name, 0) for name in ("ok", "error", "timeout", "cancelled")},
                "busy_s": {},
                "steps": 0,
                "preemptions": 0,
                "batches": len(batches),
                "infeasible": sum(answer.trace.mode == "hopeless" for answer in answers),
                "alarms": 0,
                "duration_s": max(ended, default=0.0),
                "live": replace(live, table_sha256=digest),
            },
        )
        self._journal.unlink(missing_ok=True)
        self._onlooker.ended(self._cell, summary)
        return summary


def _drawn(context: SweepContext, cell: CellSpec) -> Arriving:
    workload, tokens = context.experiment.workload, context.prompts.input_tokens
    arriving = draw_workload(workload, tokens, cell.rate_per_s, cell.seed)
    if arriving.hash != cell.workload_hash:
        raise StoreError(f"cell {cell.cell_id}: the workload differs from the planned one")
    return arriving


def sole_instance(live: Live, pool: Pool) -> Instance | None:
    """The instance that stands for all that is behind an openai target; None for other targets.

    Raises ``ConfigError`` where the pool has no tier of its model, or several at different prices.
    """
    if not isinstance(live.target, OpenAiTarget):
        return None
    found = [instance for instance in pool.instances if instance.tier.model == live.target.model]
    if len({instance.tier_index for instance in found}) != 1:
        tiers = ", ".join(sorted({instance.tier.name for instance in found})) or "none"
        raise ConfigError(
            f"live.target.model {live.target.model!r}: the pool must have one tier of it, for its price and "
            f"limits; it has {tiers}"
        )
    return found[0]
