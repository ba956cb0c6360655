"""Attention by the native engine over caches of every type: that of ``attention.py``, which is the definition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rknnlite_cpu.llm import compiled_attention, compiled_products
from rknnlite_cpu.llm.attention import Queries, attend
from rknnlite_cpu.llm.compiled_attention import CompiledAttention
from rknnlite_cpu.llm.decoder import Decoder
from rknnlite_cpu.llm.kv_cache_storage import Half, Store, make_store
from rknnlite_llm import Package, export_llm
from rknnlite_llm.container.safetensors import SafeTensors
from rknnlite_llm.export import KV_CACHES

from rknnlite.errors import ParamInvalid
from rknnlite.formats import ModelFile
from tests.llm.conftest import Maker
from tests.llm.family_goldens import write_family
from tests.llm.test_decoder import Engine
from tests.support.needs import needs

CLOSE = 6e-6
"""Of the largest result; half of it was seen, of a processor that rounds every product (x86-64 without FMA)."""
SHAPES = [(1, 1, 5), (1, 7, 64), (2, 3, 80), (3, 1, 128), (2, 5, 33), (1, 40, 20), (1, 2, 512)]
"""Heads of keys, query heads of each, numbers of a head."""
COUNTS = (1, 15, 32, 33, 77)
"""Keys: less than a block, one, and more."""


@pytest.fixture
def attention() -> CompiledAttention:
    needs("gcc")
    return compiled_products.chosen("native").attention


def _cache(heads: int, count: int, dim: int, seed: int = 0) -> tuple[Store, slice]:
    """A float16 store in which all that is not seen is no number."""
    random, store = np.random.default_rng(seed), Half(heads, 3 + count + 2, dim)
    for whole in store.whole:
        whole[...] = np.nan
    store.put(3, *random.standard_normal((2, heads, count, dim)).astype(np.float32))
    return store, slice(3, 3 + count)


def _queries(heads: int, group: int, dim: int, count: int, tokens: int = 1, seed: int = 0) -> Queries:
    """With everything that may be asked: keys that are kept, a cap, and a mask, by which the first token sees all."""
    random = np.random.default_rng(seed)
    turned, kept = random.standard_normal((2, heads, group * tokens, dim)).astype(np.float32)
    mask = np.where(random.random((tokens, count)) < 0.4, np.float32(-1e30), np.float32(0))
    mask[0] = 0
    return Queries(turned, tokens, kept, count // 2, 3.0, mask)


def _far(attention: CompiledAttention, queries: Queries, store: Store, seen: slice) -> float:
    ours = attention(queries, store, seen)
    wanted = attend(queries, store.keys(seen.stop)[:, seen], store.values(seen.stop)[:, seen])
    assert ours.shape == wanted.shape
    return float(np.abs(ours - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize(("heads", "group", "dim"), SHAPES, ids=str)
def test_every_shape_and_number_of_keys(
    attention: CompiledAttention, heads: int, group: int, dim: int
) -> None:
    for count in COUNTS:
        store, seen = _cache(heads, count, dim)
        for tokens in (1, 3):
            every = _queries(heads, group, dim, count, tokens)
            plain = Queries(every.turned, tokens)
            for queries in (
                plain,
                replace(plain, cap=every.cap),
                replace(plain, mask=every.mask),
                replace(plain, kept=every.kept, keep=every.keep),
                every,
            ):
                assert _far(attention, queries, store, seen) < CLOSE


@pytest.mark.parametrize("name", KV_CACHES)
@pytest.mark.parametrize(("heads", "group", "dim"), [(2, 3, 64), (1, 7, 96), (3, 1, 160)], ids=str)
def test_every_type_of_cache(
    attention: CompiledAttention, name: str, heads: int, group: int, dim: int
) -> None:
    """Full groups of keys, one that is being filled, windows that begin anywhere."""
    random = np.random.default_rng(2)
    for count in (1, 31, 32, 77):
        store = make_store(KV_CACHES[name], heads, 96, dim)
        store.put(0, *random.standard_normal((2, heads, count, dim)).astype(np.float32) * np.float32(5))
        for first in {0, count // 2}:
            queries = _queries(heads, group, dim, count - first)
            for asked in (queries, Queries(queries.turned / 8, 1)):
                assert _far(attention, asked, store, slice(first, count)) < CLOSE


@pytest.mark.parametrize("cores", [1, 2, 3, 5])
def test_any_number_of_cores(
    attention: CompiledAttention, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cores share the keys; what some of them see may be hidden from a token altogether."""
    shares: list[int] = []

    def even(total: int, unit: int) -> list[slice]:
        step = -(-total // (cores * unit)) * unit
        shares.append(-(-total // step))
        return [slice(start, min(start + step, total)) for start in range(0, total, step)]

    monkeypatch.setattr(compiled_attention, "_SHARED", 0)
    monkeypatch.setattr(compiled_attention, "parts_of", even)
    for count in (1, 160, 301):
        store, seen = _cache(2, count, 24)
        queries = _queries(2, 3, 24, count, 4)
        assert queries.mask is not None
        queries.mask[1, 40:] = -1e30
        queries.mask[2, :-1] = -1e30
        assert _far(attention, queries, store, seen) < CLOSE
    assert max(shares) == cores


@pytest.mark.parametrize("size", [1.0, 30.0, 1e4, 1e30])
def test_scores_of_any_size(attention: CompiledAttention, size: float) -> None:
    """Exponentials neither overflow nor lose what counts: of scores themselves float32 keeps so many digits only."""
    store, seen = _cache(2, 100, 16)
    turned = np.random.default_rng(1).standard_normal((2, 4, 16)).astype(np.float32) * np.float32(size)
    lost = size if size < 1e5 else 1  # then one key has all
    assert _far(attention, Queries(turned, 1), store, seen) < CLOSE * lost
    for cap in (0.5, 50.0, 1e4):
        assert _far(attention, Queries(turned, 1, cap=cap), store, seen) < CLOSE * max(1, min(lost, cap))


def test_what_is_no_number_is_not_hidden(attention: CompiledAttention) -> None:
    store, seen = _cache(2, 70, 16)
    turned = np.ones((2, 3, 16), np.float32)
    turned[1, 1, 3] = np.nan
    found = attention(Queries(turned, 1), store, seen)
    assert np.isnan(found[1, 1]).all() and np.isfinite(found[[0, 0, 0, 1, 1], [0, 1, 2, 0, 2]]).all()


def test_keys_of_more_numbers_than_the_library_takes(attention: CompiledAttention) -> None:
    store, seen = _cache(1, 9, 520)
    assert _far(attention, _queries(1, 2, 520, 9), store, seen) < CLOSE


def _engines(made: Package, size: int, keep: int) -> list[Engine]:
    """The decoder with numpy's attention and with the library's."""
    found = []
    for attention in (None, compiled_products.chosen("native").attention):
        engine = Engine(made, size, KV_CACHES["f16"])
        weights = SafeTensors(ModelFile(made.weight).data)
        engine.decoder = Decoder(engine.model, weights, compiled_products.chosen("native").linear, attention)
        engine.cache.keep = keep
        found.append(engine)
    return found


@pytest.mark.parametrize(("size", "keep"), [(24, 0), (24, 5), (17, 16), (200, 200)])
def test_tokens_are_those_of_numpy(
    package: Maker, size: int, keep: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first token on, while the ring fills, and behind its end; and nothing is widened."""
    needs("gcc")
    ids = np.random.default_rng(1).integers(0, 159, 60)
    numpy, native = _engines(package("qwen3"), size, keep)
    wanted = numpy.logits(ids, 1)
    monkeypatch.setattr(Half, "keys", None)
    monkeypatch.setattr(Half, "values", None)
    found = native.logits(ids, 1)
    assert np.abs(found - wanted).max() < 1e-4 * np.abs(wanted).max()
    assert np.array_equal(found.argmax(axis=1), wanted.argmax(axis=1))


@pytest.mark.parametrize("family", ["mistral", "gemma2"])
@pytest.mark.parametrize("keep", [64, 4])
def test_windows_and_caps_are_those_of_numpy(family: str, keep: int, tmp_path: Any) -> None:
    """Numpy itself differs by 4e-4 with the number of tokens in a piece, since what the cache stores rounds otherwise."""
    needs("gcc")
    write_family(family, tmp_path / "hf")
    made = export_llm(tmp_path / "hf", tmp_path / "made", "f32")
    numpy, native = _engines(made, 64, keep)
    ids = np.random.default_rng(1).integers(0, 100, 64 if keep == 64 else 90)
    wanted, found = (np.concatenate([e.logits(ids[:30]), e.logits(ids[30:], 1)]) for e in (numpy, native))
    assert np.abs(found - wanted).max() < 5e-4 * np.abs(wanted).max()


def test_guesses_are_looked_at_together(package: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tokens of one session, of which none sees those behind it."""
    needs("gcc")
    one, many = (_engines(package("qwen3"), 64, 64)[1] for _ in range(2))
    ids = np.random.default_rng(1).integers(0, 159, 30)
    for engine in (one, many):
        engine.logits(ids[:20])
    monkeypatch.setattr(Half, "keys", None)
    many.cache.stepwise = True
    wanted, found = one.logits(ids[20:], 1), many.logits(ids[20:])
    assert np.abs(found - wanted).max() < 1e-5 * np.abs(wanted).max()


@pytest.mark.slow
@pytest.mark.parametrize(("right", "wrong"), [("+ 1.0f;", "+ 1.001f;"), ("key < a->keep)", "0)")])
def test_a_library_with_wrong_attention_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, right: str, wrong: str
) -> None:
    needs("gcc")
    source, (old, *others) = tmp_path / "attention.c", compiled_products._BESIDE
    text = old.read_text()
    header = next(file for file in others if file.name == "functions.h")
    others.remove(header)
    (tmp_path / header.name).write_text(header.read_text().replace(right, wrong))
    assert right in text + header.read_text()
    source.write_text(text.replace(right, wrong))
    monkeypatch.setattr(compiled_products, "_BESIDE", [source, tmp_path / header.name, *others])
    with pytest.raises(ParamInvalid, match="the native engine is wrong here: attention differs by"):
        compiled_products.Products()
