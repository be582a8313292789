"""How lengths are guessed, with numbers worked out by hand and by brute force."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.simulator import EngineSim
from rbx.engine.snapshot_export import export_snapshot
from rbx.errors import BundleError, EngineError
from rbx.heads.bea.lengths import LengthRule, total_tokens
from rbx.heads.bea.prediction import Probe, TtftFlag
from rbx.heads.bea.survival import MIN_SURVIVORS, SurvivalTable
from rbx.heads.bea.ttft import predict_ttft
from tests.engine.scenes import tier


def guess(rule: LengthRule, **columns: int) -> tuple[int, bool]:
    row = np.zeros(snap.N_REQUEST, dtype=np.int64)
    values = {"prompt_tokens": 100, "cap_tokens": 1000, **columns}
    for name, value in values.items():
        row[snap.REQUEST_FIELDS.index(name)] = value
    return total_tokens(row, *rule.tables, rule.reserve_tokens, rule.trust_predictions)


def test_medians_are_those_of_the_survivors() -> None:
    rng = np.random.default_rng(0)
    prompts, totals = rng.integers(1, 4000, 500), rng.geometric(0.01, 500)
    table = SurvivalTable.fit(prompts, totals, bins=4)
    assert table.medians.shape == (4, totals.max())
    backed_off = own = 0
    for b in range(4):
        low = table.edges[b - 1] if b else 0
        high = table.edges[b] if b < 3 else np.inf
        mine = totals[(prompts > low) & (prompts <= high)]
        assert 100 <= len(mine) <= 150
        for x in range(totals.max()):
            left = mine[mine > x]
            own += len(left) >= MIN_SURVIVORS
            if len(left) < MIN_SURVIVORS:
                left = totals[totals > x]
                backed_off += len(left) >= MIN_SURVIVORS
            expected = int(np.ceil(np.median(left))) if len(left) >= MIN_SURVIVORS else 0
            assert table.medians[b, x] == expected
    assert min(own, backed_off) > 50


def test_the_order_of_preference() -> None:
    table = SurvivalTable.fit([10] * 20 + [200] * 20, [50] * 12 + [90] * 8 + [400] * 20, bins=2)
    rule = LengthRule(table, reserve_tokens=16)
    assert guess(rule, prompt_tokens=10) == (50, False)
    assert guess(rule, prompt_tokens=10, generated_tokens=50, predicted_tokens=7) == (90, False)
    assert guess(rule, prompt_tokens=10, generated_tokens=90, predicted_tokens=7) == (400, False)  # of all
    assert guess(rule, prompt_tokens=999) == (400, False)
    assert guess(rule, generated_tokens=400, predicted_tokens=500) == (516, False)  # nobody got so far
    assert guess(rule, generated_tokens=700, predicted_tokens=500) == (701, False)
    assert guess(rule, generated_tokens=400) == (500, True)
    assert guess(rule, generated_tokens=600) == (601, True)


def test_predictions_may_be_trusted_until_they_are_outlived() -> None:
    table = SurvivalTable.fit([10] * 20, [50] * 12 + [90] * 8)
    rule = LengthRule(table, reserve_tokens=5, trust_predictions=True)
    assert guess(rule, predicted_tokens=30) == (35, False)
    assert guess(rule, generated_tokens=34, predicted_tokens=30) == (35, False)
    assert guess(rule, generated_tokens=35, predicted_tokens=30) == (50, False)
    assert guess(rule) == (50, False)


def test_a_missing_prediction_is_never_one_token() -> None:
    assert guess(LengthRule()) == (500, True)
    assert guess(LengthRule(), cap_tokens=1) == (1, True)
    assert guess(LengthRule(reserve_tokens=40), predicted_tokens=30) == (70, False)


def test_no_guess_passes_the_cap() -> None:
    assert guess(LengthRule(reserve_tokens=900), predicted_tokens=300) == (1000, False)
    table = SurvivalTable.fit([10] * 8, [5000] * 8)
    assert guess(LengthRule(table)) == (1000, False)


def test_a_few_requests_make_no_table() -> None:
    table = SurvivalTable.fit([10] * 7, [50] * 7)
    assert not table.medians.any()
    assert guess(LengthRule(table), predicted_tokens=30) == (30, False)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (([1, 2], [3]), "prompt_tokens has 2 rows and output_tokens 1"),
        (([], []), "at least one row"),
        (([5], [0]), r"output_tokens\[0\] is 0"),
        (([5, -1], [3, 3]), r"prompt_tokens\[1\] is -1"),
        (([5.5], [3]), "prompt_tokens must be whole numbers"),
        (([5], [3], 0), "bins is 0"),
    ],
)
def test_a_table_of_impossible_requests_is_refused(columns: tuple[Any, ...], words: str) -> None:
    with pytest.raises(BundleError, match=words):
        SurvivalTable.fit(*columns)


def test_a_negative_reserve_is_refused() -> None:
    with pytest.raises(EngineError, match="reserve_tokens is -1"):
        LengthRule(reserve_tokens=-1)


def blocked() -> InstanceSnapshot:
    """One seat, held by a request that has generated 9 tokens and believed to give 10; 1 s a step."""
    server = tier(b0_s=1.0, b1_s=0.0, b2_s=0.0, b3_s=0.0, max_num_seqs=1, async_scheduling=0)
    engine = EngineSim([server], 1)
    engine.submit(0, 0.0, 10, 200, 10)
    engine.advance(9.25)
    return export_snapshot(engine, 0, InstanceProfile.of(server))


def test_the_guess_decides_when_a_seat_is_free() -> None:
    seen = blocked()
    assert predict_ttft(seen, Probe(5)).seconds == pytest.approx(1.75)
    assert predict_ttft(seen, Probe(5), lengths=LengthRule(reserve_tokens=30)).seconds == pytest.approx(31.75)
    table = LengthRule(SurvivalTable.fit([10] * 20, [15] * 20))
    assert predict_ttft(seen, Probe(5), lengths=table).seconds == pytest.approx(6.75)


def test_a_length_that_nobody_knows_is_flagged() -> None:
    seen = blocked()
    requests = seen.requests.copy()
    requests[:, snap.PREDICTED] = 0
    requests[:, snap.CAP] = 40
    predicted = predict_ttft(replace(seen, requests=requests), Probe(5))
    assert predicted.flags == TtftFlag.LENGTH_UNKNOWN
    assert predicted.seconds == pytest.approx(11.75)
