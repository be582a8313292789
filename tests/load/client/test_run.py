"""Whole runs: client processes, their journal, and what happens when one of them, or we, end early."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from rbx.config.live import LoadClient
from rbx.errors import ConfigError, LoadError, StoreError
from rbx.load.client.journal import read_journal
from rbx.load.client.request import LoadRequest, LoadTarget
from rbx.load.client.result import STATUSES
from rbx.load.client.run import run_load
from rbx.load.client.tally import Tally
from rbx.serve.mock.serving import MockTier, serve_mock
from tests.load.client.sent import CHAT, asking
from tests.serve.mock.pools import small_pool


@pytest.fixture(scope="module")
def mock() -> Iterator[MockTier]:
    with serve_mock(small_pool(), time_scale=10.0, seed=3) as tier:
        yield tier


def target(mock: MockTier) -> LoadTarget:
    return LoadTarget(mock.endpoints.instances["twin/0"].url)


def chat(number: int, at_s: float, tokens: int, **more: Any) -> LoadRequest:
    body = {
        "model": "small",
        "messages": [{"role": "user", "content": f"question {number}"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "rbx_output_tokens": tokens,
        **more,
    }
    return LoadRequest(number, at_s, CHAT, json.dumps(body).encode())


@pytest.mark.parametrize("count", [1, 3])
def test_processes_share_one_schedule(mock: MockTier, tmp_path: Path, count: int) -> None:
    requests = [chat(number, 0.02 * number, 3 + number) for number in range(30)]
    seen: list[Tally] = []
    journal = tmp_path / "new" / "journal.jsonl"
    health = run_load(
        requests[::-1], target(mock), LoadClient(processes=count), journal, 20.0, progress=seen.append
    )
    results = {each.request: each for each in read_journal(journal)}
    assert sorted(results) == list(range(30))
    for number, result in results.items():
        assert (result.status, result.output_tokens, result.tokens_source) == ("ok", 3 + number, "usage")
        assert len(result.chunk_s) == 3 + number
        assert result.sent_s is not None
        assert result.first_byte_s is not None
        assert result.first_token_s is not None
        assert result.scheduled_s == pytest.approx(0.02 * number)
        assert result.scheduled_s <= result.sent_s <= result.first_byte_s <= result.first_token_s
        assert len(result.text.split()) == 3 + number
    assert (health.processes, health.sent, health.not_sent) == (count, 30, 0)
    assert health.asked_per_s == pytest.approx(50.0)
    sent_s = sorted(each.sent_s for each in results.values() if each.sent_s is not None)
    assert health.achieved_per_s == pytest.approx(29 / (sent_s[-1] - sent_s[0]), rel=1e-4)
    delays_s = sorted((each.sent_s or 0.0) - each.scheduled_s for each in results.values())
    assert health.schedule_delay_p50_s == pytest.approx(delays_s[14], abs=3e-6)
    assert health.schedule_delay_max_s == pytest.approx(delays_s[-1], abs=3e-6)
    assert health.cpu_s > 0.0
    assert health.loop_lag_max_s is not None
    last = seen[-1]
    assert (last.requests, last.sent, last.in_flight, last.waiting) == (30, 30, 0, 0)
    assert dict(last.ended) == {"ok": 30}
    assert last.output_tokens == sum(3 + number for number in range(30))
    assert last.ttft.count == last.e2e.count == 30


def test_a_journal_is_replaced_and_a_half_line_is_no_result(mock: MockTier, tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    for _ in range(2):
        run_load([chat(0, 0.0, 2), chat(1, 0.0, 2)], target(mock), LoadClient(), journal, 5.0)
    whole = list(read_journal(journal))
    assert len(whole) == 2
    data = journal.read_bytes()
    journal.write_bytes(data[:-1])
    assert list(read_journal(journal)) == whole[:1]
    journal.write_bytes(b"{}\n" + data)
    with pytest.raises(StoreError, match="line 1"):
        list(read_journal(journal))
    with pytest.raises(StoreError, match="absent"):
        list(read_journal(tmp_path / "absent"))


def test_texts_that_are_not_kept_are_known_by_their_hashes(mock: MockTier, tmp_path: Path) -> None:
    kept, hashed = tmp_path / "kept", tmp_path / "hashed"
    for journal in (kept, hashed):
        asked = [chat(0, 0.0, 20), chat(1, 0.0, 30)]
        run_load(asked, target(mock), LoadClient(), journal, 5.0, keep_text=journal is kept)
    texts = {each.request: each.text for each in read_journal(kept)}
    assert all(len(text) > 20 for text in texts.values())
    for result in read_journal(hashed):
        text = texts[result.request]
        assert (result.status, result.text, result.reasoning) == ("ok", "", "")
        assert result.output_tokens == 20 + 10 * result.request
        assert result.text_sha256 == sha256(text.encode()).hexdigest()
        assert result.fingerprint == sha256(text.strip().encode()).hexdigest()
        assert text[:20] not in hashed.read_text()


def test_a_run_that_is_stopped_accounts_for_every_request(mock: MockTier, tmp_path: Path) -> None:
    requests = [chat(number, 0.05 * number, 2000) for number in range(100)]
    stop = threading.Event()

    def progress(tally: Tally) -> None:
        if tally.sent > 3:
            stop.set()

    health = run_load(
        requests, target(mock), LoadClient(processes=2), tmp_path / "j", 60.0, progress=progress, stop=stop
    )
    counts = Counter(each.status for each in read_journal(tmp_path / "j"))
    assert sum(counts.values()) == 100
    assert counts["cancelled"] > 0
    assert counts["not_sent"] == health.not_sent == 100 - health.sent
    assert counts["not_sent"] > 0


def test_no_request_is_a_run_too(mock: MockTier, tmp_path: Path) -> None:
    health = run_load([], target(mock), LoadClient(processes=4), tmp_path / "j", 1.0)
    assert (health.sent, health.processes, health.asked_per_s) == (0, 0, None)
    assert list(read_journal(tmp_path / "j")) == []


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (replace(asking(1), scheduled_s=float("nan")), "request 1 is scheduled at nan"),
        (replace(asking(1), scheduled_s=-1.0), "times start at 0"),
        (replace(asking(0)), "2 requests have the number 0"),
        (replace(asking(1), path="chat"), "is no path"),
        (replace(asking(1), path="/a b"), "is no path"),
        (replace(asking(1), headers=(("a", "b\r\nc: d"),)), "no HTTP header"),
        (replace(asking(1), headers=(("Content-Length", "0"),)), "the client's own"),
    ],
)
def test_what_cant_be_sent(request_: LoadRequest, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        run_load(
            [asking(0), request_], LoadTarget("http://127.0.0.1:1/v1"), LoadClient(), tmp_path / "j", 1.0
        )


@pytest.mark.parametrize("url", ["ftp://a/v1", "http://", "http://a:b/v1", "http://u:p@a/v1", "http://a/?b"])
def test_what_is_no_target(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        run_load([asking(0)], LoadTarget(url), LoadClient(), tmp_path / "j", 1.0)


def test_a_disk_that_is_full_ends_the_run(mock: MockTier, tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    (tmp_path / "j").symlink_to("/dev/full")
    with pytest.raises(StoreError, match="can't be written"):
        run_load([chat(0, 0.0, 1)], target(mock), LoadClient(), tmp_path / "j", 1.0)


def test_a_key_stands_in_no_argument_and_no_representation() -> None:
    assert "secret" not in repr(LoadTarget("http://a/v1", "secret"))


RUN = """
import sys, threading
from pathlib import Path
from rbx.config.live import LoadClient
from rbx.load.client.request import LoadTarget
from rbx.load.client.run import run_load
from tests.load.client.test_run import chat
requests = [chat(k, 0.0, 100_000, max_tokens=4000) for k in range(6)]
run_load(requests, LoadTarget(sys.argv[1]), LoadClient(processes=2), Path(sys.argv[2]), 60.0)
"""


def workers_of(parent: int) -> list[int]:
    """Client processes that ``parent`` has started (Linux)."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "status").read_text()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"PPid:\t{parent}\n" in status and b"rbx.load.client.worker" in command:
            found.append(int(folder.name))
    return found


def until(true: Any, what: str) -> None:
    limit_s = time.monotonic() + 60.0
    while not true():
        assert time.monotonic() < limit_s, what
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_no_client_outlives_the_one_who_started_it(mock: MockTier, tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUN, target(mock).url, str(tmp_path / "j")]
    with subprocess.Popen(command, cwd=Path(__file__).parents[3]) as process:
        until(lambda: len(workers_of(process.pid)) == 2, "the clients did not start")
        workers = workers_of(process.pid)
        until(lambda: (tmp_path / "j").exists(), "nothing began")
        process.kill()
    until(lambda: not any(Path(f"/proc/{each}/exe").exists() for each in workers), "a client lives on")


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_what_a_terminal_sends_to_all_is_not_for_the_clients(
    mock: MockTier, tmp_path: Path, number: signal.Signals
) -> None:
    def send(tally: Tally) -> None:
        if tally.in_flight and not sent:
            sent.extend(workers_of(os.getpid()))
            for worker in sent:
                os.kill(worker, number)

    sent: list[int] = []
    requests = [chat(number, 0.0, 3000, max_tokens=4000) for number in range(6)]
    run_load(requests, target(mock), LoadClient(processes=2), tmp_path / "j", 60.0, progress=send)
    assert len(sent) == 2
    assert [result.status for result in read_journal(tmp_path / "j")] == ["ok"] * 6


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_client_that_is_killed_ends_the_run(mock: MockTier, tmp_path: Path) -> None:
    def kill(tally: Tally) -> None:
        if tally.in_flight and not killed:
            killed.append(workers_of(os.getpid())[0])
            os.kill(killed[0], signal.SIGKILL)

    killed: list[int] = []
    requests = [chat(number, 0.0, 3000, max_tokens=4000) for number in range(6)]
    with pytest.raises(LoadError, match="signal 9"):
        run_load(requests, target(mock), LoadClient(processes=2), tmp_path / "j", 60.0, progress=kill)
    assert workers_of(os.getpid()) == []


FAULTS: list[dict[str, Any]] = [
    {"kind": "crash", "after_chunks": 0},
    {"kind": "crash", "after_chunks": 4},
    {"kind": "hang", "after_chunks": 3},
    {"kind": "error_event", "after_chunks": 2},
    {"kind": "bad_json"},
    {"kind": "status", "code": 503},
    {"kind": "no_done"},
    {"kind": "usage", "mode": "missing"},
    {"kind": "usage", "mode": "wrong", "factor": 0.5},
    {"kind": "refuse"},
]
EXPECTED = [
    ("error", "cut"),
    ("error", "cut"),
    ("timeout", "stalled"),
    ("error", "error_event"),
    ("error", "malformed"),
    ("error", "status"),
    ("ok", None),
    ("ok", None),
    ("ok", None),
    ("error", "refused"),
]


@pytest.mark.parametrize(("fault", "expected"), list(zip(FAULTS, EXPECTED, strict=True)))
def test_every_fault_of_a_mock_tier_is_told(
    fault: dict[str, Any], expected: tuple[str, str | None], tmp_path: Path
) -> None:
    with serve_mock(small_pool(), time_scale=10.0, seed=3) as tier:
        tier.set_faults(fault)
        requests = [chat(number, 0.1 * number, 10) for number in range(3)]
        client = LoadClient(between_tokens_s=0.3)
        run_load(requests, target(tier), client, tmp_path / "j", 20.0)
    results = list(read_journal(tmp_path / "j"))
    assert [(each.status, each.fault) for each in results] == [expected] * 3
    for result in results:
        if fault["kind"] == "usage" and fault["mode"] == "missing":
            assert (result.tokens_source, result.output_tokens) == ("chunks", 10)
        if fault["kind"] == "usage" and fault["mode"] == "wrong":
            assert (result.output_tokens, result.usage_disagrees) == (5, True)


def test_some_faults_among_successes_add_up(mock: MockTier, tmp_path: Path) -> None:
    with serve_mock(small_pool(), time_scale=10.0, seed=3) as tier:
        tier.set_faults(*({**fault, "share": 0.15} for fault in FAULTS[:7]))
        requests = [chat(number, 0.01 * number, 5 + number % 7) for number in range(120)]
        client = LoadClient(processes=2, between_tokens_s=0.5)
        health = run_load(requests, target(tier), client, tmp_path / "j", 20.0)
    results = list(read_journal(tmp_path / "j"))
    counts = Counter(each.status for each in results)
    assert sorted(each.request for each in results) == list(range(120))
    assert health.sent == counts["ok"] + counts["error"] + counts["timeout"] + counts["cancelled"] == 120
    assert set(counts) <= set(STATUSES)
    assert min(counts["ok"], counts["error"], counts["timeout"]) > 0
    for result in results:
        assert (result.fault is None) == (result.status == "ok")
        if result.status == "ok":
            assert result.output_tokens == 5 + result.request % 7
