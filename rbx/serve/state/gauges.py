"""The gauges that a stock vLLM shows on ``/metrics``: counts and cache use, no request, no order.

Names of vLLM V1 (0.8 and later); ``gpu_cache_usage_perc`` became ``kv_cache_usage_perc`` in V1's course,
and releases between show both. Each data-parallel rank is an engine of its own, told apart by the label
``engine``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rbx.errors import EngineError

RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
KV_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")  # new name first
CACHE_CONFIG = "vllm:cache_config_info"
WANTED = (RUNNING, WAITING, *KV_USAGE, CACHE_CONFIG)

MOST_REQUESTS = 100_000  # that a count may show: a hundred times the seats of the largest instances
_MOST_SETTING = 10**9  # of a block's tokens or a cache's blocks: terabytes at the least
_MOST_DIGITS = 18  # of a rank by whose number engines are sorted
_SHOWN = 80  # characters of a bad value in a message

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*", re.ASCII)
_LABEL = re.compile(r'\s*([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"\s*(?:,|$)', re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@dataclass(frozen=True)
class EngineGauges:
    """One engine as scraped at ``received_s``; ``engine`` is its label, "" where releases have none.

    ``kv_usage`` is the used share of the blocks, in [0, 1]. ``block_size`` and ``kv_blocks`` are None
    where the server does not tell; ``kv_blocks`` leaves out the null block, as a pool file does.
    """

    engine: str
    running: int
    waiting: int
    kv_usage: float
    block_size: int | None
    kv_blocks: int | None
    received_s: float


@dataclass(frozen=True)
class _Sample:
    line: int
    name: str
    labels: Mapping[str, str]
    value: str


def parse_gauges(text: str, received_s: float) -> tuple[EngineGauges, ...]:
    """The engines of one scrape, sorted by label.

    Raises ``EngineError`` with the name of a series that is missing, stands twice for one engine or is
    no number in its range, and with the line of one that can't be read.
    """
    if not math.isfinite(received_s):
        raise EngineError(f"received_s is {received_s}; give the time of the scrape")
    found: dict[tuple[str, str], _Sample] = {}
    for sample in _samples(text):
        place = sample.name, sample.labels.get("engine", "")
        if place in found:
            raise EngineError(
                f"/metrics, line {sample.line}: {sample.name} stands twice for engine {place[1]!r} (first in "
                f"line {found[place].line}); one endpoint must show each engine once"
            )
        found[place] = sample
    engines = sorted({engine for name, engine in found if name != CACHE_CONFIG}, key=_by_number)
    if not engines:
        raise EngineError(f"/metrics has no {RUNNING}; is this the endpoint of a vLLM server?")
    return tuple(_engine(found, engine, received_s) for engine in engines)


def _engine(found: Mapping[tuple[str, str], _Sample], engine: str, received_s: float) -> EngineGauges:
    usage = next((name for name in KV_USAGE if (name, engine) in found), None)
    if usage is None:
        raise EngineError(f"/metrics has no {KV_USAGE[0]} (older: {KV_USAGE[1]}) for engine {engine!r}")
    share = _number(found[usage, engine])
    if share > 1.0:
        raise EngineError(f"/metrics: {usage} is {share} for engine {engine!r}; it is a share of 1")
    counts = []
    for name in (RUNNING, WAITING):
        if (name, engine) not in found:
            raise EngineError(f"/metrics has no {name} for engine {engine!r}")
        counts.append(_count(found[name, engine], engine))
    cache = found.get((CACHE_CONFIG, engine), found.get((CACHE_CONFIG, "")))
    blocks = _setting(cache, "num_gpu_blocks", 2)
    return EngineGauges(
        engine,
        counts[0],
        counts[1],
        share,
        _setting(cache, "block_size", 1),
        None if blocks is None else blocks - 1,
        received_s,
    )


def _samples(text: str) -> Iterator[_Sample]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.startswith(WANTED):
            continue
        match = _SAMPLE.fullmatch(line)
        if match is None:
            raise EngineError(
                f"/metrics, line {number}: not a sample of Prometheus' text format: {_shown(line)!r}"
            )
        if match[1] in WANTED:  # others may begin alike: num_requests_waiting_by_reason
            yield _Sample(number, match[1], _labels(match[2] or "", number), match[3])


def _labels(text: str, number: int) -> dict[str, str]:
    labels, at = {}, 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None or match[1] in labels:
            raise EngineError(f"/metrics, line {number}: labels can't be read: {{{_shown(text)}}}")
        labels[match[1]] = re.sub(r"\\.", lambda escape: _ESCAPES.get(escape[0], escape[0]), match[2])
        at = match.end()
    return labels


def _count(sample: _Sample, engine: str) -> int:
    count = _number(sample)
    if not (count <= MOST_REQUESTS and count == int(count)):
        raise EngineError(
            f"/metrics: {sample.name} is {count} for engine {engine!r}; it counts requests, of which no "
            f"engine has more than {MOST_REQUESTS:,}"
        )
    return int(count)


def _number(sample: _Sample) -> float:
    """A sample's value; Python's own ``float`` takes more than the text format has, such as ``1_0``."""
    value = float(sample.value) if _DECIMAL.fullmatch(sample.value) else math.nan
    if not (math.isfinite(value) and value >= 0.0):
        raise EngineError(
            f"/metrics, line {sample.line}: {sample.name} is {_shown(sample.value)}; it must be a finite "
            "number, not negative"
        )
    return value


def _setting(sample: _Sample | None, label: str, least: int) -> int | None:
    """A whole number among the labels of the cache's settings; None if it is absent or not known yet."""
    text = None if sample is None else sample.labels.get(label)
    if sample is None or text is None or text == "None":
        return None
    short = _is_whole(text) and len(text) <= len(str(_MOST_SETTING))  # int refuses thousands of digits
    if not (short and least <= int(text) <= _MOST_SETTING):
        raise EngineError(
            f"/metrics, line {sample.line}: {CACHE_CONFIG} has {label}={_shown(text)!r}; it must be a whole "
            f"number of at least {least} and at most {_MOST_SETTING:,}"
        )
    return int(text)


def _by_number(engine: str) -> tuple[int, str]:
    return (int(engine), "") if _is_whole(engine) and len(engine) <= _MOST_DIGITS else (-1, engine)


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} … ({len(text)} characters)"
