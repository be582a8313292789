"""What ``rbx serve`` decides by, and how it deals with servers that fail; all of it can be swapped live."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from rbx.config.base import NonNegativeFloat, PositiveFloat, PositiveInt, StrictModel, UnitFloat
from rbx.config.experiment import SchedulerConfig, Slo
from rbx.config.policy import PolicySpec, SinglePolicy
from rbx.errors import ConfigError

WATCH_JITTER = 0.1  # of a pause between two questions to an instance, to either side
_Requests = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]  # tables are made for that many at once
_UpToAnHour = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False, strict=True)]


class Deadlines(StrictModel):
    """How long an instance may keep silent, and how long one request may take in all, in seconds.

    A plain answer shows no token before its last: ``connect_s`` and ``total_s`` alone bound it, and the
    breaker's ``no_progress_s`` where the server counts its tokens on ``/metrics``.
    """

    connect_s: PositiveFloat = 2.0
    first_token_s: PositiveFloat = 60.0
    between_tokens_s: PositiveFloat = 30.0
    total_s: PositiveFloat = 1800.0
    encode_s: PositiveFloat = 1.0  # the gateway's own time to read the prompts of a batch


class Retries(StrictModel):
    """Before the first byte reached the client a request may be placed anew, on another instance."""

    attempts: Annotated[int, Field(ge=1, le=100, strict=True)] = 3
    within_s: PositiveFloat = 10.0  # from arrival; later failures are told to the client


class BreakerConfig(StrictModel):
    """When an instance gets no more requests, and when it is tried again.

    It opens after ``failures`` in a row, or once it had work for ``no_progress_s`` and gave no token.
    Open it stays ``open_s``, doubled at each failed probe up to ``max_open_s``; then one request probes
    it. At most ``max_open_share`` of a model's instances are open for failures at once, unless they all
    refuse connections.
    """

    failures: PositiveInt = 3
    no_progress_s: PositiveFloat = 30.0
    open_s: PositiveFloat = 1.0
    max_open_s: PositiveFloat = 60.0
    max_open_share: UnitFloat = 1.0


class Admission(StrictModel):
    """Beyond these bounds requests are turned away with 429 and Retry-After.

    Without ``max_in_flight`` the pool's seats decide, as far as its instances are up: 1.5 requests for each
    one that an instance works on at once, which is its ``max_num_seqs``, or what its KV blocks hold.
    """

    max_waiting: _Requests = 1024  # not yet sent to an instance
    max_in_flight: _Requests | None = None
    retry_after_s: NonNegativeFloat = 1.0


class Watch(StrictModel):
    """How instances are watched beside the gateway's own traffic.

    ``period_s`` is the pause between two scrapes of ``/metrics``; a gauge older than ``max_age_s``
    counts for nothing, and one that was never had does not keep an instance from being used. An answer
    counts until the next one may be there, or healthy servers would come and go.
    """

    period_s: _UpToAnHour = 0.5
    timeout_s: _UpToAnHour = 1.0
    max_age_s: _UpToAnHour = 3.0

    @model_validator(mode="after")
    def _lasts_until_the_next(self) -> Watch:
        next_s = (1.0 + WATCH_JITTER) * self.period_s + self.timeout_s
        if next_s >= self.max_age_s:
            raise ValueError(
                f"max_age_s {self.max_age_s:g} must be above {next_s:g}, which is {1.0 + WATCH_JITTER:g} x "
                f"period_s {self.period_s:g} + timeout_s {self.timeout_s:g}: an answer must count until the "
                "next; raise max_age_s, or lower period_s or timeout_s"
            )
        return self


class GatewayConfig(StrictModel):
    """One version of the gateway's behaviour; ``policy`` stands for a single policy, with no lists left.

    Batches close eagerly unless the file says otherwise: a lone request is not held for a window.
    """

    policy: PolicySpec
    scheduler: SchedulerConfig = SchedulerConfig()
    slo: Slo = Slo()  # targets of requests that bring none
    max_output_tokens: PositiveInt = 1024  # of requests that bring no limit
    # For policies that reckon with a mean prompt; without it the bundle's, or 256.
    typical_prompt_tokens: PositiveInt | None = None
    deadlines: Deadlines = Deadlines()
    retries: Retries = Retries()
    breaker: BreakerConfig = BreakerConfig()
    admission: Admission = Admission()
    watch: Watch = Watch()

    @model_validator(mode="before")
    @classmethod
    def _eager(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        scheduler = data.get("scheduler", {})
        batching = scheduler.get("batching", {}) if isinstance(scheduler, dict) else None
        if not isinstance(batching, dict) or "eager" in batching:
            return data
        return {**data, "scheduler": {**scheduler, "batching": {**batching, "eager": True}}}

    @model_validator(mode="after")
    def _nothing_simulated(self) -> GatewayConfig:
        if self.scheduler.telemetry.period_s or self.scheduler.telemetry.delay_s:
            raise ValueError("scheduler.telemetry is for simulated pools; a gateway has watch")
        if self.scheduler.scoring_cost:
            raise ValueError("scheduler.scoring_cost is for simulated pools; a gateway takes what it takes")
        return self

    def single_policy(self, models: tuple[str, ...]) -> SinglePolicy:
        """The one policy that is meant, for a pool of these models; raises ``ConfigError`` for several."""
        try:
            found: list[SinglePolicy] = [*self.policy.expand(models)]
        except ValueError as error:
            raise ConfigError(f"policy: {error}") from None
        if len(found) != 1:
            labels = ", ".join(each.label for each in found)
            raise ConfigError(f"policy: stands for {len(found)} policies ({labels}); leave no list in it")
        return found[0]
