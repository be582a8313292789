"""The reference that sees what no router may: the labels and lengths of the very answers it chooses among.

This is the one place where labels come near a policy. ``RequestTable`` has no field for them; what the
oracle prefers is put into ``router_score``, where a trained router's opinion would stand, and the label
``oracle (true labels)`` says so wherever its cells are shown. Gateways and live cells refuse it.
"""

from __future__ import annotations

import numpy as np

from rbx.config.pool import Pool
from rbx.heads.routers.prices import model_prices_usd
from rbx.policy.request_table import Floats
from rbx.sweep.prompts import PromptTable


def oracle_scores(
    prompts: PromptTable, pool: Pool, max_output_tokens: int, cost_weight_per_usd: float
) -> Floats:
    """What the oracle prefers for each prompt, (P, M): M for its choice, down to 1.

    Models go by label − ``cost_weight_per_usd``·true cost, ties by true cost, then in the pool's order. A
    model without a label, or whose answer the cap or the context would cut so that its label is none, comes
    after all that have one; among those the cheapest is first, and last of all is who can't hold the prompt.
    Costs are those of the model's cheapest tier, the context that of its longest.
    """
    price_in_usd, price_out_usd = model_prices_usd(pool)
    context = [max(t.limits.max_model_len for t in pool.tiers if t.model == model) for model in pool.models]
    room = np.minimum(np.array(context) - prompts.input_tokens[:, None], max_output_tokens)
    output = np.minimum(prompts.output_tokens, room)
    cost_usd = prompts.input_tokens[:, None] * price_in_usd + output * price_out_usd
    label = np.where(output < prompts.output_tokens, np.nan, prompts.score)
    worth = np.where(np.isnan(label), -np.inf, label - cost_weight_per_usd * cost_usd)
    order = np.lexsort((cost_usd, -worth, room < 1), axis=1)
    rank = np.empty(order.shape)
    np.put_along_axis(rank, order, np.arange(order.shape[1], dtype=np.float64)[None, :], axis=1)
    return np.asarray(order.shape[1] - rank)
