"""Whether a cell speaks of its own sweep: its id, the prompts that were labelled, the pool's models."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from rbx.policy.base import FALLBACK, MODES
from rbx.report.manifest import Manifest
from rbx.sweep.store import CellSpec, CellSummary


def strangers(
    records: pa.Table, summary: CellSummary, spec: CellSpec, manifest: Manifest, prompt_ids: pa.Array
) -> list[str]:
    """Everything in a cell that the manifest or the labels (``prompt_ids``) do not know, in words.

    A null is no stranger; whether one may stand there is for ``conservation`` to say.
    """
    found = [] if summary.cell_id == spec.cell_id else [f"the summary is of cell {summary.cell_id!r}"]
    known = {
        "cell_id": pa.array([spec.cell_id]),
        "prompt_id": prompt_ids,
        "model": pa.array(sorted(manifest.models)),
        "tier": pa.array(sorted(manifest.tier_model)),
        "instance": pa.array(sorted(manifest.instances)),
        "decision_mode": pa.array([*MODES, FALLBACK]),
    }
    for name, values in known.items():
        found += _unknown(records, name, values)
    return found or [*_mismatched(records, manifest), *_busy_faults(summary, manifest)]


def _unknown(records: pa.Table, name: str, known: pa.Array) -> Iterator[str]:
    column = records[name].cast(pa.string())
    strange = pc.and_(pc.is_valid(column), pc.invert(pc.is_in(column, value_set=known)))
    rows = records.filter(strange)
    if rows.num_rows:
        value, request = rows[name][0].as_py(), rows["request"][0].as_py()
        yield f"{rows.num_rows} requests have an unknown {name}, the first is request {request}: {value!r}"


def _mismatched(records: pa.Table, manifest: Manifest) -> Iterator[str]:
    """Requests whose model is not the one that their tier serves."""
    tier, model = records["tier"].cast(pa.string()), records["model"].cast(pa.string())
    names = sorted(manifest.tier_model)
    served = pa.array([manifest.tier_model[name] for name in names])
    strange = pc.fill_null(pc.not_equal(served.take(pc.index_in(tier, pa.array(names))), model), False)
    rows = records.filter(strange)
    if rows.num_rows:
        first = rows.select(["request", "tier", "model"]).slice(0, 1).to_pylist()[0]
        yield (
            f"{rows.num_rows} requests have a model that their tier does not serve, the first is "
            f"request {first['request']}: {first['model']!r} on {first['tier']!r}"
        )


def _busy_faults(summary: CellSummary, manifest: Manifest) -> Iterator[str]:
    """Utilisation is a mean over the pool: a lost instance would raise or lower it unseen."""
    if not summary.busy_s:
        return
    lost = sorted(manifest.instances - set(summary.busy_s))
    strange = sorted(set(summary.busy_s) - manifest.instances)
    if lost:
        yield f"busy_s lacks the instances {', '.join(lost[:5])}"
    if strange:
        yield f"busy_s names instances that the pool lacks: {', '.join(map(repr, strange[:5]))}"
