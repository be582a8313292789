"""What the servers counted before and after each cell: their ``/metrics`` pages, kept in the store.

``server/CELL.before.txt.zst`` and ``.after.txt.zst`` hold the pages as they came, one after the other, each
below a comment with its instance and length: ``zstdcat`` shows them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pyarrow as pa

from rbx.durable import write_bytes
from rbx.errors import EngineError, StoreError
from rbx.serve.state.gauges import parse_gauges
from rbx.serve.watch.addresses import Addresses
from rbx.serve.watch.fetch import Unanswered
from rbx.sweep.live.asking import Asker

FOLDER = "server"
GATEWAY = "gateway"  # its own name among the pages; an instance's has a slash
_MOCK_LAG = "rbx_mock_lag_seconds"
_MARK = b"# rbx-page "
When = Literal["before", "after"]


async def fetch_pages(asker: Asker, addresses: Mapping[str, Addresses]) -> dict[str, str]:
    """``/metrics`` by instance, of those that answer with one."""

    async def page(pages: Addresses) -> str | None:
        try:
            answer = await asker.get(pages.metrics, pages.headers(pages.metrics))
        except Unanswered:
            return None
        return answer.text if answer.ok else None

    found = await asyncio.gather(*(page(each) for each in addresses.values()))
    return {name: text for name, text in zip(addresses, found, strict=True) if text is not None}


def busy(page: str) -> int | None:
    """Requests that run or wait on a server by its page; None where that can't be told."""
    try:
        engines = parse_gauges(page, 0.0)
    except EngineError:
        return None
    return sum(engine.running + engine.waiting for engine in engines)


def gauge(page: str, name: str) -> float | None:
    """A gauge without labels; None where the page has none."""
    for line in page.splitlines():
        if line.startswith(f"{name} "):
            with suppress(ValueError):
                return float(line.split()[1])
    return None


def mock_lag_s(pages: Mapping[str, str]) -> float | None:
    """How far mock servers lately fell behind their simulated time at worst; None without such servers."""
    lags = [lag for page in pages.values() if (lag := gauge(page, _MOCK_LAG)) is not None]
    return max(lags, default=None)


def write_pages(sweep: Path, cell_id: str, when: When, pages: Mapping[str, str]) -> None:
    """Keep pages by instance."""
    (sweep / FOLDER).mkdir(parents=True, exist_ok=True)
    parts = []
    for name, text in pages.items():
        body = text.encode()
        head = json.dumps({"instance": name, "bytes": len(body)})
        parts.append(_MARK + head.encode() + b"\n" + body + b"\n")
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(b"".join(parts))
    write_bytes(sink.getvalue().to_pybytes(), _path(sweep, cell_id, when))


def read_pages(sweep: Path, cell_id: str, when: When) -> dict[str, str]:
    """Pages by instance; raises ``StoreError`` where there are none, or the file is not whole."""
    path = _path(sweep, cell_id, when)
    try:
        with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
            content = bytes(stream.read())
        return _split(content)
    except FileNotFoundError:
        raise StoreError(f"{path}: no such file; the cell has kept no pages of its servers") from None
    except (
        OSError,
        pa.ArrowException,
        ValueError,
        KeyError,
        TypeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise StoreError(f"{path}: not the pages of a cell's servers: {error}") from None


def _split(content: bytes) -> dict[str, str]:
    """By the lengths told: a page may hold anything, the mark included."""
    pages: dict[str, str] = {}
    at = 0
    while at < len(content):
        end = content.index(b"\n", at)
        if not content.startswith(_MARK, at):
            raise ValueError(f"no page begins at byte {at}")
        head = json.loads(content[at + len(_MARK) : end])
        begin, size = end + 1, int(head["bytes"])
        body = content[begin : begin + size]
        if len(body) != size or content[begin + size : begin + size + 1] != b"\n":
            raise ValueError(f"the page of {head['instance']} is cut")
        pages[str(head["instance"])] = body.decode()
        at = begin + size + 1
    return pages


def _path(sweep: Path, cell_id: str, when: When) -> Path:
    return sweep / FOLDER / f"{cell_id}.{when}.txt.zst"
