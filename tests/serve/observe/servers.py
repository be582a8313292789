"""A server with vLLM's public endpoints, as far as observing needs them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

METRICS = (
    "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n"
    'vllm:cache_config_info{block_size="16",cache_dtype="auto",num_gpu_blocks="41"} 1.0\n'
)


@dataclass
class FakeServer:
    """What it was asked for, and how it answers."""

    url: str = ""
    models: list[dict[str, Any]] = field(
        default_factory=lambda: [{"id": "tiny", "object": "model", "max_model_len": 128}]
    )
    metrics: str = METRICS
    tokens: list[int] = field(default_factory=lambda: [3, 4, 5])
    refusal: str = ""
    seconds: float = 0.005
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)  # by path, in place of the usual ones
    asked: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def fake_server() -> Iterator[FakeServer]:
    """Run one on a free port until the block ends."""
    fake = FakeServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path in fake.answers:
                return self._send(*fake.answers[self.path])
            if self.path == "/metrics":
                return self._send(200, fake.metrics.encode())
            documents = {"/v1/models": {"data": fake.models}, "/version": {"version": "0.32.0"}}
            if self.path in documents:
                return self._send(200, json.dumps(documents[self.path]).encode())
            return self._send(404, b"{}")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path in fake.answers:
                return self._send(*fake.answers[self.path])
            if self.path == "/tokenize":
                return self._send(200, json.dumps({"tokens": fake.tokens}).encode())
            fake.asked.append(body)
            time.sleep(fake.seconds)
            if fake.refusal:
                return self._send(400, fake.refusal.encode())
            return self._send(200, b'{"choices": []}')

        def _send(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
