"""The split: by a hash of the prompt's id, so that it never depends on order, size or a seed."""

from __future__ import annotations

import hashlib

TRAIN_SHARE = 0.8


def is_train(split_id: str) -> bool:
    """RouteBalance's published rule: md5(id)[:8] / 0xFFFFFFFF < 0.8 is train."""
    head = hashlib.md5(split_id.encode(), usedforsecurity=False).hexdigest()[:8]
    return int(head, 16) / 0xFFFFFFFF < TRAIN_SHARE


def prompt_id(prompt: str) -> str:
    """Identity of a prompt: the first 16 hex digits of the SHA-256 of its text."""
    return hashlib.sha256(prompt.encode()).hexdigest()[:16]
