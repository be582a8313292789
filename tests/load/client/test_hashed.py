"""Results without their texts."""

from __future__ import annotations

from dataclasses import replace

from rbx.load.client.hashed import hashed
from rbx.load.client.result import not_sent

SENT = replace(not_sent(0, 0.0), status="error", text="half a SECRET", reasoning="SECRET")


def test_what_could_not_be_read_is_not_quoted() -> None:
    damaged = hashed(
        replace(SENT, fault="malformed", detail='an event is no JSON object: \'{"content": "SECRET\'')
    )
    assert damaged.detail == "an event is no JSON object"
    assert "SECRET" not in str(damaged)


def test_what_a_server_says_of_its_failure_stays() -> None:
    assert hashed(replace(SENT, fault="status", detail="HTTP 503: no room")).detail == "HTTP 503: no room"
