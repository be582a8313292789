"""What chunks of many servers mean, and how many tokens they are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.load.completion_chunk import ChunkError, CompletionChunk, Delta, TokenTally, read_chunk


def chat(delta: dict[str, Any] | None = None, *, choice: int = 0, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": choice, "delta": {} if delta is None else delta}], **more}


def chunk(document: Any) -> CompletionChunk:
    found = read_chunk(json.dumps(document).encode())
    assert found is not None
    return found


def tokens(*documents: dict[str, Any]) -> list[int]:
    tally = TokenTally()
    return [tally.new_tokens(chunk(document)) for document in documents]


def counted(output: Any) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": 9, "completion_tokens": output}}


@pytest.mark.parametrize(
    ("document", "delta"),
    [
        (chat({"role": "assistant"}), Delta(0)),
        (chat({"role": "assistant", "content": ""}), Delta(0)),
        (chat({"role": "assistant", "content": None}), Delta(0)),
        (chat({"content": "a"}), Delta(0, "a")),
        (chat({"reasoning_content": "r"}), Delta(0, "", "r")),
        (chat({"reasoning": "r", "content": None}), Delta(0, "", "r")),
        (chat({"refusal": "no"}), Delta(0, "no")),
        (chat({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}), Delta(0, calls=True)),
        (chat({"tool_calls": []}), Delta(0)),
        (chat({"content": "a"}, choice=2), Delta(2, "a")),
        (
            {"choices": [{"index": 0, "text": "a", "finish_reason": "length"}]},
            Delta(0, "a", "", False, "length"),
        ),
        (
            {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]},
            Delta(0, "a", "", False, "stop"),
        ),
        (chat({"content": 5, "reasoning": ["x"]}, choice=0), Delta(0)),
        ({"choices": [{"index": "x", "delta": "y", "finish_reason": 3}]}, Delta(0)),
    ],
)
def test_what_a_choice_says(document: dict[str, Any], delta: Delta) -> None:
    assert chunk(document).deltas == (delta,)
    assert delta.is_output == bool(delta.content or delta.reasoning or delta.calls)


@pytest.mark.parametrize(
    ("document", "input_tokens", "output_tokens"),
    [
        ({"choices": [], **counted(5)}, 9, 5),
        ({"choices": [], "usage": None}, None, None),
        ({"choices": []}, None, None),
        ({"usage": {"prompt_tokens": -1, "completion_tokens": 1.5}}, None, None),
        ({"usage": {"prompt_tokens": True, "completion_tokens": "7"}}, None, None),
        ({"usage": {"prompt_tokens": 0, "completion_tokens": 2**31}}, 0, None),
        ({"usage": [1]}, None, None),
    ],
)
def test_counts_are_believed_only_where_they_can_be_true(
    document: dict[str, Any], input_tokens: int | None, output_tokens: int | None
) -> None:
    found = chunk(document)
    assert (found.input_tokens, found.output_tokens) == (input_tokens, output_tokens)


@pytest.mark.parametrize(
    ("details", "cached"),
    [
        ({"cached_tokens": 4}, 4),
        ({"cached_tokens": 0}, 0),
        ({"cached_tokens": -1}, None),
        ({}, None),
        (4, None),
    ],
)
def test_what_the_prefix_cache_held(details: Any, cached: int | None) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": details}
    assert chunk({"choices": [], "usage": usage}).cached_tokens == cached
    assert chunk({"choices": [], **counted(1)}).cached_tokens is None


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ({"message": "dead", "code": 500}, ChunkError("dead", 500)),
        ({"message": "dead", "code": "internal"}, ChunkError("dead")),
        ("dead", ChunkError("dead")),
        ({"why": "dead"}, ChunkError("{'why': 'dead'}")),
    ],
)
def test_errors(error: Any, told: ChunkError) -> None:
    assert chunk({"error": error}).error == told
    assert chunk({"choices": [], "error": None}).error is None


def test_vllms_older_error_object_is_an_error() -> None:
    told = {"object": "error", "message": "dead", "type": "InternalServerError", "param": None, "code": 500}
    assert chunk(told).error == chunk({**told, "error": None}).error == ChunkError("dead", 500)
    assert chunk({"object": "chat.completion", "message": "dead"}).error is None


@pytest.mark.parametrize("data", [b"", b"{", b"5", b"null", b"[]", b'"x"', b"[DONE]", b"[" * 100_000])
def test_what_is_no_object(data: bytes) -> None:
    assert read_chunk(data) is None


def test_half_a_character_costs_that_character_only() -> None:
    half_pair = read_chunk(b'{"choices":[{"index":0,"delta":{"content":"a\\ud83d"}}]}')
    half_utf8 = read_chunk(b'{"choices":[{"index":0,"delta":{"content":"a\xf0\x9f"}}]}')
    assert half_pair is not None
    assert half_utf8 is not None
    assert half_pair.deltas[0].content[0] == half_utf8.deltas[0].content[0] == "a"
    assert half_pair.deltas[0].is_output


@pytest.mark.parametrize("chunks", [1, 6, 24])
def test_24_tokens_are_24_in_any_number_of_chunks_where_the_server_counts(chunks: int) -> None:
    each = 24 // chunks
    sent = [chat({"content": "x" * each}, **counted(each * (number + 1))) for number in range(chunks)]
    assert tokens(chat({"role": "assistant"}, **counted(0)), *sent) == [0] + [each] * chunks


def test_without_counts_a_piece_with_text_is_one() -> None:
    last = {"choices": [], **counted(24)}
    assert tokens(chat({"role": "assistant"}), chat({"content": "a"}), chat(), last) == [0, 1, 0, 0]


def test_text_that_was_held_back_comes_with_all_its_tokens() -> None:
    held = chat({"content": ""}, **counted(2))
    assert tokens(chat({"content": "a"}, **counted(1)), held, chat({"content": "b"}, **counted(3))) == [
        1,
        0,
        2,
    ]


def test_a_count_that_stands_still_does_not_hide_text() -> None:
    wrong = chat({"content": "a"}, **counted(0))
    assert tokens(wrong, wrong, wrong) == [1, 1, 1]


def test_choices_are_counted_apart() -> None:
    def of(choice: int, count: int) -> dict[str, Any]:
        return chat({"content": "a"}, choice=choice, **counted(count))

    assert tokens(of(0, 1), of(1, 1), of(1, 3), of(0, 2)) == [1, 1, 2, 1]
    both = {"choices": [{"index": 0, "text": "a"}, {"index": 1, "text": "b"}]}
    assert tokens(both) == [2]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "message",
                    "text",
                    "index",
                    "usage",
                    "error",
                    "content",
                    "completion_tokens",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.lists(JSON, max_size=5))
def test_no_document_breaks_the_reader(documents: list[Any]) -> None:
    tally = TokenTally()
    for document in documents:
        found = read_chunk(json.dumps(document).encode())
        assert (found is not None) == isinstance(document, dict)
        if found is not None:
            assert (tally.new_tokens(found) > 0) == any(delta.is_output for delta in found.deltas)
            tally.risen(found)
