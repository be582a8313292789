"""The words of a text as SQuAD's evaluation compares them."""

from __future__ import annotations

import re
import string

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def words(text: str) -> list[str]:
    """Lower case, without ASCII punctuation and English articles, split at white space.

    The order of these steps is that of SQuAD's evaluation (Rajpurkar et al. 2016): a hyphenated
    "a-bomb" becomes the one word "abomb".
    """
    bare = text.lower().translate(_PUNCTUATION)
    return _ARTICLE.sub(" ", bare).split()
