"""A failure of our own amid an answer is not laid at the server's door: a request would be lost unheard."""

from __future__ import annotations

import asyncio

import pytest

from rbx.load.client.connection import Connection

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Written(asyncio.Transport):
    """Takes what is sent."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Nobody reads it."""

    def abort(self) -> None:
        """Closed."""


class Broken:
    """A receiver that fails at the body."""

    def __init__(self) -> None:
        self.garbled: list[str] = []

    def begun(self, at_s: float) -> None:
        """The first byte came."""

    def head(self, status: int, headers: list[tuple[str, str]]) -> None:
        """The head is there."""

    def body(self, data: bytes, at_s: float) -> None:
        """Part of the body."""
        raise TypeError("ours")

    def ended(self, at_s: float, lost: str | None) -> None:
        """The end."""

    def garbage(self, detail: str, at_s: float) -> None:
        """No HTTP."""
        self.garbled.append(detail)


def sending(receiver: Broken) -> Connection:
    connection = Connection(lambda: 0.0, lambda _: None, lambda _: None)
    connection.connection_made(Written())
    connection.send(b"", receiver)
    return connection


def test_a_receivers_failure_is_raised_as_it_is() -> None:
    receiver = Broken()
    with pytest.raises(TypeError, match="ours"):
        sending(receiver).data_received(ANSWER)
    assert receiver.garbled == []


def test_a_switch_of_protocols_is_no_answer() -> None:
    receiver = Broken()
    sending(receiver).data_received(
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nblob"
    )
    assert receiver.garbled == ["the server does not speak HTTP: it switches to another protocol"]
