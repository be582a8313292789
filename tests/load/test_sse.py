"""Server-sent events from bytes that were split anywhere, against a reading byte by byte."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.load.sse import SseError, SseEvent, SseReader

# Streams that are mostly events, in every kind of line end, and sometimes anything.
LINES = st.sampled_from(
    [
        *(b"data: {}", b"data:x", b"data", b"data:  two", b": ping", b":", b"event: error", b"event:a"),
        *(b"id: 7", b"retry: 5", b"", b"dat", "data: Grüße 🌍".encode(), b"\xf0\x9f", b"\xef\xbb\xbfdata: y"),
    ]
)
ENDS = st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"])
BLANKS = st.sampled_from([b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r", b"\r\n\n", b"\n\r\n", b"\r\n\r"])
PARTS = st.one_of(st.tuples(LINES, ENDS).map(b"".join), st.tuples(LINES, BLANKS).map(b"".join))
MIXED = st.tuples(
    st.sampled_from([b"", b"\xef\xbb\xbf"]), st.lists(PARTS, max_size=12).map(b"".join), LINES
).map(b"".join)
LINE_FEEDS = MIXED.map(lambda stream: stream.replace(b"\r", b"\n"))
RETURNS_TOO = MIXED.map(lambda stream: stream.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
STREAMS = MIXED | LINE_FEEDS | RETURNS_TOO | st.binary(max_size=40)


def read(pieces: list[bytes]) -> list[SseEvent]:
    reader = SseReader()
    return [event for piece in pieces for event in reader.feed(piece)] + reader.finish()


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(place % (len(stream) + 1) for place in cuts), len(stream)]
    return [stream[start:end] for start, end in pairwise(places)]


def by_the_standard(stream: bytes) -> list[tuple[bytes, bytes]]:
    """(data, name) of each event, one byte at a time; an event that the stream's end closes counts."""
    rest = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events: list[tuple[bytes, bytes]] = []
    data: list[bytes] = []
    name = line = b""
    for byte in [*rest, 10, 10]:
        if byte != 10:
            line += bytes([byte])
            continue
        if not line:
            if data:
                events.append((b"\n".join(data), name))
            data, name = [], b""
        elif line.split(b":")[0] == b"data":
            value = line[5:]
            data.append(value[1:] if value[:1] == b" " else value)
        elif line.split(b":")[0] == b"event":
            value = line[6:]
            name = value[1:] if value[:1] == b" " else value
        line = b""
    return events


@given(STREAMS, st.lists(st.integers(0, 10_000), max_size=8))
def test_how_a_stream_is_split_changes_nothing_and_nothing_is_lost(stream: bytes, cuts: list[int]) -> None:
    whole = read([stream])
    assert b"".join(event.raw for event in whole) == stream
    assert read(cut(stream, cuts)) == whole
    assert read([stream[at : at + 1] for at in range(len(stream))]) == whole


@given(STREAMS)
def test_events_are_those_of_the_standard(stream: bytes) -> None:
    assert [(each.data, each.name) for each in read([stream]) if each.data is not None] == by_the_standard(
        stream
    )


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n")), min_size=1),
    st.sampled_from(["\n", "\r\n"]),
)
def test_an_event_comes_out_with_its_last_byte(texts: list[str], end: str) -> None:
    reader = SseReader()
    for text in texts:
        raw = f"data: {text}{end}{end}".encode()
        assert reader.feed(raw[:-1]) == []
        assert reader.feed(raw[-1:]) == [SseEvent(raw, text.encode())]


def test_an_event_that_a_bare_return_closes_waits_for_one_byte() -> None:
    reader = SseReader()
    assert reader.feed(b"data: a\r\r") == []
    assert reader.feed(b"data: b\r\r\n") == [
        SseEvent(b"data: a\r\r", b"a"),
        SseEvent(b"data: b\r\r\n", b"b"),
    ]


def test_comments_and_names_and_several_lines() -> None:
    stream = b": ping\n\nevent: error\nid: 4\ndata: a\ndata:  b\ndata\n\n"
    assert read([stream]) == [
        SseEvent(b": ping\n\n", None),
        SseEvent(stream[8:], b"a\n b\n", b"error"),
    ]


def test_a_stream_without_events_does_not_fill_the_memory() -> None:
    reader = SseReader(max_event_bytes=1000)
    assert len(reader.feed(b"data: x\n\n" * 1000)) == 1000
    for _ in range(10):
        assert reader.feed(b"x" * 100) == []
    with pytest.raises(SseError, match="1000"):
        reader.feed(b"x")
