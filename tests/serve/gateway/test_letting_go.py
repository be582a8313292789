"""What a gateway holds is let go at its end, although a part of it fails, and where it never came up."""

from __future__ import annotations

import asyncio

import pytest

from rbx.serve.gateway.app import gateway_app
from rbx.serve.gateway.gateway import Gateway
from tests.serve.gateway.serving import config, small_pool
from tests.serve.gateway.stand_in import StandIn, StandInWatch


class Failing(StandInWatch):
    """A watch that fails to ``start`` or to ``stop``."""

    def __init__(self, where: str) -> None:
        super().__init__(small_pool())
        self.where = where

    async def start(self) -> None:
        await super().start()
        if self.where == "start":
            raise RuntimeError("the watch failed to start")

    async def stop(self) -> None:
        await super().stop()
        if self.where == "stop":
            raise RuntimeError("the watch failed to stop")


@pytest.mark.parametrize("where", ["start", "stop"])
def test_whatever_fails_the_rest_is_let_go(where: str) -> None:
    async def run() -> None:
        watch = Failing(where)
        instances = [StandIn() for _ in small_pool().instances]
        gateway = Gateway(small_pool(), None, instances, watch, config())
        app = gateway_app(gateway)
        with pytest.raises(RuntimeError, match=f"failed to {where}"):
            async with app.router.lifespan_context(app):
                assert where == "stop"
        assert not watch.started
        assert all(instance.closed for instance in instances)

    asyncio.run(run())
