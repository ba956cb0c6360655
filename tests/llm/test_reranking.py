"""Documents by how well they answer a query: cross-encoders, and models that say yes or no."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rknnlite_llm import Embedder, Reranker, export_llm
from rknnlite_llm.container.safetensors import write_safetensors

from rknnlite.errors import InputInvalid, ModelUnsupported
from tests.support.embedding_models import HIDDEN, SENTENCES, TOKENIZERS, write_encoder

tokenizers = pytest.importorskip("tokenizers", reason="needs the package tokenizers (extra llm)")
QUERY, DOCUMENTS = SENTENCES[0], list(SENTENCES[1:])
HEADS = {
    "bert": ("bert.", "bert.pooler.dense", "classifier"),
    "xlm-roberta": ("roberta.", "classifier.dense", "classifier.out_proj"),
}


def write_reranker(folder: Path, family: str, labels: int = 1) -> Path:
    """A tiny cross-encoder as published ones are."""
    prefix, dense, out = HEADS[family]
    named = {
        "architectures": ["ForSequenceClassification"],
        "id2label": {str(i): f"LABEL_{i}" for i in range(labels)},
    }
    write_encoder(folder, family, prefix, **named)
    random = np.random.default_rng(5)
    shapes = {
        f"{dense}.weight": (HIDDEN, HIDDEN),
        f"{dense}.bias": (HIDDEN,),
        f"{out}.weight": (labels, HIDDEN),
        f"{out}.bias": (labels,),
    }
    tensors = {
        name: ("F32", (random.random(shape) - 0.5).astype(np.float32)) for name, shape in shapes.items()
    }
    write_safetensors(folder / "head.safetensors", tensors, {"format": "pt"})
    TOKENIZERS[family](folder / "tokenizer.json")
    return folder


@pytest.fixture(scope="module", params=HEADS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    export_llm(write_reranker(folder / "hf", request.param), folder / "out", "f32")
    return request.param, folder


def published(folder: Path, family: str) -> object:
    found = tokenizers.Tokenizer.from_file(str(folder / "hf" / "tokenizer.json"))
    found.no_truncation()
    found.no_padding()
    first, last = ("<s>", "</s>") if family == "xlm-roberta" else ("[CLS]", "[SEP]")
    between = f"{last} {last}" if family == "xlm-roberta" else last  # as the published ones have it
    found.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {between} $B:1 {last}:1",
        special_tokens=[(token, found.token_to_id(token)) for token in (first, last)],
    )
    return found


def test_pairs_are_those_of_the_published_tokenizer(made: tuple[str, Path]) -> None:
    family, folder = made
    theirs = published(folder, family)
    with Reranker(folder / "out") as reranker:
        pairs = [
            (encoded.ids, encoded.type_ids) for encoded in (theirs.encode(QUERY, text) for text in DOCUMENTS)
        ]  # type: ignore[attr-defined]
        scores = reranker.score(QUERY, DOCUMENTS)
        seconds = [types.index(1) if family == "bert" else 0 for _, types in pairs]
        logits = reranker.context.score([ids for ids, _ in pairs], seconds, reranker._table)
    assert np.abs(scores - 1 / (1 + np.exp(-logits[:, 0]))).max() < 1e-6


def test_ranking_is_by_score(made: tuple[str, Path]) -> None:
    with Reranker(made[1] / "out") as reranker:
        scores = reranker.score(QUERY, DOCUMENTS)
        ranked = reranker.rank(QUERY, DOCUMENTS)
        assert [number for number, _ in ranked] == np.argsort(-scores, kind="stable").tolist()
        assert reranker.rank(QUERY, DOCUMENTS, top=2) == ranked[:2]
        assert reranker.score(QUERY, []).shape == (0,)
    assert len(set(scores.tolist())) == len(scores)


def test_long_documents_are_an_error_or_cut(made: tuple[str, Path]) -> None:
    with Reranker(made[1] / "out") as reranker:
        long = "cat " * 200
        with pytest.raises(InputInvalid, match="longer than the 6"):
            reranker.score(QUERY, [long])
        assert reranker.score(QUERY, [long], truncate=True).shape == (1,)


def test_other_models_are_no_rerankers(tmp_path: Path, made: tuple[str, Path]) -> None:
    family, _ = made
    export_llm(write_reranker(tmp_path / "hf", family, labels=3), tmp_path / "three", "f32")
    with pytest.raises(ModelUnsupported, match="tells 3 labels apart"):
        Reranker(tmp_path / "three")
    export_llm(tmp_path / "hf", tmp_path / "embeds", "f32", pooling="cls")
    with pytest.raises(ModelUnsupported, match="makes embeddings and no scores"):
        Reranker(tmp_path / "embeds")
    with Embedder(tmp_path / "embeds") as embedder:
        assert embedder.embed(QUERY).shape == (1, HIDDEN)


def test_a_head_that_is_not_there_is_named(tmp_path: Path) -> None:
    source = write_reranker(tmp_path / "hf", "bert")
    (source / "head.safetensors").unlink()
    with pytest.raises(Exception, match=r"no tensor classifier\.weight"):
        export_llm(source, tmp_path / "out", "f32")


def test_models_that_say_yes_or_no_need_a_token_for_each(example: Path) -> None:
    with pytest.raises(ModelUnsupported, match="'yes' is"):
        Reranker(example, no="n")
    with Reranker(example, yes="y", no="n") as reranker:
        scores = reranker.score("What is 1 + 2?", ["It is 3.", "It is Monday."])
        other = Reranker(example, yes="n", no="y").score("What is 1 + 2?", ["It is 3.", "It is Monday."])
    assert np.abs(scores + other - 1).max() < 1e-6
