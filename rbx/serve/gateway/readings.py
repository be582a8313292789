"""Gauges that are read when somebody asks for ``/metrics``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rbx.serve.gateway.metrics import Reading

if TYPE_CHECKING:
    from rbx.serve.gateway.gateway import Gateway

_STATES = {"closed": 0.0, "half-open": 1.0, "open": 2.0}
Values = Sequence[tuple[tuple[str, ...], float]]


def readings(gateway: Gateway) -> tuple[Reading, ...]:
    """What stands at the moment of asking."""
    names = tuple(instance.name for instance in gateway.pool.instances)

    def by_instance(values: Sequence[float]) -> Values:
        return [((name,), float(value)) for name, value in zip(names, values, strict=True)]

    def in_flight() -> Values:
        return by_instance([gateway.placer.load.in_flight[i] for i in range(len(names))])

    def breakers() -> Values:
        return by_instance([_STATES[gateway.breakers[i].state] for i in range(len(names))])

    def ages() -> Values:
        return by_instance(gateway.watch.view(gateway.clock(), snapshots=False).age_s.tolist())

    def ready() -> Values:
        return by_instance(gateway.watch.view(gateway.clock(), snapshots=False).ready.astype(float).tolist())

    def version() -> Values:
        current = gateway.versions.current
        return [((current.label, current.policy.label), float(current.number))]

    instance = ("instance",)
    return (
        ("rbx_inflight", "Requests at an instance.", in_flight, instance),
        ("rbx_breaker_state", "0 closed, 1 half-open, 2 open.", breakers, instance),
        ("rbx_telemetry_age_seconds", "Since an instance was last heard of.", ages, instance),
        ("rbx_ready", "1 where an instance has lately answered.", ready, instance),
        ("rbx_requests_in_flight", "In the gateway.", lambda: [((), float(gateway.in_flight))], ()),
        ("rbx_queue_length", "Without a decision.", lambda: [((), float(gateway.placer.undecided))], ()),
        ("rbx_config_version", "Number of the version in force.", version, ("version", "policy")),
    )
