"""What is to be sent, when, and to whom."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class LoadRequest:
    """One POST of a schedule.

    ``request`` is its number, unique in the schedule; ``scheduled_s`` is when it is to leave, in seconds
    from the common start; ``path`` stands below the target's base (``/chat/completions``); ``body`` is JSON.
    ``headers`` come on top of the client's own and take their place.
    """

    request: int
    scheduled_s: float
    path: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class LoadTarget:
    """Where requests go: the API's base with its ``/v1``, and the key that goes along."""

    url: str
    key: str | None = field(default=None, repr=False)
