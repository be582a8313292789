"""What can't be in a snapshot; each rule names the field that breaks it."""

from __future__ import annotations

from rbx.compiled import bare_njit
from rbx.engine import instance_columns as inst
from rbx.engine import snapshot_columns as snap
from rbx.engine.state import Ints

OK = -1
# Rules over requests, by number.
RULES = (
    (snap.PROMPT, "must be at least 1"),
    (snap.CAP, "must be at least 1 and, with the prompt, within max_model_len"),
    (snap.GENERATED, "must be at least 0 and, with the tokens in flight, within cap_tokens"),
    (snap.PREDICTED, "must be at least 1, or 0 for none"),
    (snap.PREEMPTIONS, "must be at least 0"),
    (snap.CACHED, "must be at least 0 and leave one prompt token to compute"),
    (snap.PREFILLING, "must be 0 or 1, and 1 for the last running request at most"),
    (snap.YIELDS, "must be 0 or 1, and 0 while no step runs or the request prefills"),
    (snap.YIELDS_AHEAD, "must be 0 or 1, and 0 without a batch ahead, while prefilling and while waiting"),
    (snap.COMPUTED, "must be 0 while waiting, and within the known tokens while prefilling"),
    (snap.COMPUTED, "of a decoding request must be prompt + generated + tokens in flight − 1"),
    (snap.COMPUTED, "says that it decodes, so it must stand in a batch in flight"),
    (snap.BLOCKS, "must hold the computed tokens, be within kv_blocks, and be 0 while waiting"),
    (snap.YIELDS, "of a waiting request needs a preemption, and stands before those without"),
)


@bare_njit
def request_fault(requests: Ints, running: int, stepping: bool, ahead: bool, limits: Ints) -> tuple[int, int]:
    """First rule broken by the requests (N, snap.N_REQUEST) and the row; ``OK`` if none is."""
    stale_may_come = True
    for n in range(len(requests)):
        row = requests[n]
        rule = _count_rule(row, limits)
        if rule == OK:
            rule = _flag_rule(row, n == running - 1, n < running, stepping, ahead)
        if rule == OK:
            if n < running:
                rule = _running_rule(row, stepping or ahead, limits)
            else:
                rule = _waiting_rule(row, stale_may_come)
                stale_may_come = row[snap.YIELDS] == 1
        if rule != OK:
            return rule, n
    return OK, -1


@bare_njit
def _count_rule(row: Ints, limits: Ints) -> int:
    if row[snap.PROMPT] < 1:
        return 0
    if row[snap.CAP] < 1 or row[snap.PROMPT] > limits[inst.MAX_MODEL_LEN] - row[snap.CAP]:
        return 1
    if row[snap.GENERATED] < 0 or row[snap.GENERATED] >= row[snap.CAP]:
        return 2
    if row[snap.PREDICTED] < 0:
        return 3
    if row[snap.PREEMPTIONS] < 0:
        return 4
    if row[snap.CACHED] < 0 or row[snap.CACHED] >= row[snap.PROMPT]:
        return 5
    return OK


@bare_njit
def _flag_rule(row: Ints, last: bool, runs: bool, stepping: bool, ahead: bool) -> int:
    prefilling, token, following = row[snap.PREFILLING], row[snap.YIELDS], row[snap.YIELDS_AHEAD]
    if prefilling not in (0, 1) or (prefilling and not last):
        return 6
    if token not in (0, 1) or (token and (prefilling or not stepping)):
        return 7
    if following not in (0, 1) or (following and (prefilling or not ahead or not runs)):
        return 8
    if row[snap.GENERATED] + token + following > row[snap.CAP]:
        return 2
    return OK


@bare_njit
def _running_rule(row: Ints, in_flight: bool, limits: Ints) -> int:
    computed, known = row[snap.COMPUTED], row[snap.PROMPT] + row[snap.GENERATED]
    coming = row[snap.YIELDS] + row[snap.YIELDS_AHEAD]
    if row[snap.PREFILLING]:
        if computed < 1 or computed >= known:
            return 9
    elif computed != known + coming - 1 or (coming == 0 and row[snap.GENERATED] == 0):
        return 10
    elif in_flight and coming == 0:
        return 11
    held = row[snap.BLOCKS]
    if held < 0 or held > limits[inst.TOTAL_BLOCKS] or held * limits[inst.BLOCK_SIZE] < computed:
        return 12
    return OK


@bare_njit
def _waiting_rule(row: Ints, stale_may_come: bool) -> int:
    if row[snap.COMPUTED] != 0:
        return 9
    if row[snap.BLOCKS] != 0:
        return 12
    if row[snap.YIELDS] and (row[snap.PREEMPTIONS] == 0 or not stale_may_come):
        return 13
    return OK
