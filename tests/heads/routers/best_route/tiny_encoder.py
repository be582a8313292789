"""Small encoders with random weights, as a router stores them: no torch and no file is needed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbx.heads.routers.best_route.architecture import Architecture
from rbx.heads.routers.best_route.classifier import Classifier

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "geometry", "of", "circles", "history", "rome", "sorting", "in")
BERT: dict[str, Any] = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "vocab_size": len(WORDS),
    "max_position_embeddings": 16,
    "layer_norm_eps": 1e-12,
}


def tokenizer() -> str:
    """Words between [CLS] and [SEP], in lower case."""
    pieces = {"[CLS]": ["[CLS]"], "[SEP]": ["[SEP]"]}
    special = {
        word: {"id": word, "ids": [WORDS.index(word)], "tokens": tokens} for word, tokens in pieces.items()
    }
    around = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]
    stored: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": around,
            "pair": around,
            "special_tokens": special,
        },
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: at for at, word in enumerate(WORDS)},
            "unk_token": "[UNK]",
        },
    }
    return json.dumps(stored)


def tensors(seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Of ``BERT``, by the names of transformers' BertModel."""
    rng = np.random.default_rng(seed)
    dim, wide = BERT["hidden_size"], BERT["intermediate_size"]

    def normal(*shape: int) -> NDArray[np.float32]:
        return rng.normal(0.0, 0.5, shape).astype(np.float32)

    found = {
        "embeddings.word_embeddings.weight": normal(BERT["vocab_size"], dim),
        "embeddings.position_embeddings.weight": normal(BERT["max_position_embeddings"], dim),
        "embeddings.token_type_embeddings.weight": normal(2, dim),
        "embeddings.LayerNorm.weight": np.float32(1.0) + normal(dim),
        "embeddings.LayerNorm.bias": normal(dim),
    }
    sizes = {
        "attention.self.query": (dim, dim),
        "attention.self.key": (dim, dim),
        "attention.self.value": (dim, dim),
        "attention.output.dense": (dim, dim),
        "attention.output.LayerNorm": (dim,),
        "intermediate.dense": (wide, dim),
        "output.dense": (dim, wide),
        "output.LayerNorm": (dim,),
    }
    for layer in range(BERT["num_hidden_layers"]):
        for name, shape in sizes.items():
            # Layer norms near one, or their biases would be all that the next layer sees.
            found[f"encoder.layer.{layer}.{name}.weight"] = normal(*shape) + np.float32(len(shape) == 1)
            found[f"encoder.layer.{layer}.{name}.bias"] = 0.1 * normal(shape[0])
    return found


def classifier(n_models: int = 3, seed: int = 0) -> Classifier:
    """It tells prompts apart by chance alone, but always in the same way."""
    rng = np.random.default_rng([seed, 1])
    return Classifier(
        architecture=Architecture.of(BERT, "mean", 16),
        tensors=tensors(seed),
        weights=rng.normal(0.0, 1.0, (BERT["hidden_size"], n_models)).astype(np.float32),
        offset=rng.normal(0.0, 0.2, n_models).astype(np.float32),
        tokenizer=tokenizer(),
    )
