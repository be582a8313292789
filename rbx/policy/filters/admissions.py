"""How a filter dealt with a request, in the words of records and reports."""

from __future__ import annotations

from rbx.policy.filters.calibrated import LATENCIES, RELAX_ROUNDS

# Somebody passed: at once, or after so many relaxations. Else what ``on_empty`` says.
STRICT = 0
ADMISSIONS = (
    "strict",
    *(f"relaxed {step}" for step in range(1, RELAX_ROUNDS * len(LATENCIES) + 1)),
    "all",
    "cheapest",
    "shed",
)
