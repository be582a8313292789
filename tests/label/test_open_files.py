"""A process that may have too few connections open, which is no server's fault."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rbx.config.endpoint import Endpoint
from rbx.errors import ConfigError
from rbx.label.completion import CompletionClient
from rbx.label.open_files import RESERVE, allow_open_files
from tests.label.scripted_server import answer, scripted

LIMIT = resource.RLIMIT_NOFILE


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    soft, hard = resource.getrlimit(LIMIT)
    yield soft, hard
    resource.setrlimit(LIMIT, (soft, hard))


def test_the_soft_limit_is_raised_as_far_as_needed(limits: tuple[int, int]) -> None:
    resource.setrlimit(LIMIT, (256, limits[1]))
    allow_open_files(150, "model a")
    assert resource.getrlimit(LIMIT)[0] == 256
    allow_open_files(300, "model a")
    assert resource.getrlimit(LIMIT) == (300 + RESERVE, limits[1])


def test_more_than_the_hard_limit_is_refused_with_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (200, 200))
    with pytest.raises(ConfigError, match=r"models\.0\.endpoint: concurrency 512 needs 576.*at most 136"):
        allow_open_files(512, "source.models.0.endpoint")


def test_too_many_open_files_stop_the_stage_and_blame_no_server(limits: tuple[int, int]) -> None:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}]}
    held: list[int] = []

    async def run(url: str) -> None:
        async with CompletionClient(Endpoint(url=url, attempts=2, backoff_s=0.01)) as client:
            resource.setrlimit(LIMIT, (len(list(Path("/proc/self/fd").iterdir())) + 20, limits[1]))
            with suppress(OSError):
                while True:
                    held.append(os.open(os.devnull, os.O_RDONLY))
            await client.complete(body)

    with scripted(lambda path, body: answer("hi")) as server:
        try:
            with pytest.raises(ConfigError, match="too many open files; lower concurrency"):
                asyncio.run(run(server.url))
        finally:
            for each in held:
                os.close(each)
            resource.setrlimit(LIMIT, limits)
        assert server.seen == []
