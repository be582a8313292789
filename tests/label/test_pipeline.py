"""From prompts, models and a judge to a grid, and what a second run makes of what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rbx.errors import RbxError, ServerError, UsageError
from rbx.grid.inspection import inspect_grid
from rbx.grid.spec import load_spec
from rbx.grid.store import open_view
from rbx.label.pipeline import LabelOptions, Outcome, label_grid
from rbx.label.progress import Silent
from tests.label.labelling import N_PROMPTS, Job, job, right, strict, sum_of, wrong
from tests.label.scripted_server import Reply, answer, prompt_of


def build(job: Job, *overrides: str, out: str = "grid", **options: Any) -> Outcome:
    loaded = load_spec(job.spec, list(overrides))
    return label_grid(loaded, job.folder / out, LabelOptions(**options), Silent())


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(folder / f"{table}.parquet").to_pylist()
    return found


def test_every_pair_has_its_answer_and_every_answer_its_scores(tmp_path: Path) -> None:
    with job(tmp_path) as sums:
        outcome = build(sums)
    assert outcome.built is not None
    grid = tmp_path / "grid"
    prompts = {row["prompt_id"]: row for row in rows(grid, "prompts")}
    assert len(prompts) == N_PROMPTS
    answers = {(row["prompt_id"], row["model"]): row for row in rows(grid, "responses")}
    assert len(answers) == 2 * N_PROMPTS
    for (prompt_id, model), row in answers.items():
        total = sum_of(prompts[prompt_id]["prompt"])
        empty = model == "right" and total % 7 == 0
        assert row["status"] == ("empty" if empty else "ok")
        assert row["tokens_source"] == "usage"
        assert row["finish_reason"] == ("length" if model == "wrong" and total > 60 else "stop")
    labels = {(row["prompt_id"], row["model"], row["metric"]): row for row in rows(grid, "labels")}
    assert len(labels) == 3 * 2 * N_PROMPTS
    for (prompt_id, model, metric), row in labels.items():
        total = sum_of(prompts[prompt_id]["prompt"])
        correct = model == "right" or total // 2 % 2 == 0
        if answers[prompt_id, model]["status"] == "empty":
            assert (row["score"], row["status"]) == (None, "missing")
        elif metric == "numeric":
            assert (row["score"], row["status"]) == (float(correct), "ok")
        elif metric == "judged" and total % 10 == 5:
            assert (row["score"], row["status"]) == (None, "judge_failed")
            assert row["raw"] == "I would say that is quite good."
        elif metric == "judged":
            assert (row["score"], row["status"]) == (1.0 if correct else 0.2, "ok")
            assert row["reason"] == f"the sum is {total}"
    assert not inspect_grid(grid).faults


def test_one_key_switches_the_signal_that_is_routed_by(tmp_path: Path) -> None:
    with job(tmp_path) as sums:
        build(sums)
        asked, judged = sums.asked, len(sums.judge.seen)
        outcome = build(sums, "source.quality=numeric", out="grid")
        assert (sums.asked, len(sums.judge.seen)) == (asked, judged)
    assert outcome.built is not None
    view = open_view(tmp_path / "grid")
    assert view.metric == "numeric"
    assert open_view(tmp_path / "grid", "judged").metric == "judged"


def test_a_second_run_asks_nobody_and_changes_nothing(tmp_path: Path) -> None:
    with job(tmp_path) as sums:
        first = build(sums)
        asked, judged = sums.asked, len(sums.judge.seen)
        second = build(sums)
        assert (sums.asked, len(sums.judge.seen)) == (asked, judged)
    assert first.built is not None
    assert second.built is not None
    assert (first.built.written, second.built.written) == (True, False)
    assert first.built.manifest == second.built.manifest


def test_stages_one_at_a_time_come_to_the_same_grid(tmp_path: Path) -> None:
    with job(tmp_path) as sums:
        whole = build(sums, out="whole")
        assert build(sums, out="staged", until="prompts").built is None
        asked = sums.asked
        assert build(sums, out="staged", until="answers").built is None
        assert sums.asked == 2 * asked
        staged = build(sums, out="staged")
        assert sums.asked == 2 * asked
    assert whole.built is not None
    assert staged.built is not None
    assert staged.built.manifest == whole.built.manifest


def test_other_generation_settings_are_asked_again(tmp_path: Path) -> None:
    with job(tmp_path) as sums:
        build(sums)
        asked = sums.asked
        build(sums, "source.generation.max_tokens=64")
        assert sums.asked == 2 * asked
        assert {body["max_tokens"] for _, body in sums.models[0].seen} == {1024, 64}


def test_a_judge_that_goes_away_leaves_what_it_judged_and_fails_no_row(tmp_path: Path) -> None:
    calls = 0

    def leaving(path: str, body: dict[str, Any]) -> Reply:
        nonlocal calls
        calls += 1
        return strict(path, body) if calls <= 10 else Reply(status=503)

    with job(tmp_path, judge=leaving) as sums:
        with pytest.raises(ServerError, match=r"signal judged.*run the same command again"):
            build(sums, "source.judges.0.endpoint.attempts=1")
        calls = -1000
        back = build(sums, "source.judges.0.endpoint.attempts=1")
    with job(tmp_path) as sums:
        whole = build(sums, out="whole")
    assert back.built is not None
    assert whole.built is not None
    assert back.built.manifest.files == whole.built.manifest.files


def test_failed_answers_are_asked_again_only_on_demand(tmp_path: Path) -> None:
    mended = False

    def refusing(path: str, body: dict[str, Any]) -> Reply:
        if not mended and sum_of(prompt_of(body)) > 70:
            return Reply({"error": {"message": "prompt is too long"}}, status=400)
        return right(path, body)

    with job(tmp_path, models=(refusing, wrong)) as sums:
        build(sums)
        failed = [row for row in rows(tmp_path / "grid", "responses") if row["status"] == "error"]
        assert failed
        assert all("prompt is too long" in row["error"] for row in failed)
        mended = True
        asked = sums.asked
        build(sums)
        assert sums.asked == asked
        build(sums, retry_failed=True)
        assert sums.asked == asked + len(failed)
    assert not [row for row in rows(tmp_path / "grid", "responses") if row["status"] == "error"]


def test_choosing_judges_that_are_not_there_or_needed_is_refused(tmp_path: Path) -> None:
    with job(tmp_path) as sums:
        with pytest.raises(UsageError, match=r"--judge kind: the judges are strict"):
            build(sums, judges=("kind",))
        with pytest.raises(RbxError, match=r"Qwen2\.5-3B"):
            build(sums, "source.pool=experiments/pools/paper.yaml")
        assert sums.asked == 0


def test_nothing_of_a_key_lands_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-very-secret")

    def leaky(path: str, body: dict[str, Any]) -> Reply:
        if sum_of(prompt_of(body)) % 3 == 0:
            return Reply(b'{"error": "Bearer sk-very-secret is over its quota"}', status=400)
        return answer("1")

    with job(tmp_path, models=(leaky, leaky)) as sums:
        build(
            sums,
            "source.models.0.endpoint.api_key_env=SOME_KEY",
            "source.models.1.endpoint.api_key_env=SOME_KEY",
            "source.judges.0.endpoint.api_key_env=SOME_KEY",
            "source.signals=[{kind: numeric, name: numeric}]",
            "source.quality=numeric",
        )
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".jsonl" for path in written)
    assert not [path for path in written if b"sk-very-secret" in path.read_bytes()]
    assert any(row["error"] and "***" in row["error"] for row in rows(tmp_path / "grid", "responses"))


def test_another_directory_can_share_the_work(tmp_path: Path) -> None:
    with job(tmp_path) as sums:
        build(sums)
        asked, judged = sums.asked, len(sums.judge.seen)
        outcome = build(sums, "source.quality=numeric", out="other", work=tmp_path / "grid.work")
        assert (sums.asked, len(sums.judge.seen)) == (asked, judged)
    assert outcome.built is not None
    assert outcome.built.manifest.quality == "numeric"


def test_a_judge_that_is_not_there_is_told_before_any_model_is_asked(tmp_path: Path) -> None:
    with job(tmp_path) as sums:
        with pytest.raises(ServerError, match=r"judge strict: 'nobody' is not served"):
            build(sums, "source.judges.0.endpoint.served_name=nobody")
        assert sums.asked == 0
        build(sums)
    # All is there, so that nobody needs to be up.
    assert build(sums).built is not None


def test_a_grid_of_the_same_name_gives_way_only_to_the_work_it_came_of(tmp_path: Path) -> None:
    with job(tmp_path) as sums:
        build(sums)
        (tmp_path / "grid.work").rename(tmp_path / "elsewhere")
        with pytest.raises(RbxError, match="holds another grid"):
            build(sums, "source.generation.max_tokens=64", "source.prompts.total=20")


def test_without_quality_the_first_signal_is_it(tmp_path: Path) -> None:
    with job(tmp_path) as sums:
        build(sums, "source.quality=null")
    assert open_view(tmp_path / "grid").metric == "judged"


def test_a_file_that_has_changed_since_is_told(tmp_path: Path) -> None:
    class Told(Silent):
        said: ClassVar[list[str]] = []

        def say(self, text: str) -> None:
            self.said.append(text)

    with job(tmp_path) as sums:
        build(sums)
        with (tmp_path / "sums.jsonl").open("a") as file:
            file.write('{"question": "How much is 7 plus 900?", "sum": "907", "kind": "odd"}\n')
        label_grid(load_spec(sums.spec), tmp_path / "grid", LabelOptions(), Told())
    assert [text for text in Told.said if "sums.jsonl has changed since; delete" in text]


def test_a_corrected_reference_is_scored_anew(tmp_path: Path) -> None:
    with job(tmp_path) as sums:
        build(sums)
        table = (tmp_path / "sums.jsonl").read_text()
        (tmp_path / "sums.jsonl").write_text(table.replace("the sum is 9", "the sum is 10"))
        asked = sums.asked
        build(sums, "source.prompts.seed=2")
        assert sums.asked == asked
    labels = {
        (row["prompt_id"], row["model"]): row
        for row in rows(tmp_path / "grid", "labels")
        if row["metric"] == "numeric"
    }
    (prompt,) = [row for row in rows(tmp_path / "grid", "prompts") if sum_of(row["prompt"]) == 9]
    assert prompt["reference"] == "the sum is 10"
    assert labels[prompt["prompt_id"], "right"]["score"] == 0.0


@pytest.mark.parametrize("out", ["sums.jsonl", "elsewhere", "."])
def test_a_place_where_no_grid_can_go_is_told_before_anybody_is_asked(tmp_path: Path, out: str) -> None:
    with job(tmp_path) as sums:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "precious").write_text("mine")
        with pytest.raises(RbxError, match=r"--out"):
            label_grid(
                load_spec(sums.spec), Path() if out == "." else tmp_path / out, LabelOptions(), Silent()
            )
        assert sums.asked == 0


def test_tampered_prompts_are_refused(tmp_path: Path) -> None:
    with job(tmp_path) as sums:
        build(sums)
        path = tmp_path / "grid.work" / "prompts.parquet"
        table = pq.read_table(path)
        texts = pa.array(["another text", *table["prompt"].to_pylist()[1:]])
        at = table.schema.get_field_index("prompt")
        pq.write_table(table.set_column(at, table.schema.field(at), texts), path)
        with pytest.raises(RbxError, match=r"a text under another text's id"):
            build(sums)
        pq.write_table(table.replace_schema_metadata({b"rbx": b"[]"}), path)
        with pytest.raises(RbxError, match=r"not the prompts of a build"):
            build(sums)


def test_models_that_answer_nothing_make_no_grid(tmp_path: Path) -> None:
    def refusing(path: str, body: dict[str, Any]) -> Reply:
        return Reply({"error": {"message": "frequency_penalty is not supported"}}, status=400)

    with job(tmp_path, models=(refusing, refusing)) as sums:
        with pytest.raises(ServerError, match=r"no model answered any prompt; the first: .*not supported"):
            build(sums)
        assert not (tmp_path / "grid").exists()
