"""Requests that were dispatched to an instance and that its snapshot does not show yet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rbx.engine import snapshot_columns as snap
from rbx.errors import EngineError
from rbx.heads.bea.lengths import whole_tokens


@dataclass(frozen=True)
class UnseenRequests:
    """The ledger's share of one instance, in order of dispatch.

    ``dispatched_s`` (n,) on the snapshots' clock; ``requests`` (n, snap.N_REQUEST), rows as in a
    snapshot; ``of`` checks what it is given, the constructor takes rows that are known to be right. They
    join the queue at their dispatch, or at the snapshot's stamp if that is later.
    """

    dispatched_s: NDArray[np.float64]
    requests: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        dispatched_s: ArrayLike,
        prompt_tokens: ArrayLike,
        cap_tokens: ArrayLike,
        predicted_tokens: ArrayLike,
        cached_prefix_tokens: ArrayLike = 0,
    ) -> UnseenRequests:
        """One row for each dispatch; all (n,). Predicted 0 stands for no prediction.

        Raises ``EngineError`` with the field and the row for times that are not finite or run
        backwards and for counts out of range.
        """
        times = np.array(dispatched_s, dtype=np.float64).reshape(-1)
        rows = np.zeros((len(times), snap.N_REQUEST), dtype=np.int64)
        columns = (
            (snap.PROMPT, prompt_tokens, 1),
            (snap.CAP, cap_tokens, 1),
            (snap.PREDICTED, predicted_tokens, 0),
            (snap.CACHED, cached_prefix_tokens, 0),
        )
        for column, values, least in columns:
            array, name = np.asarray(values), snap.REQUEST_FIELDS[column]
            if len(times) and (array.dtype.kind not in "iu" or array.shape not in ((), times.shape)):
                raise EngineError(f"{name} of the unseen requests must be {len(times)} whole numbers")
            rows[:, column] = array
            _refuse(rows[:, column] < least, f"{name} must be at least {least}")
        _refuse(
            rows[:, snap.CACHED] >= rows[:, snap.PROMPT], "cached_prefix_tokens must leave one to compute"
        )
        _refuse(~np.isfinite(times), "dispatched_s must be finite")
        _refuse(np.diff(times, prepend=-np.inf) < 0.0, "dispatched_s runs backwards")
        return cls(times, rows)


def waiting_row(input_tokens: int, max_tokens: int, length_tokens: float) -> NDArray[np.int64]:
    """One request that nothing is known of yet but what it was sent with, (snap.N_REQUEST,)."""
    row = np.zeros(snap.N_REQUEST, dtype=np.int64)
    row[snap.PROMPT], row[snap.CAP] = input_tokens, max_tokens
    row[snap.PREDICTED] = whole_tokens(length_tokens)
    return row


def _refuse(faulty: NDArray[np.bool_], words: str) -> None:
    if faulty.any():
        raise EngineError(f"unseen request {int(faulty.argmax())}: {words}")


NOTHING_UNSEEN = UnseenRequests(np.zeros(0), np.zeros((0, snap.N_REQUEST), dtype=np.int64))
