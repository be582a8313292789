"""Addresses of servers: what is refused, and that no refusal shows a password."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import Field

from rbx.config.base import StrictModel, load
from rbx.config.endpoint import Endpoint
from rbx.errors import ConfigError


class Spec(StrictModel):
    endpoint: Endpoint
    path: Path | None = None
    extra: dict[str, object] = Field(default_factory=dict)


def read(tmp_path: Path, text: str) -> Spec:
    file = tmp_path / "s.yaml"
    file.write_text(text, encoding="utf-8")
    return load(Spec, file).value


REFUSED = [
    "http://a..b/v1",
    f"http://{'a' * 80}.x/v1",
    "http://exa mple/v1",
    "http://[::1/v1",
    "http://127.0.0.1%00/v1",
    "http://h:99999/v1",
    "http://h:abc/v1",
    "http://h:0/v1",
    "ftp://u:SECRETPW@h/v1",
    "http://u:SECRETPW@h/v1",
    "http://:SECRETPW@h/v1",
    "http://u:SECRETPW@\u2100.x/v1",
    "u:SECRETPW@h",
    "ftp://h/v1?api_key=SECRETPW",
    "http://h/v1?api_key=SECRETPW",
]


@pytest.mark.parametrize("url", REFUSED)
def test_no_address_is_refused_with_its_key(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match=r"endpoint\.url: ") as caught:
        read(tmp_path, f"endpoint: {{url: '{url}'}}")
    assert "SECRETPW" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://h_1.x:8000/v1", "https://[::1]:8000", "http://b\u00fccher.example/v1"]
)
def test_addresses_pass(tmp_path: Path, url: str) -> None:
    assert read(tmp_path, f"endpoint: {{url: '{url}'}}").endpoint.url == url


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('path: "a\\0b"', "path"),
        ('path: "a\\uD800b"', "path"),
        ('extra: {a: [1, {b: "\\uD800"}]}', "extra.a.1.b"),
        ('extra: {"k\\0": 1}', "extra.k"),
    ],
)
def test_text_that_nothing_can_carry_is_refused_with_its_key(tmp_path: Path, line: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, f"endpoint: {{url: 'http://h/v1'}}\n{line}\n")
    assert f"{key}" in str(caught.value)
    assert "surrogate" in str(caught.value)
    str(caught.value).encode()
