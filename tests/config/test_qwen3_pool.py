"""The Qwen3 pool: published numbers, what follows from them, and what was left out of its step time."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbx.config.pool import StepTimeB, Tier, load_pool

POOL = Path(__file__).resolve().parents[2] / "experiments" / "pools" / "qwen3-h100.yaml"

# Launch coefficients published with BEAR (arXiv 2607.18253), their feature set "legacy": intercept, prefill
# token, decode sequence, context token, chunk², context².
LEGACY = {
    "Qwen3-0.6B": (2.58e-3, 2.03e-6, 1.69e-5, 3.54e-8, 1.89e-10, 1.58e-13),
    "Qwen3-8B": (7.30e-3, 2.08e-5, 2.56e-5, 4.65e-8, 5.12e-10, 2.69e-13),
    "Qwen3-32B": (1.43e-2, 5.29e-5, 6.30e-5, 3.69e-8, 8.77e-10, 4.52e-13),
}
KV_TOKENS = {"Qwen3-0.6B": 628_512, "Qwen3-8B": 382_304, "Qwen3-32B": 298_416}
PREFILL_TOKENS_PER_S = {"Qwen3-0.6B": 130_313, "Qwen3-8B": 32_954, "Qwen3-32B": 14_842}
LONGEST_CONTEXT = 12_000


@pytest.fixture(scope="module")
def tiers() -> tuple[Tier, ...]:
    return load_pool(POOL).value.tiers


def test_it_is_the_published_testbed(tiers: tuple[Tier, ...]) -> None:
    assert [
        (t.model, t.gpus_per_instance, t.instances, t.price_in_usd_per_mtok, t.price_out_usd_per_mtok)
        for t in tiers
    ] == [
        ("Qwen3-0.6B", 1, 1, 0.044, 0.173),
        ("Qwen3-8B", 1, 1, 0.072, 0.287),
        ("Qwen3-32B", 2, 1, 0.287, 0.640),
    ]
    for tier in tiers:
        limits = tier.limits
        assert (limits.max_num_batched_tokens, limits.max_num_seqs) == (32_768, 512)
        assert limits.chunked_prefill
        assert not limits.async_scheduling
        # vLLM counts its null block in the capacity that it reports.
        assert (limits.kv_blocks + 1) * limits.block_size == KV_TOKENS[tier.model]
        assert limits.max_model_len >= 10_000 + 8_192


def test_step_times_are_the_published_coefficients(tiers: tuple[Tier, ...]) -> None:
    for tier in tiers:
        model = tier.step_time
        assert isinstance(model, StepTimeB)
        *kept, squared_context = LEGACY[tier.model]
        assert model.seconds == (*kept, 0.0)
        assert f"{squared_context:.2e}" in model.source


@pytest.mark.parametrize("context", [500, 3_350, 9_900, LONGEST_CONTEXT])
def test_the_term_left_out_is_small_in_any_batch_that_fits_the_cache(
    tiers: tuple[Tier, ...], context: int
) -> None:
    """Its share of a decode step with as many requests of one context as the cache and the seats hold."""
    for tier in tiers:
        b0, _, per_decode, per_context, _, per_squared_context = LEGACY[tier.model]
        most = min(tier.limits.max_num_seqs, KV_TOKENS[tier.model] // context)
        for decodes in (1, most // 2, most):
            kept = b0 + decodes * (per_decode + per_context * context)
            left_out = decodes * per_squared_context * context**2
            assert left_out / (kept + left_out) < (0.02 if context <= 3_350 else 0.06)


def test_priors_are_a_lone_request_at_the_mean_context(tiers: tuple[Tier, ...]) -> None:
    for tier in tiers:
        b0, _, per_decode, per_context, _, _ = LEGACY[tier.model]
        assert tier.tpot_prior_s == pytest.approx(b0 + per_decode + 3_350 * per_context, rel=0.002)


def test_prefill_alone_is_faster_than_the_published_throughput_and_of_its_order(
    tiers: tuple[Tier, ...],
) -> None:
    """Published: 4,000 reports at 0.87/s on one instance, other requests in the batch included."""
    for tier in tiers:
        b0, per_token, _, _, per_squared, _ = LEGACY[tier.model]
        prompt = 8_300
        tokens_per_s = prompt / (b0 + per_token * prompt + per_squared * prompt**2)
        assert 1.0 < tokens_per_s / PREFILL_TOKENS_PER_S[tier.model] < 2.0


def without(tier: Tier, *, limit: str = "", **changes: object) -> dict[str, object]:
    """A tier as a mapping, less one of its limits."""
    data = tier.model_dump(mode="json")
    data["limits"].pop(limit, None)
    return {**data, **changes}


def test_the_variants_differ_in_what_they_are_named_for(tiers: tuple[Tier, ...]) -> None:
    def variant(name: str) -> tuple[Tier, ...]:
        return load_pool(POOL.with_name(f"{name}.yaml")).value.tiers

    ahead, tight, three = variant("qwen3-h100-async"), variant("qwen3-h100-kv-tight"), variant("qwen3-8b-x3")
    for tier, other in zip(tiers, ahead, strict=True):
        assert other.limits.async_scheduling
        assert without(tier, limit="async_scheduling") == without(other, limit="async_scheduling")
    for tier, other in zip(tiers, tight, strict=True):
        assert other.limits.kv_blocks == tier.limits.kv_blocks // 8
        assert without(tier, limit="kv_blocks") == without(other, limit="kv_blocks")
    assert [without(tier) for tier in three] == [without(tiers[1], instances=3)]
