"""Limits that servers tell are compared with the pool's, and what they do not tell is said."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from rbx.config.launch import AttachLauncher, LocalLauncher, LocalTier, MockLauncher
from rbx.config.pool import Pool
from rbx.serve.launch.told_limits import compared_limits, differences, started_limits
from tests.serve.plugin.servers import publish, state_file
from tests.serve.watch.pages import metrics, small_pool
from tests.serve.watch.targets import HANGS, Target

POOL = small_pool()  # 400 blocks of 16 tokens, 512 tokens of context
ATTACH = AttachLauncher(endpoints=Path("endpoints.yaml"))
UNTOLD = "max_num_seqs, max_num_batched_tokens, chunked_prefill, async_scheduling, reserve_full_prompt"


def models(context: object, name: str = "tiny") -> str:
    others = [{"id": "an adapter", "max_model_len": 1}, {"id": "of another shape"}]
    return json.dumps({"data": [*others, {"id": name, "max_model_len": context}]})


def cache(block_size: object, blocks: object, engine: int = 0) -> str:
    labels = f'block_size="{block_size}",num_gpu_blocks="{blocks}",cache_dtype="auto",engine="{engine}"'
    return f"vllm:cache_config_info{{{labels}}} 1.0\n"


def told(
    target: Target, pool: Pool = POOL, launcher: object = ATTACH, state: Path | None = None
) -> list[str]:
    async def story() -> list[str]:
        async with target:
            endpoint = target.endpoint.model_copy(update={"state": state})
            return await compared_limits(pool, {"tier/0": endpoint}, launcher)

    return asyncio.run(story())


def server(context: object = 512, block_size: object = 16, blocks: object = 401) -> Target:
    return Target({"/v1/models": models(context), "/metrics": metrics() + cache(block_size, blocks)})


def test_a_server_as_the_pool_says_is_only_told_for_what_it_does_not_tell() -> None:
    assert told(server()) == [f"1 of 1 instances do not tell {UNTOLD}: not compared with the pool"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (server(context=256), ["max_model_len 256 (pool 512)"]),
        (server(blocks=101), ["KV cache of 1,600 tokens, 100 blocks of 16 (pool 6,400, 400 of 16)"]),
        (
            server(block_size=128, blocks=41),
            [
                "block_size 128 (pool 16)",
                "KV cache of 5,120 tokens, 40 blocks of 128 (pool 6,400, 400 of 16)",
            ],
        ),
    ],
    ids=["context", "blocks", "block size"],
)
def test_less_than_the_pool_says_is_told_with_both_figures(target: Target, words: list[str]) -> None:
    warning, _ = told(target)
    assert warning.startswith("warning: tier/0 is not what the pool says: ")
    for each in words:
        assert each in warning
    assert warning.count("(pool") == len(words)


def test_the_smallest_of_several_engines_counts() -> None:
    engines = metrics() + metrics().replace('engine="0"', 'engine="1"')
    target = server()
    target.pages["/metrics"] = engines + cache(16, 401) + cache(16, 201, engine=1)
    assert "200 blocks of 16 (pool 6,400, 400 of 16)" in told(target)[0]


def test_more_room_than_the_pool_says_is_no_fault() -> None:
    assert len(told(server(context=4096, blocks=5001))) == 1


@pytest.mark.parametrize(
    "target",
    [
        Target(),
        server(context=None, block_size="None", blocks="None"),
        server(context="512", block_size="-16"),
        Target({"/v1/models": "[1]", "/metrics": "no page of numbers"}),
        Target({"/v1/models": models(512), "/metrics": ""}, status={"/v1/models": 500}),
    ],
    ids=["no page", "not known yet", "nonsense", "garbage", "errors"],
)
def test_what_can_not_be_known_is_said_and_no_figure_is_made_up(target: Target) -> None:
    (line,) = told(target)
    assert line.startswith("1 of 1 instances do not tell ")
    for name in ("max_model_len", "block_size", "kv_blocks", *UNTOLD.split(", ")):
        assert name in line


def test_a_page_that_hangs_takes_nothing_from_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rbx.serve.launch.told_limits._ANSWER_S", 0.2)
    target = server(context=256)
    target.delay_s["/metrics"] = HANGS
    warning, unknown = told(target)
    assert "max_model_len 256 (pool 512)" in warning
    assert "kv_blocks" in unknown
    assert "max_model_len" not in unknown
    target = server(blocks=101)
    target.status["/v1/models"] = 500
    assert "100 blocks of 16" in told(target)[0]


def test_a_published_state_tells_all(tmp_path: Path) -> None:
    file = state_file(tmp_path)
    publish(file, 1, time.monotonic())
    lines = told(server(), small_pool(max_num_seqs=8, async_scheduling=True), state=tmp_path)
    file.close()
    (warning,) = lines
    assert "max_num_seqs 4 (pool 8)" in warning
    assert "async_scheduling false (pool true)" in warning
    assert "KV cache of 640 tokens, 40 blocks of 16 (pool 6,400, 400 of 16)" in warning
    # A state that can't be read leaves the pages.
    assert told(server(context=256), state=tmp_path / "gone")[0].count("max_model_len 256 (pool 512)") == 1


def test_what_rbx_has_started_itself_need_not_be_told() -> None:
    (tier,) = POOL.tiers
    flags = ("--max_num_seqs=2", "--max-num-batched-tokens", "64")
    known = started_limits(tier, LocalTier(flags=flags, gpus=0))
    assert known == {"max_num_seqs": 2, "max_num_batched_tokens": 64, "async_scheduling": 0}
    assert differences(tier.limits, known) == ["max_num_seqs 2 (pool 4)"]
    assert started_limits(tier, LocalTier(flags=("--max-num-seqs", "1k"))) == {"max_num_batched_tokens": 64}
    on_cpu = LocalLauncher(tiers={"tier": LocalTier(gpus=0)})
    assert (
        "async_scheduling false (pool true)" in told(server(), small_pool(async_scheduling=True), on_cpu)[0]
    )
    assert told(server(), launcher=MockLauncher()) == []
