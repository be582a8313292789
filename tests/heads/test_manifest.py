"""No byte of a bundle is believed before its digest holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbx.errors import BundleError
from rbx.heads.manifest import canonical, read_files, write_files


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    files = {"a.json": b"{}", "sub/b.bin": b"\x00\x01"}
    write_files(tmp_path, files)
    assert read_files(tmp_path) == files


@pytest.mark.parametrize("name", ["a.json", "sub/b.bin"])
def test_a_changed_file_is_named(tmp_path: Path, name: str) -> None:
    write_files(tmp_path, {"a.json": b"{}", "sub/b.bin": b"\x00\x01"})
    (tmp_path / name).write_bytes(b"other")
    with pytest.raises(BundleError, match=rf"{tmp_path / name}: sha256 is"):
        read_files(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(BundleError, match=rf"{tmp_path / name}: can't be read"):
        read_files(tmp_path)


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (b"{", "can't be read"),
        (b"[" * 100_000, "can't be read"),
        (b"[]", "not a bundle's manifest"),
        (b'{"format": "2", "files": {}}', "not a bundle's manifest"),
        (b'{"format": 1, "files": {}}', "of format 1, this version reads 2; train the bundle again"),
        (b'{"format": 3, "files": {}}', "of format 3, this version reads 2"),
        (b'{"format": 2, "files": {"../escape": "x"}}', "names inside the bundle"),
        (b'{"format": 2, "files": {"/etc/hostname": "x"}}', "names inside the bundle"),
        (b'{"format": 2, "files": {"a": 3}}', "names inside the bundle"),
        (b'{"format": 2}', "names inside the bundle"),
    ],
)
def test_a_faulty_manifest_is_refused(tmp_path: Path, manifest: bytes, said: str) -> None:
    (tmp_path / "manifest.json").write_bytes(manifest)
    with pytest.raises(BundleError, match=said):
        read_files(tmp_path)


def test_a_folder_without_a_manifest_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="make one with rbx train"):
        read_files(tmp_path)


def test_canonical_json_refuses_nan_and_sorts_keys() -> None:
    assert canonical({"b": 1, "a": None}) == canonical(json.loads('{"a": null, "b": 1}'))
    with pytest.raises(ValueError, match="JSON"):
        canonical({"a": float("nan")})
