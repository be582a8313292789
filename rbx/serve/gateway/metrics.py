"""The gateway's own Prometheus metrics; no label ever holds text of a prompt or an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_FAST = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_LONG = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 300.0)

Reading = tuple[str, str, Callable[[], Sequence[tuple[tuple[str, ...], float]]], tuple[str, ...]]


class Metrics:
    """Counters and histograms in a registry of their own; gauges are read when somebody asks."""

    def __init__(self) -> None:
        """Everything at zero."""
        self.registry = CollectorRegistry()
        one = self.registry
        self.requests = Counter(
            "rbx_requests", "Requests that came, by path and status.", ("path", "status"), registry=one
        )
        self.decisions = Counter(
            "rbx_decisions", "Decisions by policy and mode.", ("policy", "mode"), registry=one
        )
        self.decision_seconds = Histogram(
            "rbx_decision_seconds", "From arrival to decision.", registry=one, buckets=_FAST
        )
        self.batch_size = Histogram(
            "rbx_batch_size", "Requests a decision.", registry=one, buckets=(1, 2, 4, 8, 16, 32, 64)
        )
        self.placed = Counter("rbx_placed", "Requests sent to an instance.", ("instance",), registry=one)
        self.faults = Counter("rbx_faults", "Faults of instances.", ("instance", "kind"), registry=one)
        self.replaced = Counter("rbx_replaced", "Requests placed anew after a fault.", registry=one)
        self.shed = Counter("rbx_shed", "Requests turned away, by reason.", ("reason",), registry=one)
        self.left = Counter("rbx_clients_left", "Clients that left before their answer's end.", registry=one)
        self.ttft_seconds = Histogram(
            "rbx_ttft_seconds", "From arrival to the first token.", ("model",), registry=one, buckets=_LONG
        )
        self.e2e_seconds = Histogram(
            "rbx_e2e_seconds", "From arrival to the end.", ("model",), registry=one, buckets=_LONG
        )
        self.targets = Counter(
            "rbx_targets", "Answers with a target, by whether they met it.", ("target", "met"), registry=one
        )
        self.tokens = Counter("rbx_tokens", "Tokens served.", ("model", "kind"), registry=one)
        self.disbelieved = Counter(
            "rbx_usage_disbelieved",
            "Answers with a count of tokens that their request can't have.",
            ("instance",),
            registry=one,
        )
        self.cost_usd = Counter("rbx_cost_usd", "Cost of what was served.", ("model",), registry=one)
        self.budgets = Counter(
            "rbx_budgets", "Answers with a budget, by whether it ended them.", ("exhausted",), registry=one
        )
        self.budget_usd = Counter("rbx_budget_usd", "Sum of the budgets of answers.", registry=one)
        self.budgeted_cost_usd = Counter(
            "rbx_budgeted_cost_usd", "Cost of the answers with a budget.", registry=one
        )
        self.configs = Counter("rbx_configs", "Configurations given, by outcome.", ("outcome",), registry=one)

    def read(self, readings: Sequence[Reading]) -> None:
        """Add gauges: name, help, a function that gives label values and value, and label names."""
        self.registry.register(_Readings(readings))

    def page(self) -> bytes:
        """The page in the text format."""
        return generate_latest(self.registry)


class _Readings(Collector):
    def __init__(self, readings: Sequence[Reading]) -> None:
        self._readings = readings

    def collect(self) -> Iterable[Metric]:
        for name, text, read, labels in self._readings:
            family = GaugeMetricFamily(name, text, labels=labels)
            for values, number in read():
                family.add_metric(values, number)
            yield family

    def describe(self) -> Iterable[Metric]:
        """Names alone: nothing is read while the gateway is put together."""
        return [GaugeMetricFamily(name, text, labels=labels) for name, text, _, labels in self._readings]
