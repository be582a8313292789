"""Whether a table read from a file has the columns that its schema names, in types that hold the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def column_faults(table: pa.Table, schema: pa.Schema) -> list[str]:
    """One line for each column that is missing, of another kind or out of its range; empty where all fit.

    Widths of integers and floats are free where the values fit, and text may be dictionary-encoded
    where the schema's is.
    """
    faults = []
    for field in schema:
        if field.name not in table.column_names:
            faults.append(f"no column {field.name}")
            continue
        column = table[field.name]
        if not _holds(column.type, field.type):
            faults.append(f"column {field.name} is of type {column.type}, not {field.type}")
        elif pa.types.is_integer(field.type) and not _fits(column, field.type):
            faults.append(f"column {field.name} holds values beyond {field.type}")
    return faults


def _fits(column: pa.ChunkedArray, wanted: pa.DataType) -> bool:
    ends, limit = pc.min_max(column).as_py(), np.iinfo(wanted.to_pandas_dtype())
    return ends["min"] is None or bool(limit.min <= ends["min"] and ends["max"] <= limit.max)


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
