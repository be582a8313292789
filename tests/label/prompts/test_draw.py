"""The draw depends on the texts and the seed: not on order, number or company."""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rbx.grid.split import is_train, prompt_id
from rbx.label.answer import Question
from rbx.label.prompts.draw import Draw
from tests.label.prompts.hub_layouts import collected, write_gsm8k


def question(number: int) -> Question:
    text = f"question {number}"
    return Question(prompt_id(text), text, "s", f"s/{number}", None, None, False, 3)


def drawn(
    numbers: list[int], n: int, seed: int = 1, source: str = "s", limit: int | None = None
) -> list[str]:
    draw = Draw(seed, source, limit)
    for number in numbers:
        draw.add(question(number))
    assert draw.available == len(numbers)
    return [each.question.prompt for each in draw.take(n)]


NUMBERS = st.sets(st.integers(0, 10_000), min_size=1, max_size=80).map(sorted)


@given(NUMBERS, st.integers(1, 80), st.randoms(use_true_random=False))
def test_order_does_not_matter(numbers: list[int], n: int, shuffled_by: random.Random) -> None:
    shuffled = list(numbers)
    shuffled_by.shuffle(shuffled)
    assert drawn(shuffled, n) == drawn(numbers, n)


@given(NUMBERS, st.integers(1, 40), st.integers(0, 40))
def test_a_larger_draw_begins_with_the_smaller(numbers: list[int], n: int, more: int) -> None:
    assert drawn(numbers, n + more)[:n] == drawn(numbers, n)


@given(NUMBERS, st.integers(1, 80))
def test_keeping_no_more_than_is_taken_changes_nothing(numbers: list[int], n: int) -> None:
    assert drawn(numbers, n, limit=n) == drawn(numbers, n)


@given(NUMBERS, st.integers(0, 10_000))
def test_a_row_more_takes_one_place_at_most(numbers: list[int], another: int) -> None:
    n = max(1, len(numbers) // 2)
    before, after = set(drawn(numbers, n)), set(drawn(sorted({*numbers, another}), n))
    assert len(before - after) <= 1


def test_seed_and_source_have_draws_of_their_own() -> None:
    numbers = list(range(1_000))
    draws = [set(drawn(numbers, 100, seed, source)) for seed in (0, 1, 2) for source in ("s", "t")]
    for first in range(len(draws)):
        for second in range(first):
            # Independent draws of 100 from 1,000 share 10 on average, standard deviation 2.8.
            assert len(draws[first] & draws[second]) < 30


def test_every_prompt_is_as_likely_as_any_other() -> None:
    times = [0] * 20
    for seed in range(2_000):
        for text in drawn(list(range(20)), 5, seed):
            times[int(text.split()[1])] += 1
    assert sum(times) == 10_000
    # 500 expected for each, standard deviation 19.4.
    assert all(400 < each < 600 for each in times), times


def test_collecting_more_from_shuffled_rows_holds_what_was_collected(tmp_path: Path) -> None:
    texts = [f"What is {n} + {n * n}?" for n in range(200)]
    shuffled = random.Random(3).sample(texts, len(texts))
    one = {"kind": "gsm8k", "path": str(write_gsm8k(tmp_path / "one", texts))}
    two = {"kind": "gsm8k", "path": str(write_gsm8k(tmp_path / "two", shuffled))}
    few = [question.prompt for question in collected(one, total=30).questions]
    many = [question.prompt for question in collected(two, total=90).questions]
    assert len(few) == 30
    assert many[:30] == few
    assert len(many) == len(set(many)) == 90


def test_another_source_beside_it_changes_no_draw(tmp_path: Path) -> None:
    here = write_gsm8k(tmp_path / "a", [f"What is {n} + 1?" for n in range(60)])
    there = write_gsm8k(tmp_path / "b", [f"What is {n} - 1?" for n in range(60)])
    first = {"kind": "gsm8k", "name": "first", "path": str(here)}
    second = {"kind": "gsm8k", "name": "second", "path": str(there)}
    alone = collected(first, total=20).questions
    beside = [each for each in collected(second, first, total=40).questions if each.source == "first"]
    assert list(alone) == beside


def test_about_80_percent_of_prompts_are_for_training(tmp_path: Path) -> None:
    folder = write_gsm8k(tmp_path, [f"What is {n} squared?" for n in range(5_000)])
    questions = collected({"kind": "gsm8k", "path": str(folder)}).questions
    train = sum(is_train(question.prompt_id) for question in questions)
    # 4,000 expected, standard deviation 28.
    assert 3_870 < train < 4_130
