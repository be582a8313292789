"""A prompt's tests taken apart."""

from __future__ import annotations

import pytest

from rbx.label.signals.single_tests import single_tests


def failures(tests: str, **names: object) -> list[bool]:
    """Whether each single test fails when it is run with these names."""
    found = []
    for single in single_tests(tests):
        try:
            exec(single.program, dict(names))
        except Exception:
            found.append(True)
        else:
            found.append(False)
    return found


def double(x: int) -> int:
    return 2 * x


def test_each_assert_counts_on_its_own() -> None:
    tests = "assert f(1) == 2\nassert f(1) == 3\nassert f(2) == 4"
    assert failures(tests, f=double) == [False, True, False]
    assert [single.line for single in single_tests(tests)] == [1, 2, 3]


def test_statements_between_asserts_run_up_to_the_assert_and_no_further() -> None:
    tests = "x = f(1)\nassert x == 2\nx = f(x)\nassert x == 4\nraise ValueError"
    assert failures(tests, f=double) == [False, False]


def test_functions_are_called_after_all_else_and_apart() -> None:
    tests = (
        "def test_one():\n    assert f(1) == TWO\n"
        "def test_two():\n    assert f(1) == 3\n"
        "def helper():\n    assert False\n"
        "def test_three(x=5):\n    assert f(x) == 10\n"
        "TWO = 2\n"
    )
    assert failures(tests, f=double) == [False, True, False]


def test_loops_and_blocks_that_assert_count_as_one() -> None:
    tests = "for x in (1, 2):\n    assert f(x) == 2 * x\nif f(1) == 2:\n    assert f(0) == 1\nassert True"
    assert failures(tests, f=double) == [False, True, False]


def test_a_call_alone_is_one_test() -> None:
    tests = "def check(candidate):\n    assert candidate(1) == {}\n\ncheck(f)\n"
    assert failures(tests.format(2), f=double) == [False]
    assert failures(tests.format(3), f=double) == [True]


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        ("assert f(", "not Python: line 1"),
        ("x = 1\nassert = 3", "not Python: line 2"),
        ("a\x00b", "not Python"),
        ("(" * 5000, "not Python|nested too deeply"),
        ("f = " + "-" * 100_000 + "1", "nested too deeply|not Python"),
        ("x = 1", "no assert, no test_ function and no call"),
        ("def check(f):\n    assert f(1)", "no assert"),  # never called, so it could not fail
        ("def test_one(tmp_path):\n    assert 1", "test_one needs arguments"),
        ("def test_one(*, x):\n    assert 1", "test_one needs arguments"),
        ("async def test_one():\n    assert 0", "test_one is asynchronous"),
        ("import unittest\nclass T(unittest.TestCase):\n    pass\nassert True", "T is a unittest class"),
        ("# nothing", "no assert"),
    ],
)
def test_what_can_not_be_counted_is_refused(tests: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        single_tests(tests)
