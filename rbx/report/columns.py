"""Whether a table read from a file has the columns that its schema names, in types that hold the same."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa


def column_faults(table: pa.Table, schema: pa.Schema) -> list[str]:
    """One line for each column that is missing, twice there or of another kind; empty where all fit.

    Widths of integers and floats are free, and text may be dictionary-encoded where the schema's is.
    """
    stands = Counter(table.column_names)
    faults = [f"no column {name}" for name in schema.names if not stands[name]]
    faults += [f"column {name} stands {stands[name]} times" for name in schema.names if stands[name] > 1]
    faults += [
        f"column {field.name} is of type {table.schema.field(field.name).type}, not {field.type}"
        for field in schema
        if stands[field.name] == 1 and not _holds(table.schema.field(field.name).type, field.type)
    ]
    return faults


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
