"""Answers by their hashes, where their texts are not to be kept: what equals what is known still."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from rbx.load.client.result import LoadResult


def text_sha256(text: str) -> str:
    """Of the text as it came."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def fingerprint(text: str) -> str:
    """Equal for texts that differ in the white space around them alone: servers trim it, or don't."""
    return text_sha256(text.strip())


def hashed(result: LoadResult) -> LoadResult:
    """The same without the texts; what could not be read is not quoted either, as it may be a part of one."""
    detail = result.detail
    if detail is not None and result.fault == "malformed":
        detail, _, _ = detail.partition(": ")
    return replace(
        result,
        detail=detail,
        text="",
        reasoning="",
        text_sha256=text_sha256(result.text),
        fingerprint=fingerprint(result.text),
    )
