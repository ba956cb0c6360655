"""Layers with a running state: in one piece as token by token, and never a number of a state that belongs to another place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_cpu.llm.decoder import Decoder
from rknnlite_cpu.llm.kv_cache import KvCache
from rknnlite_cpu.llm.recurrent_layer import scan
from rknnlite_llm import Package, export_llm, open_llm
from rknnlite_llm.container.description import read_llm
from rknnlite_llm.container.safetensors import SafeTensors, write_safetensors
from rknnlite_llm.hf_config import architecture

from rknnlite.errors import ContextInvalid, InputInvalid, ModelInvalid, ModelUnsupported, RknnError
from rknnlite.formats import ModelFile
from rknnlite.spi.llm import (
    EmbedInput,
    InferParams,
    KvClear,
    KvPolicy,
    LlmCallbacks,
    LlmParams,
    PromptInput,
    TokenInput,
    VocabInfo,
)
from tests.llm.family_goldens import DATA, write_family
from tests.llm.test_families import Talk, exported, table_of

NAMES = ("qwen3-next", "qwen3.5", "granite-hybrid-dense")
PLAIN = LlmParams(vocab=VocabInfo(ignore_eos_token=True))


def ids_of(golden: dict[str, np.ndarray]) -> np.ndarray:
    return np.asarray(golden["first"].astype(np.int64))


@pytest.mark.parametrize("delta", [True, False])
@pytest.mark.parametrize("count", [1, 2, 63])
def test_a_scan_is_one_token_after_the_other(delta: bool, count: int) -> None:
    random = np.random.default_rng(count)
    queries, keys = (random.standard_normal((3, count, 5)).astype(np.float32) for _ in range(2))
    keys /= np.linalg.norm(keys, axis=2, keepdims=True)
    values = random.standard_normal((3, count, 4)).astype(np.float32)
    logs, shares = -random.random((3, count)).astype(np.float32), random.random((3, count)).astype(np.float32)
    start = random.standard_normal((3, 5, 4)).astype(np.float32)
    found, behind = scan(queries, keys, values, logs, shares, start, delta)
    state = start.astype(np.float64)
    for t in range(count):
        state *= np.exp(logs[:, t])[:, None, None]
        known = np.einsum("hk,hkv->hv", keys[:, t], state) if delta else 0
        state += np.einsum("hk,hv->hkv", keys[:, t], (values[:, t] - known) * shares[:, t, None])
        assert np.abs(found[:, t] - np.einsum("hk,hkv->hv", queries[:, t], state)).max() < 1e-5
    assert np.abs(behind - state).max() < 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_in_pieces_is_that_prompt(name: str, tmp_path: Path) -> None:
    golden, package = exported(name, tmp_path)
    shown = []
    for chunk in (1, 3, 64, 256):
        with open_llm(package.model, prefill_chunk=chunk) as context:
            talk = Talk(context, package)
            talk.run(ids_of(golden), 1)
            shown.append(talk.logits[-1])
    assert max(np.abs(one - shown[-1]).max() for one in shown) < 1e-3


def test_a_state_elsewhere_gives_no_number(tmp_path: Path) -> None:
    """Whoever computes behind a cut without asking what is there gets an error."""
    _, package = exported("qwen3.5", tmp_path)
    model = read_llm(ModelFile(package.model))
    cache = KvCache(model.arch, model.kv, 64)
    assert cache.states is not None
    cache.states.load(40, cache.states.arrays())
    cache.total = 40
    cache.truncate(30)
    assert cache.usable(1) == 0 and cache.states.position == 0
    with pytest.raises(ContextInvalid, match="behind 0 tokens, and 30"):
        cache.states.of(0, cache.total)
    with pytest.raises(ContextInvalid, match="behind 0 tokens, and 1 "):
        cache.advance(1)


@pytest.mark.parametrize(("name", "kvcache"), [*((name, "f32") for name in NAMES), ("qwen3.5", "int8")])
def test_a_conversation_that_parts_goes_on_as_a_new_one(name: str, kvcache: str, tmp_path: Path) -> None:
    """From what was kept, where there is such a place, else from the beginning."""
    golden, package = exported(name, tmp_path, kvcache=kvcache)
    first, other = ids_of(golden), golden["second"].astype(np.int64)
    with open_llm(package.model) as context:
        talk, fresh = Talk(context, package), Talk(context, package)
        for kept, least in ((150, 128), (146, 128), (120, 0), (3, 0)):
            talk.session.run(TokenInput(first, whole=True), InferParams(max_new_tokens=9))
            whole = np.concatenate([first[:kept], other])
            found = talk.session.cached(whole)
            assert least <= found <= kept
            summary = talk.session.run(TokenInput(whole, whole=True), InferParams(max_new_tokens=24))
            assert summary.n_prefill_tokens == len(whole) - found
            parted = talk.said[-24:]
            assert parted == fresh.run(whole, 24)


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_only_the_system_prompt_stays(name: str, loaded: bool, tmp_path: Path) -> None:
    """Behind a loaded cache, where nothing else is kept, it is computed again from its tokens."""
    _, package = exported(name, tmp_path)
    heard: list[int] = []
    with open_llm(package.model) as context:
        calls = LlmCallbacks(
            lambda result, state: heard.extend(result.token_ids),
            embed=table_of(context, package),
            tokenizer=lambda text: [4 + ord(letter) % 150 for letter in text],
        )
        system, question = "You are a very patient helper. ", "And what is that?"
        session, other = context.session(PLAIN, calls), context.session(PLAIN, calls)
        for one in (session, other):
            one.set_chat_template(system, "", "")
        session.run(PromptInput("What is it that you would like to say?"), InferParams(max_new_tokens=20))
        if loaded:
            session.save_kvcache(str(tmp_path / "kv"))
            session = context.session(PLAIN, calls)
            session.set_chat_template(system, "", "")
            session.load_kvcache(str(tmp_path / "kv"))
        session.clear_kvcache(KvClear.KEEP_SYSTEM_PROMPT)
        assert session.state().n_total_tokens == len(system)
        heard.clear()
        tokens = np.array(calls.tokenizer(question), np.int64)  # type: ignore[misc]
        session.run(TokenInput(tokens), InferParams(max_new_tokens=24, keep_history=True))
        other.run(PromptInput(question), InferParams(max_new_tokens=24))
    assert heard[:24] == heard[24:]


def test_embeddings_are_not_kept_for_a_state_that_is_gone(tmp_path: Path) -> None:
    golden, package = exported("qwen3-next", tmp_path)
    with open_llm(package.model) as context:
        talk = Talk(context, package)
        rows = talk.table(ids_of(golden)[:20]).astype(np.float32)
        talk.session.run(EmbedInput(rows), InferParams(max_new_tokens=4))
        talk.session._talk._truncate(9)  # type: ignore[attr-defined]
        with pytest.raises(InputInvalid, match="running state, which cannot go back"):
            talk.session.run(TokenInput(ids_of(golden)), InferParams(max_new_tokens=4, keep_history=True))


@pytest.mark.parametrize("name", NAMES)
def test_sessions_together_say_what_each_says_alone(name: str, tmp_path: Path) -> None:
    golden, package = exported(name, tmp_path)
    ids = ids_of(golden)
    prompts = [ids[:9], ids[20:60], ids[60:]]
    with open_llm(package.model) as context:
        alone = [Talk(context, package).run(prompt, 32) for prompt in prompts]
        talks = [Talk(context, package) for _ in prompts]
        runs = [
            talk.session.run_async(TokenInput(prompt), InferParams(max_new_tokens=32))
            for talk, prompt in zip(talks, prompts)
        ]
        for run in runs:
            run.result(60)
    assert [talk.said for talk in talks] == alone


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_pass_that_fails_changes_no_state(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails behind the first layers, whose states of these tokens were there already."""
    golden, package = exported("qwen3.5", tmp_path)
    ids, before, steps = ids_of(golden), Decoder._step, []

    def failing(self: Any, *given: Any) -> None:
        steps.append(1)
        if len(steps) == 3:
            raise error
        before(self, *given)

    with open_llm(package.model) as context:
        talk, fresh = Talk(context, package), Talk(context, package)
        for one in (talk, fresh):
            one.run(ids[:60], 8)
        monkeypatch.setattr(Decoder, "_step", failing)
        with pytest.raises(error):
            talk.run(ids[60:], 8, keep=True)
        monkeypatch.undo()
        assert talk.run(ids[60:], 24, keep=True) == fresh.run(ids[60:], 24, keep=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_ring_drops_keys_and_not_the_state(name: str, tmp_path: Path) -> None:
    """What the tokens that were dropped left in the state stays; a saved cache goes on so, too."""
    golden, package = exported(name, tmp_path)
    params = LlmParams(max_context_len=64, vocab=VocabInfo(ignore_eos_token=True))
    with open_llm(package.model, prefill_chunk=16) as context:
        heard: list[int] = []
        calls = LlmCallbacks(
            lambda result, state: heard.extend(result.token_ids), embed=table_of(context, package)
        )
        session, other = context.session(params, calls), context.session(params, calls)
        session.set_kvcache_policy(KvPolicy.RECURRENT)
        session.run(TokenInput(ids_of(golden)[:60]), InferParams(max_new_tokens=90))
        session.save_kvcache(str(tmp_path / "kv"))
        other.load_kvcache(str(tmp_path / "kv"))
        heard.clear()
        for one in (session, other):
            one.run(TokenInput([5, 6, 7]), InferParams(max_new_tokens=16, keep_history=True))
    assert len(heard) == 32 and heard[:16] == heard[16:]


def test_a_cut_state_is_refused(tmp_path: Path) -> None:
    golden, package = exported("qwen3.5", tmp_path)
    path = tmp_path / "kv"
    with open_llm(package.model) as context:
        talk = Talk(context, package)
        talk.run(ids_of(golden)[:20], 4)
        talk.session.save_kvcache(str(path))
        path.write_bytes(path.read_bytes()[:-64])
        with pytest.raises(ModelInvalid, match="cut or damaged"):
            talk.session.load_kvcache(str(path))


@pytest.mark.parametrize(("weights", "least"), [("w8", 0.99), ("w4", 0.7)])
@pytest.mark.parametrize("name", NAMES)
def test_narrow_weights_stay_close(name: str, weights: str, least: float, tmp_path: Path) -> None:
    golden, package = exported(name, tmp_path, weights=weights)
    with open_llm(package.model) as context:
        talk = Talk(context, package)
        talk.run(ids_of(golden), 1)
    assert np.corrcoef(talk.logits[0], golden["logits"][-1])[0, 1] > least


def config_of(name: str, **changes: Any) -> dict[str, Any]:
    config = {**json.loads(str(np.load(DATA / f"{name}.npz")["config"])), **changes}
    return {key: value for key, value in config.items() if value is not ...}


@pytest.mark.parametrize(
    ("name", "changes", "error", "match"),
    [
        ("qwen3-next", {"linear_num_key_heads": 4}, ModelInvalid, "6 heads of gated delta nets cannot share 4"),
        ("qwen3-next", {"layer_types": ["mamba"] * 4}, ModelUnsupported, "layers are linear_attention, full_attention"),
        ("qwen3-next", {"layer_types": [[]] * 4}, ModelUnsupported, "layer_types is"),
        ("qwen3-next", {"layer_types": ["linear_attention"]}, ModelInvalid, "there are 4 layers"),
        ("qwen3-next", {"linear_conv_kernel_dim": 0}, ModelInvalid, "linear_conv_kernel_dim is 0"),
        ("qwen3-next", {"linear_conv_kernel_dim": 1}, ModelUnsupported, "behind 1 taps"),
        ("qwen3-next", {"linear_value_head_dim": 1 << 30}, ModelUnsupported, "values of 1073741824 channels"),
        ("qwen3-next", {"linear_key_head_dim": "x"}, ModelInvalid, "linear_key_head_dim is 'x'"),
        ("qwen3-next", {"num_experts_per_tok": 9}, ModelInvalid, "9 of 6 experts"),
        ("qwen3-next", {"mlp_only_layers": 3}, ModelUnsupported, "mlp_only_layers is 3"),
        ("qwen3-next", {"hidden_act": "gelu"}, ModelUnsupported, "'gelu' of a qwen3_next model"),
        ("qwen3-next", {"attn_output_gate": False}, ModelUnsupported, "attn_output_gate is False"),
        ("qwen3.5", {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5,
         "mrope_section": [2, 90, 1]}}, ModelInvalid, "a head has 4 pairs"),
        ("granite-hybrid", {"mamba_n_heads": 7}, ModelInvalid, "7 heads of Mamba2 with 16 channels are not 96"),
        ("granite-hybrid", {"mamba_n_groups": 4}, ModelInvalid, "6 heads of Mamba2 cannot share 4"),
        ("granite-hybrid", {"time_step_limit": [0.1, 2.0]}, ModelUnsupported, "time_step_limit is"),
        ("granite-hybrid", {"position_embedding_type": "alibi"}, ModelUnsupported, "position_embedding_type is"),
        ("granite-hybrid", {"logits_scaling": 0}, ModelInvalid, "logits_scaling is 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named(
    name: str, changes: dict[str, Any], error: type[RknnError], match: str
) -> None:
    with pytest.raises(error, match=match):
        architecture(config_of(name, **changes))


def test_what_is_not_said_is_as_usual() -> None:
    """Published files name the layers by an interval, older ones of Granite by other words."""
    usual = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
    said = architecture(config_of("qwen3.5", layer_types=usual))
    assert architecture(config_of("qwen3.5", layer_types=..., full_attention_interval=4)) == said
    words = {"linear_attention": "mamba", "full_attention": "attention"}
    config = config_of("granite-hybrid")
    old = [words[word] for word in config["layer_types"]]
    assert architecture({**config, "layer_types": old}) == architecture(config)


@pytest.mark.parametrize(
    ("name", "tensor", "match"),
    [
        ("qwen3-next", "linear_attn.conv1d.weight", "no tensor model.layers.0.linear_attn.conv1d.weight"),
        ("qwen3-next", "linear_attn.in_proj_ba.weight", "no tensor .*in_proj_ba"),
        ("qwen3.5", "linear_attn.A_log", "no tensor .*A_log"),
        ("qwen3.5", "linear_attn.in_proj_z.weight", "no tensor .*in_proj_z"),
        ("granite-hybrid", "mamba.D", "no tensor .*mamba.D"),
        ("granite-hybrid-dense", "mamba.in_proj.bias", "no tensor .*in_proj.bias"),
    ],
)
@pytest.mark.parametrize("cut", [False, True])
def test_tensors_that_are_not_there_or_cut(
    name: str, tensor: str, match: str, cut: bool, tmp_path: Path
) -> None:
    write_family(name, tmp_path / "hf")
    path = tmp_path / "hf" / "model.safetensors"
    file = SafeTensors(ModelFile(path).data, str(path))
    tensors = {key: np.array(file[key]) for key in file.names}
    whole = tensors.pop(f"model.layers.0.{tensor}")
    if cut:
        tensors[f"model.layers.0.{tensor}"] = whole[:-1]
    write_safetensors(path, {key: ("F32", array) for key, array in tensors.items()}, {"format": "pt"})
    with pytest.raises(ModelInvalid, match="config.json needs" if cut else match):
        export_llm(tmp_path / "hf", tmp_path / "p")
    assert not Package.of(tmp_path / "p").model.exists()
