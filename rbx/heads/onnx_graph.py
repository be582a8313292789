"""A small ONNX graph, written without the ``onnx`` package: operators over named tensors.

Field numbers are those of onnx.proto: ModelProto (ir_version = 1, graph = 7, opset_import = 8), GraphProto
(node = 1, name = 2, initializer = 5, input = 11, output = 12), NodeProto (input = 1, output = 2, op_type = 4,
attribute = 5), AttributeProto (name = 1, i = 3, f = 2, ints = 8, type = 20), TensorProto (dims = 1, data_type
= 2, name = 8, raw_data = 9). The same calls give the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_IR_VERSION, _OPSET = 8, 17  # 17 is the first with LayerNormalization
_FLOAT, _INT64 = 1, 7
_ATTRIBUTE_FLOAT, _ATTRIBUTE_INT, _ATTRIBUTE_INTS = 1, 2, 7


class OnnxGraph:
    """Grows by one operator a call; every call gives the name of what it makes."""

    def __init__(self) -> None:
        """Nothing in it yet."""
        self._nodes: list[bytes] = []
        self._tensors: list[bytes] = []
        self._inputs: list[bytes] = []
        self._made = 0

    def input(self, name: str, dimensions: Sequence[str]) -> str:
        """Whole numbers that are given at each run; ``dimensions`` name its axes."""
        self._inputs.append(_value(name, _INT64, dimensions))
        return name

    def constant(self, values: NDArray[Any]) -> str:
        """Floats are kept as float32, all else as int64."""
        floats = np.issubdtype(values.dtype, np.floating)
        name = self._fresh()
        self._tensors.append(
            b"".join(_number(1, size) for size in values.shape)
            + _number(2, _FLOAT if floats else _INT64)
            + _chunk(8, name.encode())
            + _chunk(9, np.ascontiguousarray(values, dtype="<f4" if floats else "<i8").tobytes())
        )
        return name

    def numbers(self, *values: int) -> str:
        """A row of whole numbers, such as a shape."""
        return self.constant(np.array(values, dtype=np.int64))

    def apply(self, kind: str, *inputs: str, **attributes: int | float | Sequence[int]) -> str:
        """Operator ``kind`` of opset 17 with one output."""
        name = self._fresh()
        self._nodes.append(
            b"".join(_chunk(1, each.encode()) for each in inputs)
            + _chunk(2, name.encode())
            + _chunk(4, kind.encode())
            + b"".join(_chunk(5, _attribute(key, value)) for key, value in attributes.items())
        )
        return name

    def model(self, output: str, dimensions: Sequence[str]) -> bytes:
        """The whole file with one output of floats."""
        graph = (
            b"".join(_chunk(1, node) for node in self._nodes)
            + _chunk(2, b"rbx")
            + b"".join(_chunk(5, tensor) for tensor in self._tensors)
            + b"".join(_chunk(11, each) for each in self._inputs)
            + _chunk(12, _value(output, _FLOAT, dimensions))
        )
        return _number(1, _IR_VERSION) + _chunk(7, graph) + _chunk(8, _chunk(1, b"") + _number(2, _OPSET))

    def _fresh(self) -> str:
        self._made += 1
        return f"t{self._made}"


def _value(name: str, kind: int, dimensions: Sequence[str]) -> bytes:
    axes = b"".join(_chunk(1, _chunk(2, axis.encode())) for axis in dimensions)
    return _chunk(1, name.encode()) + _chunk(2, _chunk(1, _number(1, kind) + _chunk(2, axes)))


def _attribute(name: str, value: int | float | Sequence[int]) -> bytes:
    head = _chunk(1, name.encode())
    if isinstance(value, float):
        return head + _key(2, 5) + struct.pack("<f", value) + _number(20, _ATTRIBUTE_FLOAT)
    if isinstance(value, int):
        return head + _number(3, value) + _number(20, _ATTRIBUTE_INT)
    return head + b"".join(_number(8, each) for each in value) + _number(20, _ATTRIBUTE_INTS)


def _number(field: int, value: int) -> bytes:
    return _key(field, 0) + _varint(value % (1 << 64))


def _chunk(field: int, content: bytes) -> bytes:
    return _key(field, 2) + _varint(len(content)) + content


def _key(field: int, form: int) -> bytes:
    return _varint(field << 3 | form)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
