"""One request through a client, to its end."""

from __future__ import annotations

from typing import Any

from rbx.config.gateway import Deadlines
from rbx.serve.exchange import Piece, UpstreamFault
from rbx.serve.upstream.instance import HttpInstance

CHAT = "/chat/completions"


async def followed(
    instance: HttpInstance, body: dict[str, Any], deadlines: Deadlines
) -> tuple[list[Piece], UpstreamFault | None]:
    """The pieces of one request, and the fault that ended it; the client is closed then."""
    pieces: list[Piece] = []
    try:
        exchange = await instance.send(CHAT, body, deadlines)
        try:
            async for piece in exchange.pieces():
                pieces += [piece]
        finally:
            await exchange.close()
    except UpstreamFault as fault:
        return pieces, fault
    finally:
        await instance.close()
    return pieces, None
