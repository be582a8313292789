"""A gateway behind a real HTTP server in a thread, over stand-ins."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from rbx.config.base import parse
from rbx.config.gateway import GatewayConfig
from rbx.config.pool import Pool
from rbx.heads.bundle import Bundle
from rbx.serve.gateway.app import gateway_app
from rbx.serve.gateway.gateway import Gateway
from rbx.serve.gateway.server import GatewayServer
from tests.heads.pools import pool, tier
from tests.serve.gateway.stand_in import StandIn, StandInWatch

SHORTEST = {"policy": {"kind": "passthrough", "dispatch": ["shortest-queue"]}}
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "algebra question 7"}]}


def config(**changes: Any) -> GatewayConfig:
    return parse(GatewayConfig, {**SHORTEST, **changes}, where="test")


def small_pool() -> Pool:
    return pool(tier("large-a", "large", 0.03), tier("tiny-b", "tiny", 0.01))


@dataclass
class Serving:
    """What a test may look at and turn; everything of the gateway runs in the server's thread."""

    client: httpx.Client
    url: str
    gateway: Gateway
    instances: list[StandIn]
    watch: StandInWatch
    server: GatewayServer

    def chat(self, headers: dict[str, str] | None = None, **changes: Any) -> httpx.Response:
        return self.client.post("/v1/chat/completions", json={**CHAT, **changes}, headers=headers)

    def settled(self, within_s: float = 5.0) -> None:
        """Wait until nothing is in flight anywhere; fails if that does not come."""
        until_s = time.monotonic() + within_s
        while time.monotonic() < until_s:
            if not self.held():
                return
            time.sleep(0.01)
        raise AssertionError(f"still held: {self.held()}")

    def held(self) -> dict[str, int]:
        """Everything that a request holds while it is served, as far as it is not zero."""
        gateway = self.gateway
        live = gateway.versions.current.decider.live
        counts = {
            "in_flight": gateway.in_flight,
            "undecided": gateway.placer.undecided,
            "load": sum(gateway.placer.load.in_flight.values()),
            "streams": sum(gateway.placer.load.streams.values()),
            "watch": sum(len(flight) for flight in self.watch.in_flight),
            "upstream": sum(instance.under_way for instance in self.instances),
            "rows": len(live.columns.input_tokens) - live.free_rows,
            "waiting": gateway.versions.current.decider.waiting,
        }
        return {name: count for name, count in counts.items() if count}


@contextmanager
def serving(
    gateway_config: GatewayConfig | None = None,
    *,
    bundle: Bundle | None = None,
    over: Pool | None = None,
    config_token: str | None = None,
    drain_s: float = 5.0,
    **instance: Any,
) -> Iterator[Serving]:
    """A running gateway; every instance is a stand-in made with ``instance``."""
    pool_ = over or small_pool()
    instances = [StandIn(**instance) for _ in pool_.instances]
    watch = StandInWatch(pool_)
    gateway = Gateway(pool_, bundle, instances, watch, gateway_config or config())
    app = gateway_app(gateway, config_token=config_token)
    server = GatewayServer(app, gateway, host="127.0.0.1", port=0, drain_s=drain_s)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until_s = time.monotonic() + 60
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        assert time.monotonic() < until_s
        time.sleep(0.005)
    url = f"http://127.0.0.1:{server.port}"
    try:
        with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
            yield Serving(client, url, gateway, instances, watch, server)
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()
