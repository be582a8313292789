"""What a sweep predicts of its prompts, nothing of it made from the prompt's own labels."""

from __future__ import annotations

import numpy as np

from rbx.grid.schema import GridView
from rbx.heads.bundle import Bundle
from rbx.heads.predictions import Predictions
from rbx.policy.request_table import Ints


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
