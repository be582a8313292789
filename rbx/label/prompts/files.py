"""Where a source's rows lie: somebody's folder or file, or the hub's copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from rbx.config.labelling import PublicPrompts
from rbx.errors import DatasetError
from rbx.grid.files import sha256_of
from rbx.hub import HubError, fetch_snapshot
from rbx.label.prompts.public import PublicDataset

SEE_HUB, SEE_OWNER = "see the hub", "see the file's owner"


class SourceFiles(NamedTuple):
    """Files in the order of their rows, and what the provenance says of them."""

    paths: tuple[Path, ...]
    provenance: dict[str, Any]


def public_files(spec: PublicPrompts, dataset: PublicDataset, position: int) -> SourceFiles:
    """A public source's files, fetched from the hub unless ``spec`` has a path; raises ``DatasetError``.

    ``position`` is the source's place in the spec, for the message that says how to go on.
    """
    if spec.path is not None:
        paths = _local(spec.path, dataset.patterns)
        return SourceFiles(paths, {"licence": dataset.licence, "files": _digests(paths)})
    repository = spec.hub or dataset.hub
    key = f"source.prompts.sources.{position}.path"
    try:
        snapshot = fetch_snapshot(repository, spec.revision, dataset.patterns)
    except HubError as error:
        raise DatasetError(_not_fetched(repository, error, dataset.gated, key)) from None
    paths = _local(snapshot.folder, dataset.patterns)
    return SourceFiles(
        paths,
        {
            "hub": repository,
            "revision": spec.revision,
            "commit": snapshot.commit,
            "licence": dataset.licence if repository == dataset.hub else SEE_HUB,
            "files": _digests(paths),
        },
    )


def table_files(path: Path) -> SourceFiles:
    """Somebody's own file; raises ``DatasetError`` where there is none."""
    if not path.is_file():
        raise DatasetError(f"{path}: no such file")
    return SourceFiles((path,), {"licence": SEE_OWNER, "files": _digests((path,))})


def _digests(paths: tuple[Path, ...]) -> dict[str, str]:
    try:
        return {path.name: sha256_of(path) for path in paths}
    except OSError as error:
        raise DatasetError(f"{error.filename}: can't be read: {error.strerror or error}") from None


def _local(path: Path, patterns: tuple[str, ...]) -> tuple[Path, ...]:
    """The file itself, or a folder's files by the first pattern that names any.

    Files may also lie in the folder itself, without the repository's own folders.
    """
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise DatasetError(f"{path}: no such file or folder")
    bare = [pattern.rsplit("/", 1)[-1] for pattern in patterns]
    for pattern in (*patterns, *bare):
        if found := sorted(each for each in path.glob(pattern) if each.is_file()):
            return tuple(found)
    raise DatasetError(
        f"{path}: holds no {' or '.join(patterns)}; give the folder or the file that has the rows"
    )


def _not_fetched(repository: str, error: HubError, gated: bool, key: str) -> str:
    go_on = f"download it by other means and give its folder with --set {key}=DIR"
    if error.refused or gated:
        page = f"https://huggingface.co/datasets/{repository}"
        go_on = f"accept its licence at {page} and set HF_TOKEN to a token of that account, or {go_on}"
    else:
        go_on = f"try again (what was fetched is kept), or {go_on}"
    return f"{repository} can't be fetched from the hub ({error}); {go_on}"
