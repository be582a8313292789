"""What docs/pools.md tells about making a pool: its file, its table of keys, and its recipe."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from pydantic import BaseModel

from rbx.config.pool import EngineLimits, Pool, StepTimeA, Tier, load_pool
from rbx.engine.simulator import EngineSim
from tests.config.qwen25_tiers import Profiles
from tests.engine.oracle import Batch, Instance, Request

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "pools.md").read_text(encoding="utf-8")
OWN = PAGE[: PAGE.index("## Our pools")]
SIZES = {"3B": 1, "7B": 1, "14B": 4, "32B": 2, "72B": 4}


class Readings(NamedTuple):
    """The five measurements, in seconds, and the sizes they were taken at."""

    a_s: float
    b_s: float
    c_s: float
    d_s: float
    e_s: float
    batch: int = 32
    short: int = 512
    long: int = 4096
    prompts: tuple[int, int] = (2000, 8000)
    steps: tuple[int, int] = (1, 4)


def coefficients(read: Readings) -> dict[str, float]:
    """The page's recipe as what it is: four linear equations in b0, b1, b2 and b3."""
    n, (p1, p2), (m1, m2) = read.batch, read.prompts, read.steps
    growth = n * (read.long - read.short)
    matrix = [
        [0, 0, growth, 0],
        [1, 1, read.short, 0],
        [m1, p1, 0, p1 * (p1 + 1) / 2],
        [m2, p2, 0, p2 * (p2 + 1) / 2],
    ]
    told = [read.c_s - read.b_s, read.a_s, read.d_s, read.e_s]
    solved = np.linalg.solve(np.array(matrix, dtype=np.float64), np.array(told, dtype=np.float64))
    return dict(zip(("b0", "b1", "b2", "b3"), solved.tolist(), strict=True))


def pool_of_the_page(folder: Path) -> Pool:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", OWN, re.MULTILINE | re.DOTALL)
    path = folder / "mine.yaml"
    path.write_text(block, encoding="utf-8")
    return load_pool(path).value


def table_values() -> dict[str, float]:
    rows = re.findall(r"^\| (\S[^|]*?) \| (-?\d\.\d{3}e[+-]\d{2}) \|$", OWN, re.MULTILINE)
    return {name: float(value) for name, value in rows}


EXAMPLE = Readings(0.0120, 0.0149, 0.0186, 0.1180, 0.5200)


def test_the_file_of_the_page_is_a_pool_of_required_keys_only(tmp_path: Path) -> None:
    pool = pool_of_the_page(tmp_path)
    (tier,) = pool.tiers
    assert (pool.name, tier.model, len(pool.instances)) == ("mine", "Qwen2.5-7B-Instruct", 2)
    for part, model in ((pool, Pool), (tier, Tier), (tier.limits, EngineLimits), (tier.step_time, StepTimeA)):
        required = {name for name, field in model.model_fields.items() if field.is_required()}
        assert part.model_fields_set == required


def test_the_table_names_every_key_with_its_default() -> None:
    rows = re.findall(r"^\| `([\w.\[\]]+)` \| [^|]+ \| ([^|]+) \|", OWN, re.MULTILINE)
    told = dict(rows)
    assert len(told) == len(rows)
    expected: dict[str, str] = {}
    sections: tuple[tuple[str, type[BaseModel]], ...] = (
        ("", Pool), ("tiers[].", Tier), ("limits.", EngineLimits), ("step_time.", StepTimeA),
    )  # fmt: skip
    for prefix, model in sections:
        for name, field in model.model_fields.items():
            default = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
            expected[prefix + name] = "**required**" if field.is_required() else default or "empty"
    del expected["tiers[].limits"], expected["tiers[].step_time"]  # their keys have rows of their own
    assert told == expected


def test_the_worked_example_is_computed_right(tmp_path: Path) -> None:
    assert "A = 12.0, B = 14.9, C = 18.6, D = 118.0 and E = 520.0 ms" in OWN
    found = coefficients(EXAMPLE)
    work = [p * (p + 1) / 2 for p in EXAMPLE.prompts]
    a = found["b0"] + found["b1"]
    expected = found | {
        "a": a,
        "y₁": EXAMPLE.d_s - a,
        "y₂": EXAMPLE.e_s - 4 * a,
        "Δ": 1999 * work[1] - 7996 * work[0],
        "B by the formula": found["b0"] + 32 * found["b1"] + 32 * 512 * found["b2"],
    }
    told = table_values()
    assert set(told) == set(expected)
    for name, value in told.items():
        assert value == pytest.approx(expected[name], rel=5e-4), name
    assert pool_of_the_page(tmp_path).tiers[0].step_time.seconds == tuple(
        told[name] for name in ("b0", "b1", "b2", "b3")
    )
    assert told["B by the formula"] / EXAMPLE.b_s - 1 == pytest.approx(-0.05, abs=0.005)


def _alone(tier: Tier, prompt: int, output: int) -> tuple[float, float]:
    """TTFT and TPOT of a request on an idle simulated server."""
    engine = EngineSim([tier], capacity=1)
    engine.submit(0, 0.0, prompt, output, output, True)
    engine.drain()
    first, done = float(engine.first_token_s[0]), float(engine.done_s[0])
    return first, (done - first) / (output - 1)


class _Recorder(Instance):
    """A server that notes the time between tokens of each decoding request, step by step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.between_tokens_s: list[float] = []

    def schedule(self, now_s: float) -> Batch:
        batch = super().schedule(now_s)
        decodes = batch.composition()[0]
        self.between_tokens_s += [batch.seconds(self.tier)] * decodes
        return batch


def _median_itl(tier: Tier, prompt: int) -> float:
    """32 requests of 256 output tokens at once."""
    server = _Recorder(tier)
    for slot in range(32):
        server.submit(Request(slot, 0.0, prompt, 256, 256, by_length=True))
    server.advance(1000.0)
    assert len(server.between_tokens_s) == 32 * 255
    return float(np.median(server.between_tokens_s))


def test_the_recipe_gives_a_simulated_server_its_own_coefficients(tmp_path: Path) -> None:
    tier = (
        pool_of_the_page(tmp_path)
        .tiers[0]
        .model_copy(update={"limits": EngineLimits(kv_blocks=65536, max_model_len=8192)})
    )
    read = Readings(
        a_s=_alone(tier, 384, 256)[1],
        b_s=_median_itl(tier, 384),
        c_s=_median_itl(tier, 3968),
        d_s=_alone(tier, 2000, 8)[0],
        e_s=_alone(tier, 8000, 8)[0],
    )
    found, (b0, b1, b2, b3) = coefficients(read), tier.step_time.seconds
    assert found["b0"] == pytest.approx(b0, rel=0.01)
    assert found["b1"] == pytest.approx(b1, rel=0.01)
    assert found["b2"] == pytest.approx(b2, rel=0.05)
    assert found["b3"] == pytest.approx(b3, rel=0.01)


def test_ten_milliseconds_of_overhead_move_the_coefficients_as_told() -> None:
    plain, late = coefficients(EXAMPLE), coefficients(EXAMPLE._replace(d_s=0.128, e_s=0.530))
    assert late["b1"] - plain["b1"] == pytest.approx(6e-06, rel=0.05)
    assert late["b3"] - plain["b3"] == pytest.approx(-1.3e-09, rel=0.05)


@pytest.mark.shared
def test_the_errors_to_expect_are_those_on_the_profiles(shared_data: Path) -> None:
    profiles = Profiles(shared_data / "profiles" / "derived")
    worst = dict.fromkeys(("small", "large", "long", "short"), 0.0)
    for size, tp in SIZES.items():
        points = profiles.points_ms(size, tp)
        read = Readings(
            a_s=points["decode", 1, 512],
            b_s=points["decode", 32, 512],
            c_s=points["decode", 32, 4096],
            d_s=points["prefill", 1, 2048],
            e_s=points["prefill", 1, 8192],
            prompts=(2048, 8192),
            steps=(1, 1),
        )
        found = coefficients(read)
        for (phase, batch, tokens), ms in points.items():
            if phase == "decode":
                told = found["b0"] + batch * (found["b1"] + tokens * found["b2"])
                name = "small" if batch <= 32 else "large"
            else:
                told = found["b0"] + tokens * found["b1"] + tokens * (tokens + 1) / 2 * found["b3"]
                name = "long" if tokens >= 1024 else "short"
            worst[name] = max(worst[name], abs(told / ms - 1))
    told_percent = [int(value) for value in re.findall(r"^\| [dp][^|]+ \| (\d+) % \|$", OWN, re.MULTILINE)]
    assert len(told_percent) == len(worst)
    for percent, (name, error) in zip(told_percent, worst.items(), strict=True):
        assert percent - 1 < 100 * error <= percent, name
