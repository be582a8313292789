"""Named tensors of an ONNX file, read without the ``onnx`` package.

A file is a protocol buffer; the fields read here are those of onnx.proto's ModelProto (graph = 7), GraphProto
(node = 1, initializer = 5), NodeProto (input = 1, output = 2, op_type = 4) and TensorProto (dims = 1,
data_type = 2, name = 8, raw_data = 9).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbx.errors import BundleError

_DTYPES = {1: "<f4", 2: "u1", 3: "i1", 6: "<i4", 7: "<i8", 9: "?"}
_VARINT, _EIGHT_BYTES, _CHUNK, _FOUR_BYTES = 0, 1, 2, 5


class Node(NamedTuple):
    """One operator: its kind, and the names of its inputs and outputs."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class OnnxTensors:
    """Initialisers of a graph by name, and what follows from them by a cast or a product alone."""

    def __init__(self, data: bytes) -> None:
        """Read a whole model; raises ``BundleError`` where it is not one."""
        graph = _only(memoryview(data), 7)
        self.nodes = tuple(_node(chunk) for chunk in _chunks(graph, 1))
        self._tensors = dict(_tensor(chunk) for chunk in _chunks(graph, 5))
        self._maker = {name: node for node in self.nodes for name in node.outputs}

    @property
    def names(self) -> tuple[str, ...]:
        """Of the initialisers."""
        return tuple(self._tensors)

    def maker(self, name: str) -> Node | None:
        """The operator whose output is called ``name``."""
        return self._maker.get(name)

    def value(self, name: str) -> NDArray[Any] | None:
        """The tensor called ``name``, weights of few bits multiplied by their scales; None for all else."""
        if name in self._tensors:
            return self._tensors[name]
        node = self._maker.get(name)
        if node is None or node.kind not in ("Cast", "Mul"):
            return None
        factors = [self.value(each) for each in node.inputs]
        known = [factor.astype(np.float32) for factor in factors if factor is not None]
        if len(known) < len(factors):
            return None
        return known[0] if node.kind == "Cast" else np.asarray(known[0] * known[1])


def _node(chunk: memoryview) -> Node:
    (kind,) = _texts(chunk, 4)
    return Node(kind, _texts(chunk, 1), _texts(chunk, 2))


def _tensor(chunk: memoryview) -> tuple[str, NDArray[Any]]:
    (name,) = _texts(chunk, 8)
    shape, kind = [], 0
    for number, value in _fields(chunk):
        if number == 1:
            shape += [value] if isinstance(value, int) else list(_varints(value))
        elif number == 2 and isinstance(value, int):
            kind = value
    raw = next(iter(_chunks(chunk, 9)), memoryview(b""))
    if kind not in _DTYPES:
        raise BundleError(f"ONNX tensor {name}: data type {kind} is none of {sorted(_DTYPES)}")
    found = np.frombuffer(raw, dtype=_DTYPES[kind])
    if found.size != int(np.prod(shape, dtype=np.int64)):
        raise BundleError(f"ONNX tensor {name}: holds {found.size} values, its shape is {shape}")
    return name, found.reshape(shape)


def _only(data: memoryview, number: int) -> memoryview:
    found = list(_chunks(data, number))
    if len(found) != 1:
        raise BundleError("not an ONNX model: it has no graph")
    return found[0]


def _chunks(data: memoryview, number: int) -> Iterator[memoryview]:
    for found, value in _fields(data):
        if found == number and isinstance(value, memoryview):
            yield value


def _texts(data: memoryview, number: int) -> tuple[str, ...]:
    return tuple(bytes(chunk).decode("utf-8") for chunk in _chunks(data, number))


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Field numbers with their values, in the order of the file."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, form = key >> 3, key & 7
        if form == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        size = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}.get(form)
        if form == _CHUNK:
            size, at = _varint(data, at)
        if size is None or at + size > len(data):
            raise BundleError(f"not an ONNX model: field {number} at byte {at} does not hold")
        yield number, data[at : at + size]
        at += size


def _varints(data: memoryview) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise BundleError(f"not an ONNX model: a number at byte {at} does not end")
