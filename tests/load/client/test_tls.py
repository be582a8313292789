"""Targets behind TLS."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.load.client.sent import Sent, asking, sent
from tests.load.client.wording import DONE, delta

BODY = delta({"content": "hi"}) + DONE
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A key and a certificate of ``localhost`` in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the command openssl to make a certificate")
    path = tmp_path / "localhost.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, "-keyout", path, "-out", tmp_path / "own.pem"], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + (tmp_path / "own.pem").read_bytes())
    return path


async def two_to(certificate: Path) -> Sent:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}/v1"
        return await sent(url, [asking(0), asking(1, 0.3)])


def test_answers_come_over_tls(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    done = asyncio.run(two_to(certificate))
    assert [(each.status, each.text) for each in done.results.values()] == [("ok", "hi")] * 2


def test_a_certificate_that_nobody_vouches_for_is_refused(certificate: Path) -> None:
    done = asyncio.run(two_to(certificate))
    for result in done.results.values():
        assert (result.status, result.fault) == ("error", "refused")
        assert result.detail is not None
        assert "certificate" in result.detail.lower()
