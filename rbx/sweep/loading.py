"""The context of a prepared sweep, read back from files."""

from __future__ import annotations

from pathlib import Path

from rbx.config.base import parse
from rbx.config.experiment import Experiment
from rbx.errors import StoreError
from rbx.heads.bundle import Bundle
from rbx.heads.length_rules import length_rules
from rbx.sweep.cascades import chains_of
from rbx.sweep.context import SweepContext
from rbx.sweep.priced_pool import priced_pool
from rbx.sweep.prompts import load_prompt_table
from rbx.sweep.store import SweepStore


def load_context(
    folder: Path, pool_file: Path | None = None, bundle_folder: Path | None = None
) -> SweepContext:
    """The context of a prepared sweep, from its directory and the files its manifest names, or copies of
    them. Raises ``StoreError`` where they are no longer those."""
    manifest = SweepStore(folder).read_manifest()
    experiment = parse(Experiment, manifest["config"], where=f"{folder}/manifest.json: config")
    pool = priced_pool(experiment, pool_file)
    bundle = Bundle.load(bundle_folder or experiment.bundle)
    if pool.digest != manifest["pool"]["digest"] or bundle.digest != manifest["bundle"]["digest"]:
        raise StoreError(f"{folder}: the pool or the bundle changed since the sweep was planned")
    planned = manifest["bundle"].get("calibration")
    if planned is not None and (bundle.calibration is None or bundle.calibration.digest != planned):
        raise StoreError(f"{folder}: the bundle was calibrated again since the sweep was planned")
    lengths = length_rules(bundle, pool.models)
    prompts = load_prompt_table(folder, pool.models)
    chains = chains_of(manifest.get("cascades", {}))
    return SweepContext(experiment, pool, prompts, bundle.tpot, lengths, bundle.calibration, chains)
