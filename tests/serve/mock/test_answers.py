"""Answers as an OpenAI client reads them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from rbx.serve.mock.serving import MockTier, serve_mock
from rbx.serve.mock.wording import MEDIAN_TOKENS, natural_length, wording_seed
from tests.serve.mock.heard import chat, hear, hear_all
from tests.serve.mock.pools import small_pool


def post(url: str, path: str, body: Any, **headers: str) -> httpx.Response:
    return httpx.post(f"{url}{path}", json=body, headers=headers, timeout=20.0)


def test_a_plain_chat_answer(mock: MockTier) -> None:
    body = chat("x" * 39, max_tokens=7, rbx_output_tokens=50)
    found = post(mock.url("twin/0"), "/chat/completions", body).json()
    choice = found["choices"][0]
    assert (found["object"], found["model"]) == ("chat.completion", "small")
    assert choice["message"]["role"] == "assistant"
    assert len(choice["message"]["content"].split()) == 7
    assert choice["finish_reason"] == "length"
    assert found["usage"] == {"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17}


def test_a_stream_says_the_same_as_a_plain_answer_with_an_event_for_each_token(mock: MockTier) -> None:
    url = mock.url("twin/1")
    heard = hear(url, rbx_output_tokens=23, stream_options={"include_usage": True})
    plain = post(url, "/chat/completions", chat(rbx_output_tokens=23)).json()
    assert heard.text == plain["choices"][0]["message"]["content"]
    assert (len(heard.texts), heard.finish_reason, heard.done, heard.cut) == (23, "stop", True, None)
    assert heard.usage == [plain["usage"]]
    assert plain["usage"]["completion_tokens"] == 23


def test_without_include_usage_a_stream_has_none_and_with_continuous_stats_always(mock: MockTier) -> None:
    url = mock.url("twin/0")
    assert hear(url, rbx_output_tokens=4).usage == []
    options = {"include_usage": True, "continuous_usage_stats": True}
    counted = [
        each["completion_tokens"] for each in hear(url, rbx_output_tokens=4, stream_options=options).usage
    ]
    assert counted == [1, 2, 3, 4, 4]


def test_completions_of_text_and_of_token_ids(mock: MockTier) -> None:
    url = mock.url("alone/0")
    found = post(url, "/completions", {"prompt": "one two", "rbx_output_tokens": 99}).json()
    assert (found["object"], found["model"]) == ("text_completion", "large")
    assert (len(found["choices"][0]["text"].split()), found["choices"][0]["finish_reason"]) == (16, "length")
    ids = post(url, "/completions", {"prompt": [5, 6, 7], "max_tokens": 2}).json()
    assert ids["usage"]["prompt_tokens"] == 3
    one = post(url, "/completions", {"prompt": ["one two"], "rbx_output_tokens": 99}).json()
    assert one["choices"] == found["choices"]


def test_length_and_text_follow_from_prompt_model_and_seed(mock: MockTier) -> None:
    first, again, other_model, other_prompt = hear_all(
        [
            (mock.url("twin/0"), {"content": "Tell me"}),
            (mock.url("twin/1"), {"content": "Tell me"}),
            (mock.url("alone/0"), {"content": "Tell me"}),
            (mock.url("twin/0"), {"content": "Tell me."}),
        ]
    )
    assert first.texts == again.texts
    assert len(first.texts) == natural_length(wording_seed("small", "Tell me", 3))
    assert first.texts[:5] != other_model.texts[:5]
    assert first.texts[:5] != other_prompt.texts[:5]


def test_natural_lengths_are_spread_around_their_median() -> None:
    lengths = sorted(natural_length(wording_seed("m", f"prompt {k}", 0)) for k in range(4001))
    assert lengths[2000] == pytest.approx(MEDIAN_TOKENS, rel=0.1)
    assert lengths[640] == pytest.approx(67, rel=0.1)
    assert lengths[3360] == pytest.approx(334, rel=0.1)


@pytest.mark.parametrize(
    ("asked", "tokens", "reason"),
    [
        ({"rbx_output_tokens": 9, "max_tokens": 9}, 9, "stop"),
        ({"rbx_output_tokens": 9, "max_tokens": 8}, 8, "length"),
        ({"rbx_output_tokens": 9, "max_completion_tokens": 3, "max_tokens": 8}, 3, "length"),
        ({"ignore_eos": True, "max_tokens": 12}, 12, "length"),
        ({"min_tokens": 3000, "max_tokens": 4000}, 3000, "stop"),
        ({"rbx_prompt_tokens": 4090, "rbx_output_tokens": 100}, 6, "length"),
    ],
)
def test_what_ends_an_answer(mock: MockTier, asked: dict[str, Any], tokens: int, reason: str) -> None:
    heard = hear(mock.url("twin/0"), **asked)
    assert (len(heard.texts), heard.finish_reason) == (tokens, reason)


def test_fields_that_are_null_count_as_absent(mock: MockTier) -> None:
    names = ("stream", "stream_options", "max_tokens", "min_tokens", "ignore_eos", "n", "model", "tools")
    body = chat(rbx_output_tokens=4) | dict.fromkeys(names)
    found = post(mock.url("twin/0"), "/chat/completions", body).json()
    assert found["usage"]["completion_tokens"] == 4


def test_headers_tell_tokens_too(mock: MockTier) -> None:
    told = {"x-rbx-prompt-tokens": "77", "x-rbx-output-tokens": "5"}
    found = post(mock.url("twin/0"), "/chat/completions", chat(), **told).json()
    assert found["usage"] == {"prompt_tokens": 77, "completion_tokens": 5, "total_tokens": 82}


def test_the_requests_own_id_is_kept(mock: MockTier) -> None:
    found = post(mock.url("twin/0"), "/chat/completions", chat(max_tokens=1), **{"x-request-id": "mine"})
    assert found.json()["id"] == "chatcmpl-mine"


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/chat/completions", {}, 400, "messages"),
        ("/chat/completions", {"messages": []}, 400, "messages"),
        ("/chat/completions", chat(max_tokens=0), 400, "max_tokens"),
        ("/chat/completions", chat(max_tokens="5"), 400, "max_tokens"),
        ("/chat/completions", chat(rbx_prompt_tokens=4096), 400, "maximum context length is 4096"),
        ("/chat/completions", chat(max_tokens=4096), 400, "too large"),
        ("/chat/completions", chat(n=2), 400, "n must be 1"),
        ("/chat/completions", chat(model="other"), 404, "`other` does not exist"),
        ("/chat/completions", [1], 400, "JSON object"),
        ("/completions", {}, 400, "prompt"),
        ("/completions", {"prompt": []}, 400, "prompt"),
        ("/completions", {"prompt": ["a", "b"]}, 400, "one text"),
    ],
)
def test_what_is_refused(mock: MockTier, path: str, body: Any, status: int, said: str) -> None:
    answer = post(mock.url("twin/0"), path, body)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert said in error["message"]
    assert error["code"] == status
    assert mock.sight()["twin/0"].running == 0


def test_a_body_that_is_no_json_or_a_header_that_is_no_number(mock: MockTier) -> None:
    url = mock.url("twin/0")
    broken = httpx.post(f"{url}/chat/completions", content=b'{"messages": [')
    assert (broken.status_code, "not JSON" in broken.json()["error"]["message"]) == (400, True)
    odd = post(url, "/chat/completions", chat(), **{"x-rbx-output-tokens": "many"})
    assert (odd.status_code, odd.json()["error"]["param"]) == (400, "rbx_output_tokens")


def test_models_health_and_version(mock: MockTier) -> None:
    base = mock.url("alone/0")
    entry = httpx.get(f"{base}/models").json()["data"][0]
    assert (entry["id"], entry["max_model_len"]) == ("large", 4096)
    assert httpx.get(f"{base[:-3]}/health").status_code == 200
    told = httpx.get(f"{base[:-3]}/version").json()
    assert told == {"version": "0.32.0", "rbx_mock": {"time_scale": 10.0}}  # nobody takes it for a real one


def test_everything_asked_at_once_is_answered_in_full() -> None:
    with serve_mock(small_pool(max_num_seqs=512), time_scale=20.0) as tier:
        names = ["twin/0", "twin/1"]
        asked = [
            (tier.url(names[k % 2]), {"rbx_output_tokens": 1 + k % 37, "content": f"{k}"}) for k in range(200)
        ]
        heard = hear_all(asked, timeout_s=60.0)
        assert [len(each.texts) for each in heard] == [1 + k % 37 for k in range(200)]
        assert all(each.done for each in heard)
        seen = tier.sight()
        assert [seen[name].received for name in names] == [100, 100]
        assert all(each.running == each.waiting == 0 for each in seen.values())
        assert all(each.free_blocks == each.total_blocks for each in seen.values())


def test_whoever_answers_takes_the_length_told_for_its_model(mock: MockTier) -> None:
    url = mock.url("twin/0")
    told = {"small": 5, "another": 9}
    usage = post(url, "/chat/completions", chat(rbx_output_tokens_by_model=told)).json()["usage"]
    assert usage["completion_tokens"] == 5
    refused = post(url, "/chat/completions", chat(rbx_output_tokens_by_model={"small": 0}))
    assert refused.status_code == 400
