"""The encoder that fine-tuning starts from: MiniLM, or one of transformers' by folder or hub id."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from rbx.errors import BundleError, MissingExtraError
from rbx.heads.minilm_tensors import SIZES, minilm_tensors
from rbx.heads.routers.best_route.architecture import Architecture
from rbx.heads.vocabulary import WordPieces
from rbx.heads.weights import locate_weights

MINILM = "minilm"
DEBERTA = "microsoft/deberta-v3-small"  # BEST-Route's
INSTALL = "pip install -e '.[st]' in rbx's folder"
MINILM_TOKENS, OTHER_TOKENS = 128, 512


@dataclass(frozen=True)
class StartingPoint:
    """``encoder`` is a torch module of transformers in evaluation mode; ``digest`` is that of its tensors."""

    name: str
    encoder: Any
    architecture: Architecture
    tokenizer: str
    digest: str


def starting_point(name: str | None) -> StartingPoint:
    """``minilm``, a folder or a hub id; None is BEST-Route's encoder where the hub gives it, else MiniLM.

    Weights are safetensors alone, and code that comes with a model is never run. Raises
    ``MissingExtraError`` without torch and transformers, ``BundleError`` where ``name`` can't be loaded.
    """
    require_torch()
    if name == MINILM:
        return _minilm()
    try:
        return _pretrained(name or DEBERTA)
    except (OSError, ValueError, ImportError) as error:
        if name is None:
            return _minilm()
        raise BundleError(
            f"--encoder-path {name}: can't be loaded: {str(error).splitlines()[0]}; give a folder with "
            "config.json, model.safetensors and tokenizer.json, or minilm"
        ) from None


def require_torch() -> None:
    """Raises ``MissingExtraError`` with the install line where torch or transformers is absent."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtraError(f"router best-route is fine-tuned with torch ({error}): {INSTALL}") from None
    del torch, transformers


def _minilm() -> StartingPoint:
    import torch
    from transformers import BertConfig, BertModel

    config = BertConfig(**SIZES)
    encoder = BertModel(config, add_pooling_layer=False)
    tensors = {
        name: torch.from_numpy(values.copy()) for name, values in minilm_tensors(locate_weights()).items()
    }
    encoder.load_state_dict(tensors)
    return _checked(
        MINILM,
        encoder,
        Architecture.of(config.to_dict(), "mean", MINILM_TOKENS),
        WordPieces(MINILM_TOKENS, special=True).as_json(),
    )


def _pretrained(name: str) -> StartingPoint:
    from transformers import AutoModel, AutoTokenizer

    encoder = AutoModel.from_pretrained(name, use_safetensors=True, trust_remote_code=False)
    encoder.pooler = None  # BERT's is not read, and random where a file has none
    tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False, use_fast=True)
    architecture = Architecture.of(encoder.config.to_dict(), "first", OTHER_TOKENS)
    return _checked(name, encoder.float(), architecture, str(tokenizer.backend_tokenizer.to_str()))


def _checked(name: str, encoder: Any, architecture: Architecture, tokenizer: str) -> StartingPoint:
    digest = hashlib.sha256(tokenizer.encode("utf-8"))
    for key, tensor in sorted(encoder.state_dict().items()):
        digest.update(key.encode() + np.ascontiguousarray(tensor.numpy()).tobytes())
    return StartingPoint(name, encoder.eval(), architecture, tokenizer, digest.hexdigest())
