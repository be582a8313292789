"""The factory of encoders, and the wrapper of sentence-transformers."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rbx.errors import BundleError, MissingExtraError, UsageError
from rbx.heads.encoder import encoder_cost, load_encoder


@pytest.mark.parametrize("name", ["minilm2", "", "st:", "bert"])
def test_unknown_names_are_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError, match="minilm, static, st:NAME"):
        load_encoder(name)


def test_costs_are_positive_constants_and_static_is_far_cheaper() -> None:
    minilm, static = encoder_cost("minilm"), encoder_cost("static")
    assert min(minilm.encode_s_per_token, static.encode_s_per_token) > 0
    at_60 = [cost.encode_s_per_request + 60 * cost.encode_s_per_token for cost in (minilm, static)]
    assert at_60[0] > 20 * at_60[1]
    assert encoder_cost("st:anything").encode_s_per_request > 0
    with pytest.raises(UsageError):
        encoder_cost("st2:x")


def test_a_missing_extra_names_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"pip install -e '.\[st\]'"):
        load_encoder("st:any/model")


class _Tensor:
    def __init__(self, values: list[float]) -> None:
        self.values = np.array(values, dtype=np.float32)

    def detach(self) -> _Tensor:
        return self

    cpu = float = detach

    def numpy(self) -> NDArray[np.float32]:
        return self.values


class _Model:
    """Answers as ``SentenceTransformer`` does; vectors are not normalised, as with many models."""

    max_seq_length = 128
    weight = 1.0

    def __init__(self, name: str, *, device: str, trust_remote_code: bool) -> None:
        assert device == "cpu"
        assert trust_remote_code is False
        if name == "absent":
            raise OSError("absent is not a local folder and is not a valid model identifier")

    def get_sentence_embedding_dimension(self) -> int:
        return 3

    def state_dict(self) -> dict[str, _Tensor]:
        return {"b": _Tensor([self.weight]), "a": _Tensor([2.0, 3.0])}

    def encode(self, texts: list[str], **options: Any) -> NDArray[np.float32]:
        assert options["batch_size"] == 1
        return np.array([[len(text), 2.0, 2.0] for text in texts], dtype=np.float32)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = _Model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)


@pytest.mark.usefixtures("stand_in")
def test_any_model_becomes_an_encoder_of_unit_vectors() -> None:
    encoder = load_encoder("st:org/model")
    assert (encoder.name, encoder.dim) == ("st:org/model", 3)
    np.testing.assert_allclose(encoder.encode(["x"]), [[1 / 3, 2 / 3, 2 / 3]], rtol=1e-6)
    assert encoder.encode([]).shape == (0, 3)


@pytest.mark.usefixtures("stand_in")
def test_the_digest_follows_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    before = load_encoder("st:org/model").digest
    assert load_encoder("st:org/model").digest == before
    monkeypatch.setattr(_Model, "weight", 1.5)
    assert load_encoder("st:org/model").digest != before


@pytest.mark.usefixtures("stand_in")
def test_a_model_that_can_not_be_loaded_is_named() -> None:
    with pytest.raises(BundleError, match="st:absent: the model can't be loaded"):
        load_encoder("st:absent")
