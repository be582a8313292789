"""An encoder as an ONNX graph over its named tensors: one text, at its exact length, to its hidden states.

Tensors are named as in transformers' BertModel and DebertaV2Model; matrices are (out, in). One text a run
means no padding and no mask: what is computed for a text can't depend on its batch mates.
"""

from __future__ import annotations

import math

import numpy as np

from rbx.errors import BundleError
from rbx.heads.onnx_graph import OnnxGraph
from rbx.heads.routers.best_route.architecture import Architecture, Tensors

IDS, BUCKETS = "ids", "buckets"


def encoder_graph(tensors: Tensors, architecture: Architecture) -> bytes:
    """The ONNX file: inputs ``ids`` (length,) and, of DeBERTa, ``buckets`` (length, length); output
    (length, dim). Raises ``BundleError`` where a tensor is missing."""
    return _Encoder(tensors, architecture).file()


class _Encoder:
    """The graph while it grows. Names of states are names in the graph."""

    def __init__(self, tensors: Tensors, architecture: Architecture) -> None:
        self._tensors = tensors
        self._shape = architecture
        self._graph = OnnxGraph()
        self._constants: dict[str, str] = {}
        self._disentangled = architecture.kind == "deberta-v2"
        dim = tensors["embeddings.word_embeddings.weight"].shape[1]
        self._dim, self._head_dim = dim, dim // architecture.heads
        self._by_head = self._graph.numbers(-1, architecture.heads, self._head_dim)
        self._whole = self._graph.numbers(-1, dim)
        # A third of the attention is by content alone, the rest by content and position.
        terms = 3 if self._disentangled else 1
        self._scale = self._graph.constant(np.array([1.0 / math.sqrt(self._head_dim * terms)]))

    def file(self) -> bytes:
        """Everything, from ids to states."""
        ids = self._graph.input(IDS, ["length"])
        if self._disentangled:
            self._where = self._graph.input(BUCKETS, ["length", "length"])
            self._apart = self._normed(self._tensor("encoder.rel_embeddings.weight"), "encoder.LayerNorm")
        state = self._embedded(ids)
        for layer in range(self._shape.layers):
            state = self._layer(state, f"encoder.layer.{layer}")
        return self._graph.model(state, ["length", "dim"])

    def _embedded(self, ids: str) -> str:
        graph = self._graph
        state = graph.apply("Gather", self._tensor("embeddings.word_embeddings.weight"), ids)
        if not self._disentangled:
            # All pieces are of the first kind of token: its vector belongs to each position.
            positions = (
                self._tensors["embeddings.position_embeddings.weight"]
                + self._tensors["embeddings.token_type_embeddings.weight"][0]
            )
            first = graph.apply(
                "Slice", graph.constant(positions), graph.numbers(0), graph.apply("Shape", ids)
            )
            state = graph.apply("Add", state, first)
        return self._normed(state, "embeddings.LayerNorm")

    def _layer(self, state: str, name: str) -> str:
        graph = self._graph
        attended = self._linear(
            self._attended(state, f"{name}.attention.self"), f"{name}.attention.output.dense"
        )
        state = self._normed(graph.apply("Add", attended, state), f"{name}.attention.output.LayerNorm")
        wide = self._gelu(self._linear(state, f"{name}.intermediate.dense"))
        narrow = self._linear(wide, f"{name}.output.dense")
        return self._normed(graph.apply("Add", narrow, state), f"{name}.output.LayerNorm")

    def _attended(self, state: str, name: str) -> str:
        graph = self._graph
        suffix = "_proj" if self._disentangled else ""
        query, key, value = (f"{name}.{part}{suffix}" for part in ("query", "key", "value"))
        asked = self._heads(self._linear(state, query), [1, 0, 2])
        keys = self._linear(state, key)
        weight = graph.apply("MatMul", asked, self._heads(keys, [1, 2, 0]))
        if self._disentangled:
            weight = graph.apply(
                "Add", weight, self._by_position(asked, self._heads(keys, [1, 0, 2]), query, key)
            )
        share = graph.apply("Softmax", graph.apply("Mul", weight, self._scale), axis=-1)
        mixed = graph.apply("MatMul", share, self._heads(self._linear(state, value), [1, 0, 2]))
        return graph.apply("Reshape", graph.apply("Transpose", mixed, perm=[1, 0, 2]), self._whole)

    def _by_position(self, asked: str, keys: str, query: str, key: str) -> str:
        """Content to position and back (arXiv 2006.03654, equation 4), (heads, length, length)."""
        graph = self._graph
        every_head = graph.numbers(self._shape.heads, 1, 1)
        from_key = graph.apply("MatMul", asked, self._heads(self._linear(self._apart, key), [1, 2, 0]))
        from_query = graph.apply("MatMul", keys, self._heads(self._linear(self._apart, query), [1, 2, 0]))
        turned = graph.apply("Transpose", self._where, perm=[1, 0])
        to_position = graph.apply(
            "GatherElements", from_key, graph.apply("Expand", self._where, every_head), axis=2
        )
        to_content = graph.apply(
            "GatherElements", from_query, graph.apply("Expand", turned, every_head), axis=2
        )
        return graph.apply("Add", to_position, graph.apply("Transpose", to_content, perm=[0, 2, 1]))

    def _heads(self, state: str, order: list[int]) -> str:
        return self._graph.apply("Transpose", self._graph.apply("Reshape", state, self._by_head), perm=order)

    def _linear(self, state: str, name: str) -> str:
        weight, bias = self._tensor(f"{name}.weight"), self._tensor(f"{name}.bias")
        return self._graph.apply("Gemm", state, weight, bias, transB=1)

    def _normed(self, state: str, name: str) -> str:
        scale, bias = self._tensor(f"{name}.weight"), self._tensor(f"{name}.bias")
        return self._graph.apply("LayerNormalization", state, scale, bias, epsilon=self._shape.epsilon)

    def _gelu(self, state: str) -> str:
        graph = self._graph
        root, one, half = (graph.constant(np.array([each])) for each in (math.sqrt(0.5), 1.0, 0.5))
        erf = graph.apply("Erf", graph.apply("Mul", state, root))
        return graph.apply("Mul", graph.apply("Mul", state, graph.apply("Add", erf, one)), half)

    def _tensor(self, name: str) -> str:
        if name not in self._tensors:
            raise BundleError(f"the encoder has no tensor {name}; train the router again")
        if name not in self._constants:
            self._constants[name] = self._graph.constant(self._tensors[name])
        return self._constants[name]
