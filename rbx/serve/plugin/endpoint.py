"""The published state over HTTP, for routers on other hosts: ``GET /v1/rbx/state?rank=0``.

vLLM finds it as the endpoint plugin ``rbx-state`` and loads it only if the variable ``VLLM_PLUGINS`` of
the server names it. Below ``/v1`` the server's ``--api-key`` guards it. The answer is ``layout.MESSAGE``
and the rows that it announces.
"""

from __future__ import annotations

import re
import time
from argparse import Namespace
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from rbx.errors import EngineError
from rbx.serve.plugin.state_file import state_directory
from rbx.serve.state.published import StateBytes, header_text, live_states
from rbx.serve.state.remote import PATH

_RANK = re.compile(r"[0-9]{1,9}")


class StateEndpoint:
    """What vLLM's entry point ``vllm.endpoint_plugins`` asks for."""

    name = "rbx-state"
    required_tasks = None

    def __init__(self) -> None:
        """Know no server yet."""
        self._instance = ""
        self._open: dict[int, StateBytes] = {}

    def attach_router(self, app: FastAPI) -> None:
        """Add the route."""
        app.get(PATH, include_in_schema=False)(self.answer)

    async def init_state(self, engine_client: Any, state: Any, args: Namespace) -> None:
        """Remember whose states to look for."""
        if engine_client is not None:
            self._instance = str(engine_client.vllm_config.instance_id)

    def answer(self, request: Request) -> Response:
        """The newest snapshot of a data-parallel rank, or 503 with a reason."""
        rank = request.query_params.get("rank", "0")
        if not _RANK.fullmatch(rank):
            return JSONResponse({"error": f"rank is {rank[:20]!r}; it must be a whole number"}, 400)
        try:
            content = self._state(int(rank)).message(time.monotonic())
        except EngineError as error:
            self._open.pop(int(rank), None)
            return JSONResponse({"error": str(error)}, 503)
        return Response(content, media_type="application/octet-stream")

    def _state(self, rank: int) -> StateBytes:
        if rank not in self._open:
            for path in live_states(state_directory()):
                state = StateBytes(path)
                header = state.header
                # Ranks of one deployment carry its id with an end of their own.
                ours = header_text(header, "instance_id").startswith(self._instance or "?")
                if ours and int(header["data_parallel_rank"]) == rank:
                    self._open[rank] = state
        if rank not in self._open:
            raise EngineError(
                f"rank {rank} of this server publishes no state; start it with --scheduler-cls "
                "rbx.serve.plugin.scheduler.PublishingScheduler"
            )
        return self._open[rank]
