"""``tokenizer.model`` of SentencePiece: the same ids as SentencePiece, and an export where nothing else is there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rknnlite_llm import Package, Tokenizer, export_llm
from rknnlite_llm.python_tokenizer.from_sentencepiece import (
    Piece,
    SentencePieces,
    published,
    read_sentencepiece,
)
from rknnlite_llm.python_tokenizer.pipeline import PlainTokenizer

from rknnlite.errors import ModelInvalid, ModelUnsupported
from tests.support.llm_models import write_model

pytestmark = pytest.mark.slow

DATA = Path(__file__).parent / "data" / "sentencepiece"
"""Models that SentencePiece 0.2.3 trained with ``tests.support.texts.corpus``, and its ids of texts (none that spells a byte's
token out: SentencePiece takes that for text, the package ``tokenizers`` for the token)."""


@pytest.mark.parametrize("name", ["bpe", "unigram", "gemma"])
def test_the_ids_are_those_of_sentencepiece(name: str) -> None:
    found = read_sentencepiece((DATA / f"{name}.model").read_bytes(), name)
    ours = PlainTokenizer(published(found))
    for text, ids in json.loads((DATA / f"{name}.json").read_text()):
        assert ours.encode(text).ids == ids, text


def test_a_blank_in_front_of_a_text_that_begins_with_one() -> None:
    """As SentencePiece puts it there for a Llama; those that tidy blanks up have none left."""
    pieces = [
        Piece("<unk>", 0.0, 2),
        *(Piece(text, -float(i), 1) for i, text in enumerate(("▁", "a", "▁a", "▁▁"))),
    ]
    kept = SentencePieces(
        pieces, model="BPE", byte_fallback=False, charsmap=b"", prefix=True, tidy=False, bos=-1, eos=-1
    )
    for model, wanted in (
        (kept, [[3], [1, 3], [4, 3], [4], [3, 3]]),
        (replace(kept, prefix=False), [[2], [3], [1, 3], [1], [2, 3]]),
        (replace(kept, tidy=True), [[3], [3], [3], [], [3, 3]]),
    ):
        tokenizer = PlainTokenizer(published(model))
        assert [tokenizer.encode(text).ids for text in ("a", " a", "  a", " ", "a a")] == wanted


def test_a_model_with_nothing_but_the_file_of_sentencepiece(tmp_path: Path) -> None:
    source = tmp_path / "hf"
    source.mkdir()
    write_model(source, "llama", vocab_size=704)
    (source / "tokenizer.json").unlink(missing_ok=True)
    (source / "tokenizer.model").write_bytes((DATA / "bpe.model").read_bytes())
    export_llm(source, tmp_path / "x", weights="f32")
    tokenizer = Tokenizer(Package.of(tmp_path / "x").tokenizer)
    text, ids = json.loads((DATA / "bpe.json").read_text())[3]
    assert tokenizer.encode(text) == ids
    assert tokenizer.encode(text, special=True) == [1, *ids]
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("cut", [1, 5, 100])
def test_a_damaged_file_is_an_invalid_model(cut: int) -> None:
    data = (DATA / "bpe.model").read_bytes()
    with pytest.raises(ModelInvalid, match="SentencePiece"):
        read_sentencepiece(data[cut:], "x")
    with pytest.raises(ModelInvalid, match="SentencePiece"):
        read_sentencepiece(b"", "x")


def test_a_model_of_words_is_refused_by_name() -> None:
    with pytest.raises(ModelUnsupported, match="model type 3"):
        read_sentencepiece(b"\x0a\x03\x0a\x01a\x12\x02\x18\x03", "x")
