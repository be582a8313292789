"""Columns of ``InstanceSnapshot.requests`` and ``InstanceSnapshot.steps``: tokens unless said otherwise.

As in vLLM, a token counts as computed once its batch is formed and as generated once its step has ended.
"""

from __future__ import annotations

# One row a request.
PROMPT = 0
COMPUTED = 1  # 0 while waiting
GENERATED = 2
CAP = 3  # largest output, by max_tokens or the context limit
PREDICTED = 4  # predicted output in all, 0 if nobody predicted it
BLOCKS = 5  # KV blocks held; 0 while waiting
CACHED = 6  # of the prompt, found in the prefix cache when it is admitted
PREEMPTIONS = 7  # so far
PREFILLING = 8  # 1 while running with known tokens in no formed batch yet
YIELDS = 9  # 1 if the running step gives it a token
YIELDS_AHEAD = 10  # 1 if the batch formed ahead gives it a token

N_REQUEST = 11
REQUEST_FIELDS = (
    "prompt_tokens",
    "computed_tokens",
    "generated_tokens",
    "cap_tokens",
    "predicted_tokens",
    "blocks_held",
    "cached_prefix_tokens",
    "preemptions",
    "prefilling",
    "yields_running_step",
    "yields_ahead",
)

# One row a batch in flight: what it computes, requests that have left meanwhile included.
DECODES = 0
CONTEXT = 1  # of the decodes, before the step
PREFILL_TOKENS = 2
PREFILL_SQUARED = 3  # Σ n² over prefill chunks of n tokens
PREFILL_CROSS = 4  # Σ n·c, c the tokens computed before the chunk

N_STEP = 5
STEP_FIELDS = ("decodes", "decode_context_tokens", "prefill_tokens", "prefill_squared", "prefill_cross")
