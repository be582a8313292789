"""Whatever a file holds, the view holds: every score where it was, and nothing where there was nothing."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.grid.inspection import inspect_grid
from rbx.grid.store import open_view
from tests.grid.building import build
from tests.grid.sources import write_jsonl

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6).filter(lambda text: bool(text.strip()))
ANSWERS = st.dictionaries(
    st.tuples(TEXTS, st.sampled_from(["m-2", "m-10", "small"])),
    st.tuples(st.none() | st.floats(0, 1), st.integers(0, 9)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(ANSWERS)
def test_a_table_comes_back_as_it_was(answers: dict[tuple[str, str], tuple[float | None, int]]) -> None:
    rows = [
        {"prompt": prompt, "model": model, "score": score, "tokens": tokens}
        for (prompt, model), (score, tokens) in answers.items()
    ]
    columns = {"prompt": "prompt", "model": "model", "score": "score", "output_tokens": "tokens"}
    with tempfile.TemporaryDirectory() as name:
        path = write_jsonl(Path(name) / "rows.jsonl", rows)
        folder = Path(name) / "grid"
        counts = build(
            {"kind": "table", "layout": "long", "path": str(path), "columns": columns}, folder
        ).manifest.counts
        view, inspection = open_view(folder), inspect_grid(folder)
    assert set(view.prompts) == {prompt for prompt, _ in answers}
    assert len(set(view.prompts)) == len(view.prompts) == counts.prompts == counts.train + counts.test
    assert set(view.models) == {model for _, model in answers}
    assert counts.labels_present == sum(score is not None for score, _ in answers.values())
    for row, prompt in enumerate(view.prompts):
        for column, model in enumerate(view.models):
            score, tokens = answers.get((prompt, model), (None, None))
            found = view.score[row, column]
            assert math.isnan(found) if score is None else found == score
            length = view.output_tokens[row, column]
            assert math.isnan(length) if tokens is None else length == tokens
    faults = {fault.rule for fault in inspection.faults}
    assert faults == (set() if counts.labels_present else {"empty"})
