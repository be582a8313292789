"""What a score is taken to be worth once its answer was cut."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sweep.scenes import small_context
from tests.sweep.test_scoring import records_of


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.5])
def test_a_cut_answer_is_worth_its_share_to_the_exponent(exponent: float) -> None:
    context = small_context(workload={"max_output_tokens": 50, "cut_quality_exponent": exponent})
    prompts = context.prompts
    _, rows = records_of(context)
    modelled = whole = missing = 0
    for row in rows:
        p, m = prompts.prompt_ids.index(row["prompt_id"]), prompts.models.index(row["model"])
        label, wanted = prompts.score[p, m], prompts.output_tokens[p, m]
        if np.isnan(label):
            missing += 1
            assert row["quality"] is None
            assert row["quality_status"] != "ok"
        elif wanted > 50:
            modelled += 1
            assert row["quality"] == pytest.approx(label * (50 / wanted) ** exponent)
            assert (row["quality_source"], row["quality_status"]) == ("modelled", "ok")
        else:
            whole += 1
            assert row["quality"] == label
            assert row["quality_source"] == "lookup"
    assert min(modelled, whole, missing) > 0


def test_without_a_model_no_score_is_made_up() -> None:
    _, rows = records_of(small_context(workload={"max_output_tokens": 50}))
    assert {row["quality_source"] for row in rows} == {"lookup"}
    assert any(row["quality_status"] == "truncated" for row in rows)
