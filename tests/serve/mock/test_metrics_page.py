"""``/metrics`` of a mock instance beside what really happens, and beside a page of vLLM itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import httpx
from prometheus_client.parser import text_string_to_metric_families

from rbx.serve.mock.serving import MockTier, serve_mock
from rbx.serve.state.gauges import parse_gauges
from tests.serve.mock.heard import hear_all
from tests.serve.mock.pools import small_pool
from tests.serve.mock.test_serving import wait_for

SCRAPE = Path(__file__).parents[1] / "state" / "scrapes" / "vllm_0_32.txt"
LABELS_OF_THE_ENGINE = {"engine", "model_name"}


def page(mock: MockTier, name: str) -> str:
    return httpx.get(mock.url(name)[:-3] + "/metrics").text


def values(text: str) -> dict[str, float]:
    """Samples by name and, where there is one, reason."""
    return {
        sample.name + sample.labels.get("finished_reason", ""): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "le" not in sample.labels
    }


def test_gauges_show_what_runs_and_what_waits() -> None:
    with serve_mock(small_pool(max_num_seqs=8)) as mock:
        asked = [
            (mock.url("twin/0"), {"rbx_output_tokens": 4000, "rbx_prompt_tokens": 16, "content": str(k)})
            for k in range(12)
        ]
        seen = []

        def full() -> bool:
            (gauges,) = parse_gauges(page(mock, "twin/0"), 1.0)
            seen.append(gauges)
            return (gauges.running, gauges.waiting) == (8, 4)

        async def watch() -> None:
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
                answers = [
                    await session.post(
                        f"{url}/chat/completions",
                        json={
                            "messages": [{"role": "user", "content": "x"}],
                            "stream": True,
                            **{k: v for k, v in body.items() if k != "content"},
                        },
                    )
                    for url, body in asked
                ]
                await asyncio.to_thread(wait_for, full)
                for answer in answers:
                    answer.close()

        asyncio.run(watch())
        assert seen[-1].kv_blocks == 1000
        assert seen[-1].block_size == 16
        assert 8 / 1000 <= seen[-1].kv_usage <= 200 / 1000
        wait_for(lambda: parse_gauges(page(mock, "twin/0"), 1.0)[0].running == 0)
        (after,) = parse_gauges(page(mock, "twin/0"), 1.0)
        assert (after.waiting, after.kv_usage) == (0, 0.0)
        assert values(page(mock, "twin/0"))["vllm:request_success_totalabort"] == 12


def test_counters_add_up(mock: MockTier) -> None:
    before = values(page(mock, "twin/1"))
    asked = [
        (
            mock.url("twin/1"),
            {
                "rbx_output_tokens": 10,
                "rbx_prompt_tokens": 30,
                "max_tokens": 5 + 10 * (k % 2),
                "content": str(k),
            },
        )
        for k in range(20)
    ]
    assert len(hear_all(asked)) == 20
    after = values(page(mock, "twin/1"))
    grown = {name: after[name] - before[name] for name in after}
    assert grown["vllm:request_success_totalstop"] == 10
    assert grown["vllm:request_success_totallength"] == 10
    assert grown["vllm:request_success_totalabort"] == 0
    assert grown["vllm:prompt_tokens_total"] == 600
    assert grown["vllm:generation_tokens_total"] == 150
    assert (
        grown["vllm:time_to_first_token_seconds_count"]
        == grown["vllm:e2e_request_latency_seconds_count"]
        == 20
    )
    assert 0 < grown["vllm:time_to_first_token_seconds_sum"] < grown["vllm:e2e_request_latency_seconds_sum"]
    assert after["rbx_mock_lag_seconds"] >= 0


def test_series_are_named_and_labelled_as_vllm_does(mock: MockTier) -> None:
    real = {family.name: family for family in text_string_to_metric_families(SCRAPE.read_text())}
    ours = {family.name: family for family in text_string_to_metric_families(page(mock, "twin/0"))}
    for name in (
        "num_requests_running",
        "num_requests_waiting",
        "kv_cache_usage_perc",
        "num_preemptions",
        "generation_tokens",
    ):
        mine, theirs = ours[f"vllm:{name}"], real[f"vllm:{name}"]
        assert mine.type == theirs.type
        assert set(mine.samples[0].labels) == set(theirs.samples[0].labels) == LABELS_OF_THE_ENGINE
        assert mine.samples[0].name == theirs.samples[0].name
    shared = {"block_size", "num_gpu_blocks", "enable_prefix_caching", "engine"}
    assert set(ours["vllm:cache_config_info"].samples[0].labels) == shared
    assert shared <= set(real["vllm:cache_config_info"].samples[0].labels)
    for name in ("prefix_cache_queries", "prefix_cache_hits", "request_success", "prompt_tokens"):
        assert ours[f"vllm:{name}"].type == "counter"
    histogram = ours["vllm:time_to_first_token_seconds"]
    counts = [sample.value for sample in histogram.samples if sample.name.endswith("_bucket")]
    assert counts == sorted(counts)
