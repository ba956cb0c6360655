"""Models of embeddings: exported, computed as Hugging Face transformers does, read by all weight formats."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rknnlite_llm import Embedder, EmbedTable, Package, export_llm, open_llm
from rknnlite_llm.container import description as container
from rknnlite_llm.container.description import read_llm
from rknnlite_llm.container.family import Pooling

from rknnlite.errors import ContextInvalid, InputInvalid, ModelInvalid, ModelUnsupported, ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi.llm import LlmContext, TaskType
from tests.support import llm_damage
from tests.support.embedding_models import HIDDEN, VOCAB, write_encoder, write_modules
from tests.support.llm_models import write_model

DATA = Path(__file__).parent / "data"
FAMILIES = ("bert", "xlm-roberta", "qwen3")


def _directory(folder: Path, family: str, **changes: object) -> Path:
    return (write_model if family == "qwen3" else write_encoder)(folder / "hf", family, **changes)


def _exported(folder: Path, family: str, weights: str = "f32", **options: object) -> Package:
    return export_llm(_directory(folder, family), folder / "out", weights, **options)  # type: ignore[arg-type]


def _golden(family: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Token ids and hidden states of some texts."""
    found = np.load(DATA / f"embed_{family}.npz")
    ends = np.cumsum(found["lengths"])[:-1]
    return np.split(found["ids"], ends), np.split(found["hidden"], ends)


def _embed(context: LlmContext, package: Package, texts: list) -> np.ndarray:
    return context.embed(texts, EmbedTable(package.embed, VOCAB, HIDDEN))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pooling", ["last", "mean", "cls"])
def test_the_numbers_are_those_of_transformers(family: str, pooling: str, tmp_path: Path) -> None:
    texts, hidden = _golden(family)
    pick = {
        "last": lambda rows: rows[-1],
        "mean": lambda rows: rows.mean(axis=0),
        "cls": lambda rows: rows[0],
    }
    wanted = np.array([pick[pooling](rows) for rows in hidden])
    raw = _exported(tmp_path / "raw", family, pooling=pooling, normalise=False)
    with open_llm(raw.model, prefill_chunk=16) as context:
        assert context.config.task_type is TaskType.EMBEDDING
        assert np.abs(_embed(context, raw, texts) - wanted).max() < 1e-4
    unit = _exported(tmp_path / "unit", family, pooling=pooling)
    with open_llm(unit.model) as context:
        found = _embed(context, unit, texts)
    assert found.dtype == np.float32
    assert np.abs(found - wanted / np.linalg.norm(wanted, axis=1)[:, None]).max() < 1e-5


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("weights", "near"), [("f16", 0.999999), ("bf16", 0.999), ("w8", 0.9995), ("w4", 0.9)]
)
def test_all_weight_formats(family: str, weights: str, near: float, tmp_path: Path) -> None:
    texts, hidden = _golden(family)
    package = _exported(tmp_path, family, weights, pooling="mean")
    with open_llm(package.model) as context:
        found = _embed(context, package, texts)
    wanted = np.array([rows.mean(axis=0) for rows in hidden])
    cosine = (found * wanted).sum(axis=1) / np.linalg.norm(wanted, axis=1)
    assert cosine.min() > near


@pytest.mark.parametrize("family", FAMILIES)
def test_no_text_has_a_say_in_another(family: str, tmp_path: Path) -> None:
    package = _exported(tmp_path, family)
    random = np.random.default_rng(3)
    texts = [random.integers(4, VOCAB, n) for n in (64, 1, 2, 40, 7) * 20]
    with open_llm(package.model) as context:
        together = _embed(context, package, texts)
        for number in (0, 1, 2, 3, 4, 99):
            alone = _embed(context, package, [texts[number]])
            assert np.abs(alone[0] - together[number]).max() < 2e-6
        assert _embed(context, package, []).shape == (0, HIDDEN)


def test_a_text_of_any_length_is_attended_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = _exported(tmp_path, "bert")
    texts, _ = _golden("bert")
    with open_llm(package.model) as context:
        whole = _embed(context, package, texts)
        monkeypatch.setattr("rknnlite_cpu.llm.encoder._SCORES", 500)
        assert np.abs(_embed(context, package, texts) - whole).max() < 1e-6


@pytest.mark.parametrize("activation", ["gelu_new", "relu"])
def test_other_activations_are_computed(activation: str, tmp_path: Path) -> None:
    texts, _ = _golden("bert")
    made = {}
    for name in ("gelu", activation):
        source = write_encoder(tmp_path / name, "bert", hidden_act=name)
        package = export_llm(source, tmp_path / f"{name}-out", "f32")
        with open_llm(package.model) as context:
            made[name] = _embed(context, package, texts)
    away = np.abs(made["gelu"] - made[activation]).max()
    assert 1e-7 < away < (1e-2 if activation == "gelu_new" else 1)


def test_the_files_of_sentence_transformers_are_believed(tmp_path: Path) -> None:
    for pooling in Pooling:
        source = _directory(tmp_path / pooling.value, "bert")
        write_modules(source, pooling.value, normalise=pooling is Pooling.CLS, longest=40)
        model = read_llm(ModelFile(export_llm(source, tmp_path / f"{pooling.value}-out").model))
        assert model.embedding == container.Embedding(pooling, pooling is Pooling.CLS)
        assert (model.max_context, model.arch.head) == (40, False)
        said = read_llm(
            ModelFile(
                export_llm(source, tmp_path / "x", pooling="last", normalise=True, max_context=50).model
            )
        )
        assert said.embedding == container.Embedding(Pooling.LAST, True) and said.max_context == 50


def test_what_is_usual_in_a_family(tmp_path: Path) -> None:
    bert = read_llm(ModelFile(_exported(tmp_path / "b", "bert").model))
    assert bert.embedding == container.Embedding(Pooling.MEAN, True) and bert.max_context == 66
    xlmr = read_llm(ModelFile(_exported(tmp_path / "x", "xlm-roberta").model))
    assert xlmr.max_context == 64, "the first two rows of the positions belong to no token"
    assert read_llm(ModelFile(_exported(tmp_path / "q", "qwen3").model)).embedding is None
    source = _directory(tmp_path / "e", "qwen3")
    write_modules(source, "last")
    found = read_llm(ModelFile(export_llm(source, tmp_path / "out").model))
    assert found.embedding == container.Embedding(Pooling.LAST, True)


@pytest.mark.parametrize("prefix", ["bert.", "roberta.", ""])
def test_names_of_models_with_another_head(prefix: str, tmp_path: Path) -> None:
    package = export_llm(write_encoder(tmp_path / "hf", "bert", prefix), tmp_path / "out", "f32")
    plain = _exported(tmp_path, "bert")
    assert package.weight.read_bytes() == plain.weight.read_bytes()


@pytest.mark.parametrize(
    ("family", "changes", "error", "match"),
    [
        ("bert", {"hidden_act": "swish"}, ModelUnsupported, "swish"),
        ("bert", {"position_embedding_type": "relative_key"}, ModelUnsupported, "relative_key"),
        ("bert", {"is_decoder": True}, ModelUnsupported, "as a decoder"),
        ("bert", {"num_attention_heads": 5}, ModelInvalid, "5 heads"),
        ("bert", {"max_position_embeddings": 65}, ModelInvalid, r"config.json needs \[65, 32\]"),
        ("bert", {"num_hidden_layers": 3}, ModelInvalid, "no tensor encoder.layer.2"),
        ("xlm-roberta", {"pad_token_id": 0}, ModelUnsupported, "pad_token_id"),
        ("xlm-roberta", {"max_position_embeddings": 2}, ModelInvalid, "2 positions"),
    ],
)
def test_encoders_that_cannot_be_exported(
    family: str, changes: dict, error: type, match: str, tmp_path: Path
) -> None:
    source = write_encoder(tmp_path, family)
    path = source / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(error, match=match):
        export_llm(source, tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda p: (p / "modules.json").write_text("{}"), "no list of modules"),
        (lambda p: (p / "modules.json").write_text("[" * 10**5), "modules.json"),
        (lambda p: (p / "modules.json").write_text('[{"type": "x.Dense"}]'), "Dense"),
        (lambda p: (p / "1_Pooling" / "config.json").unlink(), "1_Pooling"),
        (lambda p: write_modules(p, "max"), "pooling_mode_max_tokens"),
        (lambda p: write_modules(p, "none"), "nothing"),
        (
            lambda p: (p / "1_Pooling" / "config.json").write_text('{"pooling_mode": "weightedmean"}'),
            "weightedmean",
        ),
        (
            lambda p: (p / "1_Pooling" / "config.json").write_text(
                '{"pooling_mode": "mean", "include_prompt": false}'
            ),
            "include_prompt False",
        ),
    ],
)
def test_pooling_that_is_not_computed(change, match: str, tmp_path: Path) -> None:
    source = _directory(tmp_path, "bert")
    write_modules(source, "mean")
    change(source)
    with pytest.raises((ModelInvalid, ModelUnsupported), match=match):
        export_llm(source, tmp_path / "out")


@pytest.mark.parametrize("wrong", [{"pooling": "max"}, {"kvcache": "int8", "pooling": "last"}])
def test_illegal_choices(wrong: dict, tmp_path: Path) -> None:
    with pytest.raises(ParamInvalid, match=r"pooling|keeps no KV cache"):
        _exported(tmp_path, "qwen3", **wrong)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_of_embeddings_generates_nothing(family: str, tmp_path: Path) -> None:
    package = _exported(tmp_path, family, pooling="last")
    with open_llm(package.model) as context:
        assert [attr.name for attr in context.outputs] == ["last_hidden_state"]
        with pytest.raises(ModelUnsupported, match="makes embeddings"):
            context.session()


def test_a_model_that_generates_embeds_by_its_last_token(tmp_path: Path) -> None:
    texts, hidden = _golden("qwen3")
    package = _exported(tmp_path, "qwen3")
    with open_llm(package.model) as context:
        assert context.config.task_type is TaskType.GENERATE
        found = _embed(context, package, texts)
    wanted = np.array([rows[-1] for rows in hidden])
    assert np.abs(found - wanted / np.linalg.norm(wanted, axis=1)[:, None]).max() < 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_texts_that_cannot_be(family: str, tmp_path: Path) -> None:
    package = _exported(tmp_path, family, pooling="last", max_context=32)
    context = open_llm(package.model)
    with pytest.raises(InputInvalid, match=r"text 1 is 33 tokens long.* 1 to 32"):
        _embed(context, package, [[5], [5] * 33])
    for wrong in ([], [VOCAB], [-1], [1.5]):
        with pytest.raises(InputInvalid, match="text 1"):
            _embed(context, package, [[5], wrong])
    context.close()
    with pytest.raises(ContextInvalid, match="closed"):
        _embed(context, package, [[5]])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("embedding",), None),
        (("embedding",), {"pooling": "max", "normalise": True}),
        (("embedding", "normalise"), 1),
        (("arch", "head"), True),
        (("arch", "kv_heads"), 2),
        (("arch", "activation"), "tanh"),
        (("arch", "head"), "no"),
        (("sums", "weight", "crcs"), []),
        (("sums", "embed", "size"), -1),
    ],
)
def test_descriptions_that_cannot_be(path: tuple[str, ...], value: object, tmp_path: Path) -> None:
    data = _exported(tmp_path, "bert").model.read_bytes()
    with pytest.raises((ModelInvalid, ModelUnsupported)):
        container.read(memoryview(llm_damage.described(data, path, value)))


def test_an_embedder_needs_its_tokenizer(tmp_path: Path) -> None:
    package = _exported(tmp_path, "bert")
    with pytest.raises(ModelInvalid, match=r"tokenizer\.gguf"):
        Embedder(package.model)
