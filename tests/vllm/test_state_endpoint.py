"""What the HTTP endpoint of a published state refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the endpoint runs inside vLLM, which brings FastAPI")

from fastapi import Request

from rbx.serve.plugin.endpoint import StateEndpoint

pytestmark = pytest.mark.vllm


def ask(rank: str) -> int:
    query = f"rank={rank}".encode()
    answer = StateEndpoint().answer(Request({"type": "http", "query_string": query, "headers": []}))
    return int(answer.status_code)


@pytest.mark.parametrize("rank", ["", "-1", "1_0", "%D9%A3", "9" * 5000])
def test_a_rank_is_a_whole_number_in_ascii(
    tmp_path: Path, rank: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RBX_STATE_DIR", str(tmp_path))
    assert ask(rank) == 400
    assert ask("3") == 503  # a rank, but nobody publishes here
