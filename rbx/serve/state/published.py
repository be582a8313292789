"""The exact state of a vLLM server on this host, as its scheduler publishes it (``rbx.serve.plugin``).

Stamps are of the host's monotonic clock, which all its processes share. A server on another host has
another clock: read it over HTTP (``rbx.serve.state.remote``).
"""

from __future__ import annotations

import math
import mmap
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import EngineLimits
from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile, StepCoefficients
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.errors import EngineError
from rbx.serve.plugin import layout
from rbx.serve.plugin.processes import runs
from rbx.serve.plugin.regular_file import open_regular

Ints = NDArray[np.int64]

TRIES = 200
PAUSE_S = 20e-6
MEANWHILE_S = 0.25  # a snapshot may be published between the caller's look at the clock and ours at the file
SURELY_ALIVE_S = 1.0  # a snapshot younger than this proves its writer alive


class StateBytes:
    """The file ``path``, mapped for reading, its header checked.

    Raises ``EngineError`` if it is no published state or one of another layout.
    """

    def __init__(self, path: Path) -> None:
        """Map the file."""
        self.path = path
        try:
            with open_regular(path) as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise EngineError(f"{path}: no published state here; its server may have ended") from None
        except (OSError, ValueError) as error:
            raise EngineError(f"{path}: can't be read as a published state: {error}") from None
        buffer = memoryview(self._map)
        header = checked_header(path, buffer)
        capacities = int(header["row_capacity"]), int(header["ring_capacity"])
        if min(capacities) < 1 or len(buffer) < layout.file_bytes(*capacities):
            raise EngineError(f"{path}: {len(buffer)} bytes can't hold what the header announces")
        self._views = layout.views(buffer, *capacities)

    @property
    def views(self) -> layout.StateViews:
        """The parts of the file; raises ``EngineError`` if it has become shorter since it was mapped.

        Memory beyond a file's end can't be read: the system ends the reader (``SIGBUS``). The size is
        asked for at each call, so that only a cut in the microseconds between question and copy does so.
        """
        size = self._map.size()
        if size < len(self._map):
            raise EngineError(
                f"{self.path}: {size} bytes are left of {len(self._map)}; somebody has cut the published "
                "state short; start its server again"
            )
        return self._views

    @property
    def header(self) -> np.void:
        """The fields of ``layout.HEADER`` as they are now."""
        header: np.void = self.views.header[0]
        return header

    def require_writer(self) -> None:
        """Raise ``EngineError`` if the server has ended or no longer publishes."""
        header = self.header
        require_publishing(self.path, header)
        if not runs(int(header["pid"]), int(header["pid_started"])):
            raise EngineError(f"{self.path}: its server (process {header['pid']}) has ended")

    def copy(self) -> tuple[np.void, Ints]:
        """Scalars and rows (N, layout.ROW_COLUMNS) of the newest whole snapshot.

        Raises ``EngineError`` if none is whole after many tries, or if the file can't hold its requests.
        """
        for _ in range(TRIES):
            views = self.views
            before = int(views.sequence[0])
            if before % 2 == 0:
                scalars = views.snapshot.copy()
                rows = views.rows[: max(0, int(scalars["requests"][0]))].copy()
                expected = int(views.checksum[0])
                if before == int(views.sequence[0]) and (
                    before == 0 or layout.checksum(scalars, rows) == expected
                ):
                    if len(rows) != scalars["requests"][0]:
                        raise EngineError(
                            f"{self.path}: requests is {scalars['requests'][0]}; the file has room for 0 to "
                            f"{len(views.rows)}"
                        )
                    return scalars[0], rows
            time.sleep(PAUSE_S)
        raise EngineError(f"{self.path}: no whole snapshot in {TRIES} tries; its writer may have died")

    def message(self, now_s: float) -> bytes:
        """The newest snapshot as ``layout.MESSAGE`` and its rows; raises as the two above."""
        self.require_writer()
        scalars, rows = self.copy()
        message = np.zeros(1, dtype=layout.MESSAGE)
        message["header"], message["now_s"], message["snapshot"] = self.header, now_s, scalars
        return message.tobytes() + rows.tobytes()


def checked_header(path: Path | str, buffer: memoryview) -> np.void:
    """The header at the start of ``buffer``; raises ``EngineError`` if it is not one of this layout."""
    if len(buffer) < layout.HEADER.itemsize:
        raise EngineError(f"{path}: {len(buffer)} bytes are no published state")
    header: np.void = np.frombuffer(buffer, layout.HEADER, 1)[0]
    if header["magic"] != layout.MAGIC:
        raise EngineError(f"{path}: no published state (it begins with {bytes(buffer[:8])!r})")
    if header["layout"] != layout.LAYOUT or header["request_columns"] != snap.N_REQUEST:
        raise EngineError(
            f"{path}: layout {header['layout']} with {header['request_columns']} request columns; this "
            f"rbx reads layout {layout.LAYOUT} with {snap.N_REQUEST}; use the same rbx on both sides"
        )
    return header


def require_publishing(path: Path | str, header: np.void) -> None:
    """Raise ``EngineError`` unless the header says that its server publishes."""
    status = int(header["status"])
    if status == layout.STOPPED:
        raise EngineError(f"{path}: the server stopped publishing: {header_text(header, 'error')}")
    if status == layout.CLOSED:
        raise EngineError(f"{path}: its server (process {header['pid']}) has ended")
    if status != layout.PUBLISHING:
        raise EngineError(
            f"{path}: status is {status}; a published state has {layout.PUBLISHING} (publishing), "
            f"{layout.STOPPED} (stopped) or {layout.CLOSED} (closed)"
        )


def header_text(header: np.void, name: str) -> str:
    """A text of the header; what is no UTF-8, such as a character that was cut, shows as U+FFFD."""
    return bytes(header[name]).decode(errors="replace")


def limits_of(header: np.void) -> EngineLimits:
    """The engine's limits as the header states them; raises ``EngineError`` if they can't be."""
    switches = ("chunked_prefill", "async_scheduling", "reserve_full_prompt")
    values = {name: int(header[name]) for name in layout.LIMITS}
    for name in switches:
        if values[name] not in (0, 1):
            raise EngineError(f"the published limits can't be: {name} is {values[name]}; it is 0 or 1")
    try:
        return EngineLimits.model_validate(values | {name: values[name] == 1 for name in switches})
    except ValueError as error:
        raise EngineError(f"the published limits can't be: {error}") from None


def snapshot_of(
    path: Path | str, profile: InstanceProfile, scalars: np.void, rows: Ints, stamp_s: float
) -> InstanceSnapshot:
    """One copy of a published state as the type that everything else takes.

    Raises ``EngineError`` for a state that shows not all its requests or can't be one.
    """
    for name in ("left_out", "unmodelled"):
        if scalars[name] < 0:
            raise EngineError(f"{path}: {name} is {scalars[name]}; a count of requests can't be negative")
    if not 0 <= scalars["in_flight"] <= layout.MAX_IN_FLIGHT:
        raise EngineError(
            f"{path}: in_flight is {scalars['in_flight']}; at most {layout.MAX_IN_FLIGHT} batches can be"
        )
    if not math.isfinite(scalars["stamp_s"]):
        raise EngineError(f"{path}: the published stamp_s is {scalars['stamp_s']}; it must be finite")
    if scalars["left_out"] > 0:
        raise EngineError(
            f"{path}: {scalars['left_out']} requests beyond the {len(rows)} published; a snapshot without "
            "them is none"
        )
    in_flight = int(scalars["in_flight"])
    shift_s = stamp_s - float(scalars["stamp_s"])
    return InstanceSnapshot(
        int(scalars["version"]),
        stamp_s,
        profile,
        int(scalars["free_blocks"]),
        int(scalars["running"]),
        rows[:, : snap.N_REQUEST],
        scalars["step_start_s"][:in_flight] + shift_s,
        scalars["steps"][:in_flight],
    )


class PublishedState:
    """Snapshots of one server from the file ``path``, priced with ``coefficients``.

    The engine knows no predictions: the rows have predicted 0, and ``with_predictions`` fills them in.
    ``ids`` (N,) names the rows of the snapshot read last; ``unmodelled`` counts the requests up to it that
    used what rbx does not model (grammars, images, adapters), whose replay is a guess.
    Raises ``EngineError`` as ``StateBytes`` does.
    """

    def __init__(self, path: Path, coefficients: StepCoefficients) -> None:
        """Open the file."""
        self._bytes = StateBytes(path)
        self._bytes.require_writer()
        self.profile = InstanceProfile(limits_of(self._bytes.header), coefficients)
        self._last = (-1, -np.inf)
        self.ids: Ints = np.zeros(0, dtype=np.int64)
        self.unmodelled = 0

    def read(self, now_s: float) -> InstanceSnapshot:
        """The newest snapshot; its age is ``now_s`` − ``stamp_s``. ``ids`` then names its requests.

        A stamp just after ``now_s`` was published meanwhile: predict from the later of both. Raises
        ``EngineError`` if the server has ended or stopped publishing, if the stamp lies further after
        ``now_s`` or before the one read last, or as ``snapshot_of`` does.
        """
        path = self._bytes.path
        scalars, rows = self._bytes.copy()
        version, stamp_s = int(scalars["version"]), float(scalars["stamp_s"])
        if not stamp_s - MEANWHILE_S <= now_s < np.inf:
            raise EngineError(
                f"{path}: stamp_s is {stamp_s} and now_s is {now_s}; take now_s from time.monotonic"
            )
        if version < self._last[0] or stamp_s < self._last[1]:
            raise EngineError(f"{path}: the clock jumped: {stamp_s} s after {self._last[1]} s")
        if now_s - stamp_s > SURELY_ALIVE_S or self._bytes.header["status"] != layout.PUBLISHING:
            self._bytes.require_writer()
        snapshot = snapshot_of(path, self.profile, scalars, rows, stamp_s)
        self._last, self.ids = (version, stamp_s), rows[:, layout.ID]
        self.unmodelled = int(scalars["unmodelled"])
        return snapshot


def with_predictions(
    snapshot: InstanceSnapshot, ids: Ints, predicted_tokens: Mapping[int, int]
) -> InstanceSnapshot:
    """The snapshot with predicted totals from ``predicted_tokens``, by ``layout.published_id``.

    ``ids`` (N,) names the rows. Requests without an entry keep 0. Raises ``EngineError`` if there is not
    one id for each row, or for a prediction below 1.
    """
    if len(ids) != len(snapshot.requests):
        raise EngineError(f"ids has {len(ids)} names for {len(snapshot.requests)} requests")
    requests = snapshot.requests.copy()
    requests[:, snap.PREDICTED] = [predicted_tokens.get(name, 0) for name in ids.tolist()]
    return InstanceSnapshot(
        snapshot.version,
        snapshot.stamp_s,
        snapshot.profile,
        snapshot.free_blocks,
        snapshot.running,
        requests,
        snapshot.step_start_s,
        snapshot.steps,
    )


def live_states(directory: Path) -> list[Path]:
    """Files of ``directory`` whose server runs, by name; those of dead processes are left out."""
    found = []
    for path in sorted(directory.glob(f"*{layout.SUFFIX}")):
        try:
            StateBytes(path).require_writer()
        except EngineError:
            continue
        found.append(path)
    return found
