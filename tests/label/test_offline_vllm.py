"""What is said where vLLM's batch API can't be used; its answers are tested in tests/vllm."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from rbx.config.labelling import Candidate, Generation
from rbx.errors import ConfigError, MissingExtraError, ServerError
from rbx.label.broadcast import BroadcastReport
from rbx.label.journal import Journal
from rbx.label.offline_engine import running_engine
from rbx.label.offline_vllm import generate_offline
from rbx.label.progress import Silent
from tests.label.broadcasting import questions, source


def run(path: Path, *models: dict[str, Any]) -> BroadcastReport:
    async def work() -> BroadcastReport:
        with Journal(path) as journal:
            return await generate_offline(questions(2), source(*models), journal, Silent(), asyncio.Event())

    return asyncio.run(work())


def test_all_models_without_weights_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        run(tmp_path / "a.jsonl", {"name": "a"}, {"name": "b", "weights": "w"}, {"name": "c"})
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == [
        "source.models.0.weights",
        "source.models.2.weights",
    ]


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed here")
def test_without_vllm_the_install_line_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingExtraError, match="pip install vllm"):
        run(tmp_path / "a.jsonl", {"name": "a", "weights": "w"})


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed here")
def test_an_engine_that_does_not_come_up_is_told_with_its_reason_and_its_log(tmp_path: Path) -> None:
    async def work() -> None:
        candidate = Candidate(name="m", weights="some-weights")
        async with running_engine(candidate, Generation(), tmp_path / "vllm.log"):
            pytest.fail("there is no vLLM to run")

    with pytest.raises(ServerError, match=r"m: vLLM with some-weights can't be run: .*vllm.*vllm\.log"):
        asyncio.run(work())


def test_an_engine_that_dies_is_told_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = tmp_path / "dying"
    dying.write_text("#!/bin/sh\necho 'no room on the device' >&2\nkill -9 $$\n")
    dying.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(dying))

    async def work() -> None:
        async with running_engine(Candidate(name="m", weights="w"), Generation(), tmp_path / "vllm.log"):
            pytest.fail("it is dead")

    with pytest.raises(ServerError) as caught:
        asyncio.run(work())
    assert "code -9 (killed, perhaps for lack of memory)" in str(caught.value)
    assert "no room on the device" in str(caught.value)
