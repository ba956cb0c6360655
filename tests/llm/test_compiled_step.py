"""Single tokens by the native engine in one call: the layers of ``decoder.py``, which are the definition."""

from __future__ import annotations

import ctypes
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_cpu.llm import compiled_products, compiled_step
from rknnlite_cpu.llm.compiled_step import CompiledStep
from rknnlite_cpu.llm.compiled_store import layout_of
from rknnlite_cpu.llm.decoder import Decoder
from rknnlite_cpu.llm.decoder_input import DecoderInput
from rknnlite_cpu.llm.kv_cache import KvCache
from rknnlite_cpu.llm.kv_cache_storage import make_store
from rknnlite_cpu.llm.linear import Maker
from rknnlite_llm import EmbedTable, Package, export_llm
from rknnlite_llm.container.description import KvFormat, read_llm
from rknnlite_llm.container.safetensors import SafeTensors
from rknnlite_llm.export import KV_CACHES

from rknnlite.formats import ModelFile
from tests.llm.family_goldens import CASES, write_family
from tests.support.needs import needs

PLAIN = ("qwen2", "qwen3", "gemma2", "gemma3", "olmo2", "mistral")
SIZE = 64


@pytest.fixture(autouse=True)
def _built() -> None:
    needs("gcc")


class Both:
    """A package by the compiled layers, and by numpy's with the same products."""

    def __init__(self, made: Package, kv: KvFormat | None = None, make: Maker | None = None) -> None:
        products, self.model = compiled_products.chosen("native"), read_llm(ModelFile(made.model))
        weights = SafeTensors(ModelFile(made.weight).data)
        self.compiled = Decoder(self.model, weights, make or products.linear, products.attention)
        self.numpy = Decoder(self.model, weights, products.linear)
        self.caches = [KvCache(self.model.arch, kv or self.model.kv, SIZE) for _ in range(2)]
        for cache in self.caches:
            cache.keep = SIZE
        self.embed = EmbedTable(made.embed, self.model.arch.vocab_size, self.model.arch.hidden)

    def rows(self, ids: Any) -> np.ndarray:
        return self.embed(np.asarray(ids)).astype(np.float32)

    def prefill(self, ids: Any) -> None:
        for decoder, cache in zip((self.compiled, self.numpy), self.caches):
            decoder.forward([(self.rows(ids), cache)])

    def token(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Logits of a token by both; the caches are made equal, since what they keep is rounded."""
        found = self.compiled.step(DecoderInput(self.rows([number])), self.caches[0])
        assert found is not None
        wanted = self.numpy.logits(self.numpy.forward([(self.rows([number]), self.caches[1])]))
        for ours, theirs in zip(*(cache.layers.values() for cache in self.caches)):
            for mine, right in zip(ours.whole, theirs.whole):
                mine[...] = right
        return found[1][0], wanted[0]


def _made(family: str, folder: Path, **options: Any) -> Package:
    write_family(family, folder / "hf")
    return export_llm(folder / "hf", folder / "made", **options)


def _far(ours: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(ours - wanted).max() / np.abs(wanted).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", [case.name for case in CASES if not (case.embeds or case.scores)])
def test_every_family(name: str, tmp_path: Path) -> None:
    """With a cache that rounds nothing tokens are the same but for the order of sums."""
    both = Both(_made(name, tmp_path, weights="w8", kvcache="f32"))
    assert (both.compiled._compiled is None) == (not _expected(name, both)), name
    if both.compiled._compiled is None:
        return
    ids = np.random.default_rng(0).integers(0, both.model.arch.vocab_size, 40)
    both.prefill(ids[:19])
    for number in ids[19:]:
        assert _far(*both.token(int(number))) < 2e-5


def _expected(name: str, both: Both) -> bool:
    arch = both.model.arch
    kinds = [arch.kind(i) for i in range(arch.layers)]
    usual = arch.activation in ("silu", "gelu_tanh", "relu", "relu2") and arch.order.value in (
        "pre",
        "post",
        "both",
    )
    further = arch.attention_gate or arch.v_norm or arch.layer_scale
    return (
        usual and not further and all(kind.mixer.value == "attention" and not kind.experts for kind in kinds)
    )


@pytest.mark.parametrize("family", PLAIN)
@pytest.mark.parametrize("weights", ["w8", "w4", "f16"])
def test_usual_families_are_compiled(family: str, weights: str, tmp_path: Path) -> None:
    both = Both(_made(family, tmp_path, weights=weights, kvcache="f32"))
    assert isinstance(both.compiled._compiled, CompiledStep)
    ids = np.random.default_rng(0).integers(0, both.model.arch.vocab_size, 24)
    for number in ids:  # from the first token on
        assert _far(*both.token(int(number))) < 2e-5


@pytest.mark.parametrize("name", KV_CACHES)
def test_every_type_of_cache(package: Any, name: str) -> None:
    """What both keep differs where a number lies on the border of two codes, so it is made equal after each token."""
    both = Both(package("qwen3", "w8", head_dim=32), KV_CACHES[name])
    ids = np.random.default_rng(0).integers(0, both.model.arch.vocab_size, 60)
    both.prefill(ids[:20])
    found = [_far(*both.token(int(number))) for number in ids[20:]]
    assert np.median(found) < 1e-4 and max(found) < 0.1


@pytest.mark.parametrize("name", KV_CACHES)
@pytest.mark.parametrize("dim", [32, 64, 96])
def test_what_is_kept_is_the_same_to_the_bit(name: str, dim: int) -> None:
    """Groups come to their end, and filling goes on after a truncation in the middle of one."""
    library = compiled_products.chosen("native").library
    random, size = np.random.default_rng(dim), ctypes.c_ssize_t
    ours, theirs = (make_store(KV_CACHES[name], 2, 96, dim) for _ in range(2))
    slots = [*range(50), *range(37, 70), *range(64, 96)]
    for slot in slots:
        keys, values = (random.standard_normal((2, 2, dim)) * 10.0 ** random.integers(-9, 6)).astype(
            np.float32
        )
        if slot % 7 == 0:
            keys[0], values[1, :5] = 0, 0
        library.rknnlite_put(
            ctypes.byref(layout_of(ours)),
            size(slot),
            *(ctypes.c_void_p(a.ctypes.data) for a in (keys, values)),
        )
        theirs.put(slot, *(theirs.rounded(array[:, None]) for array in (keys, values)))
        for mine, right in zip(ours.whole, theirs.whole):
            assert np.array_equal(mine, right), slot


@pytest.mark.parametrize("weights", ["w8", "w4"])
def test_any_number_of_threads_sums_alike(
    weights: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _made("qwen3", tmp_path, weights=weights)
    monkeypatch.setattr(compiled_step, "_SHARED", 0)
    found = []
    for threads in (1, 2, 3, 8, 70):
        monkeypatch.setattr(
            compiled_step, "parts_of", lambda total, count=threads: [slice(i, i + 1) for i in range(count)]
        )
        both = Both(made)
        both.prefill(np.arange(20))
        found.append([both.token(number)[0] for number in range(6)])
    for other in found[1:]:
        assert np.array_equal(other, found[0])


def test_what_is_more_than_a_token_goes_through_numpy(tmp_path: Path) -> None:
    both = Both(_made("qwen3", tmp_path, weights="w8"))
    both.prefill(np.arange(SIZE - 1))
    cache = both.caches[0]
    assert both.compiled.step(DecoderInput(both.rows([1, 2])), cache) is None
    assert both.compiled.step(DecoderInput(both.rows([1])), cache) is not None
    cache.keep = 0
    assert both.compiled.step(DecoderInput(both.rows([1])), cache) is None  # a token would be dropped
    assert len(both.compiled.forward([(both.rows([1]), cache)])[0]) == 1


def test_weights_that_the_library_does_not_know(tmp_path: Path) -> None:
    assert Both(_made("qwen3", tmp_path, weights="f32")).compiled._compiled is None


def test_compiled_layers_that_are_wrong_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    both, wanted = Both(_made("qwen3", tmp_path, weights="w8")), CompiledStep.__call__
    monkeypatch.setattr(
        CompiledStep,
        "__call__",
        lambda *given, **more: tuple(array * np.float32(1.2) for array in wanted(*given, **more)),
    )
    both.prefill(np.arange(20))
    with caplog.at_level(logging.WARNING):
        ours, right = both.token(3)
    assert _far(ours, right) < 1e-3 and both.compiled._compiled is None
    assert "the compiled layers are wrong here" in caplog.text
