"""The JSON file of a cell, checked key by key."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from rbx.config.base import NonNegativeFloat, NonNegativeInt
from rbx.sweep.live.summary import LiveSummary
from rbx.sweep.store import CellSummary


class _CellFile(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    cell_id: str
    scheduled: NonNegativeInt
    sent: NonNegativeInt
    not_sent: NonNegativeInt
    ok: NonNegativeInt
    error: NonNegativeInt
    timeout: NonNegativeInt
    cancelled: NonNegativeInt
    busy_s: dict[str, NonNegativeFloat]
    steps: NonNegativeInt
    preemptions: NonNegativeInt
    batches: NonNegativeInt
    infeasible: NonNegativeInt
    alarms: NonNegativeInt
    duration_s: NonNegativeFloat
    records_sha256: str
    live: LiveSummary | None = None


def parse_summary(content: bytes) -> CellSummary:
    """The summary in the content of a ``cells/CELL.json``; raises pydantic's ``ValidationError``."""
    found = _CellFile.model_validate_json(content)
    return CellSummary(**{name: getattr(found, name) for name in _CellFile.model_fields})
