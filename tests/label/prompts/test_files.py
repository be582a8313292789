"""Public sources from the hub: only the files needed, the commit on record, a way on if they don't come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import huggingface_hub
import pytest
from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError

from rbx.errors import DatasetError
from rbx.hub import HubError
from rbx.label.prompts import files
from rbx.label.prompts.collect import collect
from rbx.label.prompts.public import PUBLIC
from tests.label.prompts.hub_layouts import (
    GSM8K,
    collected,
    prompts,
    source_record,
    write_gsm8k,
    write_parquet,
)

COMMIT = "89abcdef0123456789abcdef0123456789abcdef"


class Hub:
    """Stands in for the download: files of one snapshot, and what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self.snapshot = folder / "snapshots" / COMMIT
        self.asked: list[dict[str, Any]] = []

    def download(self, repository: str, **more: Any) -> str:
        self.asked.append(more | {"repository": repository})
        return str(self.snapshot)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    stand_in = Hub(tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", stand_in.download)
    rows = [{"question": f"What is {n} + 1?", "answer": f"#### {n + 1}"} for n in range(5)]
    write_parquet(stand_in.snapshot / "main" / "train-00000-of-00001.parquet", GSM8K, rows)
    return stand_in


def test_the_hubs_copy_is_read_and_its_commit_kept(hub: Hub) -> None:
    found = collected({"kind": "gsm8k", "revision": "v2"})
    assert len(found.questions) == 5
    (asked,) = hub.asked
    assert (asked["repository"], asked["revision"], asked["repo_type"]) == ("openai/gsm8k", "v2", "dataset")
    assert asked["allow_patterns"] == ["main/train-*.parquet", "train.jsonl", "train.jsonl.gz"]
    record = source_record(found, "gsm8k")
    assert (record["hub"], record["revision"], record["commit"]) == ("openai/gsm8k", "v2", COMMIT)
    assert (record["licence"], list(record["files"])) == ("MIT", ["train-00000-of-00001.parquet"])


def test_another_copy_is_not_said_to_have_the_originals_licence(hub: Hub) -> None:
    record = source_record(collected({"kind": "gsm8k", "hub": "somebody/gsm8k-mirror"}), "gsm8k")
    assert (record["hub"], record["licence"]) == ("somebody/gsm8k-mirror", "see the hub")


def test_a_snapshot_without_the_files_is_named(hub: Hub) -> None:
    with pytest.raises(DatasetError, match=rf"{COMMIT}: holds no plain_text/train-\*\.parquet"):
        collected({"kind": "squad"})


def test_each_source_asks_its_own_repository_for_its_own_files(hub: Hub) -> None:
    for kind, dataset in PUBLIC.items():
        hub.asked.clear()
        if kind != "gsm8k":
            with pytest.raises(DatasetError, match="holds no"):
                collected({"kind": kind})
            assert (hub.asked[0]["repository"], hub.asked[0]["allow_patterns"]) == (
                dataset.hub,
                list(dataset.patterns),
            )
    assert {dataset.hub for dataset in PUBLIC.values()} == {
        "allenai/reward-bench",
        "coseal/CodeUltraFeedback",
        "PKU-Alignment/BeaverTails",
        "llm-blender/mix-instruct",
        "lmsys/lmsys-chat-1m",
        "openai/gsm8k",
        "rajpurkar/squad",
    }


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: object, **__: object) -> str:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)


def test_offline_it_says_how_to_go_on_with_a_local_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, LocalEntryNotFoundError("not in the cache"))
    first = {"kind": "gsm8k", "path": str(write_gsm8k(tmp_path, ["one?"]))}
    with pytest.raises(DatasetError) as caught:
        collect(prompts(first, {"kind": "squad"}), lambda _: None)
    message = str(caught.value)
    assert message.startswith(
        "rajpurkar/squad can't be fetched from the hub (LocalEntryNotFoundError: not in"
    )
    assert message.endswith("give its folder with --set source.prompts.sources.1.path=DIR")
    assert "try again" in message
    assert "HF_TOKEN" not in message


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("kind", ["lmsys", "squad"])
def test_a_refusal_says_how_to_be_let_in(monkeypatch: pytest.MonkeyPatch, status: int, kind: str) -> None:
    response = httpx.Response(status, request=httpx.Request("GET", "https://example.org/api"))
    failing(monkeypatch, GatedRepoError("Access to it is restricted.", response=response))
    with pytest.raises(DatasetError) as caught:
        collected({"kind": kind})
    page = {"lmsys": "lmsys/lmsys-chat-1m", "squad": "rajpurkar/squad"}[kind]
    assert f"accept its licence at https://huggingface.co/datasets/{page} and set HF_TOKEN" in str(
        caught.value
    )
    assert "--set source.prompts.sources.0.path=DIR" in str(caught.value)


def test_a_hub_that_sends_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def stalled(*_: object) -> None:
        raise HubError("nothing came for 120 s")

    monkeypatch.setattr(files, "fetch_snapshot", stalled)
    with pytest.raises(DatasetError, match=r"can't be fetched from the hub \(nothing came for 120 s\); try"):
        collected({"kind": "squad"})
