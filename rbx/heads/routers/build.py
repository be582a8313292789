"""The routers that can be trained, by name, and how a trained one is stored."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from rbx.errors import BundleError
from rbx.heads.manifest import canonical
from rbx.heads.routers import (
    avengers_pro,
    best_route_frozen,
    linear,
    matrix_factorisation,
    mlp,
    semantic_router,
    source_best,
)
from rbx.heads.routers.best_route import router as best_route
from rbx.heads.routers.best_route import train as best_route_training
from rbx.heads.routers.best_route.starting_point import require_torch
from rbx.heads.routers.cascade import router as cascade
from rbx.heads.routers.cascade import train as cascade_training
from rbx.heads.routers.head import Arrays, RouterHead
from rbx.heads.routers.task import RouterTask


class _Kind(NamedTuple):
    train: Callable[[RouterTask, int], RouterHead]
    restore: Callable[[dict[str, Any], Arrays], RouterHead]
    require: Callable[[], None] | None = None  # raises what it lacks to be trained


_KINDS = {
    "avengers-pro": _Kind(avengers_pro.train, avengers_pro.restore),
    "best-route": _Kind(best_route_training.train, best_route.restore, require_torch),
    "cascade": _Kind(cascade_training.train, cascade.restore),
    "best-route-frozen": _Kind(best_route_frozen.train, best_route_frozen.restore),
    "linear": _Kind(linear.train, linear.restore),
    "matrix-factorisation": _Kind(matrix_factorisation.train, matrix_factorisation.restore),
    "mlp": _Kind(mlp.train, mlp.restore),
    "semantic-router": _Kind(semantic_router.train, semantic_router.restore),
    "source-best": _Kind(source_best.train, source_best.restore),
}
ROUTERS = tuple(_KINDS)


def train_router(name: str, task: RouterTask, seed: int) -> RouterHead:
    """Train router ``name``; raises ``BundleError`` for an unknown name and where nothing can be learnt."""
    from threadpoolctl import threadpool_limits

    # One thread: several spin while they wait for each other, on a busy machine minutes instead of seconds.
    # It also makes sums, and so the router's bytes, the same on any number of cores.
    with threadpool_limits(1):
        return _kind(name).train(task, seed)


def require(name: str) -> None:
    """Raises ``MissingExtraError`` with the install line where router ``name`` can't be trained here."""
    needed = _kind(name).require
    if needed is not None:
        needed()


def router_files(name: str, head: RouterHead) -> dict[str, bytes]:
    """Its files below a bundle, by path; the same head gives the same bytes."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **head.arrays)
    return {
        f"routers/{name}.json": canonical({"router": name, **head.described}),
        f"routers/{name}.npz": buffer.getvalue(),
    }


def read_router(name: str, files: Mapping[str, bytes]) -> RouterHead:
    """The router of a bundle's files; raises ``BundleError`` where it is not there or does not hold."""
    try:
        described = json.loads(files[f"routers/{name}.json"])
        with np.load(io.BytesIO(files[f"routers/{name}.npz"]), allow_pickle=False) as stored:
            return _kind(name).restore(described, dict(stored))
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise BundleError(f"router {name}: malformed: {error}; train it again") from None


def stored_routers(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Names of the routers among a bundle's files."""
    return tuple(
        sorted(name[8:-5] for name in files if name.startswith("routers/") and name.endswith(".json"))
    )


def router_digest(name: str, head: RouterHead) -> str:
    """Identity of a trained router: a cell that routes by it depends on this."""
    sha = hashlib.sha256()
    for path, content in sorted(router_files(name, head).items()):
        sha.update(path.encode() + b"\0" + hashlib.sha256(content).digest())
    return sha.hexdigest()


def _kind(name: str) -> _Kind:
    if name not in _KINDS:
        raise BundleError(f"no router is called {name!r}; there are {', '.join(_KINDS)}")
    return _KINDS[name]
