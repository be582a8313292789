"""Secrets in a spec are refused with their key, wherever they stand; harmless names are let be."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from rbx.config.labelling import Candidate, Generation, ProviderJudge
from rbx.config.secrets import secret_places

SECRET = "SECRETTOK"

SECRETS: dict[str, Any] = {
    "api_key": SECRET,
    "apikey": 12345,
    "hf_token": SECRET,
    "accessToken": SECRET,
    "azure_ad_token": SECRET,
    "client_secret": SECRET,
    "db_password": 12345,
    "a.default_headers.X-Auth": {"default_headers": {"X-Auth": SECRET}},
    "a.extra_headers.Authorization": {"extra_headers": {"Authorization": SECRET}},
    "a.headers.0.X-Api-Key": {"headers": [["X-Api-Key", SECRET]]},
    "a.0.1.token": [[1, {"token": SECRET}]],
    "a.headers.Cookie": {"headers": {"Cookie": SECRET}},
    "a.headers.X": {"headers": {"X": f"Bearer {SECRET}"}},
    "credentials": {"user": "me", "pass": SECRET},
    "auth": ["me", SECRET],
    "base_url": f"https://me:{SECRET}@host/v1",
    "endpoint": f"https://host/v1?api_key={SECRET}",
    "a.properties.api_key": {"properties": {"api_key": SECRET}},
}

HARMLESS: dict[str, Any] = {
    "max_tokens": 5,
    "max_completion_tokens": "5",
    "stop_token_ids": [1, 2],
    "token_ids": [3],
    "logprobs": 5,
    "top_k": 40,
    "tokenizer": "some/tokenizer",
    "tokenizer_mode": "auto",
    "skip_special_tokens": True,
    "eos_token": "</s>",
    "cost_per_input_token": 1e-6,
    "num_key_value_heads": 4,
    "prompt_cache_key": "mine",
    "author": "somebody",
    "keywords": ["a"],
    "api_key": None,
    "base_url": "http://host:8000/v1",
    "text": "write to me@example.com",
    "json_schema": {"properties": {"key": {"type": "string"}, "password": {"type": "string"}}},
}


@pytest.mark.parametrize(("place", "value"), SECRETS.items(), ids=SECRETS)
def test_a_secret_is_found_where_it_stands(place: str, value: Any) -> None:
    name = place.partition(".")[0]
    assert list(secret_places({"more": {name: value}})) == [f"more.{place}"]


@pytest.mark.parametrize(("name", "value"), HARMLESS.items(), ids=HARMLESS)
def test_harmless_names_pass(name: str, value: Any) -> None:
    data = {name: value}
    assert list(secret_places({"more": [data]})) == []
    assert Generation(extra={"more": [data]}).extra == {"more": [data]}


@pytest.mark.parametrize(
    ("model", "document", "key"),
    [
        (Generation, {"extra": {"api_key": SECRET}}, "api_key"),
        (Candidate, {"name": "m", "engine": {"hf_token": SECRET}}, "hf_token"),
        (
            ProviderJudge,
            {
                "kind": "deepeval",
                "name": "j",
                "provider": "openai",
                "model": "m",
                "options": {"default_headers": [{"X-Auth": SECRET}]},
            },
            "default_headers.0.X-Auth",
        ),
    ],
)
def test_every_free_mapping_of_a_spec_refuses_secrets(model: Any, document: Any, key: str) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(document)
    (fault,) = caught.value.errors()
    assert f"'{key}'" in fault["msg"]
    assert "environment variable" in fault["msg"]
    assert SECRET not in fault["msg"]
