"""A second judge of a synthetic grid: it looks at the same answers and agrees with the first one in part.

With u the first judge's latent quality (``rbx.grid.synth.latent``), standardised over all pairs::

    z'_im = level + spread · (√agreement · u_im + √(1 − agreement) · e_im)

The two constants are solved for what RouteBalance publishes of its second judge (arXiv 2606.17949, §6): a
correlation of 0.555 with the first over pairs, and a mean score of 0.642 for a random instance. How far it
tells policies apart follows from these.
"""

from __future__ import annotations

import numpy as np

from rbx.grid.synth.latent import Floats, coarse

METRIC = "second-judge"

_LEVEL = 0.6897
_AGREEMENT = 0.3776
_SPREAD = 0.3969


def second_scores(latent: Floats, generator: np.random.Generator) -> Floats:
    """Scores of shape (N, M) in {0, 0.1, …, 1} for latent qualities (N, M); where all are equal, noise."""
    spread = latent.std()
    seen = (latent - latent.mean()) / spread if spread > 0 else np.zeros_like(latent)
    own = generator.standard_normal(latent.shape)
    return coarse(_LEVEL + _SPREAD * (np.sqrt(_AGREEMENT) * seen + np.sqrt(1.0 - _AGREEMENT) * own))
