"""Live requests are asked as the grid's answers were."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rbx.config.live import Live
from rbx.sweep.live import asked
from rbx.sweep.live.asked import asked_as_the_grid
from tests.sweep.scenes import experiment

TARGET = {"target": {"kind": "gateway", "url": "http://127.0.0.1:8200"}}


def effective(monkeypatch: pytest.MonkeyPatch, source: Any, **live: Any) -> Live:
    def manifest(folder: Path) -> SimpleNamespace:
        return SimpleNamespace(spec={"source": source})

    monkeypatch.setattr(asked, "read_manifest", manifest)
    found = asked_as_the_grid(experiment(engine="live", live={**TARGET, **live})).live
    assert found is not None
    return found


def test_a_labelled_grid_says_how_its_models_were_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    generation = {
        "temperature": 0.3,
        "top_p": 0.9,
        "max_tokens": 77,
        "stop": ["###"],
        "system": "Be brief.",
        "extra": {"top_k": 5},
    }
    found = effective(monkeypatch, {"kind": "label", "generation": generation})
    # The penalty is the labeller's default. Limits are the workload's.
    assert found.body == {
        "temperature": 0.3,
        "top_p": 0.9,
        "frequency_penalty": 1.2,
        "stop": ["###"],
        "top_k": 5,
    }
    assert found.system == "Be brief."


@pytest.mark.parametrize("source", [None, {"kind": "synth"}, {"kind": "label", "generation": {"unheard": 1}}])
def test_other_grids_do_not_say_so_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch, source: Any) -> None:
    assert effective(monkeypatch, source).body == {"temperature": 0}


def test_what_the_file_says_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    found = effective(monkeypatch, {"kind": "label", "generation": {}}, body={"top_p": 0.5})
    assert (found.body, found.system) == ({"top_p": 0.5}, None)
    assert effective(monkeypatch, {"kind": "label", "generation": {}}, body={}).body == {}


def test_a_simulated_experiment_is_left_alone() -> None:
    simulated = experiment()
    assert asked_as_the_grid(simulated) is simulated
