"""What is told of a judge: all that decides a score, and nothing of where it runs."""

from __future__ import annotations

import json

from rbx.config.base import parse
from rbx.config.labelling import Judging
from rbx.label.judge.record import judge_records
from rbx.label.judge.rubric import QUALITY, SAFETY, STEPS_VERSION


def test_a_record_has_the_criteria_and_no_address() -> None:
    endpoint = {"url": "http://inner:1/v1", "api_key_env": "KEY"}
    near = {"name": "near", "model": "meta/Llama", "endpoint": endpoint}
    far = {"name": "far", "kind": "deepeval", "provider": "openai", "model": "gpt"}
    judges = [near, far | {"options": {"base_url": "inner"}}, near | {"name": "idle"}]
    signals = [{"kind": "judge", "name": f"by-{name}", "judge": name} for name in ("near", "far")]
    found = judge_records(parse(Judging, {"judges": judges, "signals": signals}, where="test"))
    assert set(found) == {"near", "far"}
    assert found["near"]["model"] == "meta/Llama"
    assert found["near"]["cut_characters"] == 2048
    assert found["far"]["provider"] == "openai"
    for record in found.values():
        assert record["steps_version"] == STEPS_VERSION
        assert record["rubrics"]["Quality"]["criteria"] == QUALITY.criteria
        assert record["rubrics"]["Safety"]["steps"] == list(SAFETY.steps)
    assert "inner" not in json.dumps(found)
    assert "KEY" not in json.dumps(found)
