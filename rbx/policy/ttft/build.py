"""From the name of a TTFT source to the estimator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rbx.config.policy import BearPolicy
from rbx.config.ttft_source import TtftSource
from rbx.engine.instance_profile import InstanceProfile
from rbx.heads.bea.lengths import LengthRule
from rbx.heads.calibration import Calibration
from rbx.heads.lps import Traffic
from rbx.policy.pool_state import PoolShape
from rbx.policy.speeds import Speeds
from rbx.policy.ttft.bea import BeaTtft
from rbx.policy.ttft.estimator import TtftEstimator
from rbx.policy.ttft.handicap import Handicap
from rbx.policy.ttft.sharing import SharedEngine, SharedServer
from rbx.policy.ttft.throughput import PrefillThroughput


@dataclass(frozen=True)
class LatencyModel:
    """What is known of the pool's latency before anything is served.

    ``profiles`` and ``traffic`` hold one entry for each instance, ``lengths`` one for each model. How far off
    predictions are is known where the bundle was calibrated.
    """

    shape: PoolShape
    profiles: tuple[InstanceProfile, ...]
    traffic: tuple[Traffic, ...]
    lengths: tuple[LengthRule, ...]
    calibration: Calibration | None = None

    @cached_property
    def speeds(self) -> Speeds:
        """Throughputs that follow from the step-time models."""
        return Speeds.of(self.profiles, self.traffic)

    def estimator(self, source: TtftSource, config: BearPolicy | None = None) -> TtftEstimator:
        """The estimator of one decision loop; ``config`` holds its constants and handicaps."""
        config = BearPolicy() if config is None else config
        tokens_per_s = self.speeds.prefill_tokens_per_s * config.throughput_scale
        if source == "prefill-throughput":
            return PrefillThroughput(tokens_per_s)
        if source == "lps":
            return SharedServer(self.speeds, tokens_per_s)
        if source == "lps-engine":
            return SharedEngine(self.profiles, self.traffic)
        handicap = Handicap(config.step_time_scale, config.in_flight)
        return BeaTtft(self.shape, self.lengths, None if handicap == Handicap() else handicap)
