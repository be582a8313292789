"""A table as CSV: what it shows, in a form that a spreadsheet takes for numbers.

No thousands separators, a plain minus, nothing where a number is unknown. The second line of a column
stands in columns of its own: ``low`` and ``high`` where it is an interval throughout.
"""

from __future__ import annotations

import csv
import io
import re

from rbx.report.number import NO_INTERVAL, NO_SPREAD, UNKNOWN
from rbx.report.table import Column, Table, Value
from rbx.report.written.records_csv import harmless

_INTERVAL = re.compile(r"^\[(?P<low>.+?), (?P<high>.+)\]$")
_NO_INTERVAL = (NO_SPREAD, NO_INTERVAL)
_NUMBER = re.compile(r"^[-+]?[0-9.]+( ?%)?$")


def csv_table(table: Table) -> str:
    """Header and rows, lines ended by a newline."""
    parts = [_Part(column, [row[index] for row in table.rows]) for index, column in enumerate(table.columns)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([harmless(title) for part in parts for title in part.titles])
    for number in range(len(table.rows)):
        writer.writerow([text for part in parts for text in part.texts(number)])
    return out.getvalue()


class _Part:
    """One column of the table as one to four of the file."""

    def __init__(self, column: Column, values: list[Value]) -> None:
        """See what its values have beside their text."""
        self.column, self.values = column, values
        subs = [value.sub for value in values if value.sub]
        self.is_flagged = any(value.flag for value in values)
        self.has_interval = bool(subs) and all(_INTERVAL.match(sub) or sub in _NO_INTERVAL for sub in subs)
        self.has_more = bool(subs) and not self.has_interval

    @property
    def titles(self) -> list[str]:
        """The head of each."""
        title = self.column.title
        more = [f"{title} low", f"{title} high"] if self.has_interval else []
        more += [f"{title}, more"] if self.has_more else []
        return [title, *more, *([f"{title} mark"] if self.is_flagged else [])]

    def texts(self, number: int) -> list[str]:
        """What stands in them in one row."""
        value = self.values[number]
        main = _number(value.text) if self.column.numeric else harmless(value.text)
        found = [main]
        if self.has_interval:
            ends = _INTERVAL.match(value.sub)
            found += [_number(ends["low"]), _number(ends["high"])] if ends else ["", ""]
        if self.has_more:
            found.append(harmless(value.sub))
        return [*found, value.flag] if self.is_flagged else found


def _number(text: str) -> str:
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", text.replace("−", "-"))
    if plain == UNKNOWN:
        return ""
    return plain if _NUMBER.match(plain) else harmless(plain)
