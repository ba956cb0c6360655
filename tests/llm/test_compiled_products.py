"""Products by the native engine: those of ``linear.py``, which is the definition, within the rounding of float32 sums."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from rknnlite_cpu.llm import compiled_products
from rknnlite_cpu.llm.linear import make_linear
from rknnlite_llm import Chat, open_llm
from rknnlite_llm.container.weight_types import WEIGHT_TYPES

from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.spi.llm import InferParams, LlmCallbacks, LlmParams, SamplingParams, TokenInput, VocabInfo
from tests.llm.conftest import Maker, embed_of
from tests.support.needs import needs

CLOSE = 3e-6
"""Of the largest result: sums of some hundred products, added in another order."""


@pytest.fixture
def products() -> compiled_products.Products:
    needs("gcc")
    return compiled_products.chosen("native")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No engine was named, and nothing has been built in this process so far, nor is it afterwards."""
    monkeypatch.delenv("RKNNLITE_ENGINE", raising=False)
    found = compiled_products._built, compiled_products._where_possible
    for function in found:
        function.cache_clear()
    yield
    for function in found:
        function.cache_clear()


def _both(
    products: compiled_products.Products, weights: str, matrix: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, ...]:
    parts = WEIGHT_TYPES[weights].pack(matrix)
    outputs, inputs = matrix.shape
    return products.linear(weights, *parts, inputs, outputs)(x), make_linear(
        weights, *parts, inputs, outputs
    )(x)


@pytest.mark.parametrize("weights", ["f16", "bf16", "w8", "w4"])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (40, 100), (896, 200), (70, 4200)], ids=str)
def test_every_type_and_number_of_rows(
    products: compiled_products.Products, weights: str, inputs: int, outputs: int
) -> None:
    random = np.random.default_rng(inputs)
    matrix = random.normal(0, 0.02, (outputs, inputs)).astype(np.float32)
    for rows in (1, 2, 4, 7, 16, 17, 40):
        x = random.normal(0, 1, (rows, inputs)).astype(np.float32)
        ours, theirs = _both(products, weights, matrix, x)
        assert ours.shape == theirs.shape == (rows, outputs)
        assert np.abs(ours - theirs).max() <= CLOSE * max(np.abs(theirs).max(), 1e-3)


@pytest.mark.parametrize("weights", ["f16", "w8", "w4"])
@pytest.mark.parametrize("cores", [1, 2, 3, 5, 8])
def test_any_number_of_cores(
    products: compiled_products.Products, weights: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cores begin in the middle of 128 outputs, several of them in the same ones."""
    shares: list[int] = []

    def even(total: int) -> list[slice]:
        step = -(-total // cores)
        shares.append(cores)
        return [slice(start, min(start + step, total)) for start in range(0, total, step)]

    monkeypatch.setattr(compiled_products, "_SHARED", 0)
    monkeypatch.setattr(compiled_products, "parts_of", even)
    random = np.random.default_rng(cores)
    for inputs, outputs in ((70, 130), (400, 100), (300, 1000)):
        matrix = random.normal(0, 0.02, (outputs, inputs)).astype(np.float32)
        for rows in (1, 5, 20):
            x = random.normal(0, 1, (rows, inputs)).astype(np.float32)
            ours, theirs = _both(products, weights, matrix, x)
            assert np.abs(ours - theirs).max() <= CLOSE * np.abs(theirs).max()
    assert len(shares) == 9


@pytest.mark.parametrize("weights", ["w8", "w4"])
@pytest.mark.parametrize("rows", [1, 3, 20])
def test_activations_are_not_rounded(products: compiled_products.Products, weights: str, rows: int) -> None:
    """One input is ten million times as large as another of its group; what integers of 8 bits would lose is there."""
    matrix = np.zeros((128, 32), np.float32)
    matrix[0, 0], matrix[1, 1] = 1, 1
    x = np.full((rows, 32), 1e-7, np.float32)
    x[:, 0] = 1
    ours, theirs = _both(products, weights, matrix, x)
    assert np.array_equal(ours, theirs)
    assert (ours[:, 1] > 0.9e-7).all()


def test_every_float16_is_widened_exactly(products: compiled_products.Products) -> None:
    finite = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = finite[np.isfinite(finite)].astype(np.float32)
    matrix = np.resize(finite, (finite.size // 32 + 1, 32))
    parts = WEIGHT_TYPES["f16"].pack(matrix)
    found = products.linear("f16", *parts, 32, len(matrix))(np.eye(32, dtype=np.float32)).T
    assert np.array_equal(found, matrix)


@pytest.mark.parametrize("weights", ["f16", "w8", "w4"])
def test_weights_are_read_where_they_lie(products: compiled_products.Products, weights: str) -> None:
    codes, scale = WEIGHT_TYPES[weights].pack(np.ones((256, 64), np.float32))
    linear = products.linear(weights, codes, scale, 64, 256)
    assert linear.layout.codes == codes.ctypes.data
    assert linear.layout.scales == (None if scale is None else scale.ctypes.data)


def _answer(package: Any, **options: Any) -> tuple[int, ...]:
    tokens: list[int] = []
    with open_llm(package.model, backend="cpu", **options) as context:
        callbacks = LlmCallbacks(
            embed=embed_of(package),
            result=lambda result, _: tokens.extend(result.token_ids),
        )
        params = LlmParams(sampling=SamplingParams(top_k=1), vocab=VocabInfo(ignore_eos_token=True))
        session = context.session(params, callbacks)
        session.run(TokenInput(tuple(range(1, 41))), InferParams(max_new_tokens=12))
    return tuple(tokens)


@pytest.mark.parametrize("weights", ["f16", "w8", "w4"])
def test_answers_are_those_of_numpy(package: Maker, weights: str) -> None:
    needs("gcc")
    made = package("qwen3", weights)
    native, numpy = (_answer(made, engine=engine) for engine in compiled_products.ENGINES[::-1])
    assert len(native) == 12
    assert native == numpy


def test_names(products: compiled_products.Products, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RKNNLITE_ENGINE", raising=False)
    assert compiled_products.chosen("numpy") is None
    assert compiled_products.chosen(None) is products
    with pytest.raises(ParamInvalid, match="'onnxruntime' runs no language models; there are numpy, native"):
        compiled_products.chosen("onnxruntime")
    monkeypatch.setenv("RKNNLITE_ENGINE", "numpy")
    assert compiled_products.chosen(None) is None
    assert compiled_products.chosen("native") is products
    monkeypatch.setenv("RKNNLITE_ENGINE", "onnxruntime")
    assert compiled_products.chosen(None) is products


@pytest.mark.usefixtures("fresh")
def test_without_a_compiler_numpy_computes(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    with caplog.at_level(logging.INFO, "rknnlite"):
        assert compiled_products.chosen(None) is None
    assert "numpy multiplies the weights" in caplog.text
    assert "no-such-compiler" in caplog.text
    with pytest.raises(BackendUnavailable, match="the native engine needs the compiler"):
        compiled_products.chosen("native")


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(("right", "wrong"), [("- 8, vf)", "- 7, vf)"), ("d == 0", "1")])
def test_a_library_with_wrong_sums_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, right: str, wrong: str
) -> None:
    needs("gcc")
    source = tmp_path / "products.c"
    text = compiled_products._SOURCE.read_text()
    assert right in text
    source.write_text(text.replace(right, wrong))
    monkeypatch.setattr(compiled_products, "_SOURCE", source)
    with pytest.raises(ParamInvalid, match=r"the native engine is wrong here: w?[bf0-9]+ differs by"):
        compiled_products.chosen("native")
    assert compiled_products.chosen(None) is None


def test_a_chat_takes_the_option(example: Any) -> None:
    with pytest.raises(ParamInvalid, match="engine 'fast' runs no language models"):
        Chat(example, backend="cpu", engine="fast")
