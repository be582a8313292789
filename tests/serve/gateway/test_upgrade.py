"""Clients that offer another protocol are served by the one that they speak."""

from __future__ import annotations

import json
import logging
import shutil
import socket
import subprocess
import time

import pytest

from tests.serve.gateway.serving import CHAT, serving
from tests.serve.gateway.test_listener import BODY, HEAD, connected, heard

H2C = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"
WEBSOCKET = (
    b"connection: keep-alive, Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
OTHERS = {"h2c": H2C, "websocket": WEBSOCKET, "unknown": b"Connection: upgrade\r\nUpgrade: TLS/1.0, x/2\r\n"}


def whole(offer: bytes, *, chunked: bool = False) -> bytes:
    if not chunked:
        return HEAD + offer + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
    half = len(BODY) // 2
    parts = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (BODY[:half], BODY[half:]))
    return HEAD + offer + b"transfer-encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n"


def answer(client: socket.socket) -> tuple[int, dict[str, object]]:
    """One answer with a length, and nothing after it."""
    raw = b""
    while True:
        head, end, body = raw.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        if end and len(body) >= int(fields[b"content-length"]):
            assert len(body) == int(fields[b"content-length"])
            return int(head.split(b" ", 2)[1]), json.loads(body)
        part = client.recv(65536)
        assert part, raw
        raw += part


@pytest.mark.parametrize("offer", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("chunked", [False, True])
def test_the_body_is_read_and_the_connection_kept(
    caplog: pytest.LogCaptureFixture, offer: bytes, *, chunked: bool
) -> None:
    sent = whole(offer, chunked=chunked)
    with serving() as place, caplog.at_level(logging.WARNING), connected(place) as client:
        for pieces in (1, 2, 3, 7, 40, len(sent)):
            size = -(-len(sent) // pieces)
            for k in range(0, len(sent), size):
                client.sendall(sent[k : k + size])
                time.sleep(0.002 if pieces < 50 else 0.0)
            status, told = answer(client)
            assert (status, list(told)) == (200, ["id", "choices", "usage"])
        client.sendall(whole(b""))
        assert answer(client)[0] == 200
        place.settled()
    assert not caplog.records


def test_many_in_one_packet_are_each_answered() -> None:
    n = 12
    last = whole(b"connection: Upgrade, close\r\nupgrade: h2c\r\n")
    with serving() as place, connected(place) as client:
        client.sendall(whole(H2C) * (n - 1) + last)
        raw = heard(client).raw
        assert raw.count(b"HTTP/1.1 200") == n
        assert raw.count(b'"finish_reason"') == n
    with serving() as place, connected(place) as client:
        get = b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
        client.sendall(get * 500 + get.replace(b"upgrade\r\n", b"upgrade, close\r\n", 1))
        assert heard(client).raw.count(b"HTTP/1.1 200") == 501


def test_it_is_answered_as_without_the_offer() -> None:
    missing = b"GET /nowhere HTTP/1.1\r\nhost: a\r\n"
    long = b"x-long: " + b"a" * 70_000 + b"\r\n"
    with serving() as place:
        for head, expected in ((missing, b"404"), (HEAD, b"400"), (HEAD + long, b"431")):
            with connected(place) as client:
                client.sendall(head + b"connection: Upgrade, close\r\nupgrade: h2c\r\n\r\n")
                assert heard(client).raw.split(b" ", 2)[1] == expected
        with connected(place) as client:  # waits to be asked for its body
            head = whole(H2C)[: -len(BODY)]
            client.sendall(head.replace(b"host", b"expect: 100-continue\r\nhost"))
            assert client.recv(65536).startswith(b"HTTP/1.1 100")
            client.sendall(BODY)
            assert answer(client)[0] == 200


def test_a_tunnel_is_refused_and_nothing_in_it_read() -> None:
    with serving() as place, connected(place) as client:
        client.sendall(b"CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n" + whole(b""))
        found = heard(client)
        assert (found.status, found.code) == (400, "invalid_http")
        assert found.raw.count(b"HTTP/1.1 ") == 1


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("version", ["--http2", "--http1.1"])
def test_curl_is_answered(version: str) -> None:
    command = ["curl", version, "-s", "--noproxy", "*", "-m", "20", "-H", "content-type: application/json"]
    with serving() as place:
        url = f"{place.url}/v1/chat/completions"
        sent = ["-d", json.dumps({**CHAT, "user": "u" * 100_000})]
        done = subprocess.run([*command, *sent, url, url], capture_output=True, timeout=60, check=False)
        if done.returncode == 2:
            pytest.skip("this curl has no HTTP/2")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count(b'"finish_reason"') == 2
