"""Columns of ``EngineState.counts`` and ``EngineState.times``: one row an instance.

A *batch* is what one step computes. Non-empty batches of an instance are numbered 1, 2, …;
``STARTED`` is the newest one that has begun, ``FORMED`` the newest one put together (one ahead of it
under asynchronous scheduling). "Decoding" requests have their whole known sequence in formed batches
and stand in every later batch until they end.
"""

from __future__ import annotations

# Limits, from the tier.
MAX_SEQS = 0
TOKEN_BUDGET = 1
MAX_MODEL_LEN = 2
BLOCK_SIZE = 3
TOTAL_BLOCKS = 4
CHUNKED = 5
ASYNC = 6
RESERVE = 7

# Queues: linked lists of slots, −1 ends them.
PENDING_HEAD = 8  # submitted, not yet received; in order of arrival
PENDING_TAIL = 9
WAITING_HEAD = 10  # received, in vLLM's order
WAITING_TAIL = 11

# Requests by stage: submitted ⊇ received ⊇ finished; waiting + running = received − finished.
SUBMITTED = 12
RECEIVED = 13
FINISHED = 14
WAITING = 15
RUNNING = 16  # length of the row of ``EngineState.running``

# Sums over waiting requests, for telemetry.
WAITING_PREFILL_TOKENS = 17
WAITING_DECODE_TOKENS = 18  # predicted

FREE_BLOCKS = 19
DECODES = 20  # decoding requests: the decode part of the next batch
CONTEXT = 21  # their context before the next batch, tokens
PARTIAL = 22  # slot of the one partly prefilled request, −1 for none; it is the last running one

STARTED = 23
STEPPING = 24  # 1 while batch STARTED runs
FORMED = 25
BLOCKED = 26  # 1 if the newest formation left a head waiting that only a finish can let in
STALE = 27  # requests at the front of the queue, preempted while the running step computes a token of theirs
NEXT_DELIVERY = 28  # no earlier batch than this brings a first or a last token
NEXT_ENDING = 29  # no earlier batch than this is the first without a request about to reach its cap

# The run: consecutive steps of the same decodes up to the running one; a step with prefill is a run of one.
RUN_STEPS = 30
RUN_DECODES = 31
RUN_CONTEXT = 32  # before its first step
RUN_PREFILL_TOKENS = 33
RUN_PREFILL_SQUARED = 34  # Σ n² over prefill chunks of n tokens
RUN_PREFILL_CROSS = 35  # Σ n·c, c the tokens computed before the chunk

# The batch formed but not started; meaningful while FORMED > STARTED.
AHEAD_DECODES = 36
AHEAD_CONTEXT = 37
AHEAD_PREFILL_TOKENS = 38
AHEAD_PREFILL_SQUARED = 39
AHEAD_PREFILL_CROSS = 40

N_COUNTS = 41

# Coefficients, in the order of ``instance_profile.FEATURE_SETS["B"]``.
PER_STEP_S = 0
PER_PREFILL_TOKEN_S = 1
PER_DECODE_S = 2
PER_CONTEXT_TOKEN_S = 3
PER_SQUARED_S = 4
PER_CROSS_S = 5

# Times.
RUN_START_S = 6
END_S = 7  # of the running step
FORM_S = 8  # when the next batch is due, while no step runs; inf when idle
BUSY_S = 9  # in busy periods that are over
BUSY_SINCE_S = 10  # start of the present busy period, inf when idle
LAST_DONE_S = 11

N_TIMES = 12
