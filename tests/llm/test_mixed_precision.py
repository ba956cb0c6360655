"""Packages of w4 and w8: what is chosen by is measured, and what was chosen is what runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from rknnlite_llm import Chat, export_llm, open_llm
from rknnlite_llm.container import description as container
from rknnlite_llm.container.description import read_llm
from rknnlite_llm.container.safetensors import SafeTensors
from rknnlite_llm.container.weight_types import COLUMNS, GROUP, WEIGHT_TYPES
from rknnlite_llm.footprint import weight_bytes
from rknnlite_llm.quality import Mixed, Text, export_mixed
from rknnlite_llm.quality.readers import source_reader

from rknnlite.errors import ModelInvalid, ParamInvalid
from rknnlite.formats import ModelFile
from tests.llm.conftest import Maker
from tests.support.llm_models import SlowDecoder, write_model

pytestmark = pytest.mark.slow

TRAINED = Path("examples/llm_chat/trained")
TEXT = [Text("sums", "What is 12 + 30? What is 47 + 38? Say it, please. " * 8)]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    """A choice in the middle."""
    folder = tmp_path_factory.mktemp("mixed")
    ends = export_mixed(TRAINED, folder / "narrow", 1e9, texts=TEXT)
    assert {one.weights for one in ends.chosen} == {"w4"} and ends.agreement == ends.narrow
    return export_mixed(TRAINED, folder / "mixed", ends.narrow.kl_mean / 2, texts=TEXT)


def test_as_many_matrices_are_wide_as_the_divergence_needs(mixed: Mixed) -> None:
    wide = [one for one in mixed.chosen if one.weights == "w8"]
    assert 0 < len(wide) < len(mixed.chosen)
    assert mixed.wide.kl_mean < mixed.agreement.kl_mean <= mixed.narrow.kl_mean / 2
    assert max(one.error for one in wide) < min(one.error for one in mixed.chosen if one.weights == "w4")


def test_a_mixed_package_says_what_it_is_and_runs(mixed: Mixed) -> None:
    pytest.importorskip("jinja2", reason="needs the package jinja2 (extra llm)")
    model = read_llm(ModelFile(mixed.package.model))
    assert (model.weights, model.chosen) == ("auto", mixed.chosen)
    tensors = SafeTensors(ModelFile(mixed.package.weight).data)
    for one in model.chosen:
        assert tensors.dtype(one.name) == WEIGHT_TYPES[one.weights].element
    assert weight_bytes(model) == sum(
        tensors[name].nbytes for name in tensors.names if tensors[name].ndim > 1
    )
    with Chat(str(mixed.package.model)[:-5], backend="cpu") as chat:
        assert "42" in chat.ask("What is 12 + 30?", max_new_tokens=16)


def test_where_eight_bits_are_too_few_all_have_them(tmp_path: Path) -> None:
    found = export_mixed(TRAINED, tmp_path / "a", 0.0, texts=TEXT)
    assert {one.weights for one in found.chosen} == {"w8"} and found.agreement == found.wide
    plain = export_llm(TRAINED, tmp_path / "b", "w8")
    ours, theirs = (SafeTensors(ModelFile(made.weight).data) for made in (found.package, plain))
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs.names)


def test_descriptions_that_cannot_be(mixed: Mixed, package: Maker) -> None:
    model = read_llm(ModelFile(mixed.package.model))
    for wrong in (
        dataclasses.replace(model, chosen=()),
        dataclasses.replace(read_llm(ModelFile(package().model)), chosen=model.chosen),
    ):
        with pytest.raises(ModelInvalid, match="not both"):
            container.read(memoryview(container.write(dataclasses.replace(wrong, tokens=None), None)))
    fewer = dataclasses.replace(model, chosen=model.chosen[1:], tokens=None)
    written = container.write(fewer, None)
    with (
        pytest.raises(ModelInvalid, match=model.chosen[0].name),
        open_llm(written, mixed.package.weight, backend="cpu"),
    ):
        pass


def test_what_has_no_text_to_choose_by(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "hf", "qwen2")
    with pytest.raises(ParamInvalid, match="no tokenizer"):
        export_mixed(folder, tmp_path / "a")


def test_inputs_of_products_can_be_watched(tmp_path: Path) -> None:
    """The first product of the first layer gets the normalised embeddings."""
    seen: dict[str, np.ndarray] = {}
    folder, slow = write_model(tmp_path / "hf", "qwen3"), SlowDecoder("qwen3")
    with source_reader(folder, 4, observe=seen.__setitem__) as source:
        list(source([5, 6, 7]))
    wanted = [
        slow._norm(slow.w["model.embed_tokens.weight"][token], "model.layers.0.input_layernorm.weight")
        for token in (5, 6, 7)
    ]
    np.testing.assert_allclose(seen["layers.0.qkv"], wanted, atol=1e-5)


@pytest.mark.parametrize("kind", ["normal", "long-tailed", "uniform"])
def test_scales_of_four_bits_are_searched(kind: str) -> None:
    random = np.random.default_rng(1)
    draw = {
        "normal": random.standard_normal,
        "long-tailed": lambda size: random.standard_t(4, size),
        "uniform": random.random,
    }
    matrix = (draw[kind]((256, 512)) - (kind == "uniform") / 2).astype(np.float32)
    codes, scale = WEIGHT_TYPES["w4"].pack(matrix)
    assert scale is not None
    wide = np.empty((2, 16, GROUP, COLUMNS), np.float32)
    WEIGHT_TYPES["w4"].widen(codes, wide)
    tiles = matrix.reshape(2, COLUMNS, 16, GROUP).transpose(0, 2, 3, 1)
    ours = ((wide * scale.astype(np.float32)[:, :, None] - tiles) ** 2).sum(axis=2)
    extreme = np.take_along_axis(tiles, np.abs(tiles).argmax(axis=2)[:, :, None], axis=2)
    step = (extreme / -8).astype(np.float16).astype(np.float32)
    plain = ((np.clip(np.rint(tiles / step), -8, 7) * step - tiles) ** 2).sum(axis=2)
    assert (ours <= plain * (1 + 1e-5) + 1e-9).all(), "no group is worse"
    assert ours.sum() < 0.94 * plain.sum()
