"""MiniLM's weights as named float32 tensors, for those who train it further.

The file that ``rbx.heads.weights`` finds names vectors as transformers' ``BertModel`` does; its matrices
stand under numbers and are named here by the bias that is added to their product.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.errors import BundleError
from rbx.heads.onnx_tensors import OnnxTensors
from rbx.heads.weights import Weights

Tensors = dict[str, NDArray[np.float32]]

# Of BertConfig, in transformers' words.
SIZES = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
}
_PREFIX = "inner."
_LAYERS, _PER_LAYER, _EMBEDDINGS = 6, 16, 5


def minilm_tensors(weights: Weights) -> Tensors:
    """All tensors of the encoder by the names of ``BertModel``, int8 ones multiplied by their scales.

    A matrix is (out, in), as torch keeps it. Raises ``BundleError`` where the file is no such model.
    """
    graph = OnnxTensors(weights.path.read_bytes())
    found: Tensors = {}
    for name in (*graph.names, *(output for node in graph.nodes for output in node.outputs)):
        plain = name.removeprefix(_PREFIX)
        value = graph.value(name) if plain.startswith(("embeddings.", "encoder.")) else None
        if value is not None and plain.endswith((".weight", ".bias")):
            found[plain] = np.asarray(value, dtype=np.float32)
    for node in graph.nodes:
        if node.kind == "Add":
            found.update(_matrix_of(graph, node.inputs))
    if len(found) != _LAYERS * _PER_LAYER + _EMBEDDINGS:
        raise BundleError(
            f"{weights.path}: {len(found)} tensors of MiniLM are found, "
            f"{_LAYERS * _PER_LAYER + _EMBEDDINGS} are expected"
        )
    return found


def _matrix_of(graph: OnnxTensors, inputs: tuple[str, ...]) -> Tensors:
    """The matrix of the product that a named bias is added to, if these are the inputs of such a sum."""
    for bias, product in (inputs, inputs[::-1]):
        maker = graph.maker(product)
        if not bias.endswith(".bias") or maker is None or maker.kind != "MatMul":
            continue
        matrix = graph.value(maker.inputs[1])
        if matrix is not None:
            name = bias.removeprefix(_PREFIX).removesuffix(".bias") + ".weight"
            return {name: np.ascontiguousarray(matrix.T, dtype=np.float32)}
    return {}
