"""What a gateway says of one decision in the headers of its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from rbx.policy.base import FALLBACK, MODES
from rbx.policy.filters.admissions import ADMISSIONS

ASK = ("x-rbx-trace", "1")
# The gateway's words for how a request was placed that are those of the records as well.
_MODES = (*MODES, FALLBACK)
_LIMIT = 2**31
_MOST_TRIES = 2**15  # of a 16-bit column


class Trace(NamedTuple):
    """Headers of one answer; None for what they don't tell. Times ``…_after_s`` count from arrival there."""

    instance: str | None
    mode: str | None
    attempts: int | None
    config_version: str | None
    request_id: str | None
    told: Mapping[str, float]
    admission: str | None = None  # of a filter, in the words of the records

    @property
    def recorded_mode(self) -> str | None:
        """The decision mode in the words of the records."""
        return None if self.mode is None else self.mode if self.mode in _MODES else "policy"

    @property
    def version_number(self) -> int | None:
        """The number in a version's label."""
        return _whole((self.config_version or "").partition("-")[0])

    def whole(self, name: str) -> int | None:
        """A count of the trace; a negative one is none."""
        value = self.told.get(name)
        return None if value is None or value < 0.0 else round(value)


def read_trace(headers: Mapping[str, str]) -> Trace:
    """What is told; a header that does not read as it should counts as absent."""
    told = _object(headers.get("x-rbx-trace", ""))
    admission = told.get("admission")
    return Trace(
        instance=_text(headers.get("x-rbx-instance")),
        mode=_text(headers.get("x-rbx-decision-mode")),
        attempts=_tries(headers.get("x-rbx-attempts", "")),
        config_version=_text(headers.get("x-rbx-config-version")),
        request_id=_text(headers.get("x-rbx-request-id") or headers.get("x-request-id")),
        told={name: float(number) for name, number in told.items() if _is_number(number)},
        admission=admission if admission in ADMISSIONS else None,
    )


def _text(value: str | None) -> str | None:
    return unquote(value) if value else None


def _whole(value: str) -> int | None:
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None


def _tries(value: str) -> int | None:
    tries = _whole(value)
    return tries if tries is not None and tries < _MOST_TRIES else None


def _object(value: str) -> dict[str, Any]:
    try:
        told: Any = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _is_number(value: Any) -> bool:
    # Any endpoint may write such a header: what 32 bits can't hold is neither a count nor a time.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -_LIMIT < value < _LIMIT
