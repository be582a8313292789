"""The tokenizer against ids known from the published model, and what it must survive."""

from __future__ import annotations

import pytest

from rbx.errors import BundleError
from rbx.heads import vocabulary
from rbx.heads.vocabulary import WordPieces, read_vocabulary


@pytest.fixture(scope="module")
def pieces() -> WordPieces:
    return WordPieces(12, special=True)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Hello, World!", [101, 7592, 1010, 2088, 999, 102]),
        ("the quick brown fox", [101, 1996, 4248, 2829, 4419, 102]),
        ("", [101, 102]),
        ("\x00\n \t", [101, 102]),
    ],
)
def test_ids_are_those_of_the_published_model(pieces: WordPieces, text: str, ids: list[int]) -> None:
    assert pieces.ids([text])[0].tolist() == ids


def test_case_and_accents_do_not_matter_and_cjk_characters_stand_alone(pieces: WordPieces) -> None:
    plain, accented, joined, spaced = pieces.ids(["cafe", "CAFÉ", "東京", "東 京"])
    assert plain.tolist() == accented.tolist()
    assert joined.tolist() == spaced.tolist()
    assert len(joined) == 4


def test_rare_words_fall_into_pieces_that_spell_them() -> None:
    names = read_vocabulary()
    (ids,) = WordPieces(64, special=False).ids(["heteroscedasticity"])
    assert len(ids) > 1
    assert "".join(names[i].removeprefix("##") for i in ids) == "heteroscedasticity"


def test_long_texts_are_cut_with_the_end_mark_kept(pieces: WordPieces) -> None:
    (ids,) = pieces.ids(["word " * 500])
    assert len(ids) == 12
    assert ids[-1] == 102


def test_one_text_and_many_give_the_same_ids(pieces: WordPieces) -> None:
    texts = ["one", "two words", "", "three little words"]
    together = pieces.ids(texts)
    assert [ids.tolist() for ids in together] == [pieces.ids([text])[0].tolist() for text in texts]


def test_a_lone_surrogate_is_read_as_a_question_mark(pieces: WordPieces) -> None:
    assert pieces.ids(["\ud800 x"])[0].tolist() == pieces.ids(["? x"])[0].tolist()


def test_an_altered_vocabulary_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "VOCABULARY_SHA256", "0" * 64)
    with pytest.raises(BundleError, match=r"bert_uncased_vocab.txt.gz: sha256"):
        read_vocabulary()
