"""Secrets in a spec file, which would end up in manifests and cards: found by name and by form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator

# Names that hold one of these words hold a secret, unless all of it is explained by a harmless one.
_SECRET = re.compile(r"secret|passw|passphrase|credential|cookie|auth|api_?key|bearer")
_SECRET_TEXT = re.compile(r"key|token")  # numbers under such names are counts
_HARMLESS = re.compile(
    r"tokenizer|tokens|token_ids?|(?:bos|eos|pad|unk|sep|cls|mask|stop|image|video|audio)_?token"
    r"|per_(?:\w+_)?token|keyword|keyboard|author(?!i)|prompt_cache_key"
)
_SCHEME = re.compile(r"(?:bearer|basic)\s+\S", re.IGNORECASE)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def secret_places(data: Any, where: str = "") -> Iterator[str]:
    """Dotted keys in ``data`` whose values look like keys, tokens, passwords or addresses with any.

    Looks through dicts and lists, header lists of pairs among them. Properties of a JSON schema are named,
    not given, there.
    """
    if isinstance(data, dict):
        schema = where.rpartition(".")[2] == "properties"
        for name, value in data.items():
            place = f"{where}.{name}" if where else str(name)
            if not (schema and isinstance(value, dict)) and _names_secret(str(name), value):
                yield place
            else:
                yield from secret_places(value, place)
    elif isinstance(data, (list, tuple)):
        if len(data) == 2 and isinstance(data[0], str) and _names_secret(data[0], data[1]):
            yield f"{where}.{data[0]}" if where else data[0]
            return
        for number, value in enumerate(data):
            yield from secret_places(value, f"{where}.{number}" if where else str(number))
    elif isinstance(data, str) and _is_secret(data):
        yield where


def _no_secrets(data: dict[str, Any]) -> dict[str, Any]:
    if place := next(secret_places(data), None):
        raise ValueError(
            f"{place!r} would write a secret into the spec and what is made of it; remove it, and name an "
            "environment variable in api_key_env, or set the environment variable that the library documents"
        )
    return data


WithoutSecrets = AfterValidator(_no_secrets)
Options = Annotated[dict[str, Any], WithoutSecrets]


def _names_secret(name: str, value: Any) -> bool:
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_")
    rest = _HARMLESS.sub("", plain)
    if _SECRET.search(rest):
        return value not in (None, "") and not isinstance(value, bool)
    return bool(_SECRET_TEXT.search(rest)) and _holds_text(value)


def _holds_text(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_text, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_holds_text, value))
    return isinstance(value, str) and bool(value)


def _is_secret(text: str) -> bool:
    if _SCHEME.match(text):
        return True
    if not _ADDRESS.match(text):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return "@" in text
    return "@" in parts.netloc or any(_names_secret(name, value) for name, value in parse_qsl(parts.query))
