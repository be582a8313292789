"""Who answers at a URL: model, context limit and cache of a vLLM server, from its public endpoints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import httpx

from rbx.errors import ServerError

TIMEOUT_S = 10.0
_SHOWN = 120  # characters of an unexpected answer
_MOST_DIGITS = 18  # of a count
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class ServerIdentity:
    """A server as it describes itself; None for what it does not tell."""

    url: str
    model: str
    max_model_len: int | None
    vllm_version: str | None
    block_size: int | None
    num_gpu_blocks: int | None


def identify(url: str, client: httpx.Client) -> ServerIdentity:
    """Ask ``/v1/models``, ``/metrics`` and ``/version``.

    Raises ``ServerError`` if ``url`` is none, nobody answers there or no model is served.
    """
    base = url.rstrip("/").removesuffix("/v1")
    models = _json(client, f"{base}/v1/models").get("data")
    if not (isinstance(models, list) and models and isinstance(models[0], dict) and "id" in models[0]):
        raise ServerError(f"{base}/v1/models lists no model; is this an OpenAI-compatible server?")
    labels = cache_labels(_text(client, f"{base}/metrics"))
    version = _json(client, f"{base}/version").get("version")
    return ServerIdentity(
        url=base,
        model=str(models[0]["id"]),
        max_model_len=_count(models[0].get("max_model_len")),
        vllm_version=str(version) if version else None,
        block_size=_count(labels.get("block_size")),
        num_gpu_blocks=_count(labels.get("num_gpu_blocks")),
    )


def cache_labels(metrics: str) -> dict[str, str]:
    """Labels of ``vllm:cache_config_info`` in a Prometheus text; empty without that line."""
    for line in metrics.splitlines():
        if line.startswith("vllm:cache_config_info{"):
            return dict(_LABEL.findall(line))
    return {}


def _count(value: Any) -> int | None:
    text = str(value)
    if not (text.isdecimal() and len(text) <= _MOST_DIGITS):
        return None
    return int(text) or None


def _json(client: httpx.Client, address: str) -> dict[str, Any]:
    found = _answer(client, address)
    if found.status_code != httpx.codes.OK:
        return {}
    document = json_object(found)
    if document is None:
        raise ServerError(
            f"{address}: the answer is not JSON: {shown_answer(found)}; give the address of an "
            "OpenAI-compatible server itself"
        )
    return document


def json_object(answer: httpx.Response) -> dict[str, Any] | None:
    """The JSON object of an answer, empty for other JSON, None for what is not JSON."""
    try:
        document = answer.json()
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else {}


def shown_answer(answer: httpx.Response) -> str:
    """Status and the beginning of the text of an answer, for a message."""
    text = answer.text
    return f"{answer.status_code} {text[:_SHOWN]!r}{' …' if len(text) > _SHOWN else ''}"


def _text(client: httpx.Client, address: str) -> str:
    found = _answer(client, address)
    return found.text if found.status_code == httpx.codes.OK else ""


def _answer(client: httpx.Client, address: str) -> httpx.Response:
    try:
        return client.get(address, timeout=TIMEOUT_S)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ServerError(
            f"{address!r} is no address: {error}; give the server's URL, such as http://127.0.0.1:8000"
        ) from None
    except httpx.HTTPError as error:
        raise ServerError(f"{address}: no answer: {error or type(error).__name__}") from None
