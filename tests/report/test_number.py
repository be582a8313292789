"""How shares are written."""

from __future__ import annotations

import math

import pytest

from rbx.report.number import percent, signed


@pytest.mark.parametrize(
    ("share", "decimals", "text"),
    [
        (0.0, 0, "0 %"),
        (1.0, 0, "100 %"),
        (0.123, 0, "12 %"),
        (0.1, 0, "10 %"),
        (0.004, 0, "0.4 %"),
        (0.9996, 1, "99.96 %"),
        (-0.25, 0, "−25 %"),
        (-0.002, 0, "−0.2 %"),
        (1.5, 0, "150 %"),
        (math.nan, 0, "–"),
    ],
)
def test_shares_in_per_cent(share: float, decimals: int, text: str) -> None:
    assert percent(share, decimals) == text


def test_gains_bear_their_sign() -> None:
    assert [signed(percent(share)) for share in (0.3, -0.3, 0.0)] == ["+30 %", "−30 %", "0 %"]
