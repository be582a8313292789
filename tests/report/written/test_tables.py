"""Tables as files: what they show, and nothing that a program would run."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rbx.report
from rbx.report.interval import Interval, not_estimable
from rbx.report.number import significant
from rbx.report.table import Column, Table, Value, estimate
from rbx.report.written.files import file_name, write_tables
from rbx.report.written.table_csv import csv_table
from rbx.report.written.table_latex import latex_table, latex_text
from rbx.report.written.table_markdown import markdown_table, markdown_text

EVIL = r"a_b & 50% $x$ #1 {y} ~ ^ \input{/etc/passwd} <script>alert(1)</script> | -- '`"


def _table(*rows: tuple[Value, ...]) -> Table:
    return Table(
        "Cells",
        "Over completed requests.",
        (Column("policy", numeric=False), Column("E2E, s")),
        rows,
        "† slow.",
    )


def _read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_csv_holds_numbers_and_both_ends_of_intervals() -> None:
    table = _table(
        (Value("a"), estimate(Interval(1234.5, -0.25, 5678.0, "ok"), significant)),
        (Value("b"), estimate(not_estimable(2.0, "one prompt"), significant)),
        (Value("c"), Value("–")),
    )
    header, *rows = _read(csv_table(table))
    assert header == ["policy", "E2E, s", "E2E, s low", "E2E, s high"]
    assert rows == [["a", "1234", "-0.250", "5678"], ["b", "2.00", "", ""], ["c", "", "", ""]]
    assert float(rows[0][1]) == pytest.approx(1234.5, rel=1e-3)


def test_csv_keeps_marks_and_other_second_lines() -> None:
    header, row = _read(csv_table(_table((Value("a", sub="baseline"), Value("3.0", flag="†")))))
    assert header == ["policy", "policy, more", "E2E, s", "E2E, s mark"]
    assert row == ["a", "baseline", "3.0", "†"]


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)"])
def test_csv_holds_no_formula(text: str) -> None:
    (row,) = _read(csv_table(_table((Value(text), Value("1")))))[1:]
    assert row[0] == f"'{text}"


def test_latex_is_text_and_columns_stay_columns() -> None:
    lines = list(latex_table(_table((Value(EVIL), Value("−1.5", sub="[−2, −1]"))), "SYNTHETIC GRID"))
    assert lines[4] == r"\begin{tabular}{lr}"
    (row,) = [line for line in lines if "a\\_b" in line]
    assert re.sub(r"\\&", "", row).count("&") == 1
    assert r"\textbackslash{}input\{/etc/passwd\}" in row
    assert "50\\%" in row
    assert "-{}-" in row
    assert row.endswith(r"$-$1.5 {\scriptsize [$-$2, $-$1]} \\")
    assert "SYNTHETIC GRID" in lines[-2]
    assert "$\\dagger$ slow." in lines[-2]
    assert [line for line in lines if "rule" in line] == [r"\toprule", r"\midrule", r"\bottomrule"]


def test_a_row_does_not_begin_with_an_argument_of_the_line_end() -> None:
    lines = list(latex_table(_table((Value("[0, 1]"), Value("1")), (Value("*"), Value("2")))))
    assert "{}[0, 1] & 1 \\\\" in lines
    assert "{}* & 2 \\\\" in lines


def test_every_sign_that_the_report_writes_is_spelt_out_for_latex() -> None:
    """Whatever stands in our own words: names of policies may bring letters of their own."""
    sources = sorted(Path(rbx.report.__path__[0]).rglob("*.py"))
    signs = {sign for path in sources for sign in path.read_text(encoding="utf-8") if not sign.isascii()}
    assert len(signs) > 10
    assert all(latex_text(sign).isascii() for sign in signs)


@given(st.text(max_size=60))
def test_latex_has_no_sign_of_its_own_left(text: str) -> None:
    """Whatever stands in a name: what is left besides our own commands is plain."""
    own = r"\\(text[a-z]+|dots)\{\}|\\[{}&%$#_]|\$\\?[a-zA-Z]+\$|\$-\$|\$\^2\$|\{\}"
    kept = re.sub(own, "", latex_text(text))
    assert not set(kept) & set(r"\{}&%$#_^<>|")
    assert "~" not in kept or "\u00a0" in text


@given(st.text(max_size=60))
def test_markdown_cells_stay_cells(text: str) -> None:
    (row,) = list(markdown_table(_table((Value(text), Value("1")))))[6:7]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 3
    assert "\n" not in row


def test_markdown_shows_names_as_they_are() -> None:
    assert markdown_text("<b>|*_`[x]\\") == r"\<b\>\|\*\_\`\[x\]\\"
    assert "[1, 2]" in "".join(markdown_table(_table((Value("a"), Value("1", sub="[1, 2]"))))).replace(
        "\\", ""
    )


def test_files_of_tables_that_are_no_more_go(tmp_path: Path) -> None:
    table = _table((Value("a"), Value("1")))
    write_tables(tmp_path / "tables", [("one", table), ("two", table)], "")
    assert len(list((tmp_path / "tables").iterdir())) == 6
    write_tables(tmp_path / "tables", [("two", table)], "SIMULATED ENGINE")
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {"two.csv", "two.md", "two.tex"}
    assert "SIMULATED ENGINE" in (tmp_path / "tables" / "two.md").read_text()
    assert file_name("Best policy at λ = 6!") == "best-policy-at-6"
