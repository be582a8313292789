"""What a sweep predicts of its prompts, nothing of it made from the prompt's own labels."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rbx.config.policy import RoutedPolicy, SinglePolicy
from rbx.config.pool import Pool
from rbx.errors import ConfigError
from rbx.grid.schema import GridView
from rbx.heads.bundle import Bundle
from rbx.heads.embedding_cache import encode_cached
from rbx.heads.predictions import Predictions
from rbx.heads.routers.asked import asked_router
from rbx.heads.routers.head import AskedPrompts
from rbx.policy.request_table import Floats, Ints


def router_scores(
    bundle: Bundle, view: GridView, rows: Ints, policies: Iterable[SinglePolicy], pool: Pool
) -> dict[str, Floats]:
    """What the trained routers that ``policies`` ask say of ``rows``, (P, M) by the router's label.

    Raises ``BundleError`` where one was not trained, and ``ConfigError`` where a prompt stands in the train
    split: a router knows the answers of those.
    """
    asking = [p for p in policies if isinstance(p, RoutedPolicy) and p.trained_router is not None]
    if not asking:
        return {}
    if np.isin(rows, view.rows("train")).any():
        raise ConfigError(
            f"{asking[0].label}: trained routers have seen the labels of the train split; take "
            "workload.split: test"
        )
    embeddings = encode_cached(bundle.encoder, [view.prompts[row] for row in rows])
    prompts = AskedPrompts(
        [view.prompts[row] for row in rows], embeddings, [view.sources[row] for row in rows]
    )
    # Once for all dispatchers. Of a cascade the answers are scored, not the prompts: ``plan_cascades``.
    asked = {policy.router_label: policy for policy in asking if policy.router != "cascade"}
    return {label: asked_router(bundle, policy, pool).score(prompts) for label, policy in asked.items()}


def predict_prompts(bundle: Bundle, view: GridView, rows: Ints) -> Predictions:
    """Predict ``rows`` of the bundle's own grid, in that order.

    Test prompts are looked up in the index; training prompts stand in it themselves, so each is
    predicted with itself left out. The bundle must have passed ``check_grid(view)``.
    """
    train = view.rows("train")
    known = np.isin(rows, train)
    fresh = bundle.predict([view.prompts[row] for row in rows[~known]])
    if not known.any():
        return fresh
    left_out = bundle.knn.predict_left_out(np.searchsorted(train, rows[known]))
    where = np.concatenate([np.flatnonzero(~known), np.flatnonzero(known)])
    back = np.argsort(where)
    return Predictions(
        models=fresh.models,
        quality=np.concatenate([fresh.quality, left_out.quality])[back],
        length_tokens=np.concatenate([fresh.length_tokens, left_out.length_tokens])[back],
        length_histogram=np.concatenate([fresh.length_histogram, left_out.length_histogram])[back],
    )
