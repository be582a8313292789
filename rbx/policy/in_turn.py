"""Parts of one batch decided one after the other, so that each sees what those before it were sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import TypeVar

import numpy as np

from rbx.heads.bea.unseen import UnseenRequests, waiting_row
from rbx.policy.base import Assignment, Ints
from rbx.policy.request_table import RequestTable
from rbx.policy.view import PoolView

Answer = TypeVar("Answer", bound=Assignment)


def decide_in_turn(
    parts: Iterable[Sequence[int]],
    decide: Callable[[Sequence[int], PoolView], Answer],
    requests: Ints,
    table: RequestTable,
    view: PoolView,
) -> Answer:
    """One answer to a batch from those to its parts; each part lists positions in ``requests``.

    ``decide`` gets a part and the view as it is by then: with the part's own arrivals, and with earlier
    dispatches among what no snapshot shows. Every position must stand in one part.
    """
    answers: list[Answer] = []
    order: list[int] = []
    for positions in parts:
        seen = replace(view, arrived_s=view.arrived_s[list(positions)])
        answer = decide(positions, seen)
        view = _with_placed(view, answer, table.input_tokens[requests[list(positions)]])
        answers.append(answer)
        order.extend(positions)
    back, kind = np.argsort(order), type(answers[0])
    names = [field.name for field in fields(kind)]
    return kind(*(np.concatenate([getattr(answer, name) for answer in answers])[back] for name in names))


def _with_placed(view: PoolView, part: Assignment, input_tokens: Ints) -> PoolView:
    """The view with a part's dispatches among what no snapshot shows, for policies that read it."""
    if not view.snapshots:
        return view
    unseen = list(view.unseen)
    columns = (part.instance, input_tokens, part.max_tokens, part.length_tokens)
    for i, tokens_in, cap, length in zip(*(column.tolist() for column in columns), strict=True):
        if i >= 0:
            times = np.append(unseen[i].dispatched_s, view.enters_s)
            rows = np.vstack([unseen[i].requests, waiting_row(tokens_in, cap, length)])
            unseen[i] = UnseenRequests(times, rows)
    return replace(view, unseen=tuple(unseen))
