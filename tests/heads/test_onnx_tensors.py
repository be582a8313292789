"""Tensors written by one module are read by the other; MiniLM's are those that onnxruntime multiplies by."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.errors import BundleError
from rbx.heads.minilm import MiniLm
from rbx.heads.minilm_tensors import SIZES, minilm_tensors
from rbx.heads.onnx_graph import OnnxGraph
from rbx.heads.onnx_tensors import OnnxTensors
from rbx.heads.routers.best_route.architecture import Architecture
from rbx.heads.routers.best_route.classifier import Classifier
from rbx.heads.vocabulary import WordPieces
from rbx.heads.weights import locate_weights

TEXTS = ("How do I reverse a list in Python?", "Who painted the Sistine Chapel?", "word " * 300, "x")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 40), max_size=3))
def test_what_is_written_is_read_back(seed: int, shape: list[int]) -> None:
    rng = np.random.default_rng(seed)
    floats = rng.normal(size=shape).astype(np.float32)
    whole = rng.integers(-(2**62), 2**62, shape)
    graph = OnnxGraph()
    names = graph.constant(floats), graph.constant(whole)
    made = graph.apply("Add", *names)
    read = OnnxTensors(graph.model(made, []))
    assert read.names == names
    for name, expected in zip(names, (floats, whole), strict=True):
        found = read.value(name)
        assert found is not None
        np.testing.assert_array_equal(found, expected)
    assert [(node.kind, node.inputs, node.outputs) for node in read.nodes] == [("Add", names, (made,))]
    assert read.value(made) is None


@pytest.mark.parametrize("data", [b"", b"\x3a\x05ab", b"\xff" * 30, b"hello world"])
def test_what_is_no_model_is_refused(data: bytes) -> None:
    with pytest.raises(BundleError, match="not an ONNX model"):
        OnnxTensors(data)


def test_minilm_from_its_tensors_embeds_as_the_packaged_file_does() -> None:
    config = {**SIZES, "model_type": "bert", "hidden_act": "gelu", "layer_norm_eps": 1e-12}
    dim = SIZES["hidden_size"]
    served = Classifier(
        architecture=Architecture.of(config, "mean", 256),
        tensors=minilm_tensors(locate_weights()),
        weights=np.eye(dim, dtype=np.float32),
        offset=np.zeros(dim, dtype=np.float32),
        tokenizer=WordPieces(256, special=True).as_json(),
    )
    # The logarithm of probabilities is the state but for a number of each text's own.
    ours = np.log(served.probabilities(TEXTS))
    theirs = MiniLm(threads=1).encode(TEXTS).astype(np.float64)
    for mine, packaged in zip(ours, theirs, strict=True):
        assert np.corrcoef(mine, packaged)[0, 1] > 0.99
