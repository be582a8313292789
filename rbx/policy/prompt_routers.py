"""Routers that read the prompt: by its predicted quality and length, or by a router trained for it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linprog

from rbx.policy.base import Floats, Ints
from rbx.policy.pool_state import PoolShape
from rbx.policy.request_table import RequestTable

FIRST_REQUESTS = 250  # PORT's sample: what comes first tells what the budgets are worth


def model_prices(shape: PoolShape, n_models: int) -> tuple[Floats, Floats]:
    """USD per token in and out of each model, (M,): those of the tier with its cheapest output."""
    price_in, price_out = np.full(n_models, np.inf), np.full(n_models, np.inf)
    for i in np.lexsort((shape.price_in_usd, shape.price_out_usd))[::-1].tolist():
        price_in[shape.model[i]], price_out[shape.model[i]] = shape.price_in_usd[i], shape.price_out_usd[i]
    return price_in, price_out


@dataclass(frozen=True)
class HighestScore:
    """The model of the highest score: predicted quality, or what a trained router says."""

    trained: bool

    @property
    def needs_predictions(self) -> bool:
        """The prompt is read."""
        return True

    def choose(self, requests: Ints, table: RequestTable) -> Ints:
        """See ``Router.choose``; ties go to the earlier model of the pool."""
        score = table.router_score if self.trained else table.quality
        return np.asarray(score[requests].argmax(axis=1), dtype=np.int64)


@dataclass(frozen=True)
class CheapestGoodEnough:
    """The lowest predicted cost among models whose predicted quality reaches a bound, else the best quality.

    The per-request form of OmniRouter's constraint (arXiv 2502.20576), as RouteBalance's reference code
    takes it; the cost is that of the prompt and the predicted answer, where that code takes model sizes.
    """

    min_quality: float
    price_in_usd: Floats
    price_out_usd: Floats

    @property
    def needs_predictions(self) -> bool:
        """The prompt is read."""
        return True

    def choose(self, requests: Ints, table: RequestTable) -> Ints:
        """See ``Router.choose``."""
        quality = table.quality[requests]
        cost = expected_cost(requests, table, self.price_in_usd, self.price_out_usd)
        enough = quality >= self.min_quality
        cheapest = np.where(enough, cost, np.inf).argmin(axis=1)
        return np.asarray(np.where(enough.any(axis=1), cheapest, quality.argmax(axis=1)), dtype=np.int64)


@dataclass
class BudgetedOnline:
    """PORT (arXiv 2509.02718): the first requests teach what each model's budget is worth, γ (M,).

    A request then goes to the model of the highest q̂ − γ·ĉ. ``mean_budget_usd`` is what a request may cost
    on average; it is split over the models by mean quality per dollar of the sample, as the paper splits
    its total. γ solves the dual of max Σ q̂·x under Σ_m x ≤ 1 for each request and Σ ĉ·x ≤ its share for
    each model, over the first ``FIRST_REQUESTS`` requests, which are themselves routed at random. A request
    for which no model is worth its price goes to the one that loses least.
    """

    mean_budget_usd: float
    price_in_usd: Floats
    price_out_usd: Floats
    rng: np.random.Generator
    worth: Floats | None = None
    _quality: list[Floats] = field(default_factory=list)
    _cost: list[Floats] = field(default_factory=list)

    @property
    def needs_predictions(self) -> bool:
        """The prompt is read."""
        return True

    def choose(self, requests: Ints, table: RequestTable) -> Ints:
        """See ``Router.choose``; what is learnt stays for later requests."""
        quality = table.quality[requests]
        cost = expected_cost(requests, table, self.price_in_usd, self.price_out_usd)
        if self.worth is None:
            self._quality.extend(quality)
            self._cost.extend(cost)
            if len(self._quality) >= FIRST_REQUESTS:
                self.worth = budget_worth(np.array(self._quality), np.array(self._cost), self.mean_budget_usd)
                self._quality.clear()
                self._cost.clear()
            return np.asarray(self.rng.integers(0, quality.shape[1], len(requests)), dtype=np.int64)
        return np.asarray((quality - self.worth * cost).argmax(axis=1), dtype=np.int64)


def expected_cost(requests: Ints, table: RequestTable, price_in_usd: Floats, price_out_usd: Floats) -> Floats:
    """Of prompt and predicted answer at each model, (B, M), in USD; an answer ends at the request's cap."""
    length = np.minimum(table.length_tokens[requests], table.max_tokens[requests][:, None])
    return np.asarray(table.input_tokens[requests][:, None] * price_in_usd + length * price_out_usd)


def budget_worth(quality: Floats, cost: Floats, mean_budget_usd: float) -> Floats:
    """γ (M,), quality per USD: shadow prices of the models' budgets on a sample of n requests.

    ``quality`` and ``cost`` (n, M); each model has a share of n times the mean budget, in USD.
    """
    n, m = quality.shape
    efficiency = quality.mean(axis=0) / np.maximum(cost.mean(axis=0), 1e-30)
    total = efficiency.sum()
    share = efficiency / total if total > 0 else np.full(m, 1.0 / m)
    # Scaled so that the solver sees numbers around one.
    unit = float(np.maximum(cost.mean(), 1e-30))
    # A budget for more than the whole sample never binds, whatever it is.
    most = 2.0 * cost.sum(axis=0) / unit + 1.0
    budget = np.minimum(share * n * min(mean_budget_usd / unit, 1e100), most)
    one_model = np.kron(np.eye(n), np.ones(m))
    spent = np.hstack([np.diag(row / unit) for row in cost])
    solved = linprog(
        -quality.ravel(),
        A_ub=np.vstack([one_model, spent]),
        b_ub=np.concatenate([np.ones(n), budget]),
        bounds=(0, None),
        method="highs",
    )
    return np.asarray(-solved.ineqlin.marginals[n:] / unit)
