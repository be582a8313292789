"""Everything that the cells of one sweep share, in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from rbx.config.experiment import Experiment
from rbx.config.policy import RoutedPolicy, SinglePolicy
from rbx.config.pool import Pool
from rbx.engine.instance_profile import InstanceProfile
from rbx.errors import ConfigError
from rbx.heads.bea.lengths import LengthRule
from rbx.heads.calibration import Calibration
from rbx.heads.lps import Traffic
from rbx.heads.routers.cascade.chain import Chain
from rbx.policy.pool_state import PoolShape
from rbx.policy.routebalance import TpotPredictor
from rbx.policy.ttft.build import LatencyModel
from rbx.scheduler.decision_cost import DecisionTimes
from rbx.scheduler.scoring_times import ScoringTimes
from rbx.sweep.prompts import PromptTable


@dataclass(frozen=True)
class SweepContext:
    """``experiment`` is the effective configuration; no field of it is left to a default elsewhere."""

    experiment: Experiment
    pool: Pool
    prompts: PromptTable
    tpot: TpotPredictor
    lengths: tuple[LengthRule, ...]  # one a model
    calibration: Calibration | None = None  # of the bundle
    chains: Mapping[str, Chain] = field(default_factory=dict)  # of cascades, by the router's label

    @property
    def shape(self) -> PoolShape:
        """The pool's instances as arrays."""
        return PoolShape.of(self.pool)

    @cached_property
    def latency(self) -> LatencyModel:
        """What policies know of the pool's latency; the traffic is that of the predictions."""
        instances = self.pool.instances
        lengths = self.prompts.length_tokens
        mean = lengths.mean(axis=0)
        spread = lengths.var(axis=0) / mean**2
        prompt_tokens = float(self.prompts.input_tokens.mean())
        traffic = [Traffic(prompt_tokens, float(m), float(v)) for m, v in zip(mean, spread, strict=True)]
        return LatencyModel(
            shape=self.shape,
            profiles=tuple(InstanceProfile.of(instance.tier) for instance in instances),
            traffic=tuple(traffic[instance.model_index] for instance in instances),
            lengths=self.lengths,
            calibration=self.calibration,
        )

    def chain_of(self, policy: SinglePolicy) -> Chain | None:
        """Whom the policy asks in turn; None for all but cascades."""
        return self.chains.get(policy.router_label) if isinstance(policy, RoutedPolicy) else None

    def times_of(self, policy: SinglePolicy) -> DecisionTimes:
        """The decision's cost under one policy, its router's stated cost in the place of the encoder's."""
        if not isinstance(policy, RoutedPolicy):
            return self.times
        cost = self.experiment.scheduler.scoring_cost.get(policy.router)
        if cost is None:
            return self.times
        queue = policy.deployment.queue
        return replace(self.times, router=ScoringTimes.of(cost, 1 if queue is None else queue.workers))

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
