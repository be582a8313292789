"""Whether a table read from a file has the columns that its schema names, in types that hold the same."""

from __future__ import annotations

import pyarrow as pa


def column_faults(table: pa.Table, schema: pa.Schema) -> list[str]:
    """One line for each column that is missing or of another kind; empty where all fit.

    Widths of integers and floats are free, and text may be dictionary-encoded where the schema's is.
    """
    absent = [name for name in schema.names if name not in table.column_names]
    kinds = [
        (field.name, table.schema.field(field.name).type, field.type)
        for field in schema
        if field.name not in absent
    ]
    return [f"no column {name}" for name in absent] + [
        f"column {name} is of type {found}, not {wanted}"
        for name, found, wanted in kinds
        if not _holds(found, wanted)
    ]


def _holds(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_dictionary(wanted):
        return bool(
            found == pa.string() or (pa.types.is_dictionary(found) and found.value_type == pa.string())
        )
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(found))
    if pa.types.is_floating(wanted):
        return bool(pa.types.is_floating(found))
    return bool(found == wanted)
