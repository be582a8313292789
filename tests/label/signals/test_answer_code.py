"""Which part of an answer is its Python code."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.label.signals.answer_code import python_source


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        ("x = 1", "x = 1"),
        ("Here:\n```python\nx = 1\n```\nDone.", "x = 1"),
        ("```\nx = 1\n```", "x = 1"),
        ("```bash\npip install x\n```\n```py\nx = 1\n```\n```python\nx = 2\n```", "x = 1"),
        ("```js\nlet x\n```\n```\nx = 1\n```", "let x"),  # none says Python: the first
        ("~~~Python\nx = 1\n~~~", "x = 1"),
        ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''"),
        ("```python\r\nx = 1\r\ny = 2\r\n```\r\n", "x = 1\ny = 2"),
        ("1. So:\n   ```python\n   if x:\n       y()\n   ```", "if x:\n    y()"),
        ("```python {.line-numbers}\nx = 1\n```", "x = 1"),
        ("```python\ndef f():\n    return 1", "def f():\n    return 1"),  # cut off
        ("Use ```inline``` marks", "Use ```inline``` marks"),
        ("```python\n```", ""),
    ],
)
def test_the_source_of_an_answer(answer: str, source: str) -> None:
    assert python_source(answer) == source


@settings(deadline=None)
@given(st.lists(st.sampled_from(["```", "```python", "~~~", "x = 1", "", "  y"]), max_size=12))
def test_a_source_is_made_of_the_answers_own_lines(lines: list[str]) -> None:
    source = python_source("\n".join(lines))
    assert {line.strip() for line in source.split("\n")} <= {line.strip() for line in lines} | {""}


def test_a_fence_is_told_in_time_linear_in_its_line() -> None:
    for line in ("```" + " " * 2_000_000 + "`", "~" * 2_000_000 + "`", "> " * 1_000_000 + "``x"):
        assert python_source(line) == line


def test_fences_with_spaces_words_and_marks_of_other_lengths() -> None:
    assert python_source(" > ````  Python title='x'\na\n```\nb\n  `````  \nc") == "a\n```\nb"
    assert python_source("```a``` x") == "```a``` x"
    assert python_source("~~~py\nx = '```'\n~~~") == "x = '```'"
