"""Everything that is refused, and how: OpenAI's shape, the path of the field, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbx.serve.gateway.request import MAX_BODY_BYTES
from tests.serve.gateway.serving import CHAT, Serving, serving

PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/estimate", "/v1/config")


@pytest.fixture(scope="module")
def place() -> Iterator[Serving]:
    with serving() as running:
        yield running


def refused(answer: httpx.Response, status: int, param: str | None = None, code: str | None = None) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("application/json")
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert "Traceback" not in answer.text
    assert "rbx/" not in answer.text
    if param is not None:
        assert error["param"] == param
    if code is not None:
        assert error["code"] == code
    return str(error["message"])


FAULTY: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "messages"),
    ({"messages": None}, "messages"),
    ({"messages": "hello"}, "messages"),
    ({"messages": [7]}, "messages[0]"),
    ({"messages": [{"content": "a"}]}, "messages[0].role"),
    ({"messages": [CHAT["messages"][0], {"role": "user", "content": 5}]}, "messages[1].content"),
    ({"messages": [{"role": "user", "content": [3]}]}, "messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
    ({"model": 3}, "model"),
    ({"n": 2}, "n"),
    ({"n": True}, "n"),
    ({"n": []}, "n"),
    ({"best_of": 3}, "best_of"),
    ({"stream": "yes"}, "stream"),
    ({"stream": True, "stream_options": 1}, "stream_options"),
    ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": 2**40}, "max_tokens"),
    ({"max_tokens": 2**63}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_tokens": True}, "max_tokens"),
    ({"max_completion_tokens": "9"}, "max_completion_tokens"),
    ({"rbx": 5}, "rbx"),
    ({"rbx": {"budget": 1}}, "rbx.budget"),
    ({"rbx": {"budget_usd": 0}}, "rbx.budget_usd"),
    ({"rbx": {"budget_usd": -0.1}}, "rbx.budget_usd"),
    ({"rbx": {"budget_usd": True}}, "rbx.budget_usd"),
    ({"rbx": {"slo_ttft_ms": "fast"}}, "rbx.slo_ttft_ms"),
    ({"rbx": {"weights": [1, 0]}}, "rbx.weights"),
    ({"rbx": {"weights": [0.5, 0.5, 0.5]}}, "rbx.weights"),
    ({"rbx": {"weights": [2, -1, 0]}}, "rbx.weights"),
    ({"rbx": {"weights": [1, "0", 0]}}, "rbx.weights[1]"),
    ({"rbx": {"weights": [1, 0, 0]}}, "x-rbx-weights"),  # the policy in force has none
]


@pytest.mark.parametrize(("changes", "param"), FAULTY, ids=[json.dumps(f[0])[:60] for f in FAULTY])
def test_a_faulty_field_is_named(place: Serving, changes: dict[str, Any], param: str) -> None:
    message = refused(place.chat(**changes), 400, param)
    assert param in message


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("x-rbx-budget-usd", "abc"),
        ("x-rbx-budget-usd", "nan"),
        ("x-rbx-budget-usd", "inf"),
        ("x-rbx-budget-usd", "0"),
        ("x-rbx-budget-usd", "1,2"),
        ("x-rbx-budget-usd", ""),
        ("x-rbx-budget-usd", "1_000"),
        ("x-rbx-budget-usd", "infinity"),
        ("x-rbx-budget-usd", "0x10"),
        ("x-rbx-budget-usd", "1e"),
        ("x-rbx-budget-usd", "."),
        ("x-rbx-budget-usd", b"\xb2"),
        ("x-slo-ttft-ms", "-5"),
        ("x-slo-e2e-ms", "1e999"),
        ("x-rbx-weights", "1,0"),
        ("x-rbx-weights", "nan,1,0"),
        ("x-rbx-weights", "0_1,1,0"),
    ],
)
def test_a_faulty_header_is_named(place: Serving, header: str, value: str | bytes) -> None:
    given = [(header.encode(), value.encode() if isinstance(value, str) else value)]
    refused(place.client.post("/v1/chat/completions", json=CHAT, headers=given), 400, header)


@pytest.mark.parametrize("value", ["1000", "1e3", "+1.5E+3", ".5", "5.", "007"])
def test_plain_and_scientific_numbers_pass(place: Serving, value: str) -> None:
    answer = place.chat({"x-rbx-budget-usd": value, "x-slo-e2e-ms": value})
    assert answer.status_code == 200
    assert answer.headers["x-rbx-budget-exhausted"] == "false"


@pytest.mark.parametrize("header", ["x-rbx-budget-usd", "X-SLO-TTFT-MS", "x-slo-e2e-ms", "x-rbx-weights"])
@pytest.mark.parametrize("path", ["chat/completions", "estimate"])
def test_a_header_given_twice_is_refused(place: Serving, header: str, path: str) -> None:
    twice = [(header, "1"), ("x-other", "a"), ("x-other", "b"), (header.lower(), "1")]
    message = refused(place.client.post(f"/v1/{path}", json=CHAT, headers=twice), 400, header.lower())
    assert "twice" in message


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (None, "prompt"),
        ("", "prompt"),
        ([], "prompt"),
        ({}, "prompt"),
        (["a", "b"], "prompt"),
        ([""], "prompt[0]"),
        ([[1], [2]], "prompt"),
        ([1, "a"], "prompt[1]"),
        ([1, True], "prompt[1]"),
    ],
)
def test_a_faulty_prompt_is_named(place: Serving, prompt: Any, param: str) -> None:
    refused(place.client.post("/v1/completions", json={"prompt": prompt}), 400, param)


def test_one_prompt_in_a_list_is_served(place: Serving) -> None:
    for prompt in (["a"], [1, 2, 3], [[1, 2, 3]]):
        assert place.client.post("/v1/completions", json={"prompt": prompt}).status_code == 200


def test_bodies_that_are_no_requests(place: Serving) -> None:
    for body in (b"", b"{", b"[]", b"3", b"\xff\xfe", b'{"a": NaN}', b'{"messages": "\\ud800"}', b"null"):
        for path in PATHS[:3]:
            refused(place.client.post(path, content=body), 400)
    deep = b'{"messages": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    refused(place.client.post(PATHS[0], content=deep), 400)
    nested = json.dumps({**CHAT, "x": json.loads("[" * 200 + "]" * 200)})
    refused(place.client.post(PATHS[0], content=nested), 400, code="too_deep")
    wide = json.dumps({**CHAT, "x": [[] for _ in range(5000)]})
    assert place.client.post(PATHS[0], content=wide).status_code == 200


def test_a_huge_body_is_413_whether_or_not_its_length_is_told(place: Serving) -> None:
    body = b" " * (MAX_BODY_BYTES + 1)
    refused(place.client.post(PATHS[0], content=body), 413)
    parts = (b" " * 2**20 for _ in range(MAX_BODY_BYTES // 2**20 + 1))
    refused(place.client.post(PATHS[0], content=parts), 413)
    place.settled()


def test_unknown_models_paths_and_methods(place: Serving) -> None:
    message = refused(place.chat(model="gpt-5"), 404, "model", "model_not_found")
    assert "tiny" in message
    refused(place.client.get("/v1/nothing"), 404, code="not_found")
    refused(place.client.get("/v1/chat/completions"), 405, code="method_not_allowed")
    refused(place.client.delete("/v1/config"), 405)


def test_a_prompt_that_fits_nowhere_names_the_limit(place: Serving) -> None:
    long = [{"role": "user", "content": "word " * 200_000}]
    message = refused(place.chat(messages=long), 400, "messages", "context_length_exceeded")
    assert "1024" in message
    refused(place.client.post("/v1/completions", json={"prompt": "x" * 4093}), 400, "prompt")
    assert place.client.post("/v1/completions", json={"prompt": "x" * 4092}).status_code == 200


SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=20)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
KEYS = st.sampled_from(
    ["model", "messages", "prompt", "stream", "stream_options", "max_tokens", "n", "rbx", "tools", "best_of",
     "min_tokens", "max_completion_tokens", "temperature"]
)  # fmt: skip
PART = st.fixed_dictionaries({"type": st.sampled_from(["text", "image_url"])}, optional={"text": ANYTHING})
MESSAGE = st.fixed_dictionaries(
    {"role": st.just("user") | ANYTHING, "content": st.text() | st.lists(PART, max_size=2) | ANYTHING}
)
BODY = st.dictionaries(KEYS, ANYTHING, max_size=6) | st.builds(
    lambda messages, rest: {**rest, "messages": messages, "prompt": "a"},
    st.lists(MESSAGE, max_size=3),
    st.dictionaries(KEYS, ANYTHING, max_size=3),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PATHS), body=BODY)
def test_no_body_makes_it_fail(place: Serving, path: str, body: dict[str, Any]) -> None:
    content = json.dumps(body).encode()
    send = place.client.put if path == "/v1/config" else place.client.post
    answer = send(path, content=content)
    assert answer.status_code in (200, 400, 404), (answer.status_code, answer.text)
    if answer.status_code != 200:
        refused(answer, answer.status_code)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PATHS), content=st.binary(max_size=200))
def test_no_bytes_make_it_fail(place: Serving, path: str, content: bytes) -> None:
    send = place.client.put if path == "/v1/config" else place.client.post
    refused(send(path, content=content), 400)
    place.settled()
