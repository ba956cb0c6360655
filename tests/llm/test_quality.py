"""Packages beside their source: what is read is what a decoder written for clarity says, and coarser weights are farther."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from rknnlite_llm import EmbedTable, Package, export_llm, open_llm
from rknnlite_llm.quality import EvaluationSettings, Text, evaluate, packaged_texts, text_file
from rknnlite_llm.quality.divergence import Agreement, Compared, compared
from rknnlite_llm.quality.readers import _one_by_one, exact_type, package_reader, source_reader
from rknnlite_llm.quality.transformers_reader import transformers_reader

from rknnlite.errors import BackendUnavailable, InputInvalid, ModelUnsupported, ParamInvalid
from tests.llm.conftest import Maker, embed_of
from tests.support.llm_models import HIDDEN, VOCAB, SlowDecoder, write_model

pytestmark = pytest.mark.slow

TRAINED = Path("examples/llm_chat/trained")
FEW = EvaluationSettings(context=32, tokens=200)
TEXT = [Text("sums", "What is 12 + 30? What is 47 + 38? " * 6)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Prefixes of packages of the trained model by type of weights."""
    folder = tmp_path_factory.mktemp("quality")
    for weights in ("f16", "w8", "w4"):
        export_llm(TRAINED, folder / weights, weights)
    return {weights: folder / weights for weights in ("f16", "w8", "w4")}


def test_narrower_weights_are_farther_from_the_source(made: dict[str, Path]) -> None:
    reports = evaluate(TRAINED, list(made.values()), TEXT, FEW)
    half, eight, four = (report.all for report in reports)
    assert half.kl_mean < 1e-5 < eight.kl_mean < four.kl_mean
    assert half.top1 == 1 and eight.top1 >= four.top1
    assert half.source_perplexity == eight.source_perplexity == four.source_perplexity
    assert half.perplexity == pytest.approx(half.source_perplexity, rel=1e-3)
    assert [report.weights for report in reports] == ["f16", "w8", "w4"]
    assert half.kl_mean <= half.kl_p99 <= half.kl_max


def test_the_source_says_what_a_decoder_written_for_clarity_says(tmp_path: Path) -> None:
    folder, text = write_model(tmp_path / "hf", "qwen2"), [3, 141, 59, 26, 53, 58, 97]
    slow = SlowDecoder("qwen2")
    with source_reader(folder, len(text)) as read:
        for token, row in zip(text, read(text)):
            np.testing.assert_allclose(row, slow.feed(token), atol=2e-5)


def test_tokens_at_a_time_and_a_session_read_alike(package: Maker) -> None:
    files, text = package("qwen3"), [3, 141, 59, 26, 53, 58, 97]
    with open_llm(files.model, prefill_chunk=3) as context:
        together = np.concatenate(list(context.logits(text, embed_of(files))))
        alone = np.array(list(_one_by_one(context, text, embed_of(files))))
        with pytest.raises(InputInvalid, match="1025 tokens long"):
            context.logits([1] * 1025, embed_of(files))
    assert together.shape == (len(text), VOCAB)
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_a_rounded_cache_is_part_of_what_is_judged(package: Maker) -> None:
    text = list(range(96))
    rows = []
    for kv in ("f16", "int8", "int4"):
        files = package("qwen3", "f32", kv)
        with package_reader(str(files.model)[:-5], backend="cpu") as read:
            rows.append(np.array(list(read(text))))
    far = [float(np.abs(rows[0][i] - other[i]).max()) for other in rows[1:] for i in (8, 95)]
    assert far[0] == pytest.approx(0, abs=1e-5), "nothing is quantised in the first group of tokens"
    assert 1e-5 < far[1] < far[3]


def test_divergence_by_hand() -> None:
    ours, theirs = np.log([0.5, 0.25, 0.25]), np.log([0.25, 0.25, 0.5])
    kl, same, source, candidate = compared(ours + 7, theirs - 3, 2)
    assert kl == pytest.approx(0.5 * np.log(2) + 0.25 * np.log(0.5))
    assert not same
    assert (source, candidate) == (pytest.approx(np.log(4)), pytest.approx(np.log(2)))
    found = Agreement.of(
        [Compared(np.array([kl]), np.array([same]), np.array([source]), np.array([candidate]))]
    )
    assert found.perplexity_ratio == pytest.approx(0.5)


def test_the_type_that_loses_nothing_is_that_of_the_checkpoint(tmp_path: Path) -> None:
    assert exact_type(write_model(tmp_path, "llama")) == "f32"


def test_texts_come_along_in_several_languages() -> None:
    texts = packaged_texts()
    assert {"english", "chinese", "arabic", "python"} <= {text.name for text in texts}
    assert all(len(text.words) > 150 for text in texts)


def test_what_cannot_be_compared(package: Maker, tmp_path: Path, made: dict[str, Path]) -> None:
    with pytest.raises(ParamInvalid, match="needs a tokenizer"):
        evaluate(tmp_path, [str(package().model)[:-5]])
    with pytest.raises(ParamInvalid, match="no package"):
        evaluate(tmp_path, [])
    with pytest.raises(ParamInvalid, match=r"none\.txt"):
        text_file(tmp_path / "none.txt")
    with pytest.raises(ParamInvalid, match="give a longer one"):
        evaluate(TRAINED, [made["w8"]], [Text("short", "a")])
    folder = write_model(tmp_path / "hf", "qwen2")
    files = export_llm(folder, tmp_path / "embeds", pooling="mean")
    table = EmbedTable(files.embed, VOCAB, HIDDEN)
    with open_llm(Package.of(tmp_path / "embeds").model) as context, pytest.raises(ModelUnsupported):
        next(iter(context.logits([1, 2], table)))


def test_an_interpreter_without_transformers_is_told(tmp_path: Path) -> None:
    with (
        pytest.raises(BackendUnavailable, match="cannot be started"),
        transformers_reader("/none/python", tmp_path),
    ):
        pass
    with (
        pytest.raises(BackendUnavailable, match="could not read the model"),
        transformers_reader(sys.executable, tmp_path),
    ):
        pass
