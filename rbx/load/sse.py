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
        events: list[SseEvent] = []
        buffer: bytes | bytearray = data
        scanned = 0
        if self._pending:
            scanned = max(0, len(self._pending) - 2)  # a blank line may be split
            self._pending += data
            buffer = self._pending
        start = 0
        while (end := self._end(buffer, max(start, scanned))) > 0:
            events.append(self._event(bytes(buffer[start:end])))
            start = end
        if buffer is data:
            if start < len(data):
                self._pending += data[start:]
        else:
            del self._pending[:start]
        if len(self._pending) > self._max_event_bytes:
            raise SseError(f"an event is longer than {self._max_event_bytes} bytes")
        return events

    def finish(self) -> list[SseEvent]:
        """What is left at the end of the stream, as one event or none."""
        rest = bytes(self._pending)
        self._pending.clear()
        return [self._event(rest)] if rest else []

    def _end(self, buffer: bytes | bytearray, start: int) -> int:
        """Where the first event from ``start`` on ends; -1 where that is not known yet."""
        found = buffer.find(b"\n\n", start)
        if not self._has_cr:
            return found + 2 if found >= 0 else -1
        # The first of LF LF, LF CR and CR CR: every two line ends in a row hold one of these.
        for pair in (b"\n\r", b"\r\r"):
            earlier = buffer.find(pair, start, found + 1 if found >= 0 else len(buffer))
            found = earlier if earlier >= 0 else found
        after = found + 2
        if found < 0 or buffer[after - 1] == _LF:
            return after if found >= 0 else -1
        if after == len(buffer):
            return -1
        return after + 1 if buffer[after] == _LF else after

    def _event(self, raw: bytes) -> SseEvent:
        begun, self._begun = self._begun, True
        if raw.startswith(b"data: "):  # one data line and nothing else: nearly all events of an answer
            if not self._has_cr:
                if raw.find(b"\n") == len(raw) - 2:
                    return SseEvent(raw, raw[6:-2])
            elif (
                raw.endswith(b"\r\n\r\n")
                and len(raw) - raw.find(b"\r") == 4 == len(raw) - raw.find(b"\n") + 1
            ):
                return SseEvent(raw, raw[6:-4])
        return _parsed(raw, raw if begun else raw.removeprefix(_BYTE_ORDER_MARK))


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
