"""What a request holds, and which changes of a spec make other answers."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from rbx.config.labelling import Candidate, Generation
from rbx.label.recipe import generation_digest, offline_digest, request_body
from tests.label.broadcasting import endpoint

CANDIDATE = Candidate.model_validate({"name": "m", "endpoint": endpoint("http://127.0.0.1:9/v1")})

CHANGED: list[dict[str, Any]] = [
    {"api": "completions"},
    {"temperature": 0.1},
    {"top_p": 0.9},
    {"frequency_penalty": 0.0},
    {"repetition_penalty": 1.0},
    {"max_tokens": 512},
    {"seed": 0},
    {"stop": ["\n"]},
    {"system": "Be brief."},
    {"extra": {"top_k": 1}},
]


def test_the_defaults_are_routebalances() -> None:
    assert request_body(Generation(), CANDIDATE, "Hi") == {
        "model": "scripted",
        "stream": False,
        "messages": [{"role": "user", "content": "Hi"}],
        "temperature": 0.0,
        "frequency_penalty": 1.2,
        "max_tokens": 1024,
    }


@pytest.mark.parametrize("digest_of", [generation_digest, offline_digest])
def test_every_setting_of_a_generation_changes_the_digest(digest_of: Any) -> None:
    recipes = [Generation(), *(Generation.model_validate(change) for change in CHANGED)]
    assert {name for change in CHANGED for name in change} == set(Generation.model_fields)
    found = [digest_of(recipe, CANDIDATE) for recipe in recipes]
    assert len(set(found)) == len(found)
    again = [Generation.model_validate(recipe.model_dump(mode="json")) for recipe in recipes]
    assert [digest_of(recipe, CANDIDATE) for recipe in again] == found


def candidate(**changes: Any) -> Candidate:
    document = {"name": "m", "endpoint": endpoint("http://127.0.0.1:9/v1"), "weights": "a"}
    return Candidate.model_validate(document | changes)


@pytest.mark.parametrize(
    ("changes", "served", "offline"),
    [
        (
            {"endpoint": endpoint("http://127.0.0.1:8/v1", concurrency=3, deadline_s=1.0, attempts=9)},
            True,
            True,
        ),
        ({"tokenizer": "tokenizer.json"}, True, True),
        ({"endpoint": endpoint("http://127.0.0.1:9/v1", served_name="other")}, False, True),
        ({"weights": "b"}, True, False),
        ({"engine": {"dtype": "float16"}}, True, False),
        ({"engine": {"max_model_len": 512}}, True, False),
        ({"engine": {"tensor_parallel_size": 2, "gpu_memory_utilization": 0.8}}, True, True),
    ],
)
def test_where_and_how_hard_a_model_is_asked_is_not_in_the_digest(
    changes: dict[str, Any], served: bool, offline: bool
) -> None:
    before, after = candidate(), candidate(**changes)
    assert (generation_digest(Generation(), before) == generation_digest(Generation(), after)) is served
    assert (offline_digest(Generation(), before) == offline_digest(Generation(), after)) is offline


def test_a_served_answer_is_never_taken_for_an_offline_one() -> None:
    assert generation_digest(Generation(), candidate()) != offline_digest(
        Generation(), candidate(weights="m")
    )


@pytest.mark.parametrize(
    "extra", [{"model": "x"}, {"stream": True}, {"n": 2}, {"top_k": float("nan")}, {"when": {1, 2}}]
)
def test_extra_holds_only_what_can_be_sent_beside_the_rest(extra: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Generation.model_validate({"extra": extra})


@pytest.mark.parametrize("engine", [{"model": "x"}, {"trust_remote_code": True}])
def test_an_engine_gets_no_other_model_and_no_foreign_code(engine: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        candidate(engine=engine)
