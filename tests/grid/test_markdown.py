"""Text from models and data sets shows in a card as it is, and does nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from rbx.grid.markdown import bullets, escaped, table


def rendered(source: str) -> str:
    """The text that a reader sees; raises where anything but text was made of it."""
    (inline,) = MarkdownIt("commonmark").enable(["strikethrough"]).parseInline(source)
    kinds = {token.type for token in inline.children or ()}
    assert kinds <= {"text", "text_special"}, kinds
    return "".join(token.content for token in inline.children or ())


@given(st.text(max_size=60) | st.text("\\\\`*_[]()|~$#<>&@:/w.! a1;", max_size=30))
def test_a_renderer_shows_the_text_and_makes_nothing_of_it(text: str) -> None:
    line = " ".join(text.split())
    shown = escaped(text)
    assert "\n" not in shown
    assert "|" not in shown.replace("\\|", "")
    expected = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    assert rendered(shown) == expected


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
