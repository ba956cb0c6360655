"""Figures of speed and memory: those of a model whose times are known, and bytes counted where they lie."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rknnlite_cpu
from rknnlite_cpu.llm.kv_cache import KvCache
from rknnlite_llm import export_llm, footprint
from rknnlite_llm.container.description import read_llm
from rknnlite_llm.container.safetensors import SafeTensors
from rknnlite_llm.export import KV_CACHES
from rknnlite_llm.speed import embeddings, measure, open_package
from rknnlite_llm.weights import matrices

from rknnlite.errors import ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi.llm import CallState, LlmResult, LlmTraits, RunSummary
from tests.llm.conftest import Maker
from tests.llm.family_goldens import write_family


class Clockwork:
    """A session that prefills a token in 0.5 ms and generates one in 4 ms."""

    def __init__(self, callbacks: Any) -> None:
        self.callbacks = callbacks

    def set_callbacks(self, callbacks: Any) -> None:
        self.callbacks = callbacks

    def clear_kvcache(self) -> None:
        self.cleared += 1

    cleared = 0

    def run(self, given: Any, params: Any) -> RunSummary:
        assert self.cleared  # a prompt that was computed before would be nothing to measure
        self.cleared = 0
        start = time.perf_counter()
        time.sleep(0.0005 * len(given.tokens))
        first = time.perf_counter()
        for number in range(params.max_new_tokens):
            time.sleep(0.004 if number else 0)
            self.callbacks.result(LlmResult((1,)), CallState.NORMAL)
        return RunSummary(
            CallState.FINISH, len(given.tokens), params.max_new_tokens, start, first, time.perf_counter()
        )

    def close(self) -> None:
        self.callbacks = None


class Model:
    """What ``measure`` asks of a context."""

    class config:
        max_ctx_len, vocab_size = 100, 50

    traits = LlmTraits()

    def __init__(self) -> None:
        self.opened: list[Clockwork] = []

    def session(self, params: Any, callbacks: Any) -> Clockwork:
        assert params.vocab.ignore_eos_token
        self.opened.append(Clockwork(callbacks))
        return self.opened[-1]


@pytest.mark.parametrize("sessions", [1, 3])
def test_times_are_those_that_passed(sessions: int) -> None:
    """Sleeping takes at least as long as asked; a busy machine makes it longer, never shorter."""
    model = Model()
    start = time.perf_counter()
    found = measure(model, None, 40, 5, sessions, runs=2)
    passed = (time.perf_counter() - start) / 2
    assert (found.prompt_tokens, found.new_tokens, found.sessions) == (40, 5, sessions)
    assert 0.020 <= found.ttft <= passed and 0.004 <= found.tpot <= passed / 4
    assert found.ttft + 4 * found.tpot <= passed * 1.01
    assert sessions * 40 / passed <= found.prefill_tps <= sessions * 40 / 0.020
    assert sessions * 4 / passed <= found.decode_tps <= sessions * 4 / 0.016
    assert len(model.opened) == sessions and all(session.callbacks is None for session in model.opened)


def test_more_tokens_than_the_context_has_are_told() -> None:
    with pytest.raises(ParamInvalid, match="97 tokens of a prompt and 4 new ones are more than the 100"):
        measure(Model(), None, 97, 4)


def test_a_real_model_is_timed(package: Maker) -> None:
    prefix = str(package("qwen3", "w8").model)[:-5]
    with open_package(prefix, backend="cpu") as context:
        found = measure(context, embeddings(prefix, context), 12, 4, sessions=2, runs=1)
    assert found.new_tokens == 4 and found.ttft > 0 and found.tpot > 0


@pytest.mark.parametrize("weights", ["f32", "f16", "bf16", "w8", "w4"])
def test_bytes_of_weights_are_those_of_the_file(package: Maker, weights: str) -> None:
    made = package("qwen3", weights)
    tensors = SafeTensors(ModelFile(made.weight).data)
    wanted = sum(tensors[name].nbytes for name in tensors.names if tensors[name].ndim > 1)
    assert footprint.weight_bytes(read_llm(ModelFile(made.model))) == wanted


def test_of_a_mixture_the_experts_that_a_token_uses_are_read(tmp_path: Path) -> None:
    write_family("qwen3-moe", tmp_path / "hf")
    made = export_llm(tmp_path / "hf", tmp_path / "moe", "f32")
    model, tensors = read_llm(ModelFile(made.model)), SafeTensors(ModelFile(made.weight).data)
    experts = model.arch.experts
    assert experts is not None and experts.used < experts.count
    sizes = {name: tensors[name].nbytes for name in matrices(model.arch)}
    idle = sum(size for name, size in sizes.items() if ".experts." in name) * (
        1 - experts.used / experts.count
    )
    assert footprint.weight_bytes(model) == round(sum(sizes.values()) - idle)


@pytest.mark.parametrize("kvcache", KV_CACHES)
def test_bytes_of_the_cache_are_those_that_it_keeps(package: Maker, kvcache: str) -> None:
    model = read_llm(ModelFile(package("qwen3", "f32", kvcache, head_dim=32).model))
    cache = KvCache(model.arch, model.kv, 256)
    kept = sum(np.asarray(array).nbytes for layer in cache.layers.values() for array in layer.arrays(256))
    assert footprint.kv_bytes(model, 256) <= kept
    assert footprint.kv_bytes(model, 256) == pytest.approx(kept, rel=0.3), (
        "a tail of float16 beside it at the most"
    )


@pytest.mark.slow
def test_the_memory_of_this_machine_is_measured() -> None:
    found = footprint.bandwidth()
    matrix = np.ones((4096, 4096), np.float32)
    start = time.perf_counter()
    matrix.sum()
    here = matrix.nbytes / (time.perf_counter() - start)
    assert here / 30 < found.gemv < 3e12 and found.copy > 0


def test_language_models_load_no_operators_of_networks() -> None:
    """Loading those takes a tenth of the time until the first token."""
    room = Path(rknnlite_cpu.__file__).parent
    for path in (*room.glob("llm/*.py"), *room.glob("kernels/*.py")):
        assert not re.search(r"^from \.\.(ops|registry|plan)\b", path.read_text(), re.MULTILINE), path.name


def test_a_file_of_a_device_has_no_description(tmp_path: Path) -> None:
    (tmp_path / "a.rknn").write_bytes(b"RKNX" + bytes(60))
    assert footprint.package_model(tmp_path / "a") is None


def test_a_step_reads_no_keys_outside_a_window(tmp_path: Path) -> None:
    write_family("gemma2", tmp_path / "hf")
    model = read_llm(ModelFile(export_llm(tmp_path / "hf", tmp_path / "made", "f32").model))
    windows = [model.arch.kind(layer).window for layer in range(model.arch.layers)]
    seen = sum(min(60, window or 60) for window in windows)
    assert 0 < seen < 60 * len(windows)
    assert footprint.kv_read_bytes(model, 60) == footprint.kv_bytes(model, 60) * seen // (60 * len(windows))
