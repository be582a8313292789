"""What a gateway and its scoring service say to each other: JSON, in which doubles keep every bit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import orjson

from rbx.serve.gateway.scoring.scorer import Foreseen

PATH = "/score"


class Served(NamedTuple):
    """What is foreseen of one prompt, (M,) each, and how long its call took, in seconds."""

    foreseen: Foreseen
    call_s: float


def question(text: str) -> bytes:
    """The body that asks about a prompt."""
    return orjson.dumps({"text": text.encode("utf-8", "replace").decode("utf-8")})


def read_question(body: bytes) -> str:
    """The prompt; raises ``ValueError`` where the body is no such question."""
    asked = orjson.loads(body)
    text = asked.get("text") if isinstance(asked, dict) else None
    if not isinstance(text, str):
        raise ValueError("the body must be an object with a text")
    return text


def answer(served: Served) -> bytes:
    """The body that answers."""
    named: dict[str, Any] = {name: row.tolist() for name, row in served.foreseen._asdict().items()}
    return orjson.dumps({**named, "call_s": served.call_s})


def read_answer(body: bytes, n_models: int) -> Served:
    """What was answered; raises ``ValueError`` where it does not hold."""
    told = orjson.loads(body)
    try:
        rows = [np.array(told[name], dtype=np.float64) for name in Foreseen._fields]
        call_s = float(told["call_s"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"malformed: {error}") from None
    if (
        any(row.shape != (n_models,) or not np.isfinite(row).all() for row in rows)
        or not 0 <= call_s < np.inf
    ):
        raise ValueError(f"no finite numbers for {n_models} models")
    return Served(Foreseen(*rows), call_s)
