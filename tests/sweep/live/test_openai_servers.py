"""Any endpoint: it must list the model that is asked for, and nothing of it is changed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rbx.config.base import parse
from rbx.config.experiment import Experiment
from rbx.config.policy import ExternalPolicy, RoutedPolicy
from rbx.errors import ConfigError
from rbx.serve.mock.serving import serve_mock
from rbx.sweep.live.fault import TargetFault
from rbx.sweep.live.identity import Identity
from rbx.sweep.live.opening import opened
from rbx.sweep.live.target import LiveTarget
from tests.serve.mock.pools import small_pool

T = TypeVar("T")
MODELS = {"object": "list", "data": [{"id": "small"}, {"id": "other", "max_model_len": 12}]}


@contextmanager
def endpoint(pages: dict[str, tuple[int, Any]], key: str | None = None) -> Iterator[tuple[str, list[str]]]:
    """A plain HTTP server with these pages alone, and what it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            status, body = pages.get(self.path, (404, {"detail": "Not Found"}))
            if key is not None and self.headers["Authorization"] != f"Bearer {key}":
                status, body = 401, {"error": {"message": "no"}}
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def on(
    url: str,
    work: Callable[[LiveTarget], Awaitable[T]],
    *,
    model: str = "small",
    ready_s: float = 0.1,
    **target: Any,
) -> T:
    meant = parse(
        Experiment,
        {
            "name": "live",
            "grid": "grid",
            "bundle": "bundle",
            "pool": "pool.yaml",
            "engine": "live",
            "live": {"target": {"kind": "openai", "url": url, "model": model, **target}},
            "workload": {"rates_per_s": [5.0]},
            "policies": [{"kind": "external", "name": "theirs"}],
        },
        where="test",
    )
    live = meant.live
    assert live is not None

    async def run() -> T:
        async with opened(live, meant, small_pool(), None, Path("logs"), ready_s=ready_s) as servers:
            return await work(servers)

    return asyncio.run(run())


async def _identity(servers: LiveTarget) -> Identity:
    await servers.ready()
    return await servers.identity()


async def _all(servers: LiveTarget) -> dict[str, Any]:
    return {
        "identity": await _identity(servers),
        "installed": await servers.install(ExternalPolicy(name="theirs")),
        "drained": await servers.drained(0.0),
        "pages": await servers.pages(),
        "simulated": servers.simulated,
        "endpoints": dict(servers.endpoints),
        "sent": (servers.url, servers.key, servers.model, servers.traced),
    }


def test_an_endpoint_that_has_nothing_but_its_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RBX_TEST_KEY", "s3cret")
    with endpoint({"/v1/models": (200, MODELS)}, key="s3cret") as (url, asked):
        seen = on(url + "/", _all, api_key_env="RBX_TEST_KEY")
        assert set(asked) == {"GET /v1/models", "GET /version", "GET /metrics"}
    (server,) = seen["identity"].servers.values()
    assert server.models == ("small", "other")
    assert (server.version, server.max_model_len, server.time_scale) == (None, None, None)
    assert (seen["installed"].policy, seen["installed"].label) == ("theirs", None)
    assert (seen["drained"], seen["pages"], seen["simulated"], seen["endpoints"]) == (True, {}, False, {})
    assert seen["sent"] == (url, "s3cret", "small", False)


def test_a_mock_server_is_known_as_one() -> None:
    with serve_mock(small_pool(), time_scale=5.0) as mock:
        seen = on(mock.url("twin/0"), _all)
    assert seen["simulated"] is True
    (server,) = seen["identity"].servers.values()
    assert (server.version, server.max_model_len, server.time_scale) == ("0.32.0", 4096, 5.0)
    assert "vllm:num_requests_running" in seen["pages"]["endpoint"]


def fault_of(url: str, **more: Any) -> TargetFault:
    with pytest.raises(TargetFault) as raised:
        on(url, _identity, **more)
    return raised.value


def test_another_model_behind_the_address_is_not_measured() -> None:
    with endpoint({"/v1/models": (200, MODELS)}) as (url, _):
        fault = fault_of(url, model="large")
    assert fault.kind == "wrong_model"
    assert "serves small, other, not 'large'" in str(fault)


@pytest.mark.parametrize(
    "page", ["<html>", "[]", {"data": "small"}, {"data": [{"id": 7}, None, "small"]}, {"models": ["small"]}]
)
def test_what_is_no_list_of_models_is_told_as_such(page: Any) -> None:
    with endpoint({"/v1/models": (200, page)}) as (url, _):
        fault = fault_of(url)
    assert fault.kind == "wrong_model"
    assert "nothing that is a list of models" in str(fault)


def test_a_key_that_is_refused_is_told_at_once() -> None:
    with endpoint({"/v1/models": (200, MODELS)}, key="s3cret") as (url, asked):
        fault = fault_of(url, ready_s=60.0)
        assert len(asked) == 1
    assert fault.kind == "not_ready"
    assert "api_key_env" in str(fault)


def test_a_server_that_comes_up_late_is_waited_for() -> None:
    pages: dict[str, tuple[int, Any]] = {"/v1/models": (503, {"error": {"message": "loading"}})}
    with endpoint(pages) as (url, asked):
        fault = fault_of(url)
        assert fault.kind == "not_ready"
        assert "HTTP 503" in str(fault)
        threading.Timer(0.5, pages.update, [{"/v1/models": (200, MODELS)}]).start()
        assert on(url, _identity, ready_s=30.0).models == ("small", "other")
        assert len(asked) > 3


def test_a_redirect_is_not_followed() -> None:
    with endpoint({"/v1/models": (302, "")}) as (url, _):
        assert "HTTP 302" in str(fault_of(url))


@pytest.mark.parametrize(("said", "ok"), [({"success": True}, True), ("", True), ({"success": False}, False)])
def test_a_prefix_cache_is_dropped_where_there_is_such_a_page(
    said: Any, ok: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rbx.sweep.live.prefix_cache._PAUSE_S", 0.01)

    async def reset(servers: LiveTarget) -> tuple[str, ...]:
        return await servers.reset_prefix_caches()

    with endpoint({"/v1/models": (200, MODELS), "/reset_prefix_cache": (200, said)}) as (url, asked):
        if ok:
            assert on(url, reset) == ("endpoint",)
            assert asked == ["POST /reset_prefix_cache"]
        else:
            with pytest.raises(TargetFault, match="still held"):
                on(url, reset)


def test_no_policy_of_ours_is_put_in_force_there() -> None:
    async def work(servers: LiveTarget) -> Any:
        return await servers.install(RoutedPolicy(router="passthrough", dispatch="random"))

    with endpoint({}) as (url, _), pytest.raises(ConfigError, match="not ours to change"):
        on(url, work)


def test_an_endpoint_that_changes_its_model_amid_a_cell_is_lost() -> None:
    pages: dict[str, tuple[int, Any]] = {"/v1/models": (200, MODELS)}

    async def swapped(servers: LiveTarget) -> tuple[str | None, str | None, str | None]:
        await servers.ready()
        before = await servers.lost()
        pages["/v1/models"] = (200, {"data": [{"id": "other"}]})
        after = await servers.lost()
        pages["/v1/models"] = (429, {})  # busy, and nothing told of its models
        return before, after, await servers.lost()

    with endpoint(pages) as (url, _):
        before, after, busy = on(url, swapped)
    assert (before, busy) == (None, None)
    assert after is not None
    assert "serves other, not 'small'" in after
