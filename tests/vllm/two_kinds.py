"""A grid of two kinds of prompts and two models, each of which answers one kind well."""

from __future__ import annotations

import csv

import yaml

from tests.workplace import Workplace

WELL, BADLY = 0.9, 0.1
TOKENS = 20
EACH = 80
THINGS = "sea moon autumn winter river garden night bird rose storm island mountain lamp cloud song shadow"
# Neither is in the grid.
SUMS = [f"Solve the equation {a} times x plus {a + 3} equals {7 * a} for x" for a in (31, 37, 41, 43)]
POEMS = [
    f"Write a tender poem about the {thing} and the old harbour" for thing in ("sea", "moon", "rose", "storm")
]


def train(place: Workplace, pool: str, good_at_sums: str, good_at_poems: str) -> str:
    """Build the grid and train its bundle with the command line; the bundle's folder in ``place``."""
    things = THINGS.split()
    sums = [f"Solve the equation {k % 17 + 2} times x plus {k} equals {3 * k + 7} for x" for k in range(EACH)]
    poems = [
        f"Write a tender poem about the {things[k % 16]} and the {things[(7 * k + 3) % 16]}, verse {k}"
        for k in range(EACH)
    ]
    scores = [
        *((prompt, {good_at_sums: WELL, good_at_poems: BADLY}) for prompt in sums),
        *((prompt, {good_at_sums: BADLY, good_at_poems: WELL}) for prompt in poems),
    ]
    with (place.folder / "answers.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["prompt", "model", "score", "output_tokens"])
        table.writerows(
            [prompt, model, score, TOKENS] for prompt, by_model in scores for model, score in by_model.items()
        )
    columns = {name: name for name in ("prompt", "model", "score", "output_tokens")}
    spec = {
        "name": "two-kinds",
        "description": "Sums that one model answers well, and poems that the other does.",
        "source": {"kind": "table", "layout": "long", "path": "answers.csv", "columns": columns},
    }
    (place.folder / "two-kinds.yaml").write_text(yaml.safe_dump(spec))
    place.rbx("build-dataset", "two-kinds.yaml")
    how = ("--pool", pool, "--out", "bundle", "--encoder", "static", "--no-compare")
    place.rbx("train", "datasets/two-kinds", *how)
    return "bundle"
