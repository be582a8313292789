"""A router trained into the bundle, deployed: each request goes where it says, restrictions and all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rbx.errors import ConfigError
from rbx.heads.bundle import Bundle
from rbx.heads.routers.avengers_pro import AvengersPro
from rbx.heads.routers.head import AskedPrompts
from rbx.heads.routers.train import train_routers
from tests.heads import pools
from tests.heads.conftest import HashEncoder
from tests.heads.routers.planted import PLAIN_ROUTERS
from tests.serve.gateway.serving import config, serving, small_pool

PROMPTS = [f"{topic} question {k}" for topic in ("algebra", "history") for k in range(700, 708)]


@pytest.fixture(scope="module")
def taught(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        fuller = train_routers(bundle, pools.view(), small_pool(), PLAIN_ROUTERS, seed=0)[0]
    vars(fuller)["encoder"] = HashEncoder()
    return fuller


@pytest.mark.parametrize(
    "policy",
    [
        {"kind": "linear"},
        {"kind": "mlp"},
        {"kind": "avengers-pro", "performance_weight": [1.0]},
        {"kind": "matrix-factorisation"},
        {"kind": "semantic-router"},
    ],
    ids=lambda policy: str(policy["kind"]),
)
def test_each_request_goes_to_the_model_that_the_router_scores_highest(
    taught: Bundle, policy: dict[str, Any]
) -> None:
    head = taught.router(policy["kind"])
    if isinstance(head, AvengersPro):
        head = head.weighing(1.0)
    wanted = [
        taught.models[int(np.argmax(row))]
        for row in head.score(AskedPrompts(PROMPTS, taught.encode(PROMPTS)))
    ]
    with serving(config(policy=policy), bundle=taught) as place:
        for prompt, model in zip(PROMPTS, wanted, strict=True):
            answer = place.client.post("/v1/completions", json={"prompt": prompt})
            assert (answer.headers["x-rbx-model"], answer.headers["x-rbx-decision-mode"]) == (model, "policy")
        other = next(model for model in taught.models if model != wanted[0])
        named = place.client.post("/v1/completions", json={"prompt": PROMPTS[0], "model": other})
        assert named.headers["x-rbx-model"] == other
        estimate = place.client.post("/v1/estimate", json={"prompt": PROMPTS[0]})
        assert estimate.status_code == 200
        place.settled()


def test_a_router_that_was_not_trained_is_refused_before_anything_is_served(bundle: Bundle) -> None:
    with (
        pytest.raises(ConfigError, match="no router linear"),
        serving(config(policy={"kind": "linear"}), bundle=bundle),
    ):
        pass
    with pytest.raises(ConfigError, match="--bundle"), serving(config(policy={"kind": "linear"})):
        pass
