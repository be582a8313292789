"""A server that has gone, told apart from requests that it failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rbx.errors import ServerError

Row = dict[str, Any]


class Outage:
    """Holds rows of unreachable requests back until the server is heard again.

    A request that fails while others succeed has failed; where none succeeds any more it is the server
    that has, and the rows of its requests are dropped so that the next run asks them again.
    """

    def __init__(self, who: str, concurrency: int, write: Callable[[Row], None]) -> None:
        """``write`` takes rows that count; the server is given up after two rounds of failures."""
        self._who = who
        self._limit = 2 * concurrency + 8
        self._write = write
        self._held: list[tuple[Row, str]] = []

    def heard(self, row: Row) -> None:
        """A row of a request that the server dealt with, well or badly."""
        self.flush()
        self._write(row)

    def unreached(self, row: Row, why: str) -> None:
        """A row of a request that got through to nobody; raises ``ServerError`` once there are too many."""
        self._held.append((row, why))
        if len(self._held) >= self._limit:
            raise ServerError(
                f"{self._who}: no answer to {len(self._held)} requests in a row, the last with {why}; the "
                "rows so far are kept: bring the server back, or mend what it complains of (a name, a key, "
                "too many requests at once), and run the same command again"
            )

    @property
    def holding(self) -> int:
        """Rows held back."""
        return len(self._held)

    def flush(self) -> None:
        """Write the rows held back: at the end of all work, when the server was heard after them or never."""
        for row, _ in self._held:
            self._write(row)
        self._held.clear()
