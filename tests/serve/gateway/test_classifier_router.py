"""A gateway that routes by a running classifier: over real HTTP, and when that fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rbx.errors import ConfigError
from rbx.heads.bundle import Bundle
from tests.serve.classifier.service import Service, refusal, running
from tests.serve.gateway.serving import Serving, config, serving


def subject(text: str) -> tuple[str, float]:
    return (text.split()[0], 0.55 if "perhaps" in text else 0.95)


@pytest.fixture
def service() -> Iterator[Service]:
    with running(subject) as found:
        yield found


def vllm_sr(service: Service, **fields: Any) -> dict[str, Any]:
    table = {"algebra": "large", "history": "tiny"}
    return {"kind": "vllm-sr", "url": service.url, "models": table, "default_model": "tiny", **fields}


def asked(place: Serving, prompt: str, **fields: Any) -> tuple[str, str]:
    answer = place.client.post("/v1/completions", json={"prompt": prompt, **fields})
    assert answer.status_code == 200, answer.text
    return answer.headers["x-rbx-model"], answer.headers["x-rbx-decision-mode"]


def test_the_category_picks_the_model_and_the_rest_goes_to_the_default(
    bundle: Bundle, service: Service
) -> None:
    with serving(config(policy=vllm_sr(service, threshold=[0.6])), bundle=bundle) as place:
        assert asked(place, "algebra question 1") == ("large", "policy")
        assert asked(place, "history question 2") == ("tiny", "policy")
        assert asked(place, "cooking question 3") == ("tiny", "policy")
        assert asked(place, "algebra perhaps 4") == ("tiny", "policy")
        assert asked(place, "history question 5", model="large") == ("large", "policy")
        texts = [text for each in service.asked for text in each["texts"]]
        assert {"algebra question 1", "cooking question 3"} <= set(texts)
        place.settled()


@pytest.mark.parametrize("fault", ["500", "malformed", "silent"])
def test_a_service_that_fails_is_no_silent_default_and_is_asked_again(
    bundle: Bundle, service: Service, fault: str
) -> None:
    policy = vllm_sr(service, timeout_s=0.1, models={"algebra": "large"}, default_model="large")
    with serving(config(policy=policy), bundle=bundle) as place:
        assert asked(place, "algebra question 1") == ("large", "policy")
        if fault == "500":
            service.answer = lambda texts: refusal(500, "UNIFIED_CLASSIFICATION_ERROR", "broken")
        elif fault == "malformed":
            service.answer = lambda texts: (200, b'{"results": [{}]}')
        else:
            service.quiet = threading.Event()
        # Both instances of either model are idle: the shortest queue takes the first, whoever's it is.
        assert asked(place, "algebra question 2")[1] == "fallback"
        if service.quiet is not None:
            service.quiet.set()
        service.answer = service.quiet = None
        assert asked(place, "algebra question 3") == ("large", "policy")
        place.settled()


def test_an_estimate_tells_what_the_service_says(bundle: Bundle, service: Service) -> None:
    with serving(config(policy=vllm_sr(service)), bundle=bundle) as place:
        assert place.client.post("/v1/estimate", json={"prompt": "algebra question 1"}).status_code == 200
        assert service.asked[-1]["texts"] == ["algebra question 1"]
        service.answer = lambda texts: refusal(503, "UNIFIED_CLASSIFIER_UNAVAILABLE", "loading")
        refused = place.client.post("/v1/estimate", json={"prompt": "algebra question 1"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_prediction")


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"kind": "vllm-sr", "url": "http://127.0.0.1:9"}, "which model answers each category"),
        ({"kind": "vllm-sr", "url": "http://127.0.0.1:9", "models": {"a": "huge"}}, "the pool has no huge"),
        ({"kind": "oracle"}, r"oracle \(true labels\).*sees the labels"),
        ({"kind": "source-best"}, "nobody tells which data set"),
        ({"kind": "cascade", "mean_budget_usd": [1e-5]}, "holds none back to score it"),
    ],
    ids=["no map", "unknown model", "oracle", "source-best", "cascade"],
)
def test_what_can_not_be_decided_here_is_refused_at_the_start(
    bundle: Bundle, policy: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said), serving(config(policy=policy), bundle=bundle):
        pass
