"""What a request says to the gateway itself: budget, weights and targets, by header or by field.

A header goes before the field of the same meaning in the body's ``rbx`` object (``extra_body={"rbx": …}``
with OpenAI's client). None of it is sent on to a server.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rbx.config.policy import Weights
from rbx.serve.gateway.errors import ApiError, invalid

FIELD = "rbx"
TRACE = "x-rbx-trace"
# Field of the ``rbx`` object and the header of the same meaning.
HEADERS = {
    "budget_usd": "x-rbx-budget-usd",
    "slo_ttft_ms": "x-slo-ttft-ms",
    "slo_e2e_ms": "x-slo-e2e-ms",
    "weights": "x-rbx-weights",
}
_BY_HEADER = frozenset((*HEADERS.values(), TRACE))
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")  # no 1_000, no nan
_NAMES = ("quality", "latency", "cost")


@dataclass(frozen=True)
class Knobs:
    """A budget and targets are infinite where there is none; ``weights`` are (quality, latency, cost).

    ``traced`` asks how the request was decided, by a header alone.
    """

    budget_usd: float = math.inf
    ttft_s: float = math.inf
    e2e_s: float = math.inf
    weights: Weights | None = None
    traced: bool = False


def read_knobs(headers: Mapping[str, str], field: Any) -> Knobs:
    """From a request's headers and its ``rbx`` object; raises ``ApiError`` naming what does not hold."""
    if field is None:
        field = {}
    if not isinstance(field, dict):
        raise invalid(FIELD, "must be an object", "invalid_type")
    unknown = sorted(set(field) - set(HEADERS))
    if unknown:
        raise invalid(f"{FIELD}.{unknown[0]}", f"unknown; known are {', '.join(HEADERS)}", "unknown_field")
    given: dict[str, tuple[str, Any]] = {}
    for name, header in HEADERS.items():
        if header in headers:
            given[name] = (header, _numbers(headers[header], header))
        elif field.get(name) is not None:
            given[name] = (f"{FIELD}.{name}", field[name])
    return Knobs(
        budget_usd=_positive(given.get("budget_usd")),
        ttft_s=_positive(given.get("slo_ttft_ms")) / 1e3,
        e2e_s=_positive(given.get("slo_e2e_ms")) / 1e3,
        weights=_weights(given.get("weights")),
        traced=headers.get(TRACE) == "1",
    )


def refuse_repeated(names: Iterable[str]) -> None:
    """Raise ``ApiError`` where one of these headers stands twice among the ``names`` of all."""
    for name, times in Counter(names).items():
        if times > 1 and name in _BY_HEADER:
            raise invalid(name, "given twice")


def _numbers(text: str, header: str) -> Any:
    """A header's number, or its list of numbers."""
    parts = [part.strip(" \t") for part in text.split(",")]
    if not all(_NUMBER.fullmatch(part) for part in parts):
        raise invalid(header, "must be a number, or numbers divided by commas", "invalid_type")
    values = [float(part) for part in parts]
    return values if header == HEADERS["weights"] else values[0] if len(values) == 1 else values


def _number(value: Any, param: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise invalid(param, "must be a number", "invalid_type")
    return float(value)


def _positive(given: tuple[str, Any] | None) -> float:
    if given is None:
        return math.inf
    param, value = given
    number = _number(value, param)
    if not (math.isfinite(number) and number > 0.0):
        raise _range(param, "must be a finite number above 0")
    return number


def _weights(given: tuple[str, Any] | None) -> Weights | None:
    """On the simplex, as in a policy's file: 0.33, 0.33, 0.33 passes and is scaled to sum 1."""
    if given is None:
        return None
    param, values = given
    if not isinstance(values, list) or len(values) != 3:
        raise invalid(param, f"must be three numbers: {', '.join(_NAMES)}", "invalid_type")
    q, latency, cost = (_number(value, f"{param}[{k}]") for k, value in enumerate(values))
    total = q + latency + cost
    if not all(math.isfinite(w) and w >= 0.0 for w in (q, latency, cost)):
        raise _range(param, "must be finite numbers from 0 up")
    if not math.isclose(total, 1.0, abs_tol=0.0101):
        raise _range(param, f"sum to {total:g}, not to 1")
    return q / total, latency / total, cost / total


def _range(param: str, message: str) -> ApiError:
    return invalid(param, message, "out_of_range")
