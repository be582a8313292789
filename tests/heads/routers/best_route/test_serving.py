"""What was fine-tuned, served: without torch, by the text alone, and the same after it was stored."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import erf

from rbx.errors import BundleError
from rbx.heads.routers.best_route.architecture import Architecture
from rbx.heads.routers.best_route.classifier import Classifier
from rbx.heads.routers.best_route.router import BestRoute
from rbx.heads.routers.build import read_router, router_digest, router_files
from rbx.heads.routers.head import AskedPrompts
from tests.heads.routers.best_route.tiny_encoder import BERT, classifier

TEXTS = ("geometry of circles", "history of Rome", "Sorting", "", "circles in rome of " * 9, "of of of in")
MODELS = ("small", "middle", "large")
Floats = NDArray[np.float64]


def head() -> BestRoute:
    return BestRoute(MODELS, classifier(), cheapest="small", training={"encoder": "a tiny one"})


def asked(texts: tuple[str, ...] = TEXTS) -> AskedPrompts:
    return AskedPrompts(texts, np.zeros((len(texts), 1), dtype=np.float32))


def by_hand(served: Classifier, ids: list[int]) -> Floats:
    """BERT's forward pass and the last layer in plain numpy, one head at a time."""
    at = {name: values.astype(np.float64) for name, values in served.tensors.items()}

    def normed(state: Floats, name: str) -> Floats:
        centred = state - state.mean(axis=1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=1, keepdims=True) + BERT["layer_norm_eps"])
        return np.asarray(centred / spread * at[f"{name}.weight"] + at[f"{name}.bias"])

    def linear(state: Floats, name: str) -> Floats:
        return np.asarray(state @ at[f"{name}.weight"].T + at[f"{name}.bias"])

    state = at["embeddings.word_embeddings.weight"][ids]
    state = state + at["embeddings.position_embeddings.weight"][: len(ids)]
    state = normed(state + at["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    heads = BERT["num_attention_heads"]
    size = BERT["hidden_size"] // heads
    for layer in range(BERT["num_hidden_layers"]):
        name = f"encoder.layer.{layer}"
        query, key, value = (linear(state, f"{name}.attention.self.{k}") for k in ("query", "key", "value"))
        mixed = []
        for part in range(heads):
            own = slice(part * size, (part + 1) * size)
            weight = np.exp(query[:, own] @ key[:, own].T / math.sqrt(size))
            mixed.append(weight / weight.sum(axis=1, keepdims=True) @ value[:, own])
        attended = linear(np.concatenate(mixed, axis=1), f"{name}.attention.output.dense")
        state = normed(attended + state, f"{name}.attention.output.LayerNorm")
        wide = linear(state, f"{name}.intermediate.dense")
        wide = wide * 0.5 * (1.0 + erf(wide / math.sqrt(2.0)))
        state = normed(linear(wide, f"{name}.output.dense") + state, f"{name}.output.LayerNorm")
    logits = state.mean(axis=0) @ served.weights + served.offset
    shares = np.exp(logits - logits.max())
    return np.asarray(shares / shares.sum())


def test_the_graph_computes_what_a_forward_pass_by_hand_does() -> None:
    served = classifier()
    found = served.probabilities(("geometry of circles", "rome", ""))
    expected = [by_hand(served, ids) for ids in ([2, 4, 5, 6, 3], [2, 8, 3], [2, 3])]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert found.std(axis=0).max() > 0.01


def test_a_text_is_scored_by_itself_alone_and_cut_to_what_the_encoder_reads() -> None:
    together = head().score(asked())
    alone = np.concatenate([head().score(asked((text,))) for text in TEXTS])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(together, head().score(asked(TEXTS[::-1]))[::-1])
    longer = head().score(asked((TEXTS[4] + "geometry " * 50,)))
    np.testing.assert_array_equal(longer[0], together[4])
    assert head().score(asked(())).shape == (0, 3)


def test_it_is_the_same_after_it_was_stored() -> None:
    stored = head()
    files = router_files("best-route", stored)
    back = read_router("best-route", files)
    np.testing.assert_array_equal(back.score(asked()), stored.score(asked()))
    assert router_files("best-route", back) == files
    assert router_digest("best-route", back) == router_digest("best-route", stored)


def test_below_the_threshold_the_fallback_answers_and_at_zero_never() -> None:
    sure = head().score(asked()).max(axis=1)
    choice = head().score(asked()).argmax(axis=1)
    threshold = float(np.median(sure))
    for name, fallback in (("large", "large"), (None, "small")):
        picked = head().sure_from(threshold, name).score(asked()).argmax(axis=1)
        expected = np.where(sure < threshold, MODELS.index(fallback), choice)
        assert picked.tolist() == expected.tolist()
    assert head().sure_from(0.0, "large").score(asked()).argmax(axis=1).tolist() == choice.tolist()
    assert set(head().sure_from(1.0, "middle").score(asked()).argmax(axis=1).tolist()) == {1}


def test_settings_that_no_pool_can_have_are_refused() -> None:
    with pytest.raises(BundleError, match="probability"):
        head().sure_from(1.5, None)
    with pytest.raises(BundleError, match="'huge' is none of small, middle, large"):
        head().sure_from(0.5, "huge")


def test_a_lost_tensor_and_an_encoder_of_another_kind_are_named() -> None:
    whole = classifier()
    lost = {name: each for name, each in whole.tensors.items() if name != "embeddings.LayerNorm.bias"}
    with pytest.raises(BundleError, match=r"embeddings\.LayerNorm\.bias"):
        replace(whole, tensors=lost).probabilities(("rome",))
    with pytest.raises(BundleError, match="type gpt2"):
        Architecture.of({**BERT, "model_type": "gpt2"}, "mean", 16)
    with pytest.raises(BundleError, match="hidden_act"):
        Architecture.of({**BERT, "hidden_act": "relu"}, "mean", 16)
