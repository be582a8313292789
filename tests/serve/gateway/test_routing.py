"""Which instance a request gets: by the heads, its weights, its model's name, and without the heads."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from rbx.heads.bundle import Bundle
from tests.heads.conftest import HashEncoder
from tests.serve.gateway.serving import config, serving
from tests.serve.gateway.slow_encoder import SlowEncoder

ROUTEBALANCE = {"kind": "routebalance", "weights": [[1.0, 0.0, 0.0]]}


class BrokenEncoder(HashEncoder):
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if "warm" in texts:
            return super().encode(texts)
        raise RuntimeError("out of order")


@pytest.fixture
def spoiled(bundle: Bundle) -> Iterator[Bundle]:
    """The bundle, to be given another encoder."""
    own = vars(bundle)["encoder"]
    yield bundle
    vars(bundle)["encoder"] = own


def best_by_quality(bundle: Bundle, text: str) -> str:
    found = bundle.knn.predict(bundle.encode([text]))
    return bundle.models[int(np.argmax(found.quality[0]))]


def test_the_heads_decide_and_a_clients_weights_outweigh_the_policys(bundle: Bundle) -> None:
    prompts = [f"{topic} question {k}" for topic in ("algebra", "history") for k in (500, 501, 502)]
    wanted = [best_by_quality(bundle, prompt) for prompt in prompts]
    assert set(wanted) == {"large", "tiny"}
    with serving(config(policy=ROUTEBALANCE), bundle=bundle) as place:
        for prompt, model in zip(prompts, wanted, strict=True):
            messages = [
                {"role": "system", "content": "not what is asked"},
                {"role": "user", "content": "an earlier turn"},
                {"role": "assistant", "content": "yes"},
                {"role": "user", "content": [{"type": "text", "text": prompt}]},
            ]
            assert place.chat(messages=messages).headers["x-rbx-model"] == model
            plain = place.client.post("/v1/completions", json={"prompt": prompt})
            assert plain.headers["x-rbx-model"] == model
            # Nothing counts but speed, and the tiny model's prior is a third of the other's.
            fast = place.chat({"x-rbx-weights": "0,1,0"}, messages=messages)
            assert fast.headers["x-rbx-model"] == "tiny"
            named = place.chat(rbx={"weights": [0, 1, 0]}, messages=messages, model="large")
            assert named.headers["x-rbx-model"] == "large"
            # The policy's own weights are back.
            assert place.chat(messages=messages).headers["x-rbx-model"] == model
        place.settled()


def test_a_named_model_is_served_whatever_the_router_would_pick() -> None:
    with serving(config(policy={"kind": "always", "model": "large"})) as place:
        assert {place.chat().headers["x-rbx-model"] for _ in range(4)} == {"large"}
        served = {place.chat(model="tiny").headers["x-rbx-instance"] for _ in range(4)}
        assert served == {"tiny-b/0", "tiny-b/1"}
        assert place.chat().headers["x-rbx-model"] == "large"


def test_a_slow_encoder_is_replaced_by_the_shortest_queue_and_that_is_counted(spoiled: Bundle) -> None:
    vars(spoiled)["encoder"] = SlowEncoder()
    slow = config(policy=ROUTEBALANCE, deadlines={"encode_s": 0.05})
    with serving(slow, bundle=spoiled) as place:
        answers = [place.chat() for _ in range(3)]
        assert [a.status_code for a in answers] == [200] * 3
        assert {a.headers["x-rbx-decision-mode"] for a in answers} == {"fallback"}
        assert float(answers[-1].headers["x-rbx-decision-ms"]) < 300
        assert 'mode="fallback",policy="rb q1.00 l0.00 c0.00"} 3.0' in place.client.get("/metrics").text
        time.sleep(0.6)  # the encoder is free again, and slow as before
        assert place.chat().headers["x-rbx-decision-mode"] == "fallback"
        place.settled()


def test_a_broken_encoder_is_replaced_by_the_shortest_queue(spoiled: Bundle) -> None:
    vars(spoiled)["encoder"] = BrokenEncoder()
    with serving(config(policy=ROUTEBALANCE), bundle=spoiled) as place:
        answers = [place.chat() for _ in range(4)]
        assert {a.headers["x-rbx-decision-mode"] for a in answers} == {"fallback"}
        assert len({a.headers["x-rbx-instance"] for a in answers}) == 4
        vars(spoiled)["encoder"] = HashEncoder()
        assert place.chat().headers["x-rbx-decision-mode"] == "policy"


def test_a_policy_that_fails_is_replaced_by_the_shortest_queue(bundle: Bundle) -> None:
    with serving(config(policy={"kind": "latency-agnostic"}), bundle=bundle) as place:
        policy = place.gateway.versions.current.decider._policy._policy
        vars(policy)["_shape"] = None
        answer = place.chat()
        assert answer.status_code == 200
        assert answer.headers["x-rbx-decision-mode"] == "fallback"
        place.settled()


def test_an_estimate_tells_models_and_instances_without_sending_anything(bundle: Bundle) -> None:
    prompt = "algebra question 900"
    expected = bundle.knn.predict(bundle.encode([prompt]))
    with serving(config(policy={**ROUTEBALANCE, "latency": ["prior"]}), bundle=bundle) as place:
        told = place.client.post("/v1/estimate", json={"prompt": prompt, "max_tokens": 500}).json()
        assert told["input_tokens"] == 5
        for m, row in enumerate(told["models"]):
            assert row["model"] == bundle.models[m]
            assert row["quality"] == pytest.approx(expected.quality[0, m])
            assert row["output_tokens"] == pytest.approx(expected.length_tokens[0, m])
            assert row["cost_usd"] == pytest.approx((5 * 0.1 + row["output_tokens"] * 0.2) / 1e6)
        priors = {"large": 0.03, "tiny": 0.01}
        length = {row["model"]: row["output_tokens"] for row in told["models"]}
        assert len(told["instances"]) == 4
        for row in told["instances"]:
            assert row["routable"]
            assert row["latency_s"] == pytest.approx(priors[row["model"]] * length[row["model"]])
        chat = place.client.post(
            "/v1/estimate", json={"messages": [{"role": "user", "content": prompt}], "max_tokens": 500}
        ).json()
        assert chat["models"] == told["models"]
        assert not any(instance.bodies for instance in place.instances)
