"""What a snapshot, a ledger and a question may not say, each refused with the field's name."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile, StepCoefficients
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.simulator import EngineSim
from rbx.engine.snapshot_export import export_snapshot
from rbx.errors import EngineError
from rbx.heads.bea.lengths import LengthRule
from rbx.heads.bea.prediction import Probe, ReplayCaps
from rbx.heads.bea.ttft import predict_ttft
from rbx.heads.bea.unseen import UnseenRequests
from tests.engine.scenes import tier

SERVER = tier(b0_s=1.0, b1_s=0.0, b2_s=0.0, b3_s=0.0, max_num_seqs=2)


def snapshot() -> InstanceSnapshot:
    """Two requests decode in the running step and the batch ahead, two wait, at 2.5 s."""
    engine = EngineSim([SERVER], 4)
    engine.submit_many([0] * 4, [0.0] * 4, [10, 20, 30, 40], [50] * 4, [60] * 4)
    engine.advance(2.5)
    return export_snapshot(engine, 0, InstanceProfile.of(SERVER), version=3)


def test_an_export_shows_lists_in_order_and_batches_in_flight() -> None:
    seen = snapshot()
    assert (seen.version, seen.stamp_s, seen.running, seen.free_blocks) == (3, 2.5, 2, 397)
    assert seen.requests[:, snap.PROMPT].tolist() == [10, 20, 30, 40]
    assert seen.requests[:, snap.GENERATED].tolist() == [2, 2, 0, 0]
    # Step 3 runs and batch 4 is formed: 2 + 2 tokens beyond the prompt, the last not computed.
    assert seen.requests[:, snap.COMPUTED].tolist() == [13, 23, 0, 0]
    assert seen.requests[:, snap.BLOCKS].tolist() == [1, 2, 0, 0]
    assert seen.step_start_s[0] == 2.0
    assert math.isnan(seen.step_start_s[1])
    assert seen.steps.tolist() == [[2, 32, 0, 0, 0], [2, 34, 0, 0, 0]]


@pytest.mark.parametrize(
    ("row", "column", "value", "words"),
    [
        (0, snap.PROMPT, 0, r"requests\[0\] \(running\): prompt_tokens must be at least 1"),
        (1, snap.CAP, 4000, r"requests\[1\] .*cap_tokens .*within max_model_len"),
        (2, snap.CAP, 0, r"requests\[2\] \(waiting\): cap_tokens must be at least 1"),
        (0, snap.GENERATED, -1, "generated_tokens must be at least 0"),
        (0, snap.GENERATED, 2038, "generated_tokens .* within cap_tokens"),
        (0, snap.GENERATED, 3, r"computed_tokens of a decoding request must be prompt \+ generated"),
        (3, snap.PREDICTED, -5, r"requests\[3\] .*predicted_tokens must be at least 1, or 0 for none"),
        (3, snap.PREEMPTIONS, -1, "preemptions must be at least 0"),
        (2, snap.CACHED, 30, "cached_prefix_tokens must be at least 0 and leave one"),
        (0, snap.PREFILLING, 1, "prefilling must be 0 or 1, and 1 for the last running"),
        (1, snap.PREFILLING, 1, "yields_running_step must be 0 or 1, and 0 while"),
        (2, snap.YIELDS_AHEAD, 1, "yields_ahead must be 0 or 1, and 0 .* while waiting"),
        (2, snap.YIELDS, 1, "yields_running_step of a waiting request needs a preemption"),
        (2, snap.COMPUTED, 5, "computed_tokens must be 0 while waiting"),
        (0, snap.COMPUTED, 40, "computed_tokens of a decoding request"),
        (1, snap.BLOCKS, 1, "blocks_held must hold the computed tokens"),
        (1, snap.BLOCKS, 401, "blocks_held must .* within kv_blocks"),
        (3, snap.BLOCKS, 1, "blocks_held .* 0 while waiting"),
    ],
)
def test_a_request_that_cannot_be_is_refused(row: int, column: int, value: int, words: str) -> None:
    seen = snapshot()
    requests = seen.requests.copy()
    requests[row, column] = value
    with pytest.raises(EngineError, match=words):
        replace(seen, requests=requests)


def test_a_decoding_request_that_no_batch_has_is_refused() -> None:
    seen = snapshot()
    requests = seen.requests.copy()
    requests[0, [snap.YIELDS, snap.YIELDS_AHEAD]] = 0
    requests[0, snap.COMPUTED] = 11
    with pytest.raises(EngineError, match="so it must stand in a batch in flight"):
        replace(seen, requests=requests)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": -1}, "version is -1"),
        ({"stamp_s": math.nan}, "stamp_s is nan"),
        ({"stamp_s": -1.0}, "stamp_s is -1.0"),
        ({"stamp_s": 1.9}, r"step_start_s\[0\] is 2.0 and stamp_s is 1.9"),
        ({"free_blocks": 401}, "free_blocks is 401; there are 400"),
        ({"free_blocks": -1}, "free_blocks is -1"),
        ({"running": 3}, "running is 3, of 4 requests and max_num_seqs = 2"),
        ({"running": -1}, "running is -1"),
        ({"step_start_s": [math.nan, 2.0]}, r"step_start_s\[0\] is nan"),
        ({"step_start_s": [2.0]}, "one start for each"),
        ({"steps": [[2, 32, 0, 0, 0], [-2, 34, 0, 0, 0]]}, r"steps\[1\] has decodes -2"),
        ({"steps": [[2, 32, 511, 511, 0], [2, 34, 0, 0, 0]]}, r"steps\[0\] has .* 1 to 512 tokens"),
        ({"steps": [[0, 0, 0, 0, 0], [2, 34, 0, 0, 0]]}, r"steps\[0\] has decodes 0"),
        ({"steps": [[2, 32, 9, 0, 0], [2, 34, 0, 0, 0]]}, "prefill_squared lies between prefill_tokens"),
        ({"steps": [[2, 32, 9, 82, 0], [2, 34, 0, 0, 0]]}, "prefill_tokens 9, prefill_squared 82"),
        ({"requests": np.zeros((4, 3), dtype=int)}, r"requests has shape \(4, 3\)"),
        ({"requests": np.ones((4, snap.N_REQUEST))}, "requests must be whole numbers, not float64"),
    ],
)
def test_a_snapshot_that_cannot_be_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(EngineError, match=words):
        replace(snapshot(), **change)


def test_only_asynchronous_scheduling_forms_ahead() -> None:
    seen = snapshot()
    limits = seen.profile.limits.model_copy(update={"async_scheduling": False})
    with pytest.raises(EngineError, match="only async_scheduling forms ahead"):
        replace(seen, profile=replace(seen.profile, limits=limits))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"feature_set": "legacy"}, "feature_set 'legacy' is unknown; this engine prices A, B, C"),
        ({"fit_id": ""}, "fit_id is empty"),
        ({"seconds": (1.0, 2.0)}, "has 4 coefficients .*; fit 'f' gives 2"),
        ({"seconds": (0.01, math.nan, 0.0, 0.0)}, "fit 'f': coefficient per token is nan s"),
        ({"seconds": (0.01, 0.0, -1e-9, 0.0)}, "coefficient per decode context token is -1e-09 s"),
        ({"seconds": (0.01, 0.0, 0.0, math.inf)}, "coefficient per prefill attention unit is inf s"),
        ({"seconds": (0.0, 1e-5, 0.0, 0.0)}, "every step takes time"),
        ({"feature_set": "B"}, r"B has 6 coefficients \(step, prefill token, decode, .*; fit 'f' gives 4"),
        ({"feature_set": "C"}, "C has 3 coefficients .*; fit 'f' gives 4"),
        (
            {"feature_set": "B", "seconds": (0.01, 0.0, 0.0, 0.0, math.nan, 0.0)},
            "coefficient per squared chunk token is nan s",
        ),
        ({"feature_set": "C", "seconds": (0.01, 0.0, -1.0)}, "coefficient per decode is -1.0 s"),
    ],
)
def test_coefficients_are_refused_by_term(change: dict[str, Any], words: str) -> None:
    with pytest.raises(EngineError, match=words):
        StepCoefficients(**{"feature_set": "A", "fit_id": "f", "seconds": (0.01, 0.0, 0.0, 0.0), **change})


@pytest.mark.parametrize("now_s", [2.4, math.nan, math.inf])
def test_a_snapshot_from_the_future_is_refused(now_s: float) -> None:
    with pytest.raises(EngineError, match=r"stamp_s is 2\.5: the snapshot's age must be finite and not neg"):
        predict_ttft(snapshot(), Probe(10), now_s=now_s)


def test_a_prompt_without_room_for_a_token_is_refused() -> None:
    seen = snapshot()
    assert predict_ttft(seen, Probe(2047)).steps > 0
    with pytest.raises(EngineError, match=r"the probe: prompt_tokens 2048 .* max_model_len = 2048"):
        predict_ttft(seen, Probe(2048))
    with pytest.raises(EngineError, match="unseen request 0: prompt_tokens 2000 and cap_tokens 100"):
        predict_ttft(seen, Probe(1), unseen=UnseenRequests.of([2.5], [2000], [100], [5]))


def test_a_dispatch_from_the_future_is_refused() -> None:
    with pytest.raises(EngineError, match=r"unseen request 1: dispatched_s is 2\.6, after now_s = 2\.5"):
        predict_ttft(snapshot(), Probe(1), unseen=UnseenRequests.of([2.4, 2.6], [5, 5], [9, 9], [5, 5]))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (([1.0], [0], [5], [5]), "unseen request 0: prompt_tokens must be at least 1"),
        (([1.0], [5], [0], [5]), "cap_tokens must be at least 1"),
        (([1.0], [5], [5], [-1]), "predicted_tokens must be at least 0"),
        (([1.0], [5], [5], [5], [5]), "cached_prefix_tokens must leave one"),
        (([math.nan], [5], [5], [5]), "dispatched_s must be finite"),
        (([2.0, 1.0], [5, 5], [5, 5], [5, 5]), "unseen request 1: dispatched_s runs backwards"),
        (([1.0, 2.0], [5], [5, 5], [5, 5]), "prompt_tokens of the unseen requests must be 2 whole numbers"),
        (([1.0], [5.5], [5], [5]), "must be 1 whole numbers"),
    ],
)
def test_a_ledger_that_cannot_be_is_refused(columns: tuple[Any, ...], words: str) -> None:
    with pytest.raises(EngineError, match=words):
        UnseenRequests.of(*columns)


def test_a_question_that_cannot_be_is_refused() -> None:
    with pytest.raises(EngineError, match="prompt_tokens is 0"):
        Probe(0)
    with pytest.raises(EngineError, match="cached_prefix_tokens is 10 of 10"):
        Probe(10, 10)
    with pytest.raises(EngineError, match="horizon_s is nan"):
        ReplayCaps(horizon_s=math.nan)
    with pytest.raises(EngineError, match="max_steps is 0"):
        ReplayCaps(max_steps=0)


@pytest.mark.parametrize("value", [10.5, True, "10", math.nan, 1 << 63, None])
def test_counts_are_whole_numbers_that_fit(value: Any) -> None:
    for build in (
        lambda: Probe(value),
        lambda: ReplayCaps(max_steps=value),
        lambda: LengthRule(reserve_tokens=value),
        lambda: replace(snapshot(), version=value),
        lambda: replace(snapshot(), free_blocks=value),
    ):
        with pytest.raises(EngineError, match="must be"):
            build()


@pytest.mark.parametrize(("prompt", "cap"), [(2**62, 2**63 - 1), (2**63 - 10, 20), (5, 2**63 - 1)])
def test_no_sum_of_hostile_counts_slips_past_the_context(prompt: int, cap: int) -> None:
    with pytest.raises(EngineError, match=f"prompt_tokens {prompt} and cap_tokens {cap}"):
        predict_ttft(snapshot(), Probe(1), unseen=UnseenRequests.of([2.0], [prompt], [cap], [0]))


@pytest.mark.parametrize("make_up", [(60, 0, 0, 0, 0), (1, 2**60, 0, 0, 0)])
def test_a_batch_of_more_decodes_or_context_than_there_can_be_is_refused(make_up: tuple[int, ...]) -> None:
    with pytest.raises(EngineError, match=r"steps\[0\] has decodes"):
        replace(snapshot(), step_start_s=np.array([1.9]), steps=np.array([make_up]))


def test_an_export_needs_the_profile_that_the_instance_runs_with() -> None:
    engine = EngineSim([SERVER], 1)
    with pytest.raises(EngineError, match="instance 1 does not exist; there are 1"):
        export_snapshot(engine, 1, InstanceProfile.of(SERVER))
    with pytest.raises(EngineError, match="other limits or step times"):
        export_snapshot(engine, 0, InstanceProfile.of(tier()))
