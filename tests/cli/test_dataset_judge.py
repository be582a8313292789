"""``rbx dataset judge`` and ``rbx dataset agree`` as a user runs them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from rbx.cli.main import run
from rbx.durable import write_json
from rbx.grid.manifest import read_manifest
from rbx.sweep.served import SERVED, write_served
from tests.label.labelling import Job, job, strict, sum_of
from tests.label.scripted_server import Reply, Scripted, answer, prompt_of, scripted


def lenient(path: str, body: dict[str, Any]) -> Reply:
    """A second judge: as the strict one, but 6 where that gives 2."""
    reply = strict(path, body)
    assert isinstance(reply.body, dict)
    text = reply.body["choices"][0]["message"]["content"]
    return answer(text.replace('"score": 2', '"score": 6'))


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Job, Scripted]]:
    """A grid ``datasets/sums`` and ``judges.yaml`` with a second judge, whose server is up."""
    monkeypatch.chdir(tmp_path)
    with job(tmp_path) as sums, scripted(lenient, models=("lenient",)) as other:
        assert run(["build-dataset", str(sums.spec)]) == 0
        endpoint = {"url": other.url, "served_name": "lenient", "backoff_s": 0.01}
        judges = {"judges": [{"name": "second", "model": "another", "endpoint": endpoint}]}
        Path("judges.yaml").write_text(yaml.safe_dump(judges))
        yield sums, other


def rows(path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def test_a_grid_gets_a_second_judge_beside_the_first(
    judged: tuple[Job, Scripted], capsys: pytest.CaptureFixture[str]
) -> None:
    sums, _ = judged
    asked = sums.asked
    words = ["dataset", "judge", "datasets/sums", "--spec", "judges.yaml", "--out", "datasets/both"]
    assert run(words) == 0
    assert sums.asked == asked
    before = rows("datasets/sums/labels.parquet")
    after = rows("datasets/both/labels.parquet")
    assert [row for row in after if row["metric"] != "second"] == before
    second = {(row["prompt_id"], row["model"]): row for row in after if row["metric"] == "second"}
    first = {(row["prompt_id"], row["model"]): row for row in after if row["metric"] == "judged"}
    assert second.keys() == first.keys()
    softened = {None: None, 1.0: 1.0, 0.2: 0.6}
    assert [second[pair]["score"] for pair in first] == [softened[row["score"]] for row in first.values()]
    assert len({row["score"] for row in second.values()}) == 3
    assert {row["judge_digest"] for row in second.values() if row["status"] == "ok"}.isdisjoint(
        row["judge_digest"] for row in first.values()
    )
    manifest = read_manifest(Path("datasets/both"))
    assert (manifest.quality, set(manifest.metrics)) == ("judged", {"judged", "length", "numeric", "second"})
    capsys.readouterr()
    assert run(words) == 0  # all scores are there
    assert "(unchanged)" in capsys.readouterr().out
    assert run(["dataset", "agree", "datasets/both", "judged", "second", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pearson"]["value"] == pytest.approx(1.0)
    assert found["best_agrees"] is True
    assert found["n"] == sum(row["score"] is not None for row in first.values())
    assert run(["dataset", "agree", "datasets/both", "judged", "quality"]) == 2


def test_a_metric_that_is_there_and_a_grid_without_texts_are_refused(
    judged: tuple[Job, Scripted], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["dataset", "judge", "datasets/sums", "--spec", str(judged[0].spec), "--out", "datasets/both"]
    assert run(words) == 1
    assert "has a metric 'judged' already" in capsys.readouterr().err
    synthetic = {"kind": "synth", "preset": "quickstart", "n": 20}
    Path("tiny.yaml").write_text(yaml.safe_dump({"name": "tiny", "description": "-", "source": synthetic}))
    assert run(["build-dataset", "tiny.yaml"]) == 0
    assert run(["dataset", "judge", "datasets/tiny", "--spec", "judges.yaml", "--out", "datasets/x"]) == 1
    assert "holds no answers' texts" in capsys.readouterr().err
    assert run(["dataset", "judge", "datasets/sums", "--out", "datasets/x"]) == 2
    assert run(["dataset", "judge", "datasets/sums", "--spec", "judges.yaml"]) == 2
    assert run(["dataset", "judge", "--served", "x", "--spec", "judges.yaml", "--out", "y"]) == 2


def served_sweep(texts: list[tuple[str, int, str, str | None]]) -> Path:
    """A sweep's folder on ``datasets/sums`` with answers (cell, request, prompt id, text)."""
    sweep = Path("results/live")
    (sweep / "cells").mkdir(parents=True)
    digest = read_manifest(Path("datasets/sums")).digest
    write_json({"grid": {"path": "datasets/sums", "digest": digest}}, sweep / "manifest.json")
    for cell in sorted({cell for cell, *_ in texts}):
        kept = [
            {"request": at, "prompt_id": prompt_id, "model": "right", "response": text}
            for its, at, prompt_id, text in texts
            if its == cell
        ]
        write_served(sweep, cell, pa.Table.from_pylist(kept, schema=SERVED))
    return sweep


def test_what_a_live_sweep_was_served_is_scored_once_a_text(
    judged: tuple[Job, Scripted], capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = [row for row in rows("datasets/sums/prompts.parquet") if sum_of(row["prompt"]) % 10 != 5][:3]
    one, two, three = prompts
    right = f"That is {sum_of(one['prompt'])}."
    sweep = served_sweep(
        [
            ("a", 0, one["prompt_id"], right),
            ("a", 1, two["prompt_id"], "That is 0."),
            ("a", 2, three["prompt_id"], None),
            ("b", 0, one["prompt_id"], right),
            ("b", 1, two["prompt_id"], "   "),
        ]
    )
    assert run(["dataset", "judge", "--served", str(sweep), "--spec", "judges.yaml"]) == 0
    assert len(judged[1].seen) == 2
    labels = rows(str(sweep / "served/labels.parquet"))
    found = [(row["cell_id"], row["request"], row["metric"], row["score"]) for row in labels]
    assert found == [("a", 0, "second", 1.0), ("a", 1, "second", 0.6), ("b", 0, "second", 1.0)]
    assert "0.867" in capsys.readouterr().out


def test_a_sweep_without_texts_or_of_another_grid_is_refused(
    judged: tuple[Job, Scripted], capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = served_sweep([])
    words = ["dataset", "judge", "--served", str(sweep), "--spec", "judges.yaml"]
    assert run(words) == 1
    assert "holds no served text" in capsys.readouterr().err
    write_json({"grid": {"path": "datasets/sums", "digest": "0" * 64}}, sweep / "manifest.json")
    assert run(words) == 1
    assert "ran on a grid with digest 000000000000" in capsys.readouterr().err


def test_the_judge_sees_each_answer_with_its_own_prompt(judged: tuple[Job, Scripted]) -> None:
    seen = [prompt_of(body) for _, body in judged[0].judge.seen]
    assert len(set(seen)) == 74  # 80 answers less the empty ones
    assert len(seen) == 74 + 15  # prose is asked again, once
