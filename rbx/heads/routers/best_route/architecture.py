"""Which encoder a router was fine-tuned from, as far as a graph of it needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rbx.errors import BundleError

Tensors = Mapping[str, NDArray[Any]]
Pooling = Literal["mean", "first"]

# Of transformers' DebertaV2Config: what the graph is written for, and microsoft/deberta-v3-small has.
_DEBERTA = {
    "relative_attention": True,
    "share_att_key": True,
    "position_biased_input": False,
    "type_vocab_size": 0,
    "norm_rel_ebd": "layer_norm",
    "hidden_act": "gelu",
}
_BERT = {"hidden_act": "gelu"}
# What the layers have that later versions of these configurations may leave out.
_DEFAULTS = {"conv_kernel_size": 0, "position_buckets": -1, "max_relative_positions": -1}


@dataclass(frozen=True)
class Architecture:
    """``kind`` is transformers' ``model_type``. ``max_tokens`` includes the special ones.

    ``pooling``: ``mean`` over all pieces, or the state of the ``first``. ``buckets`` and ``farthest`` belong
    to DeBERTa: relative positions up to half of ``buckets`` stand alone, others share in a logarithm up to
    ``farthest``.
    """

    kind: Literal["bert", "deberta-v2"]
    layers: int
    heads: int
    epsilon: float
    pooling: Pooling
    max_tokens: int
    buckets: int = 0
    farthest: int = 0

    def as_json(self) -> dict[str, Any]:
        """Plain data, for ``Architecture(**data)``."""
        return asdict(self)

    @classmethod
    def of(cls, config: Mapping[str, Any], pooling: Pooling, max_tokens: int) -> Architecture:
        """Of a configuration of transformers; raises ``BundleError`` for one that no graph is written for."""
        kind = config.get("model_type")
        if kind not in ("bert", "deberta-v2"):
            raise BundleError(
                f"an encoder of type {kind} can't be fine-tuned here; give one of type bert or deberta-v2"
            )
        expected: Mapping[str, Any] = _BERT if kind == "bert" else _DEBERTA
        for key, value in expected.items():
            if config.get(key) != value:
                raise BundleError(f"the encoder has {key} = {config.get(key)!r}; only {value!r} is supported")
        given = {**_DEFAULTS, **config}
        if given["conv_kernel_size"]:
            raise BundleError("the encoder has a convolution (conv_kernel_size); only those without one work")
        if kind == "deberta-v2" and (
            sorted(given.get("pos_att_type") or ()) != ["c2p", "p2c"] or given["position_buckets"] < 2
        ):
            raise BundleError("the encoder must attend c2p and p2c (pos_att_type) and have position_buckets")
        positions = int(given["max_position_embeddings"])
        farthest = given["max_relative_positions"]
        return cls(
            kind=kind,
            layers=int(given["num_hidden_layers"]),
            heads=int(given["num_attention_heads"]),
            epsilon=float(given["layer_norm_eps"]),
            pooling=pooling,
            max_tokens=min(max_tokens, positions),
            buckets=max(0, int(given["position_buckets"])) if kind == "deberta-v2" else 0,
            farthest=0 if kind == "bert" else int(farthest if farthest > 0 else positions),
        )


def relative_buckets(length: int, architecture: Architecture) -> NDArray[np.int64]:
    """DeBERTa's bucket of query position − key position, shifted to begin at 0, (length, length).

    arXiv 2006.03654, section 3.1, with the logarithmic buckets of its version 2.
    """
    apart = np.arange(length)[:, None] - np.arange(length)[None, :]
    middle = architecture.buckets // 2
    far = np.abs(apart)
    # In float32, as the encoder was trained: in float64 a few positions fall into the next bucket. Where
    # positions stand alone the logarithm is never looked at; 1 keeps it finite.
    ratio = np.log(np.float32(np.maximum(far, 1)) / np.float32(middle))
    ratio /= np.log(np.float32((architecture.farthest - 1) / middle))
    shared = np.ceil(ratio * np.float32(middle - 1)) + middle
    bucket = np.where(far <= middle, apart, shared * np.sign(apart)).astype(np.int64)
    return np.clip(bucket + architecture.buckets, 0, 2 * architecture.buckets - 1)
