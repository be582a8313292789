"""A data set hub on loopback that speaks as much HTTP as the hub's own client asks for."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class HubServer:
    """One repository's files; ``gated`` refuses them as the hub refuses who has not accepted a licence."""

    repository: str
    files: Mapping[str, bytes]
    gated: bool = False
    url: str = ""
    fetched: list[str] = field(default_factory=list)

    def handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.answer(with_body=False)

            def do_GET(self) -> None:
                self.answer(with_body=True)

            def answer(self, *, with_body: bool) -> None:
                path = urlsplit(self.path).path
                api, resolve = (
                    f"/api/datasets/{hub.repository}/revision/",
                    f"/datasets/{hub.repository}/resolve/",
                )
                if hub.gated:
                    self.begin(
                        403, 0, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Accept the licence."}
                    )
                elif path.startswith(api):
                    siblings = [{"rfilename": name} for name in sorted(hub.files)]
                    info = {"id": hub.repository, "sha": COMMIT, "siblings": siblings}
                    body = json.dumps(info).encode()
                    self.begin(200, len(body), {"Content-Type": "application/json"})
                    self.wfile.write(body)
                elif path.startswith(resolve):
                    self.file(path.removeprefix(resolve).split("/", 1)[1], with_body=with_body)
                else:
                    self.begin(404, 0, {})

            def file(self, name: str, *, with_body: bool) -> None:
                body = hub.files[name]
                etag = hashlib.sha256(body).hexdigest()
                self.begin(200, len(body), {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT})
                if with_body:
                    hub.fetched.append(name)
                    self.wfile.write(body)

            def begin(self, status: int, length: int, headers: Mapping[str, str]) -> None:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(length)}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


@contextmanager
def serving(repository: str, files: Mapping[str, bytes], *, gated: bool = False) -> Iterator[HubServer]:
    """The hub in a thread of its own, for as long as the block lasts."""
    hub = HubServer(repository, files, gated)
    server = ThreadingHTTPServer(("127.0.0.1", 0), hub.handler())
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
