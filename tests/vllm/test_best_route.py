"""BEST-Route's fine-tuning, and that what serves computes what torch does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from rbx.errors import BundleError
from rbx.heads.routers.best_route.architecture import Architecture, relative_buckets
from rbx.heads.routers.best_route.encoder_graph import encoder_graph
from rbx.heads.routers.best_route.starting_point import starting_point
from rbx.heads.routers.best_route.train import Recipe, train
from rbx.heads.routers.build import read_router, router_digest, router_files, train_router
from tests.heads.routers.best_route.tiny_encoder import BERT, WORDS, tokenizer
from tests.heads.routers.planted import kinds, planted

torch: Any = pytest.importorskip("torch", reason="fine-tuning needs torch: make test-vllm")
transformers: Any = pytest.importorskip("transformers", reason="needs transformers: make test-vllm")

pytestmark = pytest.mark.vllm

DEBERTA: dict[str, Any] = {
    "vocab_size": len(WORDS),
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "hidden_act": "gelu",
    "max_position_embeddings": 64,
    "relative_attention": True,
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-7,
}


def made(kind: str) -> Any:
    """A random encoder of transformers, its weights large enough to tell a wrong graph from a right one."""
    torch.manual_seed(4)
    if kind == "bert":
        plain = {key: value for key, value in BERT.items() if key != "model_type"}
        encoder = transformers.BertModel(transformers.BertConfig(**plain), add_pooling_layer=False)
    else:
        encoder = transformers.DebertaV2Model(transformers.DebertaV2Config(**DEBERTA))
    with torch.no_grad():
        for tensor in encoder.parameters():
            tensor.normal_(0.0, 0.5)
    return encoder.eval()


@pytest.mark.parametrize("kind", ["bert", "deberta-v2"])
def test_a_graph_gives_the_hidden_states_that_torch_gives(kind: str) -> None:
    encoder = made(kind)
    architecture = Architecture.of(encoder.config.to_dict(), "first", 512)
    tensors = {name: tensor.numpy() for name, tensor in encoder.state_dict().items()}
    session = onnxruntime.InferenceSession(encoder_graph(tensors, architecture))
    rng = np.random.default_rng(0)
    # Beyond 4 positions apart DeBERTa's share buckets here.
    for length in (1, 3, 16) if kind == "bert" else (1, 3, 16, 60):
        ids = rng.integers(0, len(WORDS), length)
        given = {"ids": ids}
        if architecture.buckets:
            given["buckets"] = relative_buckets(length, architecture)
        (found,) = session.run(None, given)
        with torch.no_grad():
            expected = encoder(input_ids=torch.from_numpy(ids)[None]).last_hidden_state[0].numpy()
        np.testing.assert_allclose(found, expected, atol=2e-5)


def test_buckets_of_relative_positions_are_those_of_transformers() -> None:
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    config = {**DEBERTA, "position_buckets": 256, "max_position_embeddings": 512}
    architecture = Architecture.of(transformers.DebertaV2Config(**config).to_dict(), "first", 512)
    apart = torch.arange(512)[:, None] - torch.arange(512)[None, :]
    expected = (make_log_bucket_position(apart, 256, 512).long() + 256).clamp(0, 511).numpy()
    np.testing.assert_array_equal(relative_buckets(512, architecture), expected)


def test_minilm_learns_from_the_text_alone_which_model_is_right_and_stops_by_held_out_loss() -> None:
    task, fresh = planted(120), planted(60, seed=1)
    head = train(replace(task, encoder_path="minilm"), seed=0)
    blind = fresh.prompts._replace(embeddings=np.zeros_like(fresh.embeddings))
    assert (head.score(blind).argmax(axis=1) == kinds(fresh)).mean() > 0.9
    told = head.described["training"]
    assert told["encoder"] == "minilm"
    assert told["held_out_prompts"] == 12
    assert told["best_pass"] == 1 + int(np.argmin(told["held_out_loss"]))
    assert told["held_out_accuracy"][told["best_pass"] - 1] > told["held_out_majority"]
    files = router_files("best-route", head)
    back = read_router("best-route", files)
    np.testing.assert_array_equal(back.score(blind), head.score(blind))


def saved(folder: Path, kind: str) -> str:
    made(kind).save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tokenizer())
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), unk_token="[UNK]", pad_token="[PAD]"
    )
    fast.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("kind", ["bert", "deberta-v2"])
def test_a_folder_is_fine_tuned_end_to_end_and_alike_each_time(tmp_path: Path, kind: str) -> None:
    task = replace(planted(), encoder_path=saved(tmp_path, kind))
    head = train_router("best-route", task, 0)
    assert router_digest("best-route", head) == router_digest(
        "best-route", train_router("best-route", task, 0)
    )
    assert router_digest("best-route", head) != router_digest(
        "best-route", train_router("best-route", task, 1)
    )
    before = starting_point(task.encoder_path).encoder.state_dict()
    changed = {
        name
        for name, tensor in head.arrays.items()
        if name.startswith("encoder.") and not np.array_equal(tensor, before[name.removeprefix("encoder.")])
    }
    assert {
        "encoder.embeddings.word_embeddings.weight",
        "encoder.encoder.layer.1.output.dense.bias",
    } <= changed


def test_the_served_probabilities_are_those_of_the_module_that_was_trained(tmp_path: Path) -> None:
    task = replace(planted(), encoder_path=saved(tmp_path, "deberta-v2"))
    head = train(task, 0, Recipe(most_passes=1))
    encoder = made("deberta-v2")
    stored = {
        name.removeprefix("encoder."): torch.from_numpy(tensor.copy())
        for name, tensor in head.arrays.items()
        if name.startswith("encoder.")
    }
    encoder.load_state_dict(stored, strict=False)
    ids = torch.tensor([[2, 7, 5, 8, 3]])
    with torch.no_grad():
        state = encoder(input_ids=ids).last_hidden_state[0, 0].numpy()
    logits = state @ head.arrays["weights"] + head.arrays["offset"]
    expected = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(head.classifier.probabilities(("history of rome",))[0], expected, atol=1e-5)


def test_a_folder_without_safetensors_is_refused_by_name(tmp_path: Path) -> None:
    folder = Path(saved(tmp_path, "bert"))
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(BundleError, match=f"--encoder-path {folder}"):
        starting_point(str(folder))
