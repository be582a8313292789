"""The bundle's routers trained again on other prompts or labels, kept in a folder between runs.

A trained router is found again by all that decides it (task, seed, versions, the trainers' sources), so that
an interrupted report goes on where it was, and one that is written again trains nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

from rbx.compiled import sources_digest
from rbx.durable import write_bytes
from rbx.errors import BundleError, MissingExtraError, StoreError
from rbx.heads import routers
from rbx.heads.bundle import Bundle
from rbx.heads.knn import KnnHead, Labels
from rbx.heads.progress import Progress
from rbx.heads.routers.build import read_router, router_files, train_router
from rbx.heads.routers.head import RouterHead
from rbx.heads.routers.task import RouterTask
from rbx.report.routers.contender import Contender, prompt_routers

STAGE = "train routers again"


@dataclass(frozen=True)
class Variant:
    """Something else to learn from, and what it is called."""

    name: str
    task: RouterTask


@dataclass(frozen=True)
class Learnt:
    """A bundle whose heads learnt from ``task``; ``refused`` tells why a router is not among them."""

    task: RouterTask
    bundle: Bundle
    refused: dict[str, str]

    def knows(self, contender: Contender) -> bool:
        """Whether the contender can be asked."""
        name = contender.policy.trained_router
        return name is None or name in self.bundle.routers


class RouterStore:
    """Trained routers under ``folder``, two files each."""

    def __init__(self, folder: Path) -> None:
        """Make the folder; raises ``StoreError`` where that can't be done."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{folder}: can't be written: {error.strerror}") from None
        self._folder = folder
        versions = [f"{name} {metadata.version(name)}" for name in ("rbx", "numpy", "scipy", "scikit-learn")]
        self._code = " ".join([sources_digest(Path(routers.__path__[0])), *versions])

    def trained(self, name: str, task: RouterTask, seed: int) -> RouterHead:
        """The router as ``train_router`` makes it, from the folder where it was made before."""
        identity = f"{name}\0{seed}\0{_digest(task)}\0{self._code}"
        stem = self._folder / hashlib.sha256(identity.encode()).hexdigest()[:32]
        paths = {
            f"routers/{name}.json": stem.with_suffix(".json"),
            f"routers/{name}.npz": stem.with_suffix(".npz"),
        }
        try:
            return read_router(name, {key: path.read_bytes() for key, path in paths.items()})
        except (FileNotFoundError, BundleError):
            head = train_router(name, task, seed)
        for key, content in router_files(name, head).items():
            write_bytes(content, paths[key])
        return head


def learn_again(
    bundle: Bundle, variants: Sequence[Variant], seed: int, store: RouterStore, progress: Progress
) -> tuple[Learnt, ...]:
    """Every router that chooses by the prompt, and the neighbours, from each variant's task."""
    names = prompt_routers(bundle)
    total = len(variants) * len(names)
    found = []
    for done, variant in enumerate(variants):
        heads: dict[str, RouterHead] = {}
        refused: dict[str, str] = {}
        for position, name in enumerate(names):
            progress(STAGE, done * len(names) + position, total)
            try:
                heads[name] = store.trained(name, variant.task, seed)
            except (BundleError, MissingExtraError) as error:
                refused[name] = str(error)
        found.append(Learnt(variant.task, _with_heads(bundle, variant.task, heads), refused))
    if total:
        progress(STAGE, total, total)
    return tuple(found)


def _with_heads(bundle: Bundle, task: RouterTask, heads: dict[str, RouterHead]) -> Bundle:
    labels = Labels(task.models, task.score, task.output_tokens)
    return dataclasses.replace(bundle, knn=KnnHead(task.embeddings, labels, bundle.meta.k), routers=heads)


def _digest(task: RouterTask) -> str:
    sha = hashlib.sha256()
    for array in (
        task.embeddings,
        task.score,
        task.input_tokens,
        task.output_tokens,
        task.price_in_usd,
        task.price_out_usd,
    ):
        sha.update(f"{array.dtype} {array.shape}\0".encode() + np.ascontiguousarray(array).tobytes())
    sha.update(json.dumps([task.models, task.texts, task.sources]).encode())
    return sha.hexdigest()
