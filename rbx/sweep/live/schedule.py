"""From a workload to the requests that the load client sends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from rbx.config.endpoint import Api
from rbx.config.experiment import Experiment
from rbx.config.live import Live
from rbx.load.client.request import LoadRequest
from rbx.sweep.live.trace import ASK
from rbx.sweep.workload import Arriving

LENGTHS = "rbx_output_tokens_by_model"  # what mock servers read an answer's length from
_PATHS: Mapping[Api, str] = {"chat": "/chat/completions", "completions": "/completions"}


@dataclass(frozen=True)
class Asking:
    """How each prompt is asked: one body, the cell's own additions, and what goes into headers.

    ``e2e_s`` is infinite without such a target; ``traced`` asks a gateway of ours how it decided.
    """

    live: Live
    model: str
    max_tokens: int
    e2e_s: float
    traced: bool
    extra: Mapping[str, Any]

    @classmethod
    def of(
        cls, experiment: Experiment, live: Live, model: str, *, traced: bool, extra: Mapping[str, Any]
    ) -> Asking:
        """As the experiment says."""
        e2e_s = experiment.workload.slo.e2e_s
        most = experiment.workload.max_output_tokens
        return cls(live, model, most, math.inf if e2e_s is None else e2e_s, traced, extra)

    def requests(
        self,
        arriving: Arriving,
        prompts: Sequence[str],
        lengths: Sequence[Mapping[str, int]] | None = None,
    ) -> list[LoadRequest]:
        """The schedule of a workload; ``prompts`` are the texts of the rows of its prompt table.

        ``lengths`` are the grid's output tokens of each row by model, for mock servers to answer in.
        """
        return [
            LoadRequest(
                request=number,
                scheduled_s=float(arriving.scheduled_s[number]),
                path=_PATHS[self.live.api],
                body=orjson.dumps(
                    self._body(prompts[row], {} if lengths is None else {LENGTHS: lengths[row]})
                ),
                headers=self._headers(
                    float(arriving.budget_usd[number]), float(arriving.ttft_target_s[number])
                ),
            )
            for number, row in enumerate(arriving.prompt)
        ]

    def warm_up(self, prompts: Sequence[str], rate_per_s: float, n: int) -> list[LoadRequest]:
        """``n`` requests at equal gaps, of prompts that take turns; they carry no budget and no target."""
        none = np.full(n, np.inf)
        rows = np.arange(n, dtype=np.int64) % len(prompts)
        return self.requests(Arriving(rows, np.arange(n) / rate_per_s, none, none), prompts)

    def _body(self, prompt: str, lengths: Mapping[str, Any]) -> dict[str, Any]:
        # A half surrogate pair, which JSON can hold and UTF-8 can't, would end the whole cell.
        sent = prompt.encode("utf-8", "replace").decode("utf-8")
        system = self.live.system
        before = [] if system is None else [{"role": "system", "content": system}]
        said = (
            {"messages": [*before, {"role": "user", "content": sent}]}
            if self.live.api == "chat"
            else {"prompt": sent}
        )
        return {
            **(self.live.body or {}),
            "model": self.model,
            **said,
            "max_tokens": self.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.extra,
            **lengths,
        }

    def _headers(self, budget_usd: float, ttft_s: float) -> tuple[tuple[str, str], ...]:
        if not self.traced:
            return ()
        told = {
            "x-rbx-budget-usd": f"{budget_usd:.9g}" if math.isfinite(budget_usd) else None,
            "x-slo-ttft-ms": f"{1e3 * ttft_s:.6g}" if math.isfinite(ttft_s) else None,
            "x-slo-e2e-ms": f"{1e3 * self.e2e_s:.6g}" if math.isfinite(self.e2e_s) else None,
        }
        return (ASK, *((name, value) for name, value in told.items() if value is not None))
