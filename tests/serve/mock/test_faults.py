"""Every fault as a client meets it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest

from rbx.config.faults import load_faults
from rbx.errors import ConfigError, EngineError
from rbx.serve.mock.serving import MockTier, serve_mock
from rbx.serve.state.gauges import parse_gauges
from tests.serve.mock.heard import Heard, chat, hear, hear_all
from tests.serve.mock.pools import small_pool
from tests.serve.mock.test_serving import idle, wait_for

USAGE: dict[str, Any] = {"stream_options": {"include_usage": True}}


def ask(mock: MockTier, name: str = "twin/0", tokens: int = 20, timeout_s: float = 20.0) -> Heard:
    return hear(mock.url(name), timeout_s, rbx_output_tokens=tokens, **USAGE)


def plain(mock: MockTier, name: str = "twin/0") -> httpx.Response:
    return httpx.post(mock.url(name) + "/chat/completions", json=chat(rbx_output_tokens=20), timeout=20.0)


def well(heard: Heard) -> bool:
    return heard.done and heard.cut is None and len(heard.texts) == 20 and len(heard.usage) == 1


@pytest.mark.parametrize("chunks", [1, 5])
def test_a_crash_resets_the_connection_after_so_many_chunks(mock: MockTier, chunks: int) -> None:
    mock.set_faults({"kind": "crash", "after_chunks": chunks, "target": "twin/0"})
    heard = ask(mock)
    assert (len(heard.texts), heard.done) == (chunks, False)
    assert isinstance(heard.cut, aiohttp.ClientError | ConnectionError)
    assert well(ask(mock, "twin/1"))
    with pytest.raises(httpx.TransportError):
        plain(mock)
    wait_for(lambda: idle(mock))


def test_a_crash_after_no_chunk_comes_before_any_byte(mock: MockTier) -> None:
    mock.set_faults({"kind": "crash"})
    heard = ask(mock)
    assert (heard.status, heard.body) == (0, b"")
    assert isinstance(heard.cut, aiohttp.ClientError)


@pytest.mark.parametrize("chunks", [0, 3])
def test_a_hang_keeps_the_connection_and_says_nothing(mock: MockTier, chunks: int) -> None:
    mock.set_faults({"kind": "hang", "after_chunks": chunks})
    heard = ask(mock, timeout_s=0.7)
    assert (heard.status, len(heard.texts)) == (200, chunks)
    assert isinstance(heard.cut, asyncio.TimeoutError)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(mock.url("twin/0") + "/chat/completions", json=chat(), timeout=0.3)
    wait_for(lambda: idle(mock))


def test_an_error_event_comes_inside_a_200(mock: MockTier) -> None:
    mock.set_faults({"kind": "error_event", "after_chunks": 4})
    heard = ask(mock)
    assert (heard.status, len(heard.texts), heard.done, heard.usage) == (200, 4, True, [])
    assert heard.errors[0]["code"] == 500
    answer = plain(mock)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, 500)
    wait_for(lambda: idle(mock))


@pytest.mark.parametrize("chunks", [0, 2, 20])
def test_bad_json_is_one_event_of_it(mock: MockTier, chunks: int) -> None:
    mock.set_faults({"kind": "bad_json", "after_chunks": chunks})
    heard = ask(mock)
    assert (heard.broken, len(heard.texts), heard.done) == (1, 20, True)
    answer = plain(mock)
    assert answer.status_code == 200
    with pytest.raises(ValueError, match=r"JSON|Unterminated|Expecting"):
        answer.json()


def test_a_status_instead_of_an_answer(mock: MockTier) -> None:
    mock.set_faults({"kind": "status", "code": 503, "retry_after_s": 7})
    answer = plain(mock)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "7")
    assert answer.json()["error"]["code"] == 503
    assert ask(mock).status == 503
    assert mock.sight()["twin/0"].running == 0


def test_a_share_of_requests_and_a_number_of_them(mock: MockTier) -> None:
    mock.set_faults({"kind": "status", "share": 0.5, "target": "twin/0"})
    url = mock.url("twin/0")
    hit = sum(each.status == 500 for each in hear_all([(url, {"rbx_output_tokens": 1})] * 100))
    assert 30 <= hit <= 70
    mock.set_faults({"kind": "status", "requests": 3})
    statuses = [plain(mock).status_code for _ in range(5)]
    assert statuses == [500, 500, 500, 200, 200]
    assert plain(mock, "twin/1").status_code == 500, "each instance counts for itself"


def test_a_stream_without_done(mock: MockTier) -> None:
    mock.set_faults({"kind": "no_done"})
    heard = ask(mock)
    assert (heard.done, heard.cut, len(heard.texts), len(heard.usage)) == (False, None, 20, 1)


@pytest.mark.parametrize(
    ("mode", "streamed", "whole"),
    [
        ("missing", [], "absent"),
        ("null", [None], None),
        ("wrong", [{"prompt_tokens": 9, "completion_tokens": 60, "total_tokens": 69}], "as streamed"),
    ],
)
def test_wrong_usage(mock: MockTier, mode: str, streamed: list[Any], whole: Any) -> None:
    mock.set_faults({"kind": "usage", "mode": mode, "factor": 3.0})
    assert ask(mock).usage == streamed
    assert plain(mock).json().get("usage", "absent") == (streamed[0] if whole == "as streamed" else whole)


def test_refusing_lets_answers_under_way_go_on(mock: MockTier) -> None:
    async def ask_meanwhile() -> Heard:
        going = asyncio.create_task(asyncio.to_thread(ask, mock, "twin/0", 600))
        while mock.sight()["twin/0"].running == 0:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(mock.set_faults, {"kind": "refuse", "target": "twin"})
        with pytest.raises(httpx.ConnectError):
            await asyncio.to_thread(plain, mock)
        return await going

    heard = asyncio.run(ask_meanwhile())
    assert (len(heard.texts), heard.done) == (600, True)
    assert well(ask(mock, "alone/0"))
    mock.set_faults()
    assert well(ask(mock))


def test_a_connection_kept_alive_is_of_no_use_while_refusing(mock: MockTier) -> None:
    url = mock.url("twin/0") + "/chat/completions"
    with httpx.Client() as client:
        assert client.post(url, json=chat(max_tokens=1)).status_code == 200
        mock.set_faults({"kind": "refuse"})
        with pytest.raises(httpx.TransportError):
            client.post(url, json=chat(max_tokens=1))


def test_a_server_that_goes_down_takes_its_answers_along_and_comes_back_empty(mock: MockTier) -> None:
    async def ask_meanwhile() -> Heard:
        going = asyncio.create_task(asyncio.to_thread(ask, mock, "twin/0", 4000))
        while mock.sight()["twin/0"].running == 0:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(mock.set_faults, {"kind": "down", "target": "twin/0"})
        return await going

    heard = asyncio.run(ask_meanwhile())
    assert heard.cut is not None
    assert not heard.done
    assert mock.sight()["twin/0"].running == 0
    with pytest.raises(httpx.ConnectError):
        plain(mock)
    mock.set_faults()
    assert well(ask(mock))


def test_freezing_stops_tokens_while_health_and_metrics_answer(mock: MockTier) -> None:
    mock.set_faults({"kind": "freeze", "target": "twin/0"})
    base = mock.url("twin/0")[:-3]

    async def ask_meanwhile() -> Heard:
        going = asyncio.create_task(asyncio.to_thread(ask, mock))
        while mock.sight()["twin/0"].waiting == 0:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        assert (await asyncio.to_thread(httpx.get, f"{base}/health")).status_code == 200
        page = (await asyncio.to_thread(httpx.get, f"{base}/metrics")).text
        assert parse_gauges(page, 0.0)[0].waiting == 1
        await asyncio.to_thread(mock.set_faults)
        return await going

    heard = asyncio.run(ask_meanwhile())
    assert heard.text_s[0] - heard.sent_s > 0.3
    assert well(heard)


def test_slow_multiplies_the_time_of_every_step(mock: MockTier) -> None:
    mock.set_faults({"kind": "slow", "factor": 20.0, "target": "twin/0"})
    heard = ask(mock)
    # 19 steps of 10 ms, a tenth of it real, twenty times as long
    assert heard.text_s[-1] - heard.text_s[0] > 19 * 0.01 / 10 * 20 * 0.95


def test_the_page_of_metrics_can_be_stale_and_garbage_and_no_number(mock: MockTier) -> None:
    address = mock.url("twin/0")[:-3] + "/metrics"
    mock.set_faults({"kind": "telemetry", "mode": "stale"})
    first = httpx.get(address).text
    ask(mock)
    assert httpx.get(address).text == first
    parse_gauges(first, 0.0)
    for mode in ("garbage", "nan", "negative"):
        mock.set_faults({"kind": "telemetry", "mode": mode})
        with pytest.raises(EngineError):
            parse_gauges(httpx.get(address).text, 0.0)
    mock.set_faults({"kind": "telemetry", "mode": "status"})
    assert httpx.get(address).status_code == 500
    mock.set_faults({"kind": "telemetry", "mode": "hang"})
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(address, timeout=0.3)
    mock.set_faults()
    assert httpx.get(address).text != first


def test_a_script_acts_in_its_time(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(
        "faults:\n"
        "  - {kind: refuse, target: twin/0, start_s: 0.0, end_s: 1.0}\n"
        "  - {kind: status, target: twin, start_s: 2.5, code: 502}\n"
    )
    with serve_mock(small_pool(), time_scale=10.0, faults=load_faults(file).value) as mock:
        start_s = time.monotonic()
        with pytest.raises(httpx.ConnectError):
            plain(mock)
        assert plain(mock, "twin/1").status_code == 200
        wait_for(lambda: connects(mock))
        assert time.monotonic() - start_s > 0.5
        wait_for(lambda: plain(mock).status_code == 502)
        assert time.monotonic() - start_s > 2.0


def connects(mock: MockTier) -> bool:
    try:
        return plain(mock).status_code == 200
    except httpx.ConnectError:
        return False


def test_faults_are_switched_over_http_too(mock: MockTier) -> None:
    script = {"faults": [{"kind": "status", "target": "twin/0", "code": 529}]}
    put = httpx.put(mock.control_url, json=script)
    assert put.status_code == 200
    assert httpx.get(mock.control_url).json() == put.json()
    assert plain(mock).status_code == 529
    wrong: list[Any] = [
        {"faults": [{"kind": "explode"}]},
        {"faults": [{"kind": "refuse", "target": "x"}]},
        [],
        3,
    ]
    for bad in wrong:
        refused = httpx.put(mock.control_url, json=bad)
        assert refused.status_code == 400
    assert httpx.put(mock.control_url, content=b"{").status_code == 400
    assert plain(mock).status_code == 529, "a script that does not hold changes nothing"
    assert httpx.delete(mock.control_url).status_code == 200
    assert plain(mock).status_code == 200


def test_a_fault_that_does_not_hold_changes_nothing(mock: MockTier) -> None:
    mock.set_faults({"kind": "status"})
    for bad in (
        {"kind": "slow", "factor": 0.0},
        {"kind": "slow", "factor": float("nan")},
        {"kind": "crash", "after_chunks": -1},
        {"kind": "status", "code": 200},
        {"kind": "status", "share": 1.5},
        {"kind": "refuse", "start_s": 2.0, "end_s": 1.0},
        {"kind": "refuse", "after_chunks": 3},
        {"kind": "refuse", "target": "nowhere"},
    ):
        with pytest.raises(ConfigError):
            mock.set_faults(bad)
    assert plain(mock).status_code == 500


def test_faults_replaced_again_and_again_leave_a_server_that_answers(mock: MockTier) -> None:
    moving = [{"kind": "refuse", "start_s": 0.01 * k, "end_s": 0.01 * k + 0.005} for k in range(1, 40)]
    for _ in range(15):
        mock.set_faults(*moving)
        time.sleep(0.02)
    mock.set_faults()
    assert well(ask(mock, "twin/0"))
    assert well(ask(mock, "alone/0"))
