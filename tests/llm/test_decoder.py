"""The decoder against Hugging Face transformers (stored answers) and against the slow decoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rknnlite_cpu.llm.decoder import Decoder
from rknnlite_cpu.llm.kv_cache import KvCache
from rknnlite_llm import EmbedTable, Package
from rknnlite_llm.container.description import KvFormat, read_llm
from rknnlite_llm.container.safetensors import SafeTensors
from rknnlite_llm.export import KV_CACHES

from rknnlite.formats import ModelFile
from tests.llm.conftest import Maker
from tests.support.brothers import slow_unless
from tests.support.llm_models import FAMILIES, SlowDecoder

DATA = Path(__file__).parent / "data"


class Engine:
    """A decoder with its embeddings and a cache."""

    def __init__(self, package: Package, size: int = 1024, kv: KvFormat | None = None) -> None:
        self.model = read_llm(ModelFile(package.model))
        self.decoder = Decoder(self.model, SafeTensors(ModelFile(package.weight).data))
        self.cache = KvCache(self.model.arch, kv or self.model.kv, size)
        self.cache.keep = size
        self.embed = EmbedTable(package.embed, self.model.arch.vocab_size, self.model.arch.hidden)

    def logits(self, ids: np.ndarray, chunk: int = 10**6) -> np.ndarray:
        pieces, done = [], 0
        while done < len(ids):
            step = min(chunk, self.cache.room())
            rows = self.embed(ids[done : done + step]).astype(np.float32)
            pieces.append(self.decoder.logits(self.decoder.forward([(rows, self.cache)])))
            done += step
        return np.concatenate(pieces)

    def greedy(self, ids: np.ndarray, count: int) -> list[int]:
        said = [int(self.logits(ids)[-1].argmax())]
        while len(said) < count:
            said.append(int(self.logits(np.array(said[-1:]))[0].argmax()))
        return said


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("chunk", [40, 16, 7, 1])
def test_logits_are_those_of_transformers(package: Maker, family: str, chunk: int) -> None:
    golden = np.load(DATA / f"{family}.npz")
    assert np.abs(Engine(package(family)).logits(golden["ids"], chunk) - golden["logits"]).max() < 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_tokens_are_those_of_transformers(package: Maker, family: str) -> None:
    golden = np.load(DATA / f"{family}.npz")
    assert Engine(package(family)).greedy(golden["ids"], 256) == golden["greedy"].tolist()


@pytest.mark.parametrize("kvcache", ["f32", "f16"])
def test_the_trained_model_is_that_of_transformers(example: Path, kvcache: str) -> None:
    """The committed package: float16 weights, which are those of the Hugging Face model bit by bit."""
    golden = np.load(DATA / "trained.npz")
    made, form = Package.of(example), KV_CACHES[kvcache]
    distance = np.abs(Engine(made, kv=form).logits(golden["ids"], 16) - golden["logits"]).max()
    print(kvcache, distance)
    assert distance < (1e-3 if kvcache == "f32" else 0.02)
    if kvcache == "f32":
        assert Engine(made, kv=form).greedy(golden["ids"], 256) == golden["greedy"].tolist()


@pytest.mark.parametrize(
    ("weights", "kvcache", "error"),
    [
        ("f16", "f16", 0.004),
        ("bf16", "f16", 0.02),
        ("w8", "int8", 0.06),
        ("w4", "f16", 0.9),
        ("f32", "int8", 0.02),
        ("f32", "int4", 0.4),
    ],
)
def test_narrow_weights_and_caches_stay_close(
    package: Maker, weights: str, kvcache: str, error: float
) -> None:
    golden = np.load(DATA / "qwen3.npz")
    logits = Engine(package("qwen3", weights, kvcache)).logits(golden["ids"], 8)
    distance = np.sqrt(np.mean((logits - golden["logits"]) ** 2))
    print(weights, kvcache, distance)
    assert 0 < distance < error


def test_the_slow_decoder_agrees_with_transformers() -> None:
    for family in FAMILIES:
        golden = np.load(DATA / f"{family}.npz")
        slow = SlowDecoder(family)
        logits = np.array([slow.feed(int(token)) for token in golden["ids"]])
        assert np.abs(logits - golden["logits"]).max() < 1e-4


@pytest.mark.parametrize("family", slow_unless(lambda family: family == "qwen3", FAMILIES))
@pytest.mark.parametrize(("size", "keep"), [(24, 0), (24, 5), (17, 16)])
@pytest.mark.parametrize("chunk", [1, 9])
def test_ring_equals_recomputation_with_the_kept_tokens(
    package: Maker, family: str, size: int, keep: int, chunk: int
) -> None:
    engine = Engine(package(family), size)
    engine.cache.keep = keep
    ids = np.random.default_rng(1).integers(0, 159, 4 * size + 3)
    slow = SlowDecoder(family, size, keep)
    wanted = np.array([slow.feed(int(token)) for token in ids])
    assert np.abs(engine.logits(ids, chunk) - wanted).max() < 1e-3


def test_one_layer_ring_equals_running_the_kept_tokens_anew(package: Maker) -> None:
    """With one layer keys and values depend on their own token only, so this is a fresh run of what is left."""
    size, keep = 12, 3
    made = package("qwen3", num_hidden_layers=1)
    engine = Engine(made, size)
    engine.cache.keep = keep
    ids = np.random.default_rng(2).integers(0, 159, 40)
    last = engine.logits(ids, 1)[-1]
    left = np.concatenate([ids[:keep], ids[-(size - keep) :]])
    assert np.abs(Engine(made).logits(left)[-1] - last).max() < 1e-4


def test_quantised_ring_stays_close_to_the_exact_one(package: Maker) -> None:
    engine = Engine(package("qwen3", "f32", "int8"), 32)
    engine.cache.keep = 16
    ids = np.random.default_rng(1).integers(0, 159, 100)
    slow = SlowDecoder("qwen3", 32, 16)
    wanted = np.array([slow.feed(int(token)) for token in ids])
    assert np.abs(engine.logits(ids, 5) - wanted).max() < 0.4


def test_truncation_in_the_middle_of_a_group_goes_on_from_there(package: Maker) -> None:
    made = package("qwen3", "f32", "int8")
    ids = np.random.default_rng(3).integers(0, 159, 60)
    whole, cut = Engine(made), Engine(made)
    whole.logits(ids[:20])
    cut.logits(ids[:50])
    cut.cache.truncate(20)
    assert np.abs(whole.logits(ids[20:], 5) - cut.logits(ids[20:], 5)).max() < 0.1
