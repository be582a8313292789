"""The hub: what it has comes by its own cache; what it refuses, lacks or never sends is told apart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import huggingface_hub
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from rbx import hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no way to the network."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return folder


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Lets downloads that hang go at the end of a test."""
    event = threading.Event()
    yield event
    event.set()


def cached(cache: Path, repository: str = "a/b") -> Path:
    """A data set that an earlier run left in the cache."""
    folder = cache / f"datasets--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "rows.jsonl").write_text("{}\n")
    return snapshot


def test_offline_the_cache_is_used_and_its_commit_known(cache: Path) -> None:
    snapshot = cached(cache)
    assert hub.fetch_snapshot("a/b", "main", ["*.jsonl"]) == hub.Snapshot(snapshot, COMMIT)


def test_offline_what_is_not_in_the_cache_is_an_error_in_one_line(cache: Path) -> None:
    with pytest.raises(hub.HubError, match=r"LocalEntryNotFoundError: .*HF_HUB_OFFLINE") as caught:
        hub.fetch_snapshot("a/b", "main", ["*.jsonl"])
    assert "\n" not in str(caught.value)
    assert not caught.value.refused


def test_only_the_files_asked_for_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, object] = {}

    def download(repository: str, **more: object) -> str:
        asked.update(more, repository=repository)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert hub.fetch_snapshot("a/b", "v1", ("data/train-*",)) == hub.Snapshot(tmp_path, None)
    assert asked == {
        "repository": "a/b",
        "repo_type": "dataset",
        "revision": "v1",
        "allow_patterns": ["data/train-*"],
    }


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("error", [GatedRepoError, RepositoryNotFoundError])
def test_a_refusal_is_known_as_one(
    monkeypatch: pytest.MonkeyPatch, status: int, error: type[RepositoryNotFoundError]
) -> None:
    response = httpx.Response(status, request=httpx.Request("GET", "https://example.org/api"))

    def refuse(*_: object, **__: object) -> str:
        raise error("Access is restricted.\nAsk for it.", response=response)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(
        hub.HubError, match=rf"{error.__name__}: Access is restricted\. Ask for it\."
    ) as caught:
        hub.fetch_snapshot("a/b", "main", ["*"])
    assert caught.value.refused


def test_a_server_error_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> str:
        raise httpx.HTTPStatusError(
            "bad gateway", request=httpx.Request("GET", "https://example.org"), response=httpx.Response(502)
        )

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)
    with pytest.raises(hub.HubError, match="HTTPStatusError: bad gateway") as caught:
        hub.fetch_file("a/b", "model.onnx", "main")
    assert not caught.value.refused


def test_a_download_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, release: threading.Event) -> None:
    def hang(*_: object, **__: object) -> str:
        release.wait(60)
        return "too late"

    monkeypatch.setattr(huggingface_hub, "snapshot_download", hang)
    with pytest.raises(hub.HubError, match=r"nothing came for 0\.05 s"):
        hub.fetch_snapshot("a/b", "main", ["*"], stall_s=0.05)


def test_a_download_that_moves_is_waited_for(
    cache: Path, monkeypatch: pytest.MonkeyPatch, release: threading.Event
) -> None:
    blobs = cache / "datasets--a--b" / "blobs"
    blobs.mkdir(parents=True)
    seen = threading.Semaphore(0)
    looked_at = hub._bytes_under

    def look(folder: Path) -> int:
        size = looked_at(folder)
        seen.release()
        return size

    def crawl(*_: object, **__: object) -> str:
        for part in range(12):  # each part lands only after the last was looked for
            assert seen.acquire(timeout=30)
            (blobs / f"part{part}.incomplete").write_bytes(b"x")
        return str(blobs)

    monkeypatch.setattr(hub, "_bytes_under", look)
    monkeypatch.setattr(hub, "POLL_S", 0.25)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", crawl)
    assert hub.fetch_snapshot("a/b", "main", ["*"], stall_s=2.0).folder == blobs
