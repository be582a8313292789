"""A small server with vLLM's command line, for launches: it answers as an OpenAI API and tells where it runs.

Like vLLM it starts a worker of its own; with ``--fail`` it ends with an error instead.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("serve")
    parser.add_argument("model")
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--fail", action="store_true")
    asked, _ = parser.parse_known_args()
    print(f"loading {asked.model}", flush=True)
    if asked.fail:
        sys.exit("no such device: cuda:9")
    worker = subprocess.Popen(["sleep", "600"])
    print(f"worker {worker.pid}", flush=True)
    told = {
        "pid": os.getpid(),
        "worker": worker.pid,
        "raylet": int(os.environ["RAY_RAYLET_PID"]),
        "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }
    name = asked.served_model_name

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/v1/models":
                self._answer({"object": "list", "data": [{"id": name, "object": "model"}]})
            else:
                self._answer({})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            message = {"role": "assistant", "content": json.dumps(told)}
            self._answer(
                {
                    "id": "1",
                    "object": "chat.completion",
                    "model": name,
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
                }
            )

        def _answer(self, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    ThreadingHTTPServer((asked.host, asked.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
