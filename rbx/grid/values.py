"""Values from files, checked: every fault names the file, the row and the column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rbx.errors import DatasetError

MAX_TOKENS = 2**31 - 1
_WORDS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}


@dataclass(frozen=True)
class Row:
    """One row of a source file; ``number`` counts from 1, without a header."""

    path: Path
    number: int
    values: dict[str, Any]

    def fault(self, column: str, what: str) -> DatasetError:
        """An error that points at one cell."""
        return DatasetError(f"{self.path}, row {self.number}, column {column}: {what}")

    def require(self, column: str) -> Any:
        """The raw value; raises ``DatasetError`` where the column is absent."""
        if column not in self.values:
            has = ", ".join(sorted(self.values)[:20]) or "nothing"
            raise self.fault(column, f"missing; the row has {has}")
        return self.values[column]

    def optional_text(self, column: str) -> str | None:
        """A string, or None where the value is null or the column absent."""
        value = self.values.get(column)
        return None if value is None else self._text(column, value)

    def text(self, column: str) -> str:
        """A string that is not blank."""
        given = self.require(column)
        value = "" if given is None else self._text(column, given)
        if not value.strip():
            raise self.fault(column, "is empty; every row needs one")
        return value

    def _text(self, column: str, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise self.fault(column, f"expected text, found {_named(value)}")
        text = str(value)
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise self.fault(
                    column, f"is not valid Unicode at character {error.start}; repair the text"
                ) from None
        return text

    def optional_count(self, column: str) -> int | None:
        """A whole number of tokens, 0 or more, or None where the value is null or the column absent."""
        value = self.values.get(column)
        return None if _blank(value) else self._count(column, value)

    def count(self, column: str) -> int:
        """A whole number of tokens, 0 or more."""
        value = self.require(column)
        if _blank(value):
            raise self.fault(column, "is empty; a number of tokens is needed")
        return self._count(column, value)

    def _count(self, column: str, value: Any) -> int:
        number = self._number(column, value)
        if number != int(number) or not 0 <= number <= MAX_TOKENS:
            raise self.fault(column, f"{value!r} is not a whole number of tokens, 0 or more")
        return int(number)

    def optional_score(self, column: str, low: float = 0.0, high: float = 1.0) -> float | None:
        """A score mapped linearly from [low, high] to [0, 1]; null and blank stay None, 0 stays 0."""
        value = self.values.get(column)
        if _blank(value):
            return None
        number = self._number(column, value)
        if not low <= number <= high:
            raise self.fault(column, f"the score {value!r} is outside [{low:g}, {high:g}]")
        return (number - low) / (high - low)

    def flag(self, column: str) -> bool:
        """A truth value; absent and null are False."""
        value = self.values.get(column)
        if _blank(value):
            return False
        known = _WORDS.get(str(value).strip().lower())
        if known is None:
            raise self.fault(column, f"{value!r} is neither true nor false")
        return known

    def _number(self, column: str, value: Any) -> float:
        if isinstance(value, bool):
            return float(value)
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            return float(value.strip().lower() == "true")
        try:
            number = float(value) if isinstance(value, (str, int, float)) else None
        except (ValueError, OverflowError):
            number = None
        if number is None:
            raise self.fault(column, f"expected a number, found {_named(value)}")
        if not math.isfinite(number):
            raise self.fault(
                column, f"{value!r} is not finite; leave the value empty (null) where it is unknown"
            )
        return number


def _blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _named(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
