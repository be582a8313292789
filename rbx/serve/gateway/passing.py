"""Passing an answer on: bytes as they came, tokens counted, cut where its budget ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from rbx.serve.exchange import Piece, UpstreamFault
from rbx.serve.gateway.account import Account
from rbx.serve.gateway.errors import ApiError, of_fault
from rbx.serve.gateway.placing import Begun
from rbx.serve.gateway.reply import Reply

DONE = b"data: [DONE]\n\n"


@dataclass
class Passed:
    """How an answer went; times None for what never came. ``fault`` ended it after it had begun."""

    first_token_s: float | None = None
    done_s: float | None = None
    fault: UpstreamFault | None = None

    def see(self, piece: Piece) -> None:
        """Note when the first token came."""
        if piece.tokens and self.first_token_s is None:
            self.first_token_s = piece.at_s


async def pass_plain(
    begun: Begun, reply: Reply, headers: Mapping[str, str], clock: Callable[[], float]
) -> Passed:
    """The whole body, once it is there; its cost stands in the headers."""
    passed, body = Passed(), b""
    async for piece in begun.exchange.pieces():
        begun.account.take(piece)
        passed.see(piece)
        body += piece.raw
    begun.attempt.succeeded(clock())
    passed.done_s = clock()
    told = {**headers, **account_headers(begun.account), "content-type": _type(begun, "application/json")}
    await reply.whole(begun.exchange.status, told, body)
    return passed


async def pass_stream(
    begun: Begun,
    reply: Reply,
    headers: Mapping[str, str],
    clock: Callable[[], float],
    *,
    name: str,
    wants_usage: bool,
) -> Passed:
    """Every event as it came, but for a usage event that the client did not ask for.

    A budget's outcome is told in a comment before ``[DONE]``. After a fault an error event ends the stream.
    """
    account, attempt, passed = begun.account, begun.attempt, Passed()
    await reply.start(begun.exchange.status, {**headers, "content-type": _type(begun, "text/event-stream")})
    shown: Piece | None = None
    try:
        async for piece in begun.exchange.pieces():
            passed.see(piece)
            if account.passes(piece):
                await reply.more(_cut(account, shown, wants_usage=wants_usage))
                attempt.abandoned(clock())
                break
            account.take(piece)
            if piece.tokens:
                attempt.tokens(account.output_tokens, piece.at_s)
            if piece.error is not None:
                raise UpstreamFault("error", piece.error, retryable=False)
            if piece.done and account.budgeted:
                await reply.more(_comment(account))
            if wants_usage or not _usage_alone(piece):
                await reply.more(piece.raw)
            shown = piece if piece.tokens else shown
            if account.spent:
                await reply.more(_cut(account, shown, wants_usage=wants_usage))
                attempt.abandoned(clock())
                break
    except UpstreamFault as fault:
        attempt.failed(fault, clock())
        passed.fault = fault
        await reply.end(_told(fault, name).event)
        return passed
    attempt.succeeded(clock())
    passed.done_s = clock()
    await reply.end()
    return passed


def account_headers(account: Account) -> dict[str, str]:
    """Cost, and for a request with a budget whether that ended it."""
    told = {"x-rbx-cost-usd": f"{account.cost_usd:.9g}"}
    if account.budgeted:
        told["x-rbx-budget-exhausted"] = str(account.exhausted).lower()
    return told


def _type(begun: Begun, default: str) -> str:
    return begun.exchange.headers.get("content-type", default)


def _comment(account: Account) -> bytes:
    """A line that clients of event streams skip."""
    told = " ".join(f"{name}={value}" for name, value in account_headers(account).items())
    return f": {told}\n\n".encode()


def _usage_alone(piece: Piece) -> bool:
    """An event that holds nothing but the usage that the gateway asked for."""
    if piece.usage is None or piece.tokens or piece.finish_reason is not None:
        return False
    chunk = _chunk(piece)
    return chunk is not None and chunk.get("choices") == []


def _chunk(piece: Piece) -> dict[str, Any] | None:
    data = b"\n".join(line[5:].strip() for line in piece.raw.splitlines() if line.startswith(b"data:"))
    try:
        chunk = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return chunk if isinstance(chunk, dict) else None


def _cut(account: Account, last: Piece | None, *, wants_usage: bool) -> bytes:
    """The end of a stream whose budget is spent: finish reason, usage if asked for, outcome, ``[DONE]``."""
    account.cut = True
    account.finish_reason = "length"
    chunk = (_chunk(last) if last is not None else None) or {}
    kept: dict[str, Any] = {
        key: value for key, value in chunk.items() if key in ("id", "object", "created", "model")
    }
    chat = chunk.get("object") != "text_completion"
    empty: Any = {} if chat else ""
    choice = {"index": 0, "delta" if chat else "text": empty, "logprobs": None, "finish_reason": "length"}
    events: list[dict[str, Any]] = [{**kept, "choices": [choice]}]
    if wants_usage:
        usage = {
            "prompt_tokens": account.input_tokens,
            "completion_tokens": account.output_tokens,
            "total_tokens": account.input_tokens + account.output_tokens,
        }
        events.append({**kept, "choices": [], "usage": usage})
    written = b"".join(b"data: " + orjson.dumps(event) + b"\n\n" for event in events)
    return written + _comment(account) + DONE


def _told(fault: UpstreamFault, name: str) -> ApiError:
    return of_fault(fault, name)
