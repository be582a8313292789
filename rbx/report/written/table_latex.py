"""A table as LaTeX in the style of booktabs; signs of the report that pdfTeX does not know are spelt out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rbx.report.table import Column, Table, Value

_SIGNS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",  # the sign itself needs the T1 encoding
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "−": "$-$",
    "–": "--",
    "—": "---",
    "±": r"$\pm$",
    "×": r"$\times$",
    "÷": r"$\div$",
    "·": r"$\cdot$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\to$",
    "†": r"$\dagger$",
    "λ": r"$\lambda$",
    "τ": r"$\tau$",
    "θ": r"$\theta$",
    "≠": r"$\neq$",
    "√": r"$\surd$",
    "∫": r"$\int$",
    "²": r"$^2$",
    "Δ": r"$\Delta$",
    "Σ": r"$\Sigma$",
    "…": r"\dots{}",
    "\u00a0": "~",
}


def latex_table(table: Table, stamp: str = "") -> Iterator[str]:
    """Lines of a ``table`` environment; ``stamp`` follows the note under the rows."""
    yield r"% needs \usepackage{booktabs} and \usepackage{textcomp}"
    yield r"\begin{table}[t]"
    yield r"\centering"
    yield rf"\caption{{{latex_text(table.caption)}}}"
    yield rf"\begin{{tabular}}{{{''.join(_align(column) for column in table.columns)}}}"
    yield r"\toprule"
    yield _row(latex_text(column.title) for column in table.columns)
    yield r"\midrule"
    for row in table.rows:
        yield _row(map(_cell, row))
    yield r"\bottomrule"
    yield r"\end{tabular}"
    if words := " ".join(part for part in (table.note, table.footnote, stamp) if part):
        yield rf"\par\smallskip{{\footnotesize {latex_text(words)}\par}}"
    yield r"\end{table}"


def latex_text(text: str) -> str:
    """Text that TeX sets as it stands: no command, no comment, no column, no ligature of hyphens."""
    parts = []
    for before, sign in zip(" " + text, text, strict=False):
        parts.append("{}" if sign == before == "-" else "")
        parts.append(_SIGNS.get(sign) or (sign if sign.isprintable() else " "))
    return "".join(parts)


def _align(column: Column) -> str:
    return "r" if column.numeric else "l"


def _row(cells: Iterable[str]) -> str:
    # A bracket or a star at the start of a row would be an argument of the line end before it.
    return " & ".join(f"{{}}{cell}" if cell.startswith(("[", "*")) else cell for cell in cells) + r" \\"


def _cell(value: Value) -> str:
    main = latex_text(f"{value.text}{value.flag}")
    return rf"{main} {{\scriptsize {latex_text(value.sub)}}}" if value.sub else main
