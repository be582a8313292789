"""What a mock model says to a prompt, and how much of it: both follow from the prompt, model and seed."""

from __future__ import annotations

import hashlib
import math

import numpy as np

MEDIAN_TOKENS = 150
SPREAD = 0.8  # of the logarithm: one answer in six is longer than 334 tokens, one in six shorter than 67

_VOCABULARY = (
    "a about after all also an and answer as at be because before but by can case change clear come could "
    "day each even example few find first for from give good have here how idea if in is it keep kind "
    "know large last line list little long look make many mean more most move much name need new next no "
    "not now number of on one only open or other our out over part place plain point question quite read "
    "reason right same say second see set short show side simple since small so some state step still "
    "such take than that the then there these thing think this time to together turn two under until up "
    "use very want way we well what when where which while who why will with word work would year yes yet "
    "you"
)
WORDS = tuple(_VOCABULARY.split())


def wording_seed(model: str, prompt: str, seed: int) -> int:
    """A number that stands for all three."""
    sha = hashlib.sha256(f"{seed}\0{model}\0{prompt}".encode("utf-8", errors="surrogatepass"))
    return int.from_bytes(sha.digest()[:8], "big")


def natural_length(wording: int) -> int:
    """Tokens at which the answer would end by itself: log-normal around ``MEDIAN_TOKENS``, at least 1."""
    rng = np.random.default_rng([wording, 0])
    return max(1, round(MEDIAN_TOKENS * math.exp(SPREAD * float(rng.standard_normal()))))


def words(wording: int, tokens: int) -> list[str]:
    """The text by token, each but the first with the space before it; a longer answer begins the same."""
    drawn = np.random.default_rng([wording, 1]).integers(0, len(WORDS), tokens)
    return [WORDS[k] if position == 0 else " " + WORDS[k] for position, k in enumerate(drawn.tolist())]
