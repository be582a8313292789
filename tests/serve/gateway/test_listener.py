"""Clients that send too slowly, too much or nonsense, or take nothing of their answers."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from rbx.serve.gateway import listener
from tests.serve.gateway.serving import CHAT, Serving, serving
from tests.serve.gateway.test_drain_end import wait_for

BODY = json.dumps(CHAT).encode()
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\n"
WHOLE_HEAD = HEAD + b"content-length: %d\r\n\r\n" % len(BODY)
STREAM = json.dumps({**CHAT, "stream": True}).encode()


@dataclass
class Heard:
    """What came until the server hung up."""

    raw: bytes

    @property
    def status(self) -> int:
        return int(self.raw.split(b" ", 2)[1])

    @property
    def code(self) -> str:
        head, _, body = self.raw.partition(b"\r\n\r\n")
        assert b"content-type: application/json" in head
        assert b"connection: close" in head
        error = json.loads(body)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return str(error["code"])


@contextmanager
def connected(place: Serving) -> Iterator[socket.socket]:
    host, port = place.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as client:
        yield client


def heard(client: socket.socket) -> Heard:
    parts = []
    try:
        while part := client.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return Heard(b"".join(parts))


def drip(client: socket.socket, data: bytes, pause_s: float) -> None:
    """Byte by byte, until somebody hangs up."""
    try:
        for k in range(len(data)):
            client.sendall(data[k : k + 1])
            time.sleep(pause_s)
    except OSError:
        pass


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HEAD_S", 0.3)
    monkeypatch.setattr(listener, "BODY_S", 0.3)
    monkeypatch.setattr(listener, "BODY_BYTES_PER_S", 1000)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("begun", [b"GET /", HEAD, HEAD + b"x-long: abc", WHOLE_HEAD[:-2]])
@pytest.mark.parametrize("dripping", [False, True])
def test_a_head_that_does_not_end_is_408(begun: bytes, *, dripping: bool) -> None:
    with serving() as place, connected(place) as client:
        client.sendall(begun)
        thread = threading.Thread(target=drip, args=(client, b"x" * 1000 * dripping, 0.02))
        thread.start()
        found = heard(client)
        assert (found.status, found.code) == (408, "request_timeout")
        client.close()
        thread.join()


@pytest.mark.usefixtures("quick")
def test_a_client_that_says_nothing_is_hung_up_on() -> None:
    with serving() as place, connected(place) as client:
        assert heard(client).raw == b""


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "begun",
    [WHOLE_HEAD, WHOLE_HEAD + BODY[:-1], HEAD + b'transfer-encoding: chunked\r\n\r\n5\r\n{"mes\r\n'],
)
@pytest.mark.parametrize("path", [b"chat/completions", b"estimate"])
def test_a_body_that_does_not_end_is_408(begun: bytes, path: bytes) -> None:
    with serving() as place:
        with connected(place) as client:
            client.sendall(begun.replace(b"chat/completions", path, 1))
            found = heard(client)
        assert (found.status, found.code) == (408, "request_timeout")
        wait_for(lambda: not place.server.server_state.tasks)
        place.settled()


@pytest.mark.usefixtures("quick")
def test_a_slow_body_is_408_and_one_that_is_fast_enough_is_read() -> None:
    padding = b" " * 2000
    head = HEAD + b"content-length: %d\r\n\r\n" % (len(BODY) + len(padding))
    with serving() as place:
        with connected(place) as client:
            client.sendall(head + BODY)
            drip(client, padding, 0.02)
            found = heard(client)
            assert found.raw == b"" or (found.status, found.code) == (408, "request_timeout")
        with connected(place) as client:
            client.sendall(head.replace(b"host", b"connection: close\r\nhost") + BODY)
            for k in range(0, 2000, 200):
                time.sleep(0.1)
                client.sendall(padding[k : k + 200])
            assert heard(client).status == 200


@pytest.mark.usefixtures("quick")
def test_many_that_never_end_hold_up_nobody_and_are_gone_after_a_while() -> None:
    begun = [b"", b"G", HEAD, WHOLE_HEAD, WHOLE_HEAD + BODY[:5]]
    with serving() as place:
        host, port = place.url.removeprefix("http://").split(":")
        clients = [socket.create_connection((host, int(port)), timeout=20) for _ in range(300)]
        try:
            for k, client in enumerate(clients):
                client.sendall(begun[k % len(begun)])
            for k in range(10):
                assert place.chat(stream=bool(k % 2)).status_code == 200
            ends = [heard(client) for client in clients]
            assert {found.status for found in ends if found.raw} == {408}
            assert sum(not found.raw for found in ends) == 60  # those who said nothing
        finally:
            for client in clients:
                client.close()
        wait_for(lambda: len(place.server.server_state.connections) <= 1)
        wait_for(lambda: not place.server.server_state.tasks)


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"x-long: " + b"a" * 70_000,
        HEAD + b"x-many: a\r\n" * 7_000,
        HEAD + b"x-long: " + b"a" * 70_000 + b"\r\n\r\n",
        HEAD + b"x-many: 12345678\r\n" * 5_000 + b"\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nhost: a\r\n\r\n",
    ],
    ids=["endless header", "endless headers", "long header", "many headers", "long path"],
)
def test_a_head_beyond_its_bound_is_431(head: bytes) -> None:
    with serving() as place:
        with connected(place) as client:
            client.sendall(head)
            found = heard(client)
        assert (found.status, found.code) == (431, "head_too_large")
        assert place.chat().status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nhost: a\r\nbad header: x\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: a\r\n\r\n",
        HEAD + b"content-length: -5\r\n\r\n",
        HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\nabcde",
        HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=range(9),
)
def test_what_is_no_http_is_refused_in_openais_shape(sent: bytes) -> None:
    with serving() as place:
        with connected(place) as client:
            client.sendall(sent)
            found = heard(client)
        assert (found.status, found.code) == (400, "invalid_http")
        wait_for(lambda: not place.server.server_state.tasks)
        place.settled()


@pytest.mark.usefixtures("quick")
def test_a_connection_that_idles_between_requests_is_kept_until_uvicorn_ends_it() -> None:
    with serving() as place, connected(place) as client:
        for _ in range(3):
            client.sendall(WHOLE_HEAD + BODY)
            assert client.recv(65536).startswith(b"HTTP/1.1 200")
            time.sleep(0.5)
        client.sendall(b"\r\n\r\n")
        assert heard(client).raw == b""


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("next_one", [HEAD, WHOLE_HEAD, WHOLE_HEAD + BODY[:5]])
def test_an_answer_under_way_is_not_cut_for_the_next_requests_lateness(next_one: bytes) -> None:
    with serving(tokens=30, pace_s=0.05) as place, connected(place) as client:
        client.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(STREAM) + STREAM + next_one)
        found = heard(client)
        first, _, rest = found.raw.partition(b"data: [DONE]")
        assert found.status == 200
        assert first.count(b"data: ") == 31
        assert b"408" in rest
        assert b'"request_timeout"' in rest


def test_a_client_that_takes_nothing_of_its_answer_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "UNREAD_S", 0.3)
    with serving(tokens=1000, pace_s=0.002) as place, connected(place) as client:
        for instance in place.instances:
            instance.word = "w" * 20_000
        client.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(STREAM) + STREAM)
        wait_for(lambda: sum(instance.cancelled for instance in place.instances) == 1)
        place.settled()
        assert "rbx_clients_left_total 1.0" in place.client.get("/metrics").text


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as place:
        assert place.chat().status_code == 200  # one connection, kept
        monkeypatch.setattr(listener, "most_connections", lambda: 3)
        with connected(place), connected(place):
            wait_for(lambda: len(place.server.server_state.connections) == 3)
            with connected(place) as client:
                found = heard(client)
            assert (found.status, found.code) == (503, "overloaded")
            assert b"retry-after: 1" in found.raw
            assert place.chat().status_code == 200
        wait_for(lambda: len(place.server.server_state.connections) == 1)
        with connected(place) as client:
            client.sendall(WHOLE_HEAD + BODY)
            assert client.recv(65536).startswith(b"HTTP/1.1 200")
