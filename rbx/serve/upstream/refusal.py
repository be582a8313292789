"""What an HTTP status says of the instance that gave it."""

from __future__ import annotations

from typing import NamedTuple

# Too busy, too early, too slow: another instance, or this one later, may take the request.
BUSY_STATUS = frozenset({408, 409, 425, 429})
# Refusals that would meet any other request here as well: the key, the path, the model's name, the account.
ANY_REQUEST_STATUS = frozenset({401, 402, 403, 404, 405, 407, 410})


class Refusal(NamedTuple):
    """Whether another instance may fare better, and whether the breaker of this one counts it."""

    retryable: bool
    counts: bool


def refusal(status: int) -> Refusal:
    """A 4xx that blames the request is neither; all else, redirects included, is the instance's fault."""
    blames_request = 400 <= status < 500 and status not in BUSY_STATUS | ANY_REQUEST_STATUS
    return Refusal(not blames_request, not blames_request)
