"""How a router's request is called inside vLLM, so that its row can be found in a published state."""

from __future__ import annotations

from typing import Literal

from rbx.serve.plugin.layout import published_id

Endpoint = Literal["completions", "chat/completions"]


def row_id(request_id: str, endpoint: Endpoint, prompt: int = 0) -> int:
    """The id in a published row of a request sent with the header ``X-Request-Id: request_id``.

    ``prompt`` counts the prompts of one request to ``/v1/completions``. As in vLLM 0.32; whoever sends
    no header can't know the id.
    """
    if endpoint == "completions":
        return published_id(f"cmpl-{request_id}-{prompt}", suffixed=False)
    return published_id(f"chatcmpl-{request_id}", suffixed=False)
