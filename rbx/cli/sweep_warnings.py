"""What ``rbx sweep`` warns of before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rbx.sweep.plan import Plan


def warnings_of(plan: Plan, folder: Path) -> list[str]:
    """Everything that there is to warn of, where the results go to ``folder``."""
    return [
        *cells_left_behind(plan, folder),
        *filters_without_budgets(plan),
        *saturated_loop(plan),
        *saturated_scoring(plan),
        *default_models(plan),
        *dear_cascades(plan),
    ]


def cells_left_behind(plan: Plan, folder: Path) -> Iterator[str]:
    """Finished cells of the directory that this plan, and so the next report, knows nothing of."""
    from rbx.sweep.left_behind import left_behind

    cells, differing = left_behind(plan, folder)
    if cells:
        what = ", ".join(differing) or "nothing of the file: rbx itself, a router, a calibration or a plug-in"
        yield (
            f"{folder} holds {cells} finished cells of an earlier plan that this one drops. They stay on "
            "disk and stand in no report; the earlier command takes them up again. To have both, plan both "
            f"at once (lists hold several values), or keep them apart by --out. What differs: {what}"
        )


def filters_without_budgets(plan: Plan) -> Iterator[str]:
    """Filters that look at budgets alone, where no request has one."""
    budget = plan.context.experiment.workload.budget
    if budget is not None and budget.share > 0.0:
        return
    behind: dict[str, set[str]] = {}
    for cell in plan.cells:
        kind = (cell.policy.get("filter") or {}).get("kind")
        if kind in ("budget", "none"):
            behind.setdefault(kind, set()).add(cell.label)
    for kind, labels in sorted(behind.items()):
        yield (
            f"filter {kind}: no request of this workload has a budget, so that everybody passes "
            f"({', '.join(sorted(labels))}); give workload.budget"
        )


def saturated_loop(plan: Plan) -> Iterator[str]:
    """RouteBalance reads every prompt in one loop; beyond its rate the queue stands before the servers."""
    fastest = plan.manifest["decision_loop_per_s"]
    routed = {cell.rate_per_s for cell in plan.cells if cell.policy["kind"] == "routebalance"}
    beyond = sorted(rate for rate in routed if fastest is not None and rate > fastest)
    if beyond:
        rates = ", ".join(f"{rate:g}" for rate in beyond)
        yield (
            f"encoder {plan.manifest['bundle']['encoder']} lets the decision loop take "
            f"{fastest:.3g} requests/s at most, and λ = {rates} is more: RouteBalance will queue before it "
            "decides. Train with --encoder static, lower the rates, or set "
            "scheduler.decision_cost to a faster machine"
        )


def saturated_scoring(plan: Plan) -> Iterator[str]:
    """Policies scored before their batch, or at a stated cost, whose prompts come faster than that."""
    fastest = plan.manifest.get("scoring_per_s", {})
    beyond: dict[str, list[float]] = {}
    for cell in plan.cells:
        if cell.rate_per_s > fastest.get(cell.label, float("inf")):
            beyond.setdefault(cell.label, []).append(cell.rate_per_s)
    for label, rates in beyond.items():
        listed = ", ".join(f"{rate:g}" for rate in sorted(set(rates)))
        yield (
            f"{label}: prompts are scored at {fastest[label]:.3g} requests/s at most, and "
            f"λ = {listed} is more: they will queue to be scored"
        )


def default_models(plan: Plan) -> Iterator[str]:
    """Routers whose classifier names categories that no model is given for."""
    for label, noted in plan.manifest.get("classifiers", {}).items():
        sent = noted["sent_to_default"]
        if sent:
            by_category = ", ".join(f"{count} of {category!r}" for category, count in sent.items())
            yield (
                f"{label}: the default model {noted['default']} answers {sum(sent.values())} of "
                f"{noted['prompts']} prompts, {by_category}: no model is given for them, or the classifier "
                "is not sure enough"
            )


def dear_cascades(plan: Plan) -> Iterator[str]:
    """Cascades that no chain of models keeps within their budget: they ask the cheapest alone."""
    chains = plan.manifest.get("cascades", {})
    budgets = {
        cell.policy["mean_budget_usd"]
        for cell in plan.cells
        if cell.policy.get("router") == "cascade" and cell.policy.get("mean_budget_usd") is not None
    }
    for budget_usd in sorted(budgets):
        chain = chains.get(f"cascade b${budget_usd:g}")
        if chain is not None and chain["cost_usd"] > budget_usd:
            yield (
                f"cascade b${budget_usd:g}: no chain costs so little; it asks {chain['asked'][0]} alone, the "
                f"cheapest, at {chain['cost_usd']:.3g} USD a training prompt"
            )
