"""Texts to embeddings: WordPiece, unigram and byte-level tokenizers with the special tokens around a text."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from rknnlite_llm import Embedder, Package, Tokenizer, export_llm
from rknnlite_llm.gguf import read_gguf
from rknnlite_llm.isolated_tokenizer import trusted
from rknnlite_llm.python_tokenizer.pipeline import PlainTokenizer

from rknnlite.errors import InputInvalid, ModelInvalid, ParamInvalid
from tests.support.embedding_models import SENTENCES, TOKENIZERS, write_encoder

tokenizers = pytest.importorskip("tokenizers", reason="needs the package tokenizers (extra llm)")


@pytest.fixture(scope="module", params=TOKENIZERS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A family, and a directory with the published model ``hf`` and the package ``out``."""
    folder = tmp_path_factory.mktemp(request.param)
    source = write_encoder(folder / "hf", request.param)
    TOKENIZERS[request.param](source / "tokenizer.json")
    export_llm(source, folder / "out", "f32")
    return request.param, folder


def _published(folder: Path) -> object:
    found = tokenizers.Tokenizer.from_file(str(folder / "hf" / "tokenizer.json"))
    found.no_truncation()
    found.no_padding()
    return found


def test_tokens_are_those_of_the_published_tokenizer(made: tuple[str, Path]) -> None:
    family, folder = made
    theirs = _published(folder)
    ours = Tokenizer(Package.of(folder / "out").tokenizer)
    ends = {"bert": ("[CLS]", "[SEP]"), "xlm-roberta": ("<s>", "</s>")}[family]
    for text in (*SENTENCES, "The  CAT  sat", "Zürich \u4e2d", "", "a " * 60):
        whole = ours.encode(text, special=True)
        assert whole == theirs.encode(text).ids  # type: ignore[attr-defined]
        assert (ours.tokens[whole[0]], ours.tokens[whole[-1]]) == ends
        assert ours.encode(text) == whole[1:-1]
    assert ours.decode(ours.encode("dogs and cats")) == "dogs and cats"


def test_the_gguf_says_which_kind_it_is(made: tuple[str, Path]) -> None:
    family, folder = made
    pairs = read_gguf(memoryview(Package.of(folder / "out").tokenizer.read_bytes()), "x")
    assert pairs["tokenizer.ggml.model"] == {"bert": "bert", "xlm-roberta": "t5"}[family]
    assert ("tokenizer.ggml.scores" in pairs) == (family == "xlm-roberta")
    if family == "xlm-roberta":
        vocab = json.loads((folder / "hf" / "tokenizer.json").read_text())["model"]["vocab"]
        scores = np.array([score for _, score in vocab], np.float32)
        assert np.array_equal(np.asarray(pairs["tokenizer.ggml.scores"])[: len(scores)], scores)


def test_texts_have_embeddings(made: tuple[str, Path]) -> None:
    _, folder = made
    with Embedder(folder / "out") as embedder:
        both = embedder.embed(["the cat sat", "a dog ran after the cat"])
        assert both.shape == (2, 32) and both.dtype == np.float32
        assert np.allclose(np.linalg.norm(both, axis=1), 1, atol=1e-6)
        assert np.abs(embedder.embed("the cat sat") - both[:1]).max() < 1e-6
        tokens = [embedder.tokens("the cat sat")]
        assert np.array_equal(embedder.embed_tokens(tokens), embedder.embed("the cat sat"))
        few = embedder.embed(["the cat sat"], dimensions=8)
        assert few.shape == (1, 8)
        assert np.allclose(few[0], both[0, :8] / np.linalg.norm(both[0, :8]), atol=1e-6)
        assert embedder.embed([]).shape == (0, 32)
        for dimensions in (0, 33, -1):
            with pytest.raises(ParamInvalid, match=r"1\.\.32"):
                embedder.embed("x", dimensions)
        with pytest.raises(InputInvalid, match="list of texts"):
            embedder.embed([1])  # type: ignore[list-item]


def test_long_texts_are_cut_only_when_asked(made: tuple[str, Path]) -> None:
    _, folder = made
    with Embedder(folder / "out") as embedder:
        most = embedder.config.max_ctx_len
        text = "the cat " * most
        with pytest.raises(InputInvalid, match=f"1 to {most}; cut it"):
            embedder.embed(text)
        cut = embedder.tokens(text, truncate=True)
        whole = embedder.tokens(text)
        assert len(cut) == most and cut[:-1] == whole[: most - 1] and cut[-1] == whole[-1]
        assert embedder.embed(text, truncate=True).shape == (1, 32)
        assert embedder.tokens("the cat", truncate=True) == embedder.tokens("the cat")


@pytest.mark.parametrize("package", [True, False])
def test_a_template_around_byte_level_tokens(package: bool, example: Path) -> None:
    """As Qwen3-Embedding has it: a special token behind the text, with the package ``tokenizers`` and without."""
    published = json.loads((example.parent.parent / "trained" / "tokenizer.json").read_text())
    added = published["added_tokens"][0]
    published["post_processor"] = {
        "type": "Sequence",
        "processors": [
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
            {
                "type": "TemplateProcessing",
                "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": added["content"], "type_id": 0}}],
                "pair": [],
                "special_tokens": {
                    added["content"]: {"id": added["content"], "ids": [added["id"]], "tokens": [added["content"]]}
                },
            },
        ],
    }  # fmt: skip
    if package:
        found = tokenizers.Tokenizer.from_str(json.dumps(published))
    else:
        found = PlainTokenizer(published)
    plain = found.encode("What is 1 + 2?", add_special_tokens=False).ids
    assert found.encode("What is 1 + 2?", add_special_tokens=True).ids == [*plain, added["id"]]


def test_special_tokens_that_are_not_known_are_no_guess(example: Path) -> None:
    published = json.loads((example.parent.parent / "trained" / "tokenizer.json").read_text())
    published["post_processor"] = {"type": "StrangeProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}
    found = PlainTokenizer(published)
    assert found.encode("What").ids
    with pytest.raises(ValueError, match="package tokenizers"):
        found.encode("What", add_special_tokens=True)


def test_a_tokenizer_in_a_process_of_its_own_adds_them_too(made: tuple[str, Path], tmp_path: Path) -> None:
    _, folder = made
    source = shutil.copytree(folder / "hf", tmp_path / "hf")
    path = source / "tokenizer.json"
    published = json.loads(path.read_text())
    unknown = {"type": "Replace", "pattern": {"Regex": "q{7,}"}, "content": ""}
    published["normalizer"] = {"type": "Sequence", "normalizers": [published["normalizer"], unknown]}
    path.write_text(json.dumps(published))
    ours = Tokenizer(export_llm(source, tmp_path / "out").tokenizer)
    theirs = Tokenizer(Package.of(folder / "out").tokenizer)
    assert ours.encode("the cat", special=True) == theirs.encode("the cat", special=True)
    assert ours.encode("the cat") == theirs.encode("the cat")


def test_published_unigram_tokenizers_need_no_process(tmp_path: Path) -> None:
    TOKENIZERS["xlm-roberta"](tmp_path / "t.json")
    published = json.loads((tmp_path / "t.json").read_text())
    assert trusted(published)

    def table(*texts: bytes) -> str:
        import base64
        import struct

        return base64.b64encode(struct.pack("<I", 8) + bytes(8) + b"".join(t + b"\0" for t in texts)).decode()

    for charsmap, right in (
        (table(b"a", b"x" * 33), True),
        (table(b"x" * 9999), False),
        ("?", False),
        (None, True),
    ):
        published["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": charsmap}
        assert trusted(published) is right


@pytest.mark.parametrize(
    "damage",
    [
        lambda model: model.update(type="WordLevel"),
        lambda model: model.update(vocab=7),
        lambda model: model.update(vocab=[["a"]] if isinstance(model["vocab"], list) else {"a": -1}),
        lambda model: model.update(vocab=[["a", "x"]] if isinstance(model["vocab"], list) else {"a": 10**6}),
        lambda model: model.update(vocab=[[1, 0.0]] if isinstance(model["vocab"], list) else {"a": "b"}),
    ],
)
def test_damaged_vocabularies(damage, made: tuple[str, Path], tmp_path: Path) -> None:
    _, folder = made
    source = shutil.copytree(folder / "hf", tmp_path / "hf")
    path = source / "tokenizer.json"
    published = json.loads(path.read_text())
    damage(published["model"])
    path.write_text(json.dumps(published))
    with pytest.raises(ModelInvalid, match=r"tokenizer\.json"):
        export_llm(source, tmp_path / "out")
