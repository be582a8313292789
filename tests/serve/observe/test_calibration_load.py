"""The load that makes a trace worth fitting."""

from __future__ import annotations

import asyncio

import httpx
import numpy as np
import pytest

from rbx.errors import ServerError, UsageError
from rbx.serve.observe.calibration_load import CalibrationLoad, LoadDesign
from rbx.serve.observe.server import identify
from tests.serve.observe.servers import FakeServer, fake_server

DESIGN = LoadDesign((1, 3), longest_prompt=60, longest_answer=20, rounds=2)


def load_for(fake: FakeServer, design: LoadDesign = DESIGN, seed: int = 0) -> CalibrationLoad:
    with httpx.Client() as client:
        return CalibrationLoad(identify(fake.url, client), design, np.random.default_rng(seed))


def test_lengths_cover_the_range_and_tokens_are_the_models() -> None:
    with fake_server() as fake:
        load = load_for(fake)
        asyncio.run(load.run(3.0))
        prompts = [len(body["prompt"]) for body in fake.asked]
        answers = [body["max_tokens"] for body in fake.asked]
        tokens = {token for body in fake.asked for token in body["prompt"]}
    assert len(prompts) == load.progress.done > 50
    assert load.progress.answers == list(zip(prompts, answers, strict=True)) or sorted(
        load.progress.answers
    ) == sorted(zip(prompts, answers, strict=True))
    assert min(prompts) < 8
    assert 40 < max(prompts) <= 60
    assert min(answers) == 1
    assert 10 < max(answers) <= 20
    assert tokens == {3, 4, 5}
    assert all(body["ignore_eos"] and body["model"] == "tiny" for body in fake.asked)


def test_a_server_that_refuses_everything_ends_the_load_with_its_words() -> None:
    with fake_server() as fake:
        fake.refusal = "no such model"
        with pytest.raises(ServerError, match="400: no such model"):
            asyncio.run(load_for(fake).run(5.0))


def test_a_server_that_cannot_tokenize_is_refused() -> None:
    with fake_server() as fake:
        fake.tokens = []
        with pytest.raises(ServerError, match="--no-drive"):
            asyncio.run(load_for(fake).run(5.0))


@pytest.mark.parametrize(
    ("status", "content", "shown"),
    [
        (404, b"<h1>Not Found</h1>", "404 '<h1>Not Found</h1>'"),
        (404, b'{"detail": "Not Found"}', "404 '.*Not Found"),
        (200, b"", "200 ''"),
        (200, b"[" * 200_000, "200 '\\[\\["),
        (200, b"[1, 2]", "200 '\\[1, 2\\]'"),
        (200, b'{"tokens": ["a"]}', "200 "),
        (200, b'{"tokens": 3}', "200 "),
        (200, b'{"tokens": [123456789012345678901234567890]}', "200 "),
    ],
)
def test_a_server_without_a_tokenizer_is_refused_with_what_came(
    status: int, content: bytes, shown: str
) -> None:
    with fake_server() as fake:
        load = load_for(fake)
        fake.answers["/tokenize"] = (status, content)
        said = f"POST {fake.url}/tokenize was to give token ids .* answers {shown}.*--no-drive"
        with pytest.raises(ServerError, match=said):
            asyncio.run(load.run(5.0))


@pytest.mark.parametrize(("context", "seats"), [(128, 1), (2048, 16), (8192, 256), (16, 7)])
def test_a_design_stays_within_the_server(context: int, seats: int) -> None:
    design = LoadDesign.of(context, seats)
    assert 1 <= design.shortest_prompt <= design.longest_prompt
    assert design.longest_prompt + design.longest_answer < context
    assert list(design.levels) == sorted(set(design.levels))
    assert seats in design.levels
    assert design.levels[-1] > seats


def test_impossible_designs_are_refused() -> None:
    with pytest.raises(UsageError, match="levels"):
        LoadDesign((), 10, 10)
    with pytest.raises(UsageError, match="range is empty"):
        LoadDesign((1,), longest_prompt=3, longest_answer=1)
    with pytest.raises(UsageError, match="at least 1"):
        LoadDesign((1,), longest_prompt=9, longest_answer=0)
