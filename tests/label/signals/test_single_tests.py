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
        except Exception:  # a test fails by whatever its statement raises
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


def test_many_tests_take_time_and_space_in_their_length() -> None:
    tests = "\n".join(f"x{n} = f({n})\nassert x{n} == {2 * n}" for n in range(3000))
    singles = single_tests(tests)
    assert len(singles) == 3000
    assert single_tests(tests) is singles  # the next model's answer finds them taken apart
    assert singles[1].program.split() == ["x0", "=", "f(0)", "x1", "=", "f(1)", "assert", "x1", "==", "2"]
    assert sum(len(single.own) for single in singles) < len(tests)
    assert singles[0].shared is singles[-1].shared


@pytest.mark.parametrize("deep", ["assert " + "-" * 50_000 + "1", "assert " + "+".join(["1"] * 20_000)])
def test_no_depth_of_nesting_is_another_error(deep: str) -> None:
    with pytest.raises(ValueError, match=r"too deeply|not Python"):
        single_tests(deep)


def test_statements_keep_their_meaning_one_by_one() -> None:
    tests = (
        "from __future__ import annotations\n'''first'''\nclass A:\n    def g(self):\n        return f(1)\n\n"
        "def test_a():\n    '''doc'''\n    assert A().g() == 2\n\nif True:\n    y = 3\nassert f(y) == 6\n"
    )
    assert failures(tests, f=double) == [False, False]
