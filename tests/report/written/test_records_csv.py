from __future__ import annotations

import csv
import io
import math

import pytest

from rbx.report.written.records_csv import records_csv


def _read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_numbers_stay_and_what_is_unknown_is_empty() -> None:
    rows = [{"label": "rb", "low": -1.5, "high": None}, {"label": 'µ, "x"', "low": math.nan, "high": 0}]
    assert _read(records_csv(rows)) == [
        {"label": "rb", "low": "-1.5", "high": ""},
        {"label": 'µ, "x"', "low": "", "high": "0"},
    ]


@pytest.mark.parametrize("text", ["=1+1|cmd", "+1", "-2+3", "@SUM(A1)"])
def test_a_text_is_no_formula(text: str) -> None:
    assert _read(records_csv([{"says": text}])) == [{"says": f"'{text}"}]
