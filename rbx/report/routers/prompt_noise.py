"""Prompts as people also write them: mistyped, in another case, padded, and asked in other words around.

Each noise is a function of the text and a seed alone, whatever else is changed with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

Kind = Literal["typos", "case", "padding", "paraphrase"]


@dataclass(frozen=True)
class Noise:
    """``change`` makes the noisy text of a text; ``name`` tells noises apart."""

    name: str
    kind: Kind
    change: Callable[[str, np.random.Generator], str]

    def __call__(self, text: str, seed: int) -> str:
        """The text with this noise; the same for the same text and seed."""
        identity = hashlib.sha256(f"{self.name}\0{text}".encode("utf-8", "surrogatepass")).digest()
        return self.change(text, np.random.default_rng([seed, int.from_bytes(identity[:8], "big")]))


def mistyped(text: str, rng: np.random.Generator, *, rate: float) -> str:
    """Each letter or digit is, with probability ``rate``, swapped with the next, dropped, or doubled."""
    strikes, ways = rng.random(len(text)), rng.integers(0, 3, len(text))
    out: list[str] = []
    at = 0
    while at < len(text):
        sign = text[at]
        if not sign.isalnum() or strikes[at] >= rate:
            out.append(sign)
        elif ways[at] == 0 and at + 1 < len(text):
            out += [text[at + 1], sign]
            at += 1
        elif ways[at] == 1:
            pass
        else:
            out += [sign, sign]
        at += 1
    return "".join(out) or text  # a prompt never ends up empty


def _around(text: str, rng: np.random.Generator, *, before: str = "", after: str = "") -> str:
    return f"{before}{text}{after}"


def _cased(text: str, rng: np.random.Generator, *, upper: bool) -> str:
    return text.upper() if upper else text.lower()


def _framed(name: str, kind: Kind, before: str = "", after: str = "") -> Noise:
    return Noise(name, kind, partial(_around, before=before, after=after))


NOISES = (
    Noise("typos, 2 % of characters", "typos", partial(mistyped, rate=0.02)),
    Noise("typos, 5 % of characters", "typos", partial(mistyped, rate=0.05)),
    Noise("upper case", "case", partial(_cased, upper=True)),
    Noise("lower case", "case", partial(_cased, upper=False)),
    _framed("spaces around", "padding", before="    ", after="    "),
    _framed("line breaks around", "padding", before="\n\n\n", after="\n\n\n"),
    _framed("polite opening", "paraphrase", before="Hello! Could you please help me with this? "),
    _framed("polite closing", "paraphrase", after="\n\nThank you very much for your help."),
    _framed("Question: … Answer:", "paraphrase", before="Question: ", after="\nAnswer:"),
    _framed(
        "instruction wrapper",
        "paraphrase",
        before="Below is a task. Work through it carefully and give a complete response.\n\n### Task\n",
        after="\n\n### Response\n",
    ),
)
