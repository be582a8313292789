"""Policies and routers of other packages behind checks: what they get wrong is told, and told of them.

A router's index beyond the models, or an instance that is down, would not fail but be simulated or sent. What
others read as well is handed out read-only: a policy that writes there fails, and changes nothing.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rbx.engine.telemetry import PoolTelemetry
from rbx.errors import ConfigError, RbxError
from rbx.policy.base import MODES, NO_INSTANCE, Assignment, Ints, Needs
from rbx.policy.candidates import cap_output, possible
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.routers import ANY_MODEL
from rbx.policy.view import PoolView, Served

_WHOLE = ("instance", "max_tokens", "on_time", "mode")  # columns of an assignment
Columns = TypeVar("Columns", RequestTable, PoolShape)


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


def sealed(columns: Columns) -> Columns:
    """The same arrays, as views that can't be written to."""
    return type(columns)(*(_read_only(column) for column in columns))


def _read_only(values: NDArray[Any]) -> NDArray[Any]:
    view = values.view()
    view.flags.writeable = False
    return view


def _sealed_view(view: PoolView) -> PoolView:
    telemetry = PoolTelemetry(**{name: _read_only(values) for name, values in vars(view.telemetry).items()})
    return replace(view, arrived_s=_read_only(view.arrived_s), telemetry=telemetry)


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
            f"{self._where} failed to choose",
            lambda: np.asarray(self._router.choose(requests.copy(), sealed(table))),
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
            lambda: self._policy.assign(requests.copy(), sealed(table), _sealed_view(view), state),
        )
        if not isinstance(answer, Assignment):
            raise ConfigError(f"{self._where}: assign gave a {type(answer).__name__}, not an Assignment")
        for column in fields(Assignment):
            self._check_column(column.name, getattr(answer, column.name), requests.shape)
        for k, instance in enumerate(answer.instance.tolist()):
            if instance != NO_INSTANCE and not (0 <= instance < len(may[k]) and may[k][instance]):
                raise ConfigError(
                    f"{self._where}: sent a request of {int(table.input_tokens[requests[k]])} tokens to "
                    f"instance {instance}, which is down, too short of context or not there"
                )
            if instance != NO_INSTANCE:
                self._check_cap(int(requests[k]), instance, int(answer.max_tokens[k]), table)
        placed = answer.instance != NO_INSTANCE
        if not np.isfinite(answer.length_tokens[placed]).all():
            raise ConfigError(f"{self._where}: length_tokens not finite")
        if not np.isin(answer.mode, np.arange(len(MODES))).all():
            raise ConfigError(f"{self._where}: mode must index {MODES}")
        return answer

    def _check_column(self, name: str, values: Any, shape: tuple[int, ...]) -> None:
        if np.shape(values) != shape:
            raise ConfigError(
                f"{self._where}: {name} has shape {np.shape(values)}; {shape} were to be placed"
            )
        kind = np.integer if name in _WHOLE else np.number
        if not isinstance(values, np.ndarray) or not np.issubdtype(values.dtype, kind):
            numbers = "whole numbers" if name in _WHOLE else "numbers"
            raise ConfigError(f"{self._where}: {name} must be an array of {numbers}; it is {_kind(values)}")

    def _check_cap(self, row: int, instance: int, max_tokens: int, table: RequestTable) -> None:
        most = cap_output(
            instance,
            int(table.input_tokens[row]),
            int(table.max_tokens[row]),
            float(table.budget_usd[row]),
            self._shape,
        )
        if not 1 <= max_tokens <= most:
            raise ConfigError(
                f"{self._where}: max_tokens is {max_tokens} where the request, its budget and the context of "
                f"instance {instance} allow 1 to {most} (rbx.policy.candidates.cap_output)"
            )

    def learn(self, served: Served) -> None:
        """See ``Policy.learn``."""
        guarded(f"{self._where} failed to learn", lambda: self._policy.learn(served))


def _kind(values: Any) -> str:
    return f"one of {values.dtype}" if isinstance(values, np.ndarray) else f"a {type(values).__name__}"


def _shown(chosen: Any) -> str:
    return f"{chosen.dtype} of shape {chosen.shape}: {np.array2string(chosen.ravel()[:5], threshold=5)}"
