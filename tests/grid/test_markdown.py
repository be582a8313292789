"""Text from models and data sets shows in a card as it is, and does nothing."""

from __future__ import annotations

import html
import re

from hypothesis import given
from hypothesis import strategies as st

from rbx.grid.markdown import bullets, escaped, table


@given(st.text(max_size=60))
def test_nothing_is_lost_and_nothing_is_left_bare(text: str) -> None:
    shown = escaped(text)
    assert "\n" not in shown
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]|~$#]", shown.replace("&#", ""))
    assert not set("<>@") & set(shown)
    plain = html.unescape(re.sub(r"\\([\\`*_\[\]|~$#])", r"\1", shown))
    if text.isprintable():
        assert plain == " ".join(text.split())


def test_markup_links_and_control_characters_do_nothing() -> None:
    assert escaped("<script>") == "&lt;script&gt;"
    assert escaped("[x](http://evil.example) | y") == r"\[x\](http:&#47;&#47;evil.example) \| y"
    assert escaped("www.evil.example") == "www&#46;evil.example"
    assert escaped("a\x1b[2Jb\x00") == r"a\\x1b\[2Jb\\x00"
    assert escaped("one\n# two") == r"one \# two"


def test_nested_values_are_nested_lists() -> None:
    lines = list(bullets({"a": {"b": 1, "c": ["x", "y"]}, "d": "*"}))
    assert lines == ["- a:\n", "  - b: 1\n", "  - c:\n", "    - 1: x\n", "    - 2: y\n", "- d: \\*\n"]


def test_a_table_has_its_rule() -> None:
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"
