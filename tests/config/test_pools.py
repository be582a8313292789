from __future__ import annotations

import gzip
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rbx.config.pool import Tier, load_pool
from rbx.errors import ConfigError
from tests.config.qwen25_tiers import (
    ARCHITECTURES,
    CONTEXT_TOKENS,
    DEPLOYMENTS,
    Profiles,
    derive,
    profiled_tpot_ms,
)

ROOT = Path(__file__).resolve().parents[2]
POOLS = ROOT / "experiments" / "pools"


def tiers_of(name: str) -> dict[str, Tier]:
    return {tier.name: tier for tier in load_pool(POOLS / f"{name}.yaml").value.tiers}


@pytest.fixture(scope="module")
def profiles(shared_data: Path) -> Profiles:
    return Profiles(shared_data / "profiles" / "derived")


def test_paper_pool_is_table_1() -> None:
    pool = load_pool(POOLS / "paper.yaml").value
    table = [
        (
            tier.model,
            tier.instances,
            tier.gpus_per_instance,
            tier.price_in_usd_per_mtok,
            tier.price_out_usd_per_mtok,
        )
        for tier in pool.tiers
    ]
    assert table == [
        ("Qwen2.5-72B", 2, 4, 0.38, 0.40),
        ("Qwen2.5-14B", 3, 4, 0.15, 0.15),
        ("Qwen2.5-7B", 5, 1, 0.07, 0.07),
        ("Qwen2.5-3B", 3, 1, 0.06, 0.06),
    ]
    assert len(pool.instances) == 13
    assert sum(tier.instances * tier.gpus_per_instance for tier in pool.tiers) == 28
    assert [tier.tpot_prior_s for tier in pool.tiers] == [0.0474, 0.0184, 0.0206, 0.0123]


def test_single_stream_tpot_is_table_1_at_the_anchor_context() -> None:
    for tier in tiers_of("paper").values():
        b0, b1, b2, _ = tier.step_time.seconds
        alone_s = b0 + b1 + CONTEXT_TOKENS * b2
        assert 1000 * alone_s == pytest.approx(DEPLOYMENTS[tier.name].table1_tpot_ms, rel=5e-4)


def test_parameter_counts_are_the_published_ones() -> None:
    counts = {size: model.parameters for size, model in ARCHITECTURES.items()}
    assert counts == {
        "3B": 3_085_938_688,
        "7B": 7_615_616_512,
        "14B": 14_770_033_664,
        "32B": 32_763_876_352,
        "72B": 72_706_203_648,
    }


def test_zeroeval_pool_shares_the_paper_tiers() -> None:
    paper, zeroeval = tiers_of("paper"), tiers_of("zeroeval")
    assert set(zeroeval) == {"72b-a100x4", "32b-a100x2", "7b-a30", "3b-a30"}
    for name in ("72b-a100x4", "7b-a30", "3b-a30"):
        assert zeroeval[name].model_dump(exclude={"model"}) == paper[name].model_dump(exclude={"model"})
        assert zeroeval[name].model == paper[name].model + "-Instruct"


def test_price_of_the_32b_is_interpolated_in_the_logarithm() -> None:
    small, middle, large = (ARCHITECTURES[size].parameters for size in ("14B", "32B", "72B"))
    share = math.log(middle / small) / math.log(large / small)
    tier = tiers_of("zeroeval")["32b-a100x2"]
    assert tier.price_in_usd_per_mtok == round(0.15 * (0.38 / 0.15) ** share, 2)
    assert tier.price_out_usd_per_mtok == round(0.15 * (0.40 / 0.15) ** share, 2)


@pytest.mark.shared
@pytest.mark.parametrize("pool", ["paper", "zeroeval"])
def test_every_derived_number_follows_from_the_profiles(pool: str, profiles: Profiles) -> None:
    tiers = tiers_of(pool)
    assert len(tiers) == 4
    for name, tier in tiers.items():
        derived = derive(profiles, DEPLOYMENTS[name])
        assert tier.limits.kv_blocks == derived.kv_blocks, name
        assert tier.gpu == DEPLOYMENTS[name].gpu
        for field in ("b0_s", "b1_s_per_token", "b2_s_per_context_token", "b3_s_per_attention_unit"):
            # The files hold four significant digits.
            assert getattr(tier.step_time, field) == pytest.approx(getattr(derived, field), rel=5e-4), field


@pytest.mark.shared
def test_prior_of_the_32b_follows_the_72b(profiles: Profiles) -> None:
    derived = derive(profiles, DEPLOYMENTS["32b-a100x2"])
    assert tiers_of("zeroeval")["32b-a100x2"].tpot_prior_s == round(derived.tpot_s * 47.4 / 41.6, 4)


@pytest.mark.shared
def test_one_price_per_token_errs_as_documented(profiles: Profiles) -> None:
    """docs/pools.md states how far one b1 for prefill and decode is from the profile's growth with batch."""
    documented = _documented_errors()
    assert set(documented) == set(DEPLOYMENTS)
    tiers = tiers_of("paper") | tiers_of("zeroeval")
    for name, errors in documented.items():
        points = profiles.decode_ms(DEPLOYMENTS[name], 512)
        _, b1, b2, _ = tiers[name].step_time.seconds
        for batch, percent in errors.items():
            priced_ms = 1000 * (batch - 1) * (b1 + 512 * b2)
            grown_ms = points[batch] - points[1]
            assert percent == pytest.approx(100 * (priced_ms - grown_ms) / points[batch], abs=0.06), (
                name,
                batch,
            )


@pytest.mark.shared
def test_a_long_prefill_alone_is_within_12_percent_of_the_profile(profiles: Profiles) -> None:
    tiers = tiers_of("paper") | tiers_of("zeroeval")
    for name, deployment in DEPLOYMENTS.items():
        (b0, b1, _, b3), points = tiers[name].step_time.seconds, profiles.prefill_ms(deployment)
        for tokens in (1024, 2048, 4096, 8192):
            work = tokens * (tokens + 1) / 2
            priced_s = b0 + b1 * tokens + b3 * work
            assert 1000 * priced_s == pytest.approx(points[tokens], rel=0.12), (name, tokens)


def _documented_errors() -> dict[str, dict[int, float]]:
    text = (ROOT / "docs" / "pools.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)` \| ([+−]\S+) % \| ([+−]\S+) % \| ([+−]\S+) % \|$", text, re.MULTILINE)
    number = {name: [float(value.replace("−", "-")) for value in values] for name, *values in rows}
    return {name: dict(zip((8, 32, 128), values, strict=True)) for name, values in number.items()}


@pytest.mark.shared
def test_profiles_agree_with_table_1_within_their_stated_uncertainty(profiles: Profiles) -> None:
    for name, deployment in DEPLOYMENTS.items():
        if deployment.table1_tpot_ms is not None:
            ratio = deployment.table1_tpot_ms / profiled_tpot_ms(profiles, deployment)
            assert 0.7 < ratio < 1.3, name


@pytest.mark.shared
def test_zeroeval_models_are_those_of_the_grid(shared_data: Path) -> None:
    with gzip.open(shared_data / "zeroeval_qwen25" / "grid.jsonl.gz", "rt") as file:
        models = {json.loads(line)["model"] for line in file}
    assert models == {tier.model for tier in tiers_of("zeroeval").values()}


@pytest.mark.parametrize("path", sorted(POOLS.glob("*.yaml")), ids=lambda path: path.stem)
def test_pools_in_the_tree_can_hold_their_longest_request(path: Path) -> None:
    pool = load_pool(path).value
    assert pool.name == path.stem
    for tier in pool.tiers:
        assert tier.limits.max_model_len >= 4096 + 1024
        assert tier.price_in_usd_per_mtok > 0


def raw_pool() -> dict[str, Any]:
    loaded = yaml.safe_load((POOLS / "paper.yaml").read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("tiers.0.instances=0", "tiers.0.instances"),
        ("tiers.0.price_in_usd_per_mtok=-1", "price_in_usd_per_mtok"),
        ("tiers.0.price_in_usd_per_mtok=.nan", "price_in_usd_per_mtok"),
        ("tiers.0.step_time.b0_s=0", "b0_s"),
        ("tiers.0.step_time.b1_s_per_token=.inf", "b1_s_per_token"),
        ("tiers.0.step_time.source=''", "source"),
        ("tiers.0.step_time.feature_set=D", "feature_set 'D' is none of A, B, C; without one it is A"),
        ("tiers.0.step_time.feature_set=3", "feature_set 3 is none of A, B, C"),
        ("tiers.0.step_time.feature_set=B", "tiers.0.step_time.b1_s_per_token: Extra inputs are not"),
        ("tiers.0.step_time.feature_set=C", "tiers.0.step_time.prefill_s_per_token: Field required"),
        ("tiers.0.step_time.decode_s_per_seq=0.001", "decode_s_per_seq: Extra inputs are not permitted"),
        ("tiers.0.step_time.b0_s=.nan", "tiers.0.step_time.b0_s: "),
        ("tiers.0.step_time=7", "tiers.0.step_time: must be a mapping"),
        ("tiers.0.tpot_prior_s=0", "tpot_prior_s"),
        ("tiers.0.limits.kv_blocks=100", "can't hold one request"),
        ("tiers.0.limits.max_num_batched_tokens=128", "at least max_num_seqs"),
        ("tiers.0.limits.chunked_prefill=false", "without chunked_prefill"),
        ("tiers.0.limits.kv_block=100", "kv_block:"),
        ("tiers.0.name=3b-a30", "given twice: 3b-a30"),
        ("tiers.0.name=a b", "tiers.0.name"),
        ("tiers=[]", "tiers"),
    ],
)
def test_pools_that_can_not_serve_are_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_pool(POOLS / "paper.yaml", [override])
    assert message in str(caught.value)


def test_axes_follow_the_file(tmp_path: Path) -> None:
    data = raw_pool()
    twin = {**data["tiers"][3], "name": "3b-spare", "instances": 1}
    path = tmp_path / "pool.yaml"
    path.write_text(yaml.safe_dump({**data, "tiers": [*data["tiers"], twin]}), encoding="utf-8")
    pool = load_pool(path).value
    assert pool.models == ("Qwen2.5-72B", "Qwen2.5-14B", "Qwen2.5-7B", "Qwen2.5-3B")
    assert [instance.index for instance in pool.instances] == list(range(14))
    last = pool.instances[-1]
    assert (last.name, last.tier_index, last.model_index) == ("3b-spare/0", 4, 3)
    assert [instance.name for instance in pool.instances[:3]] == [
        "72b-a100x4/0",
        "72b-a100x4/1",
        "14b-v100x4/0",
    ]


def test_digest_follows_what_changes_results_and_nothing_else() -> None:
    path = POOLS / "paper.yaml"
    digest = load_pool(path).value.digest
    assert load_pool(path, ["notes=other", "tiers.0.step_time.source=other"]).value.digest == digest
    for change in (
        "tiers.0.instances=3",
        "tiers.1.step_time.b0_s=0.02",
        "tiers.3.price_out_usd_per_mtok=0.07",
    ):
        assert load_pool(path, [change]).value.digest != digest


@pytest.mark.parametrize(
    "step_time",
    [
        {
            "b0_s": 0.01, "b1_s_per_token": 1e-4, "b2_s_per_context_token": 0.0,
            "b3_s_per_attention_unit": 1e-9,
        },
        {
            "feature_set": "B", "b0_s": 0.01, "prefill_s_per_token": 1e-4, "decode_s_per_seq": 3e-4,
            "context_s_per_token": 1e-7, "chunk_s_per_squared_token": 0.0, "cross_s_per_token_pair": 2e-9,
        },
        {"feature_set": "C", "b0_s": 0.01, "prefill_s_per_token": 1e-4, "decode_s_per_seq": 3e-4},
    ],
    ids=["A, not named", "B", "C"],
)  # fmt: skip
def test_every_feature_set_loads_and_comes_back(tmp_path: Path, step_time: dict[str, Any]) -> None:
    data = raw_pool()
    data["tiers"][0]["step_time"] = {**step_time, "source": "a fit"}
    path, again = tmp_path / "pool.yaml", tmp_path / "again.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    pool = load_pool(path).value
    found = pool.tiers[0].step_time
    assert found.feature_set == step_time.get("feature_set", "A")
    assert found.seconds == tuple(value for key, value in step_time.items() if key != "feature_set")
    again.write_text(yaml.safe_dump(pool.model_dump(mode="json")), encoding="utf-8")
    assert load_pool(again).value == pool
    assert load_pool(again).value.digest == pool.digest


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("paper", "c74e78acae8cf08bdd394a40de02bf1d78c35b0d329d366f537f80d6f3ac7288"),
        ("zeroeval", "3976fb23c37e9abe74c6e6dfee08e644e05ac890d754e5bbdf07ba3ab6c56675"),
    ],
)
def test_digests_of_our_pools_stay(name: str, digest: str) -> None:
    """Finished cells are found again by them."""
    assert load_pool(POOLS / f"{name}.yaml").value.digest == digest
