"""Output tokens counted by a tokenizer: for answers without usage, and to doubt usage that is far off.

This is for after a run: counting would take time from the schedule.
"""

from __future__ import annotations

from dataclasses import replace

from rbx.label.tokenizer import TokenCounter
from rbx.load.client.result import LoadResult

# A text does not tell its tokens for sure: runs of spaces merge, an end token has no text.
TOLERATED_TOKENS = 2
TOLERATED_SHARE = 0.1


def recounted(result: LoadResult, counter: TokenCounter) -> LoadResult:
    """``result`` with its output counted by ``counter`` where the server gave no usage.

    Content and reasoning are counted once each, as a whole: chunk by chunk a tokenizer may add a token to
    each. Answers with tool calls, whose text is not kept, stay as they are. Where there is usage it is
    kept, and a count that differs by more than 2 tokens and by more than 10 % is a disagreement.
    """
    if result.output_tokens is None or result.finish_reason == "tool_calls":
        return result
    tokens = sum(counter.counts([result.reasoning, result.text]))
    if result.tokens_source != "usage":
        return replace(result, output_tokens=tokens, tokens_source="recount")
    off = abs(tokens - result.output_tokens)
    if off > TOLERATED_TOKENS and off > TOLERATED_SHARE * result.output_tokens:
        return replace(result, usage_disagrees=True)
    return result
