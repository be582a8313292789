"""A policy of another package behind the gateway, and what becomes of requests when it fails."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from rbx.config.short_policy import gateway_document
from rbx.errors import ConfigError
from rbx.heads.bundle import Bundle
from tests.policy.plugged import plug_in
from tests.serve.gateway.serving import config, serving

SOURCE = """
    import numpy as np

    class ToOne:
        needs_predictions = False

        def __init__(self, given, to):
            self.model = given.models.index(to)

        def choose(self, requests, table):
            if table.max_tokens[requests].min() == 13:
                raise LookupError("thirteen")
            return np.full(len(requests), self.model)

    def make(given):
        return ToOne(given, **given.options)
"""
_numbers = itertools.count()


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    module = f"plug_served_{next(_numbers)}"
    plug_in(monkeypatch, tmp_path, module, SOURCE)
    return module


def test_it_decides_and_when_it_raises_the_shortest_queue_does(plugin: str) -> None:
    """As the command line names it; without a bundle, since it asks for no predictions."""
    document = gateway_document(f"{{kind: plugin, name: {plugin}, options: {{to: large}}}}")
    with serving(config(**document)) as place:
        for tokens, mode in ((5, "policy"), (13, "fallback"), (6, "policy")):
            answer = place.client.post("/v1/completions", json={"prompt": "hello", "max_tokens": tokens})
            assert answer.status_code == 200
            assert answer.headers["x-rbx-decision-mode"] == mode
            if mode == "policy":
                assert answer.headers["x-rbx-model"] == "large"
        named = place.client.post("/v1/completions", json={"prompt": "hello", "model": "tiny"})
        assert named.headers["x-rbx-model"] == "tiny"
        place.settled()


def test_a_broken_one_is_refused_before_anything_is_served(plugin: str, bundle: Bundle) -> None:
    for options, said in (("{to: huge}", "tuple.index"), ("{towards: large}", "unexpected keyword")):
        document = gateway_document(f"{{kind: plugin, name: {plugin}, options: {options}}}")
        with pytest.raises(ConfigError, match=said), serving(config(**document), bundle=bundle):
            pass
    document = gateway_document("{kind: plugin, name: nowhere}")
    with pytest.raises(ConfigError, match="nowhere is not installed"), serving(config(**document)):
        pass
