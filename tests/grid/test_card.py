"""The card of a labelled grid: a header that the hub accepts, and all that a reader must know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rbx.grid.harvest import harvest_rows
from rbx.grid.licence import hub_licence
from tests.grid.building import build
from tests.grid.labelled import JUDGE, answer, every_status, label, prompt, spec, write


@pytest.fixture
def card(tmp_path: Path) -> str:
    write(every_status(), tmp_path / "grid")
    return (tmp_path / "grid" / "README.md").read_text()


def header(card: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(card.split("---\n")[1])
    return found


def test_the_header_names_the_files_and_what_they_are(card: str) -> None:
    found = header(card)
    assert found["license"] == "mit"
    assert found["task_categories"] == ["text-generation"]
    assert found["size_categories"] == ["n<1K"]
    assert [each["config_name"] for each in found["configs"]] == ["prompts", "responses", "labels"]
    assert found["configs"][0]["data_files"] == "prompts.parquet"


def test_the_hubs_own_reader_takes_the_header(card: str) -> None:
    hub = pytest.importorskip("huggingface_hub")
    parsed = hub.DatasetCard(card)
    assert parsed.data.license == "mit"
    assert parsed.data.pretty_name == "labelled"


@pytest.mark.parametrize(
    ("licence", "expected"),
    [
        ("unstated", {"license": "unknown"}),
        ("Apache-2.0", {"license": "apache-2.0"}),
        (
            "LMSYS-Chat-1M: its own Agreement",
            {"license": "other", "license_name": "lmsys-chat-1m-its-own-agreement"},
        ),
    ],
)
def test_licences_that_the_hub_does_not_know(licence: str, expected: dict[str, str]) -> None:
    assert hub_licence(licence) == expected


def test_sources_models_and_judges_are_told(card: str) -> None:
    assert "| gsm8k |" in card
    (source,) = (line for line in card.splitlines() if line.startswith("| gsm8k |"))
    assert source.endswith("| 0 | MIT |")
    assert r"| safety\|&lt;b&gt; |" in card
    assert "| m-1B | 38 | 1 | 1 | 0 | 1 | 38 | 1 | 0 | `m-1B-digest` |" in card
    assert "- max\\_tokens: 64\n" in card
    assert "- frequency\\_penalty: 1.2\n" in card
    assert f"| grade | 76 | 1 | 11 | `{JUDGE[:12]}` |" in card
    assert "## Judges\n\nllama:\n" in card
    assert "- model: meta/Llama\n" in card
    assert "- steps\\_version: 3\n" in card
    assert r"    - criteria: Rate the answer. Use \*all\* of \[0, 10\]." in card
    assert "    - hub: openai/gsm8k\n    - revision: e53f048\n" in card
    assert "- metrics: exact, grade (grade stands for quality)\n" in card


def test_known_limits_are_listed(card: str) -> None:
    limits = card.split("## Known limits\n\n")[1].split("\n\n")[0].splitlines()
    for start in (
        "- answers that can't be scored: m-1B 2 (1 empty, 1 failed, 0 not there), m-7B 1 (0 empty, ",
        "- answers cut at the token limit: m-1B 1 (2.6%)",
        "- labels that are not there: exact of m-1B 5.0% (2 missing, 0 judge failed), grade of m-1B 5.0% (2",
        "- the judge of grade saw only the beginning of the input in 5.2% of labels",
        "- the judge of grade saw only the beginning of the reference in 2.6% of labels",
        "- grade is coarse: it takes 11 distinct values",
        "- exact takes two values only",
        "- input tokens are estimated: characters / 4",
        "- answers whose length was recounted, as the server told none: m-1B 1",
        "- answers without a length: m-1B 1, m-7B 1",
    ):
        assert [line for line in limits if line.startswith(start)], start
    assert any("test prompts: the standard error of a mean score is up to 0." in line for line in limits)


def test_where_servers_and_files_lie_is_not_told(card: str) -> None:
    assert "judge.internal" not in card
    assert "somewhere/private" not in card


def test_names_from_data_can_not_break_the_card(tmp_path: Path) -> None:
    model = "evil\n---\n# [x](http://a)|<img src=x>"
    rows = harvest_rows(
        [prompt(1, source="a|b\n## c")], [answer(1, model)], [label(1, model, "grade", 1.0)], {}
    )
    write(rows, tmp_path / "grid", spec(name="odd"))
    card = (tmp_path / "grid" / "README.md").read_text()
    assert header(card)["pretty_name"] == "odd"
    assert "<img" not in card
    assert "\n## c" not in card
    assert "http://" not in card
    assert r"| a\|b \#\# c |" in card


def test_many_sources_are_not_all_listed(tmp_path: Path) -> None:
    numbers = range(30)
    rows = harvest_rows(
        [prompt(number, source=f"s{number}") for number in numbers],
        [answer(number, "x") for number in numbers],
        [label(number, "x", "grade", 1.0) for number in numbers],
        {},
    )
    write(rows, tmp_path / "grid")
    card = (tmp_path / "grid" / "README.md").read_text()
    assert card.count("| s") == 20 + 1  # and the heading
    assert "and 10 sources more\n" in card
    assert "- grade takes one value only" in card


def test_of_many_models_the_worst_are_named(tmp_path: Path) -> None:
    models = [f"m{number}" for number in range(12)]
    rows = harvest_rows(
        [prompt(number) for number in range(12)],
        [
            answer(number, model, finish_reason="length" if number <= at else "stop")
            for at, model in enumerate(models)
            for number in range(12)
        ],
        [label(number, model, "grade", 1.0) for model in models for number in range(12)],
        {},
    )
    write(rows, tmp_path / "grid")
    card = (tmp_path / "grid" / "README.md").read_text()
    (cut,) = (line for line in card.splitlines() if line.startswith("- answers cut"))
    assert cut.startswith("- answers cut at the token limit: m11 12 (100.0%), m10 11 (91.7%), ")
    assert cut.endswith("m4 5 (41.7%) and 4 more")


def test_a_synthetic_grid_says_so_among_its_limits(tmp_path: Path) -> None:
    build({"kind": "synth", "preset": "quickstart", "n": 30}, tmp_path / "grid")
    card = (tmp_path / "grid" / "README.md").read_text()
    assert "- synthetic: no model answered" in card
    assert "- preset: quickstart\n" in card
