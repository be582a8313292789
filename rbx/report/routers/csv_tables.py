"""Every table of the report on routers as CSV; what is not known is left empty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from rbx.report.interval import Interval
from rbx.report.routers.study import RouterStudy
from rbx.report.written.records_csv import records_csv

Record = dict[str, Any]


def csv_tables(study: RouterStudy) -> dict[str, str]:
    """File name -> text; a table without rows has no file."""
    models = study.material.population.models
    tables: dict[str, Sequence[Record]] = {
        "routed_quality": [_flat(row) for row in study.rows],
        "shares": [
            {"label": row.label, "model": model, "share": share}
            for row in study.rows
            for model, share in zip(models, row.shares, strict=True)
        ],
        "concordance": [
            {"router": row.router, "model": model, **_value("concordance", found)}
            for row in study.concordance
            for model, found in (("mean over models", row.macro), *zip(models, row.by_model, strict=True))
        ],
        "ties": [{"router": row.router, **_value("tied_share", row.tied)} for row in study.concordance],
        "calibration": [_flat(row) for row in study.calibration],
        "reliability": [
            {"router": row.router, "bin": number, **_flat(each)}
            for row in study.calibration
            for number, each in enumerate(row.bins)
        ],
        "areas": [_flat(curve) for curve in study.curves],
        "curves": [
            {
                "router": curve.label,
                "setting": curve.settings[k],
                **_value("cost_usd", curve.cost_usd[k]),
                **_value("quality", curve.quality[k]),
            }
            for curve in study.curves
            for k in range(len(curve.settings))
        ],
        "flips": [_flat(row) for row in study.flips],
        "held_out_sources": [_flat(row) for row in study.held_out],
        "label_noise": [_flat(row) for row in study.label_noise],
        "neighbours": [_flat(row) for row in study.neighbours],
        "prices": [_flat(row) for row in study.prices],
    }
    return {f"{name}.csv": records_csv(rows) for name, rows in tables.items() if rows}


def _flat(row: Any) -> Record:
    """Fields of a row by name; intervals as value, low, high and status; sequences are left out."""
    assert is_dataclass(row)
    found: Record = {}
    for field in fields(row):
        found |= dict(_value(field.name, getattr(row, field.name)))
    return found


def _value(name: str, value: Any) -> Record:
    if isinstance(value, Interval):
        return {
            name: value.value,
            f"{name}_low": value.low,
            f"{name}_high": value.high,
            f"{name}_status": value.status,
        }
    if value is None:
        return {name: "", f"{name}_low": "", f"{name}_high": "", f"{name}_status": ""}
    if isinstance(value, dict):
        return dict(_items(name, value))
    return {} if isinstance(value, tuple) else {name: value}


def _items(name: str, values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        yield from _value(f"{name}: {key}", value).items()
