"""``summary.json`` of the report on routers: every figure for machines, NaN as null."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rbx.report.bootstrap import LEVEL
from rbx.report.routers.answers import answers
from rbx.report.routers.page import provenance
from rbx.report.routers.study import RouterStudy
from rbx.report.routers.words import warnings, what_was_judged
from rbx.report.summary import nulls


def summarise(study: RouterStudy) -> dict[str, Any]:
    """A JSON-ready mapping; money in USD, costs a request."""
    people = study.material.population
    content = {
        "synthetic_grid": study.synthetic,
        "judged": what_was_judged(study),
        "warnings": list(warnings(study)),
        "answers": {found.title: list(found.lines) for found in answers(study)},
        "population": {
            "prompts": people.n,
            "test_prompts": people.n_test,
            "coverage": people.coverage,
            "priced": people.n_priced,
            "informative": int(people.is_informative.sum()),
            "graded": people.is_graded,
            "sources": {source: int((people.prompt_sources == source).sum()) for source in people.sources},
        },
        "intervals": {
            "kind": "paired percentile bootstrap over prompts",
            "level": LEVEL,
            "n_resamples": study.options.resampling.n_resamples,
            "seed": study.options.resampling.seed,
        },
        "models": list(people.models),
        "cost_unit_usd": study.cost_unit_usd,
        "skipped": sorted(study.options.skip),
        "routed_quality": [asdict(row) for row in study.rows],
        "concordance": [asdict(row) for row in study.concordance],
        "calibration": [asdict(row) for row in study.calibration],
        "not_a_probability": list(study.unjudged),
        "curves": [asdict(curve) for curve in study.curves],
        "flips": [asdict(row) for row in study.flips],
        "held_out_sources": [asdict(row) for row in study.held_out],
        "label_noise": [asdict(row) for row in study.label_noise],
        "neighbours": [asdict(row) for row in study.neighbours],
        "prices": [asdict(row) for row in study.prices],
        "price_blind": list(study.price_blind),
        "provenance": provenance(study),
    }
    cleaned: dict[str, Any] = nulls(content)
    return cleaned
