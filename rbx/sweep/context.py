"""Everything that the cells of one sweep share, in memory."""

from __future__ import annotations

from dataclasses import dataclass

from rbx.config.experiment import Experiment
from rbx.config.pool import Pool
from rbx.errors import ConfigError
from rbx.policy.pool_state import PoolShape
from rbx.policy.routebalance import TpotPredictor
from rbx.scheduler.decision_cost import DecisionTimes
from rbx.sweep.prompts import PromptTable


@dataclass(frozen=True)
class SweepContext:
    """``experiment`` is the effective configuration; no field of it is left to a default elsewhere."""

    experiment: Experiment
    pool: Pool
    prompts: PromptTable
    tpot: TpotPredictor

    @property
    def shape(self) -> PoolShape:
        """The pool's instances as arrays."""
        return PoolShape.of(self.pool)

    @property
    def times(self) -> DecisionTimes:
        """The decision's cost; the encoder's figures were filled in when the sweep was planned."""
        cost = self.experiment.scheduler.decision_cost
        if cost.encode_s_per_request is None or cost.encode_s_per_token is None or not cost.encode_max_tokens:
            raise ConfigError(f"experiment {self.experiment.name}: scheduler.decision_cost has open fields")
        return DecisionTimes(
            fixed_s=cost.fixed_s,
            per_request_s=cost.per_request_s,
            encode_s_per_request=cost.encode_s_per_request,
            encode_s_per_token=cost.encode_s_per_token,
            encode_max_tokens=cost.encode_max_tokens,
        )
