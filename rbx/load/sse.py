"""Server-sent events out of bytes that may be split anywhere, each with the bytes it came in."""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_EVENT_BYTES = 16 << 20
_LINE_END = re.compile(rb"\r\n|\n|\r")
_LF = 10
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SseError(Exception):
    """The bytes are no usable event stream."""


class SseEvent(NamedTuple):
    """What stands between two blank lines.

    ``raw`` are its bytes with the closing blank line. ``data`` joins its data lines by line feeds; None
    where it has none, as in a comment that only keeps the connection alive. ``name`` is the event field.
    """

    raw: bytes
    data: bytes | None
    name: bytes = b""


class SseReader:
    """Cuts a stream into events; the raw bytes of all events together are the stream.

    Lines end with LF, CRLF or CR, as in the HTML standard, "Server-sent events", 9.2.6. Where an event
    starts and ends does not depend on how the stream was split: an event that a bare CR closes is held
    until the next byte tells whether a LF belongs to it. Beyond the standard, an event that the end of
    the stream closes counts, and a blank line between two events belongs to the second.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        """``max_event_bytes`` bounds what is held while an event is incomplete."""
        self._max_event_bytes = max_event_bytes
        self._pending = bytearray()
        self._begun = False
        self._has_cr = False

    def feed(self, data: bytes) -> list[SseEvent]:
        """Events that ``data`` completes; raises ``SseError`` where one is longer than the bound."""
        if b"\r" in data:
            self._has_cr = True
        if not self._pending and (one := self._one_line(data)) is not None:
            self._begun = True
            return [one]  # as nearly every read of an answer
        cut = self._cut_anywhere if self._has_cr else self._cut_at_line_feeds
        events = [self._event(raw) for raw in cut(data)]
        if len(self._pending) > self._max_event_bytes:
            raise SseError(f"an event is longer than {self._max_event_bytes} bytes")
        return events

    def finish(self) -> list[SseEvent]:
        """What is left at the end of the stream, as one event or none."""
        rest = bytes(self._pending)
        self._pending.clear()
        return [self._event(rest)] if rest else []

    def _cut_at_line_feeds(self, data: bytes) -> list[bytes]:
        """Whole events of a stream that never had a CR."""
        pending = self._pending
        if pending:
            # Joined only once there is an end: a long event that comes in many parts is copied once.
            if b"\n\n" not in data and not (pending[-1] == _LF and data.startswith(b"\n")):
                pending += data
                return []
            data = bytes(pending) + data
            pending.clear()
        parts = data.split(b"\n\n")
        pending += parts.pop()
        return [part + b"\n\n" for part in parts]

    def _cut_anywhere(self, data: bytes) -> list[bytes]:
        """Whole events, whatever ends their lines."""
        pending = self._pending
        scanned = max(0, len(pending) - 2)  # a blank line may be split
        pending += data
        start = 0
        events: list[bytes] = []
        while (end := _event_end(pending, max(start, scanned))) > 0:
            events.append(bytes(pending[start:end]))
            start = end
        del pending[:start]
        return events

    def _event(self, raw: bytes) -> SseEvent:
        begun, self._begun = self._begun, True
        if (one := self._one_line(raw)) is not None:
            return one
        return _parsed(raw, raw if begun else raw.removeprefix(_BYTE_ORDER_MARK))

    def _one_line(self, raw: bytes) -> SseEvent | None:
        """The event that ``raw`` is if it is one data line and a blank one."""
        size = len(raw)
        if self._has_cr:
            whole = raw.find(b"\r") == size - 4 and raw.find(b"\n") == size - 3 and raw.endswith(b"\r\n\r\n")
        else:
            whole = raw.find(b"\n") == size - 2 and raw.endswith(b"\n\n")
        if not (whole and raw.startswith(b"data: ")):
            return None
        return SseEvent(raw, raw[6 : -4 if self._has_cr else -2])


def _parsed(raw: bytes, text: bytes) -> SseEvent:
    lines: list[bytes] = []
    name = b""
    for line in _LINE_END.split(text):
        field, _, value = line.partition(b":")
        if field == b"data":
            lines.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return SseEvent(raw, b"\n".join(lines) if lines else None, name)


def _event_end(buffer: bytearray, start: int) -> int:
    """Where the first event from ``start`` on ends; -1 where that is not known yet."""
    # The first of LF LF, LF CR and CR CR: every two line ends in a row hold one of these.
    found = -1
    for pair in (b"\n\n", b"\n\r", b"\r\r"):
        earlier = buffer.find(pair, start, found + 1 if found >= 0 else len(buffer))
        found = earlier if earlier >= 0 else found
    after = found + 2
    if found < 0 or buffer[after - 1] == _LF:
        return after if found >= 0 else -1
    if after == len(buffer):
        return -1
    return after + 1 if buffer[after] == _LF else after
