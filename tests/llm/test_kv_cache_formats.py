"""KV caches of all types that the runtime has numbers for: what is stored, how far logits move, files and policies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rknnlite_cpu.llm.kv_cache_formats import code_of, to_fp8
from rknnlite_cpu.llm.kv_cache_storage import make_store
from rknnlite_llm import open_llm
from rknnlite_llm.export import KV_CACHES

from rknnlite.spi.llm import (
    InferParams,
    KvDtype,
    KvPolicy,
    KvStore,
    LlmCallbacks,
    LlmParams,
    TokenInput,
    VocabInfo,
)
from tests.llm.conftest import Maker, Recorder, embed_of
from tests.llm.test_decoder import Engine
from tests.support.llm_models import VOCAB

pytestmark = pytest.mark.slow

NARROW = [name for name in KV_CACHES if name not in ("f32", "f16")]
ADDED = [name for name in NARROW if name not in ("int8", "int4")]
NEVER_ENDS = LlmParams(vocab=VocabInfo(ignore_eos_token=True))

LOGITS_MOVE = {
    "f16": 0.002, "int8": 0.02, "int4": 0.4, "int4-f8": 0.5, "float8": 0.1, "float8-f8": 0.15, "float4": 0.4, "float4-f8": 0.4,
}  # fmt: skip
"""Bounds of the root mean square, of logits whose own is 1.7."""


def test_every_number_of_the_runtime_has_a_name() -> None:
    assert sorted(form.dtype for form in KV_CACHES.values()) == sorted(KvDtype)


def test_fp8_is_e4m3() -> None:
    """All numbers are hit, ties go to the even one, larger ones saturate; both ways of rounding agree."""
    code = code_of("float8")
    codes = np.array([c for c in range(256) if c & 127 != 127], np.uint8).view(np.int8)
    values = code.decode(codes)
    assert code.top == 448 and values[1] == 2.0**-9 and values[8] == 2.0**-6 and values[0x38] == 1
    assert np.array_equal(code.encode(values), codes) and np.array_equal(to_fp8(values), values)
    assert to_fp8(np.float32([17, 19, 500, -1e9, 2.0**-10, 3 * 2.0**-10])).tolist() == [
        16,
        20,
        448,
        -448,
        0,
        2.0**-8,
    ]
    many = np.random.default_rng(0).standard_normal(20000).astype(np.float32) * np.float32(
        100
    ) ** np.linspace(-3, 1, 20000, dtype="f")
    many = np.clip(many, -448, 448)
    assert np.array_equal(code.decode(code.encode(many)), to_fp8(many))


def test_fp4_is_e2m1() -> None:
    code = code_of("float4")
    given = np.float32([0, 0.25, 0.26, 0.75, 1.25, 2.5, 3.5, 5, 5.1, -6, -1.75])
    assert code.decode(code.encode(given)).tolist() == [0, 0, 0.5, 1, 1, 2, 4, 4, 6, -6, -2]


@pytest.mark.parametrize("name", NARROW)
def test_what_is_stored_comes_back(name: str) -> None:
    """Within half a step of the group's largest number, and as often as it is asked."""
    form, random = KV_CACHES[name], np.random.default_rng(0)
    store = make_store(form, 2, 128, 64)
    keys, values = (random.standard_normal((2, 70, 64)).astype(np.float32) for _ in range(2))
    for start in range(0, 70, 7):
        store.put(start, keys[:, start : start + 7], values[:, start : start + 7])
    step = {"int8": 0.5 / 127, "int4": 0.5 / 7, "float8": 1 / 28, "float4": 1 / 6}[name.split("-")[0]]
    slack = 1 / 14 if name.endswith("-f8") else 1e-3
    for read, given in ((store.keys(70), keys), (store.values(70), values)):
        assert np.abs(read - given).max() < (step + slack) * np.abs(given).max()
        assert np.abs(read - given).max() > 0
    assert np.array_equal(store.keys(70), store.keys(70))
    if name.endswith("-f8"):
        assert np.array_equal(to_fp8(store.keys(70)), store.keys(70))


@pytest.mark.parametrize("name", ["f16", *NARROW])
def test_logits_stay_close(package: Maker, name: str) -> None:
    tokens = np.random.default_rng(1).integers(0, VOCAB, 96)
    exact = Engine(package("qwen3", "f32", "f32", head_dim=32)).logits(tokens, 8)
    logits = Engine(package("qwen3", "f32", name, head_dim=32)).logits(tokens, 8)
    distance = float(np.sqrt(np.mean((logits - exact) ** 2)))
    print(name, distance, float(np.sqrt(np.mean(exact**2))))
    assert 0 < distance < LOGITS_MOVE[name]


@pytest.mark.parametrize("policy", [KvPolicy.RECURRENT, KvPolicy.NORMAL])
@pytest.mark.parametrize("name", ADDED)
def test_files_and_policies(package: Maker, name: str, policy: KvPolicy, tmp_path: Path) -> None:
    """A session saved in the middle, behind a full ring too, goes on as the one that was saved."""
    made = package("qwen3", "f32", name, head_dim=32)
    with open_llm(made.model) as context:
        config, form = context.config, KV_CACHES[name]
        assert (config.kvcache_dtype, config.kvcache_store_method) == (form.dtype, KvStore.GROUP_QUANT)
        assert config.kvcache_group_size == form.group
        said = [Recorder(), Recorder()]
        sessions = [
            context.session(replace(NEVER_ENDS, max_context_len=64), LlmCallbacks(r, embed=embed_of(made)))
            for r in said
        ]
        sessions[0].set_kvcache_policy(policy, 4 if policy == KvPolicy.RECURRENT else 0)
        sessions[0].run(
            TokenInput(range(20)), InferParams(max_new_tokens=80 if policy == KvPolicy.RECURRENT else 21)
        )
        sessions[0].save_kvcache(str(tmp_path / "kv"))
        sessions[1].set_kvcache_policy(policy)
        sessions[1].load_kvcache(str(tmp_path / "kv"))
        said[0].calls.clear()
        ends = [
            s.run(TokenInput([3]), InferParams(keep_history=True, max_new_tokens=40)).state for s in sessions
        ]
        assert said[0].tokens == said[1].tokens and ends[0] == ends[1]
        assert len(said[0].tokens) == (40 if policy == KvPolicy.RECURRENT else 23)


@pytest.mark.parametrize("name", ADDED)
def test_guesses_leave_no_trace(package: Maker, name: str) -> None:
    made = package("qwen3", "f32", name, head_dim=32)
    answers = []
    with open_llm(made.model, draft=made.model) as context:
        for count in (0, 7):
            heard = Recorder()
            session = context.session(
                replace(NEVER_ENDS, speculate=count), LlmCallbacks(heard, embed=embed_of(made))
            )
            session.run(TokenInput([5, 9, 9, 3]), InferParams(max_new_tokens=100))
            answers.append(heard.tokens)
    assert answers[0] == answers[1]
