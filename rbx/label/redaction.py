"""Keys taken out of whatever a server writes, before it reaches a file or a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

HIDDEN = "***"
# Shorter keys, such as EMPTY or none, are placeholders, and words that an answer may well hold.
LEAST_CHARACTERS = 8


class Redaction:
    """Replaces secrets, as they are and as JSON, Python or a URL would escape their characters."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """``secrets`` are the keys of one endpoint; empty ones are none."""
        whole = [secret for secret in secrets if secret]
        self._all = _pattern(whole)
        self._long = _pattern([secret for secret in whole if len(secret) >= LEAST_CHARACTERS])

    def message(self, text: str) -> str:
        """A message without any secret."""
        return self._all.sub(HIDDEN, text) if self._all else text

    def body(self, raw: bytes) -> bytes:
        """The bytes of a message without any secret; whatever else is in them, UTF-8 or not, stays."""
        return self.message(raw.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def data(self, text: str) -> str:
        """An answer's text without secrets of ``LEAST_CHARACTERS`` or more."""
        return self._long.sub(HIDDEN, text) if self._long else text


def _pattern(secrets: list[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(_escaped, secrets))) if secrets else None


def _escaped(secret: str) -> str:
    if "\\" in secret:  # any number of backslashes could be read in too many ways
        return "|".join(re.escape(form) for form in {secret, json.dumps(secret)[1:-1]})
    return "".join(_any_form(letter) for letter in secret)


def _any_form(letter: str) -> str:
    code = ord(letter)
    u = "".join(f"[{digit.lower()}{digit.upper()}]" for digit in f"{code:04x}")
    percent = "".join(f"[{digit.lower()}{digit.upper()}]" for digit in f"{code:02x}")
    plain = re.escape(letter)
    # Plain text meets the first alternative alone; a backslash may itself have been escaped.
    return rf"(?:{plain}|\\{{1,4}}(?:{plain}|u{u})|%{percent})"
