"""Resamples as tasks of a Ray cluster: shards of chunks, put together in their order.

A shard draws its own chunks from the seed, so that the replicates are those of this process to the last bit.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from typing import Any

import numpy as np

from rbx.errors import RbxError, StatisticsError
from rbx.ray_cluster import cause_of, connected
from rbx.report.bootstrap import Replicates, ResamplingTask, Runner, run_here
from rbx.sweep.shipped import check_identity, code_identity

_RETRIES = 3


@contextmanager
def resamples_on(cluster: str | None) -> Iterator[Runner]:
    """Where resamples are taken, for ``Resampling``: in this process, or on the Ray cluster at an address.

    A shard whose worker dies is taken again elsewhere, up to three times. The runner raises
    ``StatisticsError`` where workers keep dying, and what a worker raised.
    """
    if cluster is None:
        yield run_here
        return
    with connected(cluster) as ray:
        yield partial(_run, ray)


def _run(ray: Any, task: ResamplingTask) -> Replicates:
    shards = min(task.n_chunks, max(1, int(ray.cluster_resources().get("CPU", 1))))
    edges = [task.n_chunks * shard // shards for shard in range(shards + 1)]
    remote = ray.remote(_take).options(num_cpus=1, max_retries=_RETRIES)
    # Within a list, so that each worker fetches it once and not as an argument of every task.
    shared, identity = [ray.put(task)], code_identity()
    asked = [remote.remote(shared, first, last, identity) for first, last in itertools.pairwise(edges)]
    try:
        # Ray prints what befalls nodes to standard output, which is the result's alone.
        with redirect_stdout(sys.stderr):
            found: list[Replicates] = ray.get(asked)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, RbxError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        raise StatisticsError(
            f"the resamples did not finish on the Ray cluster: {cause_of(error)}; without --executor they "
            "are taken here"
        ) from None
    return Replicates(
        np.concatenate([part.means for part in found], axis=1),
        np.concatenate([part.tails for part in found], axis=2),
    )


def _take(shared: Sequence[Any], first: int, last: int, identity: Mapping[str, str]) -> Replicates:
    """In a worker."""
    import ray

    check_identity(identity)
    task: ResamplingTask = ray.get(shared[0])
    return task.take(first, last)
