"""A classification service that answers as vllm-sr's API reference says, or fails as told; real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, bytes]
MAX_BATCH = 100


def documented(results: list[dict[str, Any]]) -> bytes:
    """A whole answer to a batch, with the fields that a client may leave alone."""
    distribution: dict[str, int] = {}
    for result in results:
        distribution[result["category"]] = distribution.get(result["category"], 0) + 1
    answer = {
        "results": [{**result, "processing_time_ms": 12} for result in results],
        "total_count": len(results),
        "processing_time_ms": 12 * len(results),
        "statistics": {
            "category_distribution": distribution,
            "avg_confidence": sum(result["confidence"] for result in results) / max(1, len(results)),
            "low_confidence_count": 0,
        },
    }
    return json.dumps(answer).encode()


def refusal(status: int, code: str, message: str) -> Answer:
    error = {"code": code, "message": message, "timestamp": "2026-01-01T00:00:00Z"}
    return status, json.dumps({"error": error}).encode()


@dataclass
class Service:
    """``category`` names the category and the confidence of a text; ``answer`` overrules the whole answer.

    While ``quiet`` is set no answer is begun; while ``stuck`` is set one is begun and not ended.
    """

    category: Callable[[str], tuple[str, float]]
    url: str = ""
    answer: Callable[[list[str]], Answer] | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    quiet: threading.Event | None = None
    stuck: threading.Event | None = None

    def reply(self, path: str, body: bytes) -> Answer:
        if path != "/api/v1/classify/batch":
            return 404, b"404 page not found"
        question = json.loads(body)
        self.asked.append(question)
        if "texts" not in question:
            return refusal(400, "INVALID_INPUT", "texts field is required")
        texts = question["texts"]
        if not texts:
            return refusal(400, "INVALID_INPUT", "texts array cannot be empty")
        if len(texts) > MAX_BATCH:
            return refusal(400, "INVALID_INPUT", f"texts array exceeds max_batch_size {MAX_BATCH}")
        if self.answer is not None:
            return self.answer(texts)
        found = [self.category(text) for text in texts]
        return 200, documented([{"category": name, "confidence": sure} for name, sure in found])


@contextmanager
def running(category: Callable[[str], tuple[str, float]]) -> Iterator[Service]:
    """A service on a free port until the block ends."""
    service = Service(category)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(service))
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        for event in (service.quiet, service.stuck):
            if event is not None:
                event.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


def _handler(service: Service) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            service.headers.append({name.lower(): value for name, value in self.headers.items()})
            if service.quiet is not None:
                service.quiet.wait(20)
            status, answer = service.reply(self.path, body)
            try:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                if service.stuck is not None:
                    for letter in answer:
                        self.wfile.write(bytes([letter]))
                        if service.stuck.wait(0.01):
                            break
                    return
                self.wfile.write(answer)
            except OSError:
                pass  # the client has left

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
