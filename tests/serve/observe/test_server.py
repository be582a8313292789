"""What a server tells about itself."""

from __future__ import annotations

import httpx
import pytest

from rbx.errors import ServerError
from rbx.serve.observe.server import ServerIdentity, cache_labels, identify
from tests.serve.observe.servers import fake_server


def test_model_context_and_cache_come_from_the_public_endpoints() -> None:
    with fake_server() as fake, httpx.Client() as client:
        expected = ServerIdentity(fake.url, "tiny", 128, "0.32.0", 16, 41)
        assert identify(fake.url, client) == expected
        assert identify(f"{fake.url}/v1/", client) == expected
        fake.metrics, fake.models = "", [{"id": "tiny"}]
        assert identify(fake.url, client) == ServerIdentity(fake.url, "tiny", None, "0.32.0", None, None)


def test_a_server_without_models_is_refused() -> None:
    with fake_server() as fake, httpx.Client() as client:
        fake.models = []
        with pytest.raises(ServerError, match="lists no model"):
            identify(fake.url, client)


def test_nobody_there_is_said_with_the_address() -> None:
    with httpx.Client() as client, pytest.raises(ServerError, match=r"127\.0\.0\.1:9/v1/models: no answer"):
        identify("http://127.0.0.1:9", client)


@pytest.mark.parametrize(
    "url",
    ["http://a\x00b", "http://127.0.0.1:8\x7f", "http://[::1", "http://\ud800", f"http://{'a' * 300}.de"],
)
def test_what_is_no_address_is_said(url: str) -> None:
    with (
        httpx.Client() as client,
        pytest.raises(ServerError, match=r"is no address.*such as http://") as refusal,
    ):
        identify(url, client)
    assert repr(url)[1:-1] in str(refusal.value)


@pytest.mark.parametrize("path", ["/v1/models", "/version"])
@pytest.mark.parametrize("content", [b"[" * 200_000, b"<html>", b"", b"\xff\xfe", b"9" * 5000])
def test_an_answer_that_is_not_json_is_shown(path: str, content: bytes) -> None:
    with fake_server() as fake, httpx.Client() as client:
        fake.answers[path] = (200, content)
        with pytest.raises(ServerError, match=f"{fake.url}{path}: the answer is not JSON: 200 ") as refusal:
            identify(fake.url, client)
    assert len(str(refusal.value)) < 500


def test_counts_without_end_are_not_known() -> None:
    with fake_server() as fake, httpx.Client() as client:
        fake.models = [{"id": "tiny", "max_model_len": "9" * 5000}]
        assert identify(fake.url, client).max_model_len is None


def test_labels_may_hold_commas_and_escaped_quotes() -> None:
    line = 'vllm:cache_config_info{a="1,2",b="x\\"y",num_gpu_blocks="None"} 1.0'
    assert cache_labels(line) == {"a": "1,2", "b": 'x\\"y', "num_gpu_blocks": "None"}
