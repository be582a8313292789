"""``rbx launch`` over two real vLLM servers on this machine's CPU, their models of random weights.

The tests share one launch and run in order: the last ones kill one of its servers, then end it.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

pytest.importorskip("vllm", reason="vLLM is not installed here; `make test-vllm` installs its CPU build")

from tests.vllm.launched import NARROW, WIDE, Launched, asked, launched
from tests.vllm.two_kinds import POEMS, SUMS, WELL

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launched]:
    with launched(tmp_path_factory.mktemp("launched")) as up:
        yield up


def trace(answer: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.headers["x-rbx-trace"])
    return found


def events(answer: httpx.Response) -> list[bytes]:
    return [event for event in answer.content.split(b"\n\n") if event.startswith(b"data: ")]


def test_the_servers_are_what_the_pool_says(both: Launched) -> None:
    """Published states tell all limits; any other than the pool's would be a warning."""
    assert "narrow-cpu/0 is ready" in both.command.said
    assert "wide-cpu/0 is ready" in both.command.said
    assert "warning" not in both.command.said
    assert "do not tell" not in both.command.said


def test_the_prompt_decides_who_answers(both: Launched) -> None:
    for prompts, model in ((SUMS, WIDE), (POEMS, NARROW)):
        for prompt in prompts:
            plain = both.ask(prompt, model="auto")
            assert plain.status_code == 200, plain.text
            assert plain.headers["x-rbx-model"] == plain.json()["model"] == model
            assert plain.headers["x-rbx-decision-mode"] == "policy"
            assert plain.json()["usage"]["completion_tokens"] == 8
            assert trace(plain)["predicted_quality"] == pytest.approx(WELL, abs=0.1)

            streamed = both.ask(prompt, stream=True, stream_options={"include_usage": True})
            assert streamed.status_code == 200
            assert streamed.headers["x-rbx-model"] == model
            *chunks, done = events(streamed)
            assert done == b"data: [DONE]"
            assert b'"completion_tokens":8' in chunks[-1]
            assert len(chunks) > 1  # a server without a core to itself puts several tokens into one


def test_a_clients_word_stands_above_the_prompts(both: Launched) -> None:
    assert both.ask(SUMS[0], model=NARROW).headers["x-rbx-model"] == NARROW
    assert both.ask(POEMS[0], model=WIDE).headers["x-rbx-model"] == WIDE
    assert both.ask(SUMS[0], model="another").status_code == 404


@pytest.mark.parametrize(
    "policy",
    [
        {"kind": "routebalance", "weights": [[0.4, 0.3, 0.3]], "latency": ["bea"]},
        {"kind": "bear"},
        {"kind": "bear", "rule": "soft", "delta_per_s": [0.1]},
    ],
    ids=["routebalance", "bear", "bear-soft"],
)
def test_policies_that_replay_the_engine_decide_by_its_published_state(
    both: Launched, policy: dict[str, Any]
) -> None:
    both.decide_by(policy)
    alone = [both.ask(prompt) for prompt in (SUMS[0], POEMS[0])]
    assert [answer.headers["x-rbx-model"] for answer in alone] == [WIDE, NARROW]
    crowd = both.ask_all((SUMS + POEMS) * 2, max_tokens=40)
    assert {answer.status_code for answer in [*alone, *crowd]} == {200}
    assert {answer.headers["x-rbx-model"] for answer in crowd} == {WIDE, NARROW}
    assert {answer.headers["x-rbx-decision-mode"] for answer in crowd} <= {"policy", "hopeless"}
    told = [trace(answer)["predicted_ttft_s"] for answer in crowd]
    assert all(0.0 < ttft_s < 10.0 for ttft_s in told)
    # Four seats a server: whoever comes later waits for them, and the replay knows.
    assert max(told) > 2 * min(told)


def test_a_server_killed_amid_a_stream(both: Launched) -> None:
    both.decide_by({"kind": "routebalance", "weights": [[0.8, 0.1, 0.1]]})
    state = 'rbx_breaker_state{{instance="{}-cpu/0"}}'.format
    assert both.metric(state(WIDE)) == 0.0
    body = {**asked(SUMS[0]), "stream": True, "max_tokens": 900}
    seen: list[bytes] = []
    with (
        httpx.Client(trust_env=False, timeout=60) as client,
        client.stream("POST", f"{both.url}/v1/chat/completions", json=body) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["x-rbx-model"] == WIDE
        for line in answer.iter_lines():
            seen.append(line.encode())
            if len(seen) == 20:
                os.killpg(os.getpgid(both.engine(WIDE)), signal.SIGKILL)
        said = [line for line in seen if line.startswith(b"data: ")]
    assert b"data: [DONE]" not in said
    error = json.loads(said[-1].removeprefix(b"data: "))["error"]
    assert (error["type"], error["code"]) == ("upstream_error", "upstream_cut")
    assert "wide-cpu/0" in error["message"]
    assert 10 <= len(said) < 900
    assert not any(b'"error"' in line for line in said[:-1])

    after = [both.ask(prompt) for prompt in SUMS + POEMS] + both.ask_all(SUMS + POEMS)
    assert [answer.status_code for answer in after] == [200] * 16
    assert {answer.headers["x-rbx-model"] for answer in after} == {NARROW}
    streamed = both.ask(SUMS[1], stream=True)
    assert streamed.headers["x-rbx-model"] == NARROW
    assert streamed.content.endswith(b"data: [DONE]\n\n")
    both.command.wait_for("wide-cpu/0 ended with exit code 137")
    assert both.command.process.poll() is None
    assert (both.metric(state(WIDE)), both.metric(state(NARROW))) == (2.0, 0.0)
    assert both.metric('rbx_faults_total{instance="wide-cpu/0",kind="cut"}') == 1.0
    until_s = time.monotonic() + 20.0
    while both.metric('rbx_ready{instance="wide-cpu/0"}') != 0.0:
        assert time.monotonic() < until_s
        time.sleep(0.1)
    refused = both.ask(SUMS[0], model=WIDE)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_instance")


def test_nothing_is_left_when_it_ends(both: Launched) -> None:
    both.command.process.send_signal(signal.SIGTERM)
    assert both.command.process.wait(60.0) == 0
    assert both.command.left() == []
    assert "everything has ended" in both.command.said
    assert "Traceback" not in both.command.said.partition("ended with exit code")[0]
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{both.url}/healthz", trust_env=False)
