"""Gauges of a real server and of an older release, and what is refused with its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbx.errors import EngineError
from rbx.serve.state.gauges import EngineGauges, parse_gauges

SCRAPES = Path(__file__).parent / "scrapes"

NEW = """\
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="27000"} 1.0
"""


def test_a_scrape_of_vllm_0_32() -> None:
    """Recorded from a server of the CPU build with eight seats, under load."""
    text = (SCRAPES / "vllm_0_32.txt").read_text(encoding="utf-8")
    (seen,) = parse_gauges(text, 12.5)
    assert (seen.engine, seen.running, seen.received_s) == ("0", 7, 12.5)
    assert seen.waiting == int(_plain(text, 'vllm:num_requests_waiting{engine="0",model_name="tiny"} '))
    assert seen.waiting > 0
    assert seen.kv_usage == _plain(text, 'vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} ')
    assert 0.0 < seen.kv_usage < 1.0
    assert seen.block_size == 128
    assert seen.kv_blocks is not None
    assert f'num_gpu_blocks="{seen.kv_blocks + 1}"' in text


def _plain(text: str, beginning: str) -> float:
    (line,) = (line for line in text.splitlines() if line.startswith(beginning))
    return float(line.removeprefix(beginning))


def test_a_scrape_with_the_names_of_vllm_0_8() -> None:
    """No label ``engine``, the old name of the cache's use."""
    text = (SCRAPES / "vllm_0_8.txt").read_text(encoding="utf-8")
    assert "kv_cache_usage_perc" not in text
    assert parse_gauges(text, 0.0) == (EngineGauges("", 5, 1, 0.0838, 16, 572, 0.0),)


def test_both_names_of_the_cache_use_are_one_signal() -> None:
    text = NEW + 'vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.75\n'
    assert parse_gauges(text, 1.0)[0].kv_usage == 0.25


def test_data_parallel_ranks_are_kept_apart_in_the_order_of_their_numbers() -> None:
    ranks = [
        NEW.replace('engine="0"', f'engine="{rank}"').replace(" 3.0", f" {rank}.0") for rank in (10, 2, 0)
    ]
    engines = parse_gauges("".join(ranks), 1.0)
    assert [(each.engine, each.running) for each in engines] == [("0", 0), ("2", 2), ("10", 10)]


def test_settings_without_an_engine_hold_for_all_and_may_be_unknown() -> None:
    text = NEW.replace(',engine="0",num_gpu', ",num_gpu")
    assert parse_gauges(text, 1.0)[0].kv_blocks == 26_999
    unknown = text.replace('"27000"', '"None"')
    assert (parse_gauges(unknown, 1.0)[0].block_size, parse_gauges(unknown, 1.0)[0].kv_blocks) == (16, None)
    absent = "".join(line for line in NEW.splitlines(keepends=True) if "cache_config" not in line)
    assert (parse_gauges(absent, 1.0)[0].block_size, parse_gauges(absent, 1.0)[0].kv_blocks) == (None, None)


def test_labels_may_hold_anything_that_the_format_allows() -> None:
    odd = NEW.replace('model_name="m"', 'model_name="a \\"b\\", {c}=\\\\ \\n}"').replace(
        " 3.0", " 3 1700000000000"
    )
    assert parse_gauges(odd, 1.0) == parse_gauges(NEW, 1.0)


@pytest.mark.parametrize(
    "name", ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"]
)
def test_a_missing_series_is_refused_by_name(name: str) -> None:
    text = "".join(line for line in NEW.splitlines(keepends=True) if not line.startswith(name + "{"))
    with pytest.raises(EngineError, match=rf"/metrics has no {name}.* for engine '0'"):
        parse_gauges(text, 1.0)


@pytest.mark.parametrize("text", ["", "# HELP nothing\n", "python_info 1.0\n", "<html>not found</html>"])
def test_a_page_without_any_engine_is_refused(text: str) -> None:
    with pytest.raises(EngineError, match="no vllm:num_requests_running; is this the endpoint"):
        parse_gauges(text, 1.0)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (" 3.0", " NaN", "line 1: vllm:num_requests_running is NaN; it must be a finite number"),
        (" 3.0", " -1.0", "vllm:num_requests_running is -1.0; .* not negative"),
        (" 3.0", " +Inf", r"vllm:num_requests_running is \+Inf"),
        (" 3.0", " three", "vllm:num_requests_running is three"),
        (" 3.0", " 2.5", "vllm:num_requests_running is 2.5 for engine '0'; it counts requests"),
        (" 3.0", " 100001", "vllm:num_requests_running is 100001.0 .* no engine has more than 100,000"),
        (" 2.0", " 1e300", r"vllm:num_requests_waiting is 1e\+300 for engine '0'; it counts requests"),
        (" 3.0", " 1_0", "vllm:num_requests_running is 1_0; it must be a finite number"),
        (" 3.0", " ٣", "vllm:num_requests_running is ٣; it must be a finite number"),
        (" 3.0", " 0x3", "vllm:num_requests_running is 0x3"),
        (" 3.0", " 3 ٣", "line 1: not a sample"),
        (" 3.0", " " + "9" * 5000, r"vllm:num_requests_running is 9{80} … \(5000 characters\); it must be"),
        (" 0.25", " 0_1.0", "vllm:kv_cache_usage_perc is 0_1.0"),
        ('"27000"', '"' + "9" * 5000 + '"', r"num_gpu_blocks='9{80} … \(5000 characters\)'; .* at most"),
        ('"27000"', '"1000000001"', "num_gpu_blocks='1000000001'; .* at most 1,000,000,000"),
        ('"27000"', '"٣٣"', "num_gpu_blocks='٣٣'"),
        (" 3.0", "", "line 1: not a sample of Prometheus' text format"),
        (" 0.25", " NaN", "line 4: vllm:kv_cache_usage_perc is NaN"),
        (" 0.25", " 25.0", "vllm:kv_cache_usage_perc is 25.0 for engine '0'; it is a share of 1"),
        ('engine="0",model_name="m"} 2', 'engine="0",engine="1"} 2', "line 2: labels can't be read"),
        ('model_name="m"} 2', 'model_name="m} 2', "line 2: labels can't be read"),
        ('"27000"', '"many"', r"cache_config_info has num_gpu_blocks='many'; .* at least 2"),
        ('"27000"', '"1"', "num_gpu_blocks='1'"),
        ('block_size="16"', 'block_size="0"', "block_size='0'; it must be a whole number of at least 1"),
    ],
)
def test_a_value_that_cannot_be_is_refused(old: str, new: str, words: str) -> None:
    assert old in NEW
    with pytest.raises(EngineError, match=words):
        parse_gauges(NEW.replace(old, new, 1), 1.0)


def test_a_series_that_stands_twice_is_refused() -> None:
    twice = NEW + 'vllm:num_requests_running{engine="0",model_name="other"} 1.0\n'
    words = r"line 6: vllm:num_requests_running stands twice for engine '0' \(first in line 1\)"
    with pytest.raises(EngineError, match=words):
        parse_gauges(twice, 1.0)


@pytest.mark.parametrize("received_s", [float("nan"), float("inf")])
def test_a_scrape_needs_its_time(received_s: float) -> None:
    with pytest.raises(EngineError, match="received_s is"):
        parse_gauges(NEW, received_s)


def test_counts_up_to_the_most_and_ranks_of_any_length_are_taken() -> None:
    (seen,) = parse_gauges(NEW.replace(" 3.0", " 1e5").replace(" 2.0", " +.2E1"), 1.0)
    assert (seen.running, seen.waiting) == (100_000, 2)
    long = NEW.replace('engine="0"', f'engine="{"9" * 5000}"')
    assert [gauges.engine for gauges in parse_gauges(NEW + long, 1.0)] == ["9" * 5000, "0"]
