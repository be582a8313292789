"""The findings in sentences: what to take from a validation, and what to beware of."""

from __future__ import annotations

from collections.abc import Iterator

from rbx.report.fidelity.study import CALIBRATED, FITTED, HELD_OUT, POOL, Fidelity
from rbx.report.fidelity.tables import interval_words, signed_percent
from rbx.report.fidelity.timing import METRICS, WORDS

_MANY = 0.02  # of the answers
_UNSTEADY = 0.1
_SHOWN_CELLS = 6


def headline(found: Fidelity) -> Iterator[str]:
    """What was compared, and how close it came."""
    people = found.populations
    cells, rates = len(found.runs), len({run.spec.rate_per_s for run in found.runs})
    yield (
        f"{cells} live cells at {rates} rate{'s' if rates > 1 else ''}, {people.replayed:,} of "
        f"{people.scheduled:,} requests replayed where and when they were dispatched, with the lengths that "
        "were delivered."
    )
    for source in (POOL, FITTED):
        told = list(_means(found, source))
        if told:
            times = "of the pool file" if source == POOL else "fitted to the other half of the run"
            yield f"With step times {times}, replayed means are off by {', '.join(told)}."
    if found.orders:
        calibrated = [row for row in found.orders if row.source == CALIBRATED]
        clear = sum(swap.is_clear for row in calibrated for swap in row.swaps)
        same = sum(not row.swaps for row in calibrated)
        yield (
            f"Policies run again with what the run has told: the same order in {same} of {len(calibrated)} "
            f"comparisons (rate × metric); {clear} {'pair' if clear == 1 else 'pairs'} of policies "
            f"{'swaps' if clear == 1 else 'swap'} beyond what chance explains."
        )


def _means(found: Fidelity, source: str) -> Iterator[str]:
    fitted = any(row.source == FITTED for row in found.errors)
    for metric in METRICS:
        for row in found.errors:
            whole = row.rate_per_s is None and row.tier is None and row.metric == metric
            if whole and row.source == source and (row.population == HELD_OUT) == fitted:
                words = interval_words(row.mean_error, signed_percent)
                yield f"{WORDS[metric]} {words}"


def warnings(found: Fidelity) -> Iterator[str]:
    """One sentence an item."""
    people = found.populations
    if found.simulated:
        yield (
            "Mock servers answered, which run the simulator's own engine: this tests client, gateway and "
            "replay, and says nothing of real GPUs."
        )
    if _is_one_endpoint(found):
        yield (
            "All requests went to one endpoint: they are replayed on one server, from the moment they were "
            "sent. Where several serve behind it, these figures are of no use."
        )
    for cell in found.sweep.invalid:
        yield f"Left out: cell {cell.spec.cell_id} ({cell.spec.label}): {'; '.join(cell.reasons)}."
    yield from _of_cells(found)
    if found.sweep.missing:
        yield f"Cells of the sweep that were not run: {len(found.sweep.missing)}."
    if people.unplaced:
        yield f"{people.unplaced:,} requests are in no replay: nobody told which server they reached."
    if people.misfits:
        yield (
            f"{people.misfits:,} requests are longer than the pool file's max_model_len: in no replay, "
            "though they were a load."
        )
    if people.as_load:
        yield (
            f"{people.as_load:,} requests failed live: replayed as a load with the tokens that they got, and "
            "judged by nothing."
        )
    if people.retried:
        yield f"{people.retried:,} requests were placed anew after a failure: replayed, judged by nothing."
    for each in found.fits:
        if each.refused:
            yield f"No step times for {each.tier}: {each.refused}. Its replays keep the pool file's."
        elif each.aligned < (1.0 - _MANY) * each.answers:
            yield (
                f"{each.tier}: {each.answers - each.aligned:,} of {each.answers:,} answers were preempted or "
                "their chunks do not add up to their tokens; their part in its steps is a guess."
            )
        accuracy = None if each.fit is None else each.fit.on("all")
        if accuracy is not None and abs(accuracy.total_bias or 0.0) > _UNSTEADY:
            yield (
                f"{each.tier}: the fit of one half of the time is off by "
                f"{signed_percent(accuracy.total_bias or 0.0)} on the other: the server's speed changed "
                "during the run, or there is too little of it. Fitted replays mean little."
            )
    if found.no_policies:
        yield f"Policies were not run again: {found.no_policies}"


def _is_one_endpoint(found: Fidelity) -> bool:
    live = found.sweep.manifest.get("config", {}).get("live") or {}
    return bool((live.get("target") or {}).get("kind") == "openai")


def _of_cells(found: Fidelity) -> Iterator[str]:
    """What the sweep warned of in cells that count: a busy machine looks like an error of the simulator."""
    warned = [
        f"{cell.spec.cell_id} ({cell.spec.label}, λ = {cell.spec.rate_per_s:g}): {'; '.join(live.warnings)}"
        for cell in found.sweep.cells
        if (live := cell.summary.live) is not None and live.warnings
    ]
    if warned:
        rest = len(warned) - _SHOWN_CELLS
        more = [f"and {rest} more"] if rest > 0 else []
        yield (
            f"{len(warned)} of {len(found.sweep.cells)} cells carry warnings of the sweep. "
            f"{'. '.join([*warned[:_SHOWN_CELLS], *more])}."
        )
