"""Columns of ``EngineState.slots`` and ``EngineState.slot_times``: one row a request.

Nothing here changes while a request decodes: how far it has come follows from the number of the batch
that gave its first token since it was admitted.
"""

from __future__ import annotations

INSTANCE = 0
PROMPT_TOKENS = 1
OUTPUT_TOKENS = 2  # true; telemetry never reads it
PREDICTED_TOKENS = 3
BY_LENGTH = 4  # 1 if the end is known a step ahead: it stops by its cap or by the context limit
STATUS = 5
NEXT = 6  # slot behind it in its queue
COMPUTED = 7  # prefill tokens in formed batches; kept while PREFILLING
KEPT = 8  # output tokens delivered before it was last admitted
TOKEN_BATCH = 9  # batch that computes its first token since it was last admitted, NEVER before
LAST_BATCH = 10  # batch that computes its last token; valid with TOKEN_BATCH
PREEMPTIONS = 11
CACHED = 12  # leading tokens that the prefix cache holds whenever it is admitted; 0 in the simulator
CAP = 13  # output it was sent with at most, context limit included

N_SLOTS = 14

AT_S = 0
SCHEDULED_S = 1
FIRST_TOKEN_S = 2
DONE_S = 3

N_SLOT_TIMES = 4

# Values of STATUS.
PENDING = 0
WAITING = 1
PREFILLING = 2
DECODING = 3
ENDING = 4  # its last token is being computed and the scheduler knows it: no further batch has it
FINISHED = 5

NEVER = 1 << 62
