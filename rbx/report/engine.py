"""What served a sweep's requests, as it stands on every table and figure."""

from __future__ import annotations

from rbx.report.load import Sweep

SYNTHETIC_GRID = "SYNTHETIC GRID"
SIMULATED_ENGINE = "SIMULATED ENGINE"
LIVE_SERVERS = "LIVE SERVERS"
LIVE_CLIENT = "LIVE CLIENT"
FOREIGN = "FOREIGN"


def kinds(sweep: Sweep) -> tuple[str, ...]:
    """Whether the grid is synthetic, and the engine: virtual time, live (mock) servers, or another tool."""
    manifest = sweep.manifest
    if manifest.get("foreign"):
        return (FOREIGN,)
    grid = (SYNTHETIC_GRID,) if manifest.get("synthetic_grid") else ()
    if manifest.get("simulated"):
        return (*grid, SIMULATED_ENGINE)
    return (*grid, LIVE_CLIENT, SIMULATED_ENGINE) if is_mocked(sweep) else (*grid, LIVE_SERVERS)


def is_mocked(sweep: Sweep) -> bool:
    """Whether mock servers answered some live cell: the client's clock is real, the engine is not."""
    return any(cell.summary.live is not None and cell.summary.live.simulated for cell in sweep.cells)


def served_words(sweep: Sweep) -> str:
    """The same in a sentence."""
    if foreign := sweep.manifest.get("foreign"):
        return (
            f"Measured by another tool, {foreign['tool']}, and imported from {', '.join(foreign['files'])}."
        )
    if sweep.manifest.get("simulated"):
        return "Latency and throughput come from a simulated engine in virtual time, not from servers."
    if not is_mocked(sweep):
        return "Requests were served by live servers."
    scales = sorted({cell.summary.live.time_scale or 1.0 for cell in sweep.cells if cell.summary.live})
    faster = ", ".join(f"{scale:g}" for scale in scales)
    return (
        "A live client sent the requests over HTTP to mock servers: the timing of their tokens is simulated, "
        f"{faster} simulated seconds in a real one, and their words are no model's."
    )
