"""The plain reading and the engine against the scheduler and core loops of the installed vLLM."""

from __future__ import annotations

import os
from dataclasses import fields

import pytest
from pydantic import ValidationError

from rbx.config.pool import EngineLimits
from rbx.config.unmodelled import UNMODELLED

pytest.importorskip("vllm", reason="vLLM is not installed here; `make test-vllm` installs its CPU build")

from vllm.engine.arg_utils import EngineArgs

from tests.vllm.truth import compare, difference, scene, serve_with_vllm
from tests.vllm.virtual_core import configuration

pytestmark = pytest.mark.vllm

SCENES = int(os.environ.get("RBX_TRUTH_SCENES", "1000"))
BLOCKS = 4


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
def test_every_batch_is_the_one_that_vllm_forms(asynchronous: bool, block: int) -> None:
    seeds = range(block, SCENES // 2, BLOCKS)
    seen, differences = compare(seeds, asynchronous)
    assert not differences
    assert seen.scenes == len(seeds) > 0
    assert min(seen.chunks, seen.preemptions, seen.held_back) > seen.scenes // 10, f"too tame: {seen}"
    assert (seen.steps_for_nothing > seen.scenes) == asynchronous, f"too tame: {seen}"


@pytest.mark.parametrize(
    "limit", ["kv_blocks", "max_num_seqs", "max_num_batched_tokens", "block_size", "max_model_len"]
)
def test_a_limit_off_by_one_is_noticed(limit: str) -> None:
    """``kv_blocks`` too: a count with vLLM's null block in it is one too high."""
    assert _first_noticed(limit) is not None


@pytest.mark.parametrize("switch", ["reserve_full_prompt", "async_scheduling", "chunked_prefill"])
def test_a_switch_thrown_is_noticed(switch: str) -> None:
    assert _first_noticed(switch) is not None


def _first_noticed(name: str) -> int | None:
    """The first scene in which it shows that vLLM was told another limit, or a switch thrown."""
    for seed in range(400):
        case = scene(seed, asynchronous=True)
        value = getattr(case.tier.limits, name)
        other = not value if isinstance(value, bool) else value + 1
        try:
            told = EngineLimits.model_validate({**case.tier.limits.model_dump(), name: other})
        except ValidationError:  # settings that vLLM would refuse
            continue
        tier = case.tier.model_copy(update={"limits": told})
        if difference(case, serve_with_vllm(case, tier)) is not None:
            return seed
    return None


def test_prefix_caching_changes_nothing_among_different_prompts_until_one_is_preempted() -> None:
    calm = hits = 0
    for seed in range(120):
        case = scene(seed, asynchronous=seed % 2 == 0)
        core = serve_with_vllm(case, prefix_caching=True)
        preempted = any(sequence.preemptions for sequence in core.executor.sequences)
        found = difference(case, core)
        assert found is None or preempted, f"scene {seed}: {found}"
        calm += not preempted
        hits += found is not None
    assert calm > 40
    assert hits > 0, "a preempted request should find blocks of its own"


def test_what_the_engine_leaves_out_is_off_in_a_server_as_it_comes() -> None:
    config = configuration()
    scheduling = config.scheduler_config
    assert scheduling.policy == "fcfs"
    assert scheduling.scheduler_reserve_full_isl
    assert scheduling.enable_chunked_prefill
    assert scheduling.prefill_schedule_interval == 1
    assert scheduling.max_num_active_seqs is None
    assert scheduling.max_num_scheduled_tokens is None
    assert scheduling.long_prefill_token_threshold == scheduling.watermark == 0
    for feature in ("speculative_config", "lora_config", "kv_transfer_config", "ec_transfer_config"):
        assert getattr(config, feature) is None


def test_every_scheduler_setting_of_vllm_is_modelled_refused_or_without_effect_on_batches() -> None:
    modelled = {"max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill", "async_scheduling"}
    modelled |= {"scheduler_reserve_full_isl"}
    of_the_model = {"runner_type", "is_multimodal_model", "disable_hybrid_kv_cache_manager"}
    of_encoders = {"max_num_encoder_input_tokens", "encoder_cache_size"}
    of_the_stream = {"stream_interval"}
    known = modelled | UNMODELLED.keys() | of_the_model | of_encoders | of_the_stream
    assert {setting.name for setting in fields(configuration().scheduler_config)} <= known


def test_the_settings_refused_are_settings_of_vllm() -> None:
    options = {option.name for option in fields(EngineArgs)}
    internal = {"policy", "num_gpu_blocks", "max_num_scheduled_tokens"}
    assert UNMODELLED.keys() - internal <= options
