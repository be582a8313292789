"""All seven public sources in one spec, each given by ``--set`` as the error message tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from rbx.config.labelling import LabelSource
from rbx.grid.spec import load_spec
from rbx.label.answer import Question
from rbx.label.prompts.collect import collect
from rbx.label.prompts.draft import REFUSAL
from rbx.label.prompts.public import PUBLIC
from tests.grid.sources import write_jsonl
from tests.label.prompts import hub_layouts as hub

N = 12


def write_all(folder: Path) -> dict[str, Path]:
    """A folder a source in the hub's layout with ``N`` usable rows each, but three of RewardBench."""
    at: dict[str, Path] = {kind: folder / kind for kind in PUBLIC}
    hub.write_parquet(
        at["reward_bench"] / "data" / "filtered-00000-of-00001.parquet",
        hub.REWARD_BENCH,
        [hub.reward_bench_row("donotanswer", n, f"Do harm {n}.") for n in range(3)],
    )
    hub.write_parquet(
        at["code_ultra_feedback"] / "data" / "train-00000-of-00001.parquet",
        hub.CODE_ULTRA_FEEDBACK,
        [hub.code_row(f"Write program {n}.", ("m", f"print({n})", "5")) for n in range(N)],
    )
    write_jsonl(
        at["beaver_tails"] / "round0" / "30k" / "train.jsonl.gz",
        [hub.beaver_row(f"How do I steal {n} cars?", "privacy_violation") for n in range(N)],
    )
    write_jsonl(
        at["mix_instruct"] / "train_data_prepared.jsonl",
        [hub.mix_row(f"laion/{n}", f"Name {n} trees.", "", "Oak.") for n in range(N)],
    )
    hub.write_parquet(
        at["lmsys"] / "data" / "train-00000-of-00001.parquet",
        hub.LMSYS,
        [hub.lmsys_row(f"c{n}", ("user", f"Hi {n}"), ("assistant", "Hello to you")) for n in range(N)],
    )
    hub.write_gsm8k(at["gsm8k"], [f"What is {n} + 1?" for n in range(N)])
    hub.write_parquet(
        at["squad"] / "plain_text" / "train-00000-of-00001.parquet",
        hub.SQUAD,
        [hub.squad_row("A tree is green.", f"What is green {n}?", "A tree") for n in range(N)],
    )
    return at


def spec_file(path: Path) -> Path:
    models = [{"name": "m", "endpoint": {"url": "http://127.0.0.1:1/v1"}}]
    prompts: dict[str, Any] = {"sources": [{"kind": kind} for kind in PUBLIC], "total": 63, "seed": 0}
    signals = [{"kind": "exact", "name": "exact"}]
    label = {"kind": "label", "prompts": prompts, "models": models, "signals": signals, "quality": "exact"}
    path.write_text(yaml.safe_dump({"name": "seven", "description": "All seven.", "source": label}))
    return path


def test_all_seven_fill_a_total_in_equal_parts_as_far_as_they_reach(tmp_path: Path) -> None:
    at = write_all(tmp_path)
    overrides = [f"source.prompts.sources.{position}.path={at[kind]}" for position, kind in enumerate(PUBLIC)]
    source = load_spec(spec_file(tmp_path / "seven.yaml"), overrides).value.source
    assert isinstance(source, LabelSource)
    found = collect(source.prompts, lambda _: None)

    records = found.provenance["prompts"]
    # A quota is 63 / 7; what RewardBench lacks, six others give.
    assert {record["quota"] for record in records.values()} == {9}
    assert {kind: record["taken"] for kind, record in records.items()} == {
        kind: 3 if kind == "reward_bench" else 10 for kind in PUBLIC
    }
    assert all(record["licence"] == PUBLIC[kind].licence for kind, record in records.items())

    by_source: dict[str, list[Question]] = {kind: [] for kind in PUBLIC}
    for question in found.questions:
        by_source[question.source].append(question)
        assert question.reference is not None
        assert question.input_tokens > 0
    assert {kind: len(questions) for kind, questions in by_source.items()} == {
        kind: record["taken"] for kind, record in records.items()
    }
    harmful = {kind for kind, questions in by_source.items() if all(each.is_harmful for each in questions)}
    assert harmful == {"reward_bench", "beaver_tails"}
    assert not any(each.is_harmful for kind in set(PUBLIC) - harmful for each in by_source[kind])
    assert all(question.reference == REFUSAL for question in by_source["beaver_tails"])
    assert len({question.prompt_id for question in found.questions}) == 63
