"""One question to the classification API of vLLM's Semantic Router, and its answer checked.

``POST /api/v1/classify/batch`` with ``{"texts": [...], "task_type": "intent"}`` answers with one
``{"category", "confidence"}`` a text under ``results`` (the service's API reference, v0.4). Batches above its
``max_batch_size``, 100 by default, are refused there.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import httpx

from rbx.config.classifier_service import ClassifierService
from rbx.config.endpoint import environment_key
from rbx.errors import ServerError
from rbx.label.redaction import Redaction

PATH = "/api/v1/classify/batch"
MOST_TEXTS = 32  # of a call; the service takes some 0.1 s a text on CPUs
MOST_BYTES = 1 << 20  # of an answer
LONGEST_NAME = 200
SHOWN = 200  # characters of a refusal


class Classified(NamedTuple):
    """The category of a prompt, and the service's confidence in it, in [0, 1]."""

    category: str
    confidence: float


def classify(service: ClassifierService, texts: Sequence[str]) -> list[Classified]:
    """The category of each text, asked in calls of ``MOST_TEXTS``.

    Raises ``ServerError`` where any of them is not answered in time, or not as documented: nothing is
    assumed in the place of an answer. ``ConfigError`` where its key is not in the environment.
    """
    key = environment_key(service.url, service.api_key_env)
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    redaction = Redaction([key or ""])
    found: list[Classified] = []
    with httpx.Client(headers=headers, trust_env=False) as client:
        for start in range(0, len(texts), MOST_TEXTS):
            part = texts[start : start + MOST_TEXTS]
            found += _read(service.url, _asked(client, service, part, redaction), len(part))
    return found


def _asked(
    client: httpx.Client, service: ClassifierService, texts: Sequence[str], redaction: Redaction
) -> bytes:
    """The body of one answer; httpx bounds each wait, the deadline here all of them together.

    A service may quote the request's headers: ``redaction`` takes the key out of its words.
    """
    within_s = service.timeout_s * len(texts)
    late = f"classifier {service.url} did not answer {len(texts)} prompts within {within_s:g} s"
    until_s = time.monotonic() + within_s
    body = b""
    question = {"texts": list(texts), "task_type": "intent"}
    try:
        with client.stream("POST", service.url + PATH, json=question, timeout=within_s) as answer:
            for piece in answer.iter_bytes():
                body += piece
                if len(body) > MOST_BYTES:
                    raise ServerError(f"classifier {service.url}: an answer of more than {MOST_BYTES} bytes")
                if time.monotonic() > until_s:
                    raise ServerError(late)
    except httpx.TimeoutException:
        raise ServerError(late) from None
    except httpx.HTTPError as error:
        raise ServerError(
            f"classifier {service.url} can't be reached: {type(error).__name__}; is vllm-sr running there?"
        ) from None
    if answer.status_code != 200:
        said = redaction.message(_refusal(body))[:SHOWN]
        raise ServerError(f"classifier {service.url}: HTTP {answer.status_code}: {said}")
    return body


def _read(url: str, body: bytes, n: int) -> list[Classified]:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise ServerError(f"classifier {url}: no JSON came back; is it vllm-sr's API (port 8080)?") from None
    results = data.get("results") if isinstance(data, dict) else None
    if not isinstance(results, list) or len(results) != n:
        told = f"{len(results)} results" if isinstance(results, list) else "no list of results"
        raise ServerError(f"classifier {url}: {told} for {n} prompts")
    return [_classified(url, result) for result in results]


def _classified(url: str, result: Any) -> Classified:
    category = result.get("category") if isinstance(result, dict) else None
    confidence = result.get("confidence") if isinstance(result, dict) else None
    if not isinstance(category, str) or not 0 < len(category) <= LONGEST_NAME:
        raise ServerError(f"classifier {url}: a result without a category")
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)):
        confidence = math.nan
    if not 0.0 <= confidence <= 1.0:  # nor of NaN
        raise ServerError(f"classifier {url}: a confidence that is no number from 0 to 1")
    return Classified(category, float(confidence))


def _refusal(body: bytes) -> str:
    """The service's own words, without what may steer a terminal."""
    text = body.decode("utf-8", errors="replace")
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        text = str(json.loads(text)["error"]["message"])
    return "".join(letter if letter.isprintable() else " " for letter in text)
