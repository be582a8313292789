"""Policies and routers of other packages behind checks: what they get wrong is told, and told of them.

A router's index beyond the models, or an instance that is down, would not fail but be simulated or sent.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from rbx.errors import ConfigError, RbxError
from rbx.policy.base import MODES, NO_INSTANCE, Assignment, Ints, Needs
from rbx.policy.candidates import possible
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.routers import ANY_MODEL
from rbx.policy.view import PoolView, Served


def guarded(fails: str, call: Callable[[], Any]) -> Any:
    """What ``call`` gives; raises ``ConfigError``, which begins with ``fails``, for whatever it raises."""
    try:
        return call()
    except RbxError as error:
        raise ConfigError(f"{fails}: {error}") from error
    except (Exception, SystemExit) as error:
        # Another package's code, which may raise anything; its author needs the place. A call of sys.exit
        # would end the command as if it had done its work.
        *_, last = traceback.extract_tb(error.__traceback__)
        place = f"{last.filename}:{last.lineno}"
        raise ConfigError(f"{fails}: {type(error).__name__}: {error} ({place})") from error


class GuardedRouter:
    """A ``Router`` whose choices are checked; M models."""

    def __init__(self, where: str, router: Any, n_models: int) -> None:
        """``where`` names it in messages; raises ``ConfigError`` for what is no router."""
        needs = guarded(where, lambda: router.needs_predictions)
        if not isinstance(needs, bool):
            raise ConfigError(f"{where}: needs_predictions is {needs!r}; it must be true or false")
        self.needs_predictions: bool = needs
        self._where = where
        self._router = router
        self._n_models = n_models

    def choose(self, requests: Ints, table: RequestTable) -> Ints:
        """See ``Router.choose``; raises ``ConfigError`` for anything but B model indices."""
        chosen = guarded(
            f"{self._where} failed to choose", lambda: np.asarray(self._router.choose(requests.copy(), table))
        )
        fits = chosen.shape == requests.shape and np.issubdtype(chosen.dtype, np.integer)
        if not fits or ((chosen < ANY_MODEL) | (chosen >= self._n_models)).any():
            raise ConfigError(
                f"{self._where}: choose must give {len(requests)} whole numbers from {ANY_MODEL} (any model) "
                f"to {self._n_models - 1}; it gave {_shown(chosen)}"
            )
        return np.asarray(chosen, dtype=np.int64)


class GuardedPolicy:
    """A ``Policy`` whose assignments are checked."""

    def __init__(self, where: str, policy: Any, shape: PoolShape) -> None:
        """``where`` names it in messages; raises ``ConfigError`` for what is no policy."""
        needs = guarded(where, lambda: policy.needs)
        if not isinstance(needs, Needs):
            raise ConfigError(f"{where}: needs is {needs!r}; it must be an rbx.policy.base.Needs")
        if needs.served and not callable(getattr(policy, "learn", None)):
            raise ConfigError(f"{where}: asks how requests fared (needs.served) and has no learn")
        self.needs: Needs = needs
        self._where = where
        self._policy = policy
        self._shape = shape

    def assign(self, requests: Ints, table: RequestTable, view: PoolView, state: PoolState) -> Assignment:
        """See ``Policy.assign``; raises ``ConfigError`` for what can't be carried out."""
        may = [possible(int(tokens), self._shape, state) for tokens in table.input_tokens[requests]]
        answer = guarded(
            f"{self._where} failed to assign",
            lambda: self._policy.assign(requests.copy(), table, view, state),
        )
        if not isinstance(answer, Assignment):
            raise ConfigError(f"{self._where}: assign gave a {type(answer).__name__}, not an Assignment")
        for column in fields(Assignment):
            if np.shape(getattr(answer, column.name)) != requests.shape:
                raise ConfigError(
                    f"{self._where}: {column.name} has shape {np.shape(getattr(answer, column.name))}; "
                    f"{requests.shape} were to be placed"
                )
        for k, instance in enumerate(answer.instance.tolist()):
            if instance != NO_INSTANCE and not (0 <= instance < len(may[k]) and may[k][instance]):
                raise ConfigError(
                    f"{self._where}: sent a request of {int(table.input_tokens[requests[k]])} tokens to "
                    f"instance {instance}, which is down, too short of context or not there"
                )
        placed = answer.instance != NO_INSTANCE
        if (answer.max_tokens[placed] < 1).any() or not np.isfinite(answer.length_tokens[placed]).all():
            raise ConfigError(f"{self._where}: max_tokens below 1, or length_tokens not finite")
        if not np.isin(answer.mode, np.arange(len(MODES))).all():
            raise ConfigError(f"{self._where}: mode must index {MODES}")
        return answer

    def learn(self, served: Served) -> None:
        """See ``Policy.learn``."""
        guarded(f"{self._where} failed to learn", lambda: self._policy.learn(served))


def _shown(chosen: Any) -> str:
    return f"{chosen.dtype} of shape {chosen.shape}: {np.array2string(chosen.ravel()[:5], threshold=5)}"
