"""A small model with random weights and a tokenizer of its own: a real engine without a download.

The architecture is Granite's, a Llama with scale factors; unlike Llama and Qwen2 it leaves the kind of
tokenizer to the files.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import GraniteConfig, GraniteForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 1024
UNKNOWN, BEGIN, END = "<unk>", "<begin>", "<end>"
FIRST_WORD = 3  # ids from here on are words


def make_model(folder: Path, *, hidden: int = 256, layers: int = 4, context: int = 4096) -> Path:
    """Write config, weights and tokenizer into ``folder``; the same weights every time.

    Logits are nearly flat, so a sampled token is each of the vocabulary's about equally often: answers
    that stop at any of k tokens have geometric lengths of mean VOCABULARY / k.
    """
    torch.manual_seed(0)
    words = {UNKNOWN: 0, BEGIN: 1, END: 2}
    words |= {f"w{number}": number for number in range(FIRST_WORD, VOCABULARY)}
    tokenizer = Tokenizer(WordLevel(words, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token=UNKNOWN, bos_token=BEGIN, eos_token=END
    ).save_pretrained(folder)
    config = GraniteConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=True,
    )
    GraniteForCausalLM(config).save_pretrained(folder, safe_serialization=True)
    return folder
