"""The cell's policy put in force through a gateway's ``/v1/config``, and what stood there put back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from rbx.config.experiment import Experiment
from rbx.config.policy import SinglePolicy
from rbx.config.policy_spec import policy_spec
from rbx.serve.watch.fetch import Unanswered
from rbx.sweep.live.asking import Answer, Asker, bearer
from rbx.sweep.live.fault import TargetFault

PUT_S = 120.0  # another policy may have to be compiled
_OLDER = "GET /v1/config tells no version: is it a gateway of this release?"


@dataclass(frozen=True)
class InForce:
    """What ``/v1/config`` shows; ``about`` holds what no configuration changes: pool, bundle, release."""

    number: int
    label: str
    policy: str
    config: dict[str, Any]
    about: dict[str, Any]


class ConfigSwap:
    """The configuration of the gateway at ``url``, which is without ``/v1``."""

    def __init__(self, asker: Asker, url: str, token: str | None) -> None:
        """Nothing is asked yet."""
        self._asker = asker
        self._address = f"{url}/v1/config"
        self._token = token

    async def shown(self) -> InForce:
        """What is in force; raises ``TargetFault``."""
        return self._read(await self._send("GET", None, None))

    async def put(self, config: dict[str, Any], instead_of: str) -> InForce:
        """Replace the version labelled ``instead_of``, if it is in force still; raises ``TargetFault``."""
        return self._read(await self._send("PUT", config, instead_of))

    async def _send(self, method: str, config: dict[str, Any] | None, instead_of: str | None) -> Answer:
        headers = bearer(self._token)
        if instead_of is not None:
            headers["If-Match"] = f'"{instead_of}"'
        body = None if config is None else orjson.dumps(config)
        try:
            answer = await self._asker.send(method, self._address, headers, body, PUT_S)
        except Unanswered as fault:
            raise TargetFault("not_ready", f"{self._address}: no answer ({fault})") from None
        if not answer.ok:
            raise self._refused(answer)
        return answer

    def _refused(self, answer: Answer) -> TargetFault:
        where = f"{self._address}: HTTP {answer.status}"
        if answer.status in (401, 403):
            how = "give live.target.token_env, the environment variable with its bearer token"
            return TargetFault("config_refused", f"{where}: {answer.said}; {how}")
        if answer.status in (404, 405):
            what = "no gateway of ours answers there; for any other endpoint take target.kind: openai"
            return TargetFault("config_refused", f"{where}: {what}")
        if answer.status == 412:
            what = "somebody else has changed the configuration; nobody else may use the gateway meanwhile"
            return TargetFault("config_changed", f"{where}: {what}")
        return TargetFault("config_refused", f"{where}: {answer.said}")

    def _read(self, answer: Answer) -> InForce:
        data = answer.json
        if not isinstance(data, dict):
            raise TargetFault("config_refused", f"{self._address}: {_OLDER}")
        number, label, policy, config = (data.get(key) for key in ("version", "label", "policy", "config"))
        if not (
            isinstance(number, int)
            and isinstance(label, str)
            and isinstance(policy, str)
            and isinstance(config, dict)
        ):
            raise TargetFault("config_refused", f"{self._address}: {_OLDER}")
        about = {key: data.get(key) for key in ("rbx", "pool", "bundle")}
        return InForce(number, label, policy, config, about)


def cell_config(standing: dict[str, Any], experiment: Experiment, policy: SinglePolicy) -> dict[str, Any]:
    """The gateway's configuration for a cell: the experiment's policy, scheduler and targets.

    Deadlines, retries, breaker, admission and watch stay as they stand: they belong to the servers.
    """
    return {
        **standing,
        "policy": policy_spec(policy),
        "scheduler": experiment.scheduler.model_dump(mode="json"),
        "slo": experiment.workload.slo.model_dump(mode="json"),
        "max_output_tokens": experiment.workload.max_output_tokens,
    }
