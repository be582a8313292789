"""The deployment ladder behind real HTTP: one routing on every rung, swaps, waits that add up."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from rbx.errors import ConfigError
from rbx.heads.bundle import Bundle
from rbx.heads.routers.avengers_pro import AvengersPro
from rbx.heads.routers.head import AskedPrompts
from rbx.serve.gateway.scoring.sidecar_stage import SidecarStage
from tests.heads.conftest import HashEncoder
from tests.serve.gateway.serving import Serving, config, serving, small_pool
from tests.serve.gateway.slow_encoder import SlowEncoder

PROMPTS = [f"{topic} question {k}" for topic in ("algebra", "poetry", "history") for k in range(700, 710)]
RUNGS: list[Any] = [
    "serial",
    "microbatch",
    {"kind": "microbatch", "max_size": 5, "window_s": 0.05},
    "sidecar",
    {"kind": "concurrent", "workers": 3},
    "in-batch",
]
PATIENT = {"encode_s": 30.0}


def routed(rung: Any, kind: str = "avengers-pro") -> dict[str, Any]:
    return {"policy": {"kind": kind, "deployment": [rung]}, "deadlines": PATIENT}


def ask(place: Serving, prompts: list[str]) -> dict[str, tuple[str, str]]:
    """Many at once: model and mode of each prompt."""

    def one(prompt: str) -> tuple[str, str]:
        answer = httpx.post(
            f"{place.url}/v1/completions", json={"prompt": prompt}, trust_env=False, timeout=60
        )
        assert answer.status_code == 200, answer.text
        return answer.headers["x-rbx-model"], answer.headers["x-rbx-decision-mode"]

    with ThreadPoolExecutor(10) as threads:
        return dict(zip(prompts, threads.map(one, prompts), strict=True))


def gone(pid: int, within_s: float = 20.0) -> bool:
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def sidecar(place: Serving) -> SidecarStage:
    stage = place.gateway.versions.current.decider.stage
    assert isinstance(stage, SidecarStage)
    return stage


@pytest.mark.parametrize("kind", ["avengers-pro", "linear"])
def test_every_rung_routes_as_the_router_says_and_leaves_nothing_when_it_goes(
    stored: Bundle, kind: str
) -> None:
    head = stored.router(kind)
    if isinstance(head, AvengersPro):
        head = head.weighing(0.8)
    scores = head.score(AskedPrompts(PROMPTS, stored.encode(PROMPTS)))
    expected = {
        prompt: (stored.models[best], "policy")
        for prompt, best in zip(PROMPTS, scores.argmax(axis=1).tolist(), strict=True)
    }
    assert len(set(expected.values())) == 2
    with serving(config(**routed("in-batch", kind)), bundle=stored) as place:
        assert ask(place, PROMPTS) == expected
        pids = []
        for rung in RUNGS:
            put = place.client.put("/v1/config", json=routed(rung, kind), timeout=120)
            assert put.status_code == 200, put.text
            assert ask(place, PROMPTS) == expected, rung
            if rung == "sidecar":
                pids.append(sidecar(place).process.pid)
        place.settled()
    (pid,) = pids
    assert pid is not None
    assert gone(pid)


@pytest.mark.parametrize("rung", RUNGS, ids=str)
def test_waits_for_scoring_are_told_and_add_up(stored: Bundle, rung: Any) -> None:
    with serving(config(**routed(rung)), bundle=stored) as place:
        answer = place.client.post(
            "/v1/completions", json={"prompt": PROMPTS[0]}, headers={"x-rbx-trace": "1"}, timeout=60
        )
    told = json.loads(answer.headers["x-rbx-trace"])
    assert ("scoring_wait_s" in told) == (rung != "in-batch")
    parts = [told.get("scoring_wait_s", 0.0), told["batch_wait_s"], told["encode_s"], told["score_s"]]
    assert min(parts) >= 0.0
    assert sum(parts) == pytest.approx(told["decided_after_s"], abs=1e-9)
    assert told["encode_s"] > 0.0


def test_a_client_that_leaves_while_it_is_scored_leaves_nothing(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(bundle), "encoder", SlowEncoder())
    deployed = {"policy": {"kind": "knn", "deployment": ["serial"]}, "deadlines": PATIENT}
    with serving(config(**deployed), bundle=bundle) as place:
        for _ in range(3):
            with pytest.raises(httpx.ReadTimeout):
                place.client.post("/v1/completions", json={"prompt": "x"}, timeout=0.1)
        assert place.client.post("/v1/completions", json={"prompt": "y"}).status_code == 200
        place.settled()


@pytest.mark.parametrize("rung", ["serial", "microbatch", "concurrent"])
def test_scoring_that_takes_too_long_leaves_the_choice_to_the_shortest_queue(
    bundle: Bundle, rung: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(vars(bundle), "encoder", SlowEncoder())
    deployed = {"policy": {"kind": "knn", "deployment": [rung]}, "deadlines": {"encode_s": 0.05}}
    with serving(config(**deployed), bundle=bundle) as place:
        started = time.monotonic()
        found = ask(place, ["a", "b", "c"])
        assert {mode for _, mode in found.values()} == {"fallback"}
        assert time.monotonic() - started < 5.0
        place.settled()
    assert "a scoring call took more than 0.05 s" in caplog.text


def test_who_names_a_model_gets_it_on_every_rung(stored: Bundle) -> None:
    with serving(config(**routed("serial")), bundle=stored) as place:
        for model in stored.models:
            answer = place.client.post("/v1/completions", json={"prompt": PROMPTS[0], "model": model})
            assert answer.headers["x-rbx-model"] == model


def test_what_can_not_be_deployed_is_refused_and_changes_nothing(bundle: Bundle) -> None:
    with pytest.raises(ConfigError, match="bundle"), serving(config(**routed("serial", "knn"))):
        pass
    with serving(bundle=bundle, over=small_pool()) as place:
        before = place.client.get("/v1/config").json()
        put = place.client.put("/v1/config", json=routed("sidecar", "knn"))
        assert put.status_code == 400
        assert "a sidecar reads the bundle from disk" in put.text
        assert place.client.get("/v1/config").json() == before


class OneFails(HashEncoder):
    """Can't read one of the prompts."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if "no prompt" in texts:
            raise RuntimeError("can't be read")
        return super().encode(texts)


def test_a_prompt_that_can_not_be_scored_costs_no_other_of_its_batch_the_policy(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(bundle), "encoder", OneFails())
    batching = {"mode": "fixed", "max_size": 6, "window_s": 5.0, "eager": False}
    deployed = {"policy": {"kind": "knn", "deployment": ["serial"]}, "deadlines": PATIENT}
    with serving(config(**deployed, scheduler={"batching": batching}), bundle=bundle) as place:
        found = ask(place, ["no prompt", *PROMPTS[:5]])
        assert {prompt: mode for prompt, (_, mode) in found.items()} == {
            "no prompt": "fallback",
            **dict.fromkeys(PROMPTS[:5], "policy"),
        }
        place.settled()
