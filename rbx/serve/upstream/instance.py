"""The HTTP client of one instance: requests go out, answers come back unchanged, every failure is told."""

from __future__ import annotations

import asyncio
import io
import json
import sys
import time
from collections.abc import Mapping
from typing import Any, NoReturn
from weakref import WeakSet

import aiohttp
import orjson

from rbx.config.endpoint import environment_key
from rbx.config.endpoints import InstanceEndpoint
from rbx.config.gateway import Deadlines
from rbx.label.proxy import environment_proxy
from rbx.label.redaction import Redaction
from rbx.load.completion_chunk import read_chunk
from rbx.serve.exchange import Exchange, FaultKind, Piece, UpstreamFault
from rbx.serve.upstream.chunk_piece import chunk_piece, told_error
from rbx.serve.upstream.plain_exchange import PlainExchange
from rbx.serve.upstream.refusal import refusal
from rbx.serve.upstream.stream_exchange import StreamExchange

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    from async_timeout import timeout

MAX_PLAIN_BYTES = 64 << 20
MAX_REFUSAL_BYTES = 1 << 20
LARGE_BODY_BYTES = 1 << 20
READ_BUFFER_BYTES = 1 << 18
# Uvicorn, and so vLLM, closes a connection that was idle for 5 s; a request sent just then would be lost.
KEEP_ALIVE_S = 4.0
SHOWN_CHARACTERS = 300
REQUEST_ID = "x-request-id"
MAX_REQUEST_ID_CHARACTERS = 200


class HttpInstance:
    """One server of the pool, over a connection pool of its own that opens with the first request."""

    def __init__(self, name: str, endpoint: InstanceEndpoint, default_model: str) -> None:
        """``default_model`` is the served name where ``endpoint`` has none.

        Raises ``ConfigError`` where the endpoint's key is not in the environment.
        """
        self.name = name
        self._url = endpoint.url
        self._model = endpoint.served_name or default_model
        self._key = environment_key(endpoint.url, endpoint.api_key_env)
        self._redaction = Redaction([self._key or ""])
        self._session: aiohttp.ClientSession | None = None
        self._proxy = environment_proxy(endpoint.url)
        self._timeout = aiohttp.ClientTimeout(total=None)
        self._under_way: WeakSet[StreamExchange] = WeakSet()

    async def send(
        self, path: str, body: Mapping[str, Any], deadlines: Deadlines, request_id: str | None = None
    ) -> Exchange:
        """Send ``body``, under this instance's name for the model, to ``path`` below the API's base.

        ``request_id`` goes along as ``X-Request-Id``, unless no header can carry it: a published state
        names the request by it. Returns once a stream's first token or its end is there, which must come
        within ``first_token_s``, or all of a plain answer: it shows no token before its last, so that
        ``total_s`` alone bounds it. Raises ``UpstreamFault``. Cancelling the task that awaits it cancels
        the request at the server.
        """
        total_at_s = time.monotonic() + deadlines.total_s
        within_s = deadlines.total_s
        if body.get("stream") is True:
            within_s = min(within_s, deadlines.first_token_s)
        data = self._encoded(body)
        try:
            async with timeout(within_s):
                response = await self._request(path, data, deadlines.connect_s, request_id)
                try:
                    return await self._begun(response, body, deadlines, total_at_s)
                except BaseException:
                    response.close()
                    raise
        except asyncio.TimeoutError:  # another type than TimeoutError before Python 3.11
            raise UpstreamFault("first_token_timeout", f"no token within {within_s:g} s", True) from None

    async def close(self) -> None:
        """Close all connections and end the answers under way; a later request opens them again."""
        for exchange in list(self._under_way):
            exchange.give_up(UpstreamFault("cut", "the instance's client was closed", True, counts=False))
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _encoded(self, body: Mapping[str, Any]) -> bytes:
        document = {**body, "model": self._model}
        try:
            try:
                return orjson.dumps(document)
            except TypeError:  # deeper, or with larger numbers, than orjson writes
                return json.dumps(document, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            detail = f"the request can't be written as JSON: {error}"
            raise UpstreamFault("status", detail, retryable=False, counts=False, status=400) from None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            headers = {
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
                "Accept-Encoding": "identity",  # a compressed stream would come in blocks, not in tokens
                "User-Agent": "rbx",
            }
            if self._key:
                headers["Authorization"] = f"Bearer {self._key}"
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=headers,
                read_bufsize=READ_BUFFER_BYTES,
            )
        return self._session

    async def _request(
        self, path: str, data: bytes, connect_s: float, request_id: str | None
    ) -> aiohttp.ClientResponse:
        if self._timeout.connect != connect_s:
            # Long times are rounded up to whole seconds unless the threshold lies above them.
            self._timeout = aiohttp.ClientTimeout(total=None, connect=connect_s, ceil_threshold=1e9)
        # Bytes are written in one go; aiohttp warns of that above this size.
        payload = data if len(data) <= LARGE_BODY_BYTES else io.BytesIO(data)
        try:
            return await self._opened().post(
                self._url + path,
                data=payload,
                headers=_id_header(request_id),
                timeout=self._timeout,
                proxy=self._proxy,
                allow_redirects=False,
            )
        except aiohttp.ConnectionTimeoutError:
            raise UpstreamFault("connect_timeout", f"no connection within {connect_s:g} s", True) from None
        except aiohttp.ClientConnectorError as error:
            raise UpstreamFault("refused", self._shown(str(error)), True) from None
        except aiohttp.ClientResponseError as error:
            raise self._fault("malformed", error) from None
        except (aiohttp.ClientError, OSError) as error:
            raise self._fault("cut", error) from None

    async def _begun(
        self,
        response: aiohttp.ClientResponse,
        body: Mapping[str, Any],
        deadlines: Deadlines,
        total_at_s: float,
    ) -> Exchange:
        if not 200 <= response.status < 300:
            await self._refuse(response)
        if body.get("stream") is True and response.content_type != "application/json":
            headers = _passed(response, "text/event-stream; charset=utf-8")
            exchange = StreamExchange(
                response, headers, deadlines, total_at_s, _choices(body), self._redaction
            )
            self._under_way.add(exchange)
            await exchange.begin()
            return exchange
        try:
            raw = await _bounded(response, MAX_PLAIN_BYTES)
        except (aiohttp.ClientError, OSError) as error:
            raise self._fault("cut", error) from None
        if raw is None:
            raise UpstreamFault("malformed", f"the body is longer than {MAX_PLAIN_BYTES >> 20} MiB", True)
        headers = _passed(response, "application/json")
        return PlainExchange(response.status, headers, self._plain_piece(raw, body))

    def _plain_piece(self, raw: bytes, body: Mapping[str, Any]) -> Piece:
        chunk = read_chunk(raw)
        if chunk is None:
            shown = self._shown(raw.decode("utf-8", "replace"))
            detail = f"the body is no JSON object: {shown!r}"
            raise UpstreamFault("malformed", detail, True, body=self._redaction.body(raw))
        if chunk.error is not None:
            raise told_error(chunk.error, raw, self._redaction)
        if body.get("stream") is True:
            raise UpstreamFault("malformed", "asked for a stream it gave a plain answer", True)
        if not chunk.deltas:
            shown = self._shown(raw.decode("utf-8", "replace"))
            detail = f"a success without a choice: {shown!r}"
            raise UpstreamFault("malformed", detail, True, body=self._redaction.body(raw))
        piece = chunk_piece(raw, chunk, time.monotonic())
        tokens = piece.usage.output_tokens if piece.usage else sum(d.is_output for d in chunk.deltas)
        return piece._replace(tokens=tokens, done=True)

    async def _refuse(self, response: aiohttp.ClientResponse) -> NoReturn:
        try:
            raw = await _bounded(response, MAX_REFUSAL_BYTES) or b""
        except (aiohttp.ClientError, OSError):
            raw = b""  # the status is there all the same
        raw = self._redaction.body(raw)  # a server may quote the request's headers
        shown = self._shown(raw.decode("utf-8", "replace"))
        retryable, counts = refusal(response.status)
        raise UpstreamFault(
            "status", f"HTTP {response.status}: {shown}", retryable, counts, response.status, raw
        )

    def _fault(self, kind: FaultKind, error: Exception) -> UpstreamFault:
        return UpstreamFault(kind, self._shown(f"{type(error).__name__}: {error}"), True)

    def _shown(self, text: str) -> str:
        return self._redaction.message(text)[:SHOWN_CHARACTERS]


async def _bounded(response: aiohttp.ClientResponse, most_bytes: int) -> bytes | None:
    """The body; None where it is longer than that."""
    blocks: list[bytes] = []
    size = 0
    while block := await response.content.readany():
        blocks.append(block)
        size += len(block)
        if size > most_bytes:
            response.close()
            return None
    return b"".join(blocks)


def _choices(body: Mapping[str, Any]) -> int:
    """How many choices the request asks for: ``n`` for each of its prompts, which may be token ids."""
    n, prompt = body.get("n"), body.get("prompt")
    prompts = 1
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        prompts = len(prompt)
    return prompts * (n if type(n) is int and n > 1 else 1)


def _passed(response: aiohttp.ClientResponse, content_type: str) -> dict[str, str]:
    """The type is what the body was found to be; of the server's own headers only the request's id."""
    return {"content-type": content_type, **_id_header(response.headers.get(REQUEST_ID))}


def _id_header(request_id: str | None) -> dict[str, str]:
    usable = request_id and request_id.isascii() and request_id.isprintable()
    return {REQUEST_ID: request_id[:MAX_REQUEST_ID_CHARACTERS]} if request_id and usable else {}
