"""A cascade learnt from what models said to training prompts, and how good that was."""

from __future__ import annotations

import numpy as np

from rbx.errors import BundleError
from rbx.heads.embedding_cache import encode_cached
from rbx.heads.routers.cascade.router import Cascade
from rbx.heads.routers.cascade.scorer import fit_scorer
from rbx.heads.routers.task import RouterTask
from rbx.heads.static import load_static


def train(task: RouterTask, seed: int) -> Cascade:
    """Fit the answer scorer; nothing is drawn, so ``seed`` has no say.

    Raises ``BundleError`` where the texts of answers are not known.
    """
    if task.answers is None:
        raise BundleError("router cascade: learns from the answers' texts, and none were read")
    texts = [[row[model] for row in task.answers] for model in range(task.n_models)]
    for name, said, scores in zip(task.models, texts, task.score.T, strict=True):
        known = sum(
            text is not None and not np.isnan(score) for text, score in zip(said, scores, strict=True)
        )
        if known < 2:
            raise BundleError(
                f"router cascade: learns from the answers' texts, and the grid holds {known} scored ones of "
                f"{name} among the training prompts; synthetic grids have none"
            )
    encoder = load_static()
    prompts = encode_cached(encoder, task.texts)
    answers = [encode_cached(encoder, [text or "" for text in said]) for said in texts]
    fitted = fit_scorer(prompts, answers, texts, task.score)
    return Cascade(
        models=task.models,
        scorer=fitted.scorer,
        answer_score=fitted.left_out,
        labels=task.score,
        input_tokens=task.input_tokens.astype(np.float64),
        output_tokens=task.output_tokens,
        price_in_usd=task.price_in_usd,
        price_out_usd=task.price_out_usd,
        encoder_digest=encoder.digest,
        errors=fitted.errors,
    )
