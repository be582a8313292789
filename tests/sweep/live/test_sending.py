"""What is read back of a load: every request once, or nothing at all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from rbx.config.live import LoadClient
from rbx.errors import StoreError
from rbx.load.client.health import ClientHealth
from rbx.load.client.request import LoadRequest, LoadTarget
from rbx.load.client.result import LoadResult
from rbx.sweep.live import sending
from rbx.sweep.live.sending import Sender
from tests.sweep.live.results import ok
from tests.sweep.live.test_validity import HEALTHY

REQUESTS = [LoadRequest(number, float(number), "/chat/completions", b"{}") for number in range(3)]


def read_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch, results: Sequence[LoadResult]
) -> list[LoadResult]:
    def load(
        requests: object, target: object, client: object, journal: Path, *_: object, **__: object
    ) -> ClientHealth:
        journal.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in results))
        return HEALTHY

    monkeypatch.setattr(sending, "run_load", load)
    sender = Sender(
        LoadClient(), LoadTarget("http://127.0.0.1:1/v1"), folder / "journal" / "c.jsonl", keep_text=True
    )
    return asyncio.run(sender.send(REQUESTS, 1.0))[1]


def test_every_request_has_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [each.request for each in read_back(tmp_path, monkeypatch, [ok(1), ok(0), ok(2)])] == [1, 0, 2]


@pytest.mark.parametrize("numbers", [(0, 1), (0, 1, 1), (0, 1, 2, 2), ()])
def test_a_journal_with_requests_missing_or_twice_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numbers: Sequence[int]
) -> None:
    with pytest.raises(StoreError, match=f"{len(numbers)} results of 3 requests"):
        read_back(tmp_path, monkeypatch, [ok(number) for number in numbers])
