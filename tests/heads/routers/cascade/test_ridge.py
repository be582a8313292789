from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from rbx.heads.routers.cascade.ridge import fit_ridge


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(4, 15), st.integers(1, 20), st.sampled_from([0.1, 1.0, 30.0]))
def test_predictions_left_out_are_those_of_fits_without_each_row(
    seed: int, n: int, width: int, penalty: float
) -> None:
    rng = np.random.default_rng(seed)
    features, target = rng.normal(size=(n, width)), rng.random(n)
    fitted = fit_ridge(features, target, (penalty,))
    for row in range(n):
        kept = np.arange(n) != row
        without = Ridge(alpha=penalty).fit(features[kept], target[kept])
        assert abs(fitted.left_out[row] - without.predict(features[[row]])[0]) < 1e-8
    whole = Ridge(alpha=penalty).fit(features, target)
    np.testing.assert_allclose(fitted(features), whole.predict(features), atol=1e-8)


def test_the_penalty_is_the_one_of_the_least_error_left_out() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(40, 60))
    target = features[:, 0] * 0.1 + rng.normal(0.0, 1.0, 40)
    penalties = (0.1, 1.0, 10.0, 100.0, 1000.0)
    errors = {p: float(((fit_ridge(features, target, (p,)).left_out - target) ** 2).sum()) for p in penalties}
    assert fit_ridge(features, target, penalties).penalty == min(penalties, key=lambda p: errors[p])
    assert len(set(errors.values())) == len(penalties)
