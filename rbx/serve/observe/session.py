"""One observation: record while a load runs or while others use the server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rbx.errors import UsageError
from rbx.serve.observe.calibration_load import CalibrationLoad
from rbx.serve.observe.recording import Recording
from rbx.serve.observe.server import ServerIdentity
from rbx.serve.plugin.state_file import state_directory
from rbx.serve.state.published import StateBytes, header_text, live_states

POLL_S = 0.5


@dataclass(frozen=True)
class Moment:
    """How an observation stands; ``left_s`` until it ends."""

    steps: int
    lost: int
    left_s: float
    load: CalibrationLoad | None


def state_file(chosen: Path | None, server: ServerIdentity) -> Path:
    """The published state of ``server``: a file, or the only one in a folder that fits.

    Raises ``UsageError`` if none or several fit.
    """
    if chosen is not None and chosen.is_file():
        return chosen
    directory = chosen or state_directory()
    fitting = [path for path in live_states(directory) if _fits(path, server)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(str(path) for path in fitting)
        raise UsageError(f"{directory} has the states of several such servers: {names}; name one by --state")
    raise UsageError(
        f"{directory} has no state of a running server of model {server.model!r}; start it with "
        "--scheduler-cls rbx.serve.plugin.scheduler.PublishingScheduler, or give its log by --log"
    )


def _fits(path: Path, server: ServerIdentity) -> bool:
    header = StateBytes(path).header
    blocks = server.num_gpu_blocks
    return header_text(header, "served_name") == server.model and (
        blocks is None or int(header["kv_blocks"]) == blocks - 1
    )


async def observe(
    recording: Recording,
    load: CalibrationLoad | None,
    duration_s: float,
    show: Callable[[Moment], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Collect until ``duration_s`` is over and, with a ``load``, its last answers have come.

    Ends early with the server.
    Cancelled, it collects once more, so that the recording is whole up to then. Raises ``ServerError``
    as the load does.
    """
    began_s = clock()
    driving = asyncio.create_task(load.run(duration_s, clock)) if load else None
    try:
        while driving is not None or clock() < began_s + duration_s:
            await asyncio.sleep(POLL_S)
            recording.collect()
            show(Moment(recording.steps, recording.lost, max(0.0, began_s + duration_s - clock()), load))
            if recording.ended:
                break
            if driving is not None and driving.done():
                driving.result()
                break
    finally:
        if driving is not None:
            driving.cancel()
            await asyncio.gather(driving, return_exceptions=True)
        recording.collect()
