"""Language models through the face: prompts, tokens, embeddings, images, settings, caches."""

from __future__ import annotations

import ctypes as ct
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_llm import Chat, Package

from rknn3lite.api import (
    Float16,
    LLMOutputCallbackState,
    RKNN3AuxTensorWrapper,
    RKNN3Image,
    RKNN3KVCacheClearPolicy,
    RKNN3KVCachePolicy,
    RKNN3KVCachePolicyParam,
    RKNN3Lite,
    RKNN3QueryCmd,
    RKNN3Tensor,
)
from rknnlite.spi.llm import InferParams, LlmParams, PromptInput, VocabInfo
from tests.rknn3.conftest import ARGS, HIDDEN, IMAGE, TEMPLATE, VOCAB, Opener, Talk

SYSTEM, PREFIX, POSTFIX = "Be brief.\n", "Q: ", "\nA: "


def run(rknn: RKNN3Lite, talk: Talk, **turn: Any) -> list[int]:
    """Tokens of one run that must go well."""
    talk.calls.clear()
    code, figures = rknn.session_run(**turn)
    assert code == 0 and len(figures) == 4
    return talk.tokens


def test_a_prompt(rknn: RKNN3Lite, talk: Talk) -> None:
    assert rknn.set_chat_template(SYSTEM, PREFIX, POSTFIX) == 0
    before = time.perf_counter()
    code, [n_decode, n_prefill, start, end] = rknn.session_run(prompt="hi")
    assert code == 0 and before <= start <= end <= time.perf_counter()
    text = f"{SYSTEM}{PREFIX}hi{POSTFIX}"
    assert text in talk.texts
    assert (n_decode, n_prefill) == (5, len(text)) and len(talk.tokens) == 5
    assert set(talk.states[:-1]) <= {0, 1} and talk.states[-1] == 4
    assert talk.calls[-1][0] == []


def test_the_native_api_says_the_same(package: Package, rknn: RKNN3Lite, talk: Talk) -> None:
    rknn.set_chat_template(SYSTEM, PREFIX, POSTFIX)
    tokens = run(rknn, talk, prompt="hello there")
    params = LlmParams(max_context_len=256, vocab=VocabInfo(ignore_eos_token=True))
    with Chat(package.model, params, backend="cpu") as chat:
        chat.session.set_chat_template(SYSTEM, PREFIX, POSTFIX)
        ids: list[int] = []
        calls = chat.session.callbacks
        chat.session.set_callbacks(replace(calls, result=lambda r, s: ids.extend(r.token_ids)))
        chat.session.run(PromptInput("hello there"), InferParams(max_new_tokens=5))
    assert ids == tokens


def test_tokens_embeddings_and_text_are_the_same(rknn: RKNN3Lite, talk: Talk) -> None:
    rknn.set_chat_template("", "", "")
    ids = list(b"compare")
    by_text = run(rknn, talk, prompt="compare")
    assert run(rknn, talk, tokens=ids) == by_text
    assert run(rknn, talk, tokens=np.array([ids], np.int64)) == by_text
    rows = talk.table[ids]
    assert run(rknn, talk, embeds=rows) == by_text
    assert run(rknn, talk, embeds=rows[None]) == by_text
    assert run(rknn, talk, prompt=b"compare") == by_text


def test_history_and_limits_per_run(rknn: RKNN3Lite, talk: Talk) -> None:
    rknn.set_chat_template("", "", "")
    first = run(rknn, talk, prompt="one", max_new_tokens=3)
    assert len(first) == 3 and rknn.session_query_state().n_total_tokens == 3 + 2
    run(rknn, talk, prompt="two", keep_history=True, max_new_tokens=2)
    state = rknn.session_query_state()
    assert (state.n_prefill_tokens, state.n_decode_tokens) == (4, 2)
    assert (state.n_total_tokens, state.n_max_tokens) == (3 + 2 + 4 + 1, 256)
    assert state.kvcache_policy == 1 and state.n_loras_enabled == 0
    run(rknn, talk, prompt="one", max_new_tokens=3)  # keep_history of llm_args is 0
    assert rknn.session_query_state().n_total_tokens == 5


def test_keep_history_of_llm_args(opened: Opener, talk: Talk) -> None:
    rknn = opened({"keep_history": 1, "max_new_tokens": 2})
    rknn.set_chat_template("", "", "")
    run(rknn, talk, prompt="one")
    run(rknn, talk, prompt="one")
    assert rknn.session_query_state().n_total_tokens == 3 + 1 + 4 + 1


def test_prefill_only_and_no_sampling(rknn: RKNN3Lite, talk: Talk) -> None:
    assert run(rknn, talk, tokens=[1, 2, 3], prefill_only=True) == [] and talk.states == [2]
    assert run(rknn, talk, tokens=[1, 2, 3], disable_sampling=True) == []
    assert rknn.session_query_state().n_prefill_tokens == 3


def test_thinking_and_roles_reach_the_template(rknn: RKNN3Lite, talk: Talk) -> None:
    run(rknn, talk, prompt="call", role="user", max_new_tokens=1)
    run(rknn, talk, prompt='{"answer": 42}', role="tool", max_new_tokens=1)
    assert '<|im_start|>tool\n{"answer": 42}<|im_end|>' in talk.texts[-1]
    assert rknn.session_run(prompt="x", role="king") == (-1, [])


def test_function_tools(opened: Opener, package: Package, talk: Talk, tmp_path: Path) -> None:
    rknn = opened()
    tool = {"type": "function", "function": {"name": "weather"}}
    for given in (json.dumps([tool]), [tool], json.dumps([tool]).encode(), "", []):
        assert rknn.set_function_tools(given) == 0
    for given in ("{", "7", "[7]", {"a": 1}):
        assert rknn.set_function_tools(given) == -1


def test_an_image(rknn: RKNN3Lite, talk: Talk) -> None:
    rknn.set_chat_template("", "", "")

    def tokenizer(userdata: Any, text: bytes, length: int, tokens: Any, room: int) -> int:
        ids = [IMAGE if c == "#" else ord(c) for c in text.decode()]
        for i, token in enumerate(ids):
            tokens[i] = token
        return len(ids)

    assert rknn.init_llm_session([ARGS], talk.callback(tokenizer=tokenizer)) == 0
    rknn.set_chat_template("", "", "")
    rows = talk.table[list(b"abcd")][None]
    image = RKNN3Image()
    image.image_embed = rows.ctypes.data_as(ct.POINTER(Float16))
    image.n_image_tokens, image.n_image, image.image_width, image.image_height = 4, 1, 28, 28
    image.image_start, image.image_end, image.image_content = b"<", b">", b"#"
    seen = run(rknn, talk, inputs=[image], prompt="what is <image>?")
    assert seen == run(rknn, talk, tokens=list(b"what is <abcd>?"))
    for inputs, prompt in (
        ([image], "no tag"),
        ([image], "<image> <image>"),
        ([image, image], "<image>"),
        ([RKNN3Image()], "<image>"),
        (["picture"], "<image>"),
    ):
        assert rknn.session_run(inputs=inputs, prompt=prompt) == (-1, [])
    image.n_image_tokens = 1 << 40
    assert rknn.session_run(inputs=[image], prompt="<image>") == (-1, [])


def test_tags_without_images_are_text(
    rknn: RKNN3Lite, talk: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    run(rknn, talk, prompt="<image>?")
    assert "no data go with it" in capsys.readouterr().err


def test_auxiliary_inputs_that_the_model_does_not_have(
    rknn: RKNN3Lite, capsys: pytest.CaptureFixture[str]
) -> None:
    wrapper = RKNN3AuxTensorWrapper(np.zeros((1, 4), np.float16), index=2)
    assert rknn.session_run(inputs=[wrapper], prompt="x") == (-1, [])
    assert "no auxiliary input 2" in capsys.readouterr().err
    assert rknn.session_run(inputs=[RKNN3AuxTensorWrapper()], prompt="x") == (-1, [])


@pytest.mark.usefixtures("extras")
def test_embeddings_from_a_file(package: Package, talk: Talk) -> None:
    rknn = RKNN3Lite(llm_mode=True)
    rknn.load_rknn(package.model, package.weight)
    callback = talk.callback(embed=None)
    assert rknn.init_runtime("rk1820", 0xFF, [ARGS], callback, str(package.embed)) == 0
    assert len(run(rknn, talk, prompt="hello")) == 5
    assert rknn.init_runtime("rk1820", 0xFF, [ARGS], callback, str(package.weight)) == -1
    assert rknn.init_runtime("rk1820", 0xFF, [ARGS], callback, "none.embed.bin") == -1
    rknn.release()


def test_sampling_and_output_callbacks(opened: Opener, talk: Talk) -> None:
    rows: list[tuple[int, np.ndarray]] = []

    def output(userdata: Any, tensors: Any, count: int, state: int) -> int:
        assert count == 1 and tensors[0].attr.contents.name == b"logits"
        mem, attr = tensors[0].mem.contents, tensors[0].attr.contents
        values = np.ctypeslib.as_array(ct.cast(mem.virt_addr, ct.POINTER(ct.c_uint16)), shape=(attr.n_elems,))
        rows.append((state, values.view(np.float16).copy()))
        return 0

    rknn = opened()
    tensors, count = rknn.create_output_tensors(output_indices=[0])
    assert count == 1 and tensors[0].attr.contents.dtype == 1  # float16, as on the device
    callback = talk.callback(sampling=talk.sampling, output=output)
    callback.output_tensors, callback.n_output_tensors = tensors, count
    assert rknn.init_llm_session([ARGS], callback) == 0
    talk.plan[:] = [65, 66, 67]
    assert run(rknn, talk, tokens=[1, 2], max_new_tokens=3) == [65, 66, 67]
    states = [state for state, _ in rows]
    assert states == [
        LLMOutputCallbackState.RKLLM_OUTPUT_CALLBACK_PREFILL_FINISHED, 2, 2,
        LLMOutputCallbackState.RKLLM_OUTPUT_CALLBACK_DECODE_FINISHED,
    ]  # fmt: skip
    assert all(row.shape == (VOCAB,) and np.isfinite(row).all() and row.any() for _, row in rows)
    assert rknn.destroy_mem(tensors[0].mem) == 0
    assert rknn.destroy_mem(tensors[0].mem) == -1
    assert rknn.create_output_tensors([5]) == (None, 0)


def test_eos_ids_and_several_of_them(opened: Opener, talk: Talk) -> None:
    args = {"ignore_eos_token": False, "special_eos_id": [300, 301], "max_new_tokens": 10}
    rknn = opened(args, talk.callback(sampling=talk.sampling))
    for last in (300, 301):
        talk.plan[:] = [65, last]
        assert run(rknn, talk, tokens=[1]) == [65]
        assert talk.states[-1] == 2


def test_policies(rknn: RKNN3Lite, opened: Opener, talk: Talk) -> None:
    policy = RKNN3KVCachePolicy
    assert rknn.set_kvcache_policy(policy.RKNN3_KVCACHE_POLICY_NORMAL) == 0
    rknn.set_chat_template("", "", "")
    assert len(run(rknn, talk, prompt="x" * 250, max_new_tokens=100)) <= 8 and talk.states[-1] == 4
    assert rknn.session_run(prompt="x" * 257) == (-1, [])
    assert rknn.clear_kvcache(RKNN3KVCacheClearPolicy.RKNN3_KVCACHE_CLEAR_ALL) == 0
    param = RKNN3KVCachePolicyParam()
    param.recurrent.n_keep = 4
    assert rknn.set_kvcache_policy(policy.RKNN3_KVCACHE_POLICY_RECURRENT, param) == 0
    assert len(run(rknn, talk, prompt="x" * 250, max_new_tokens=100)) == 100
    assert rknn.session_query_state().n_total_tokens == 256
    param.recurrent.n_keep = 4096
    assert rknn.set_kvcache_policy(1, param) == -1
    assert rknn.set_kvcache_policy(7) == rknn.clear_kvcache(7) == -1


def test_the_system_prompt_can_be_kept(rknn: RKNN3Lite, talk: Talk) -> None:
    rknn.set_chat_template(SYSTEM, PREFIX, POSTFIX)
    run(rknn, talk, prompt="hi")
    assert rknn.clear_kvcache(RKNN3KVCacheClearPolicy.RKNN3_KVCACHE_KEEP_SYSTEM_PROMPT) == 0
    assert rknn.session_query_state().n_total_tokens == len(SYSTEM)
    assert rknn.clear_kvcache() == 0
    assert rknn.session_query_state().n_total_tokens == 0


def test_a_cache_goes_through_a_file_and_through_memory(opened: Opener, talk: Talk, tmp_path: Path) -> None:
    rknn, path = opened(), tmp_path / "cache.bin"
    run(rknn, talk, tokens=[1, 2, 3, 4])
    assert rknn.save_kvcache(path) == 0
    follow = run(rknn, talk, tokens=[5], keep_history=True)
    data = path.read_bytes()
    pointer = ct.create_string_buffer(data, len(data))
    for load in (
        {"kvcache_path": str(path)},
        {"kvcache_data": data},
        {"kvcache_data": bytearray(data)},
        {"kvcache_data": ct.cast(pointer, ct.c_void_p), "size": len(data)},
    ):
        other = opened()
        assert other.load_kvcache(**load) == 0
        assert run(other, talk, tokens=[5], keep_history=True) == follow
    for load in (
        {},
        {"kvcache_path": str(path), "kvcache_data": data},
        {"kvcache_data": data[: len(data) // 2]},
        {"kvcache_data": b""},
        {"kvcache_data": ct.c_void_p(None)},
        {"kvcache_path": str(tmp_path / "none")},
    ):
        assert other.load_kvcache(**load) == -1
    assert rknn.save_kvcache(tmp_path / "none" / "x") == -1
    assert run(other, talk, tokens=[1, 2, 3, 4]) == run(rknn, talk, tokens=[1, 2, 3, 4])


def test_parameters_of_a_live_session(rknn: RKNN3Lite, talk: Talk) -> None:
    assert rknn.set_llm_param([{**ARGS, "max_new_tokens": 2}]) == 0
    assert len(run(rknn, talk, tokens=[1])) == 2
    assert rknn.set_llm_param({"top_p": 7}) == -1
    assert rknn.set_llm_param("top_k") == -1


def test_queries(rknn: RKNN3Lite) -> None:
    config = rknn.rknn3_query(RKNN3QueryCmd.RKNN3_QUERY_LLM_CONFIG)
    assert (config.vocab_size, config.embedding_dim, config.max_ctx_len) == (VOCAB, HIDDEN, 256)
    assert config.chat_template == TEMPLATE.encode() and config.model_type == b"qwen2"
    number = rknn.rknn3_query(RKNN3QueryCmd.RKNN3_QUERY_IN_OUT_NUM)
    assert (number.n_input, number.n_output) == (1, 2)
    assert [a.name for a in rknn.get_outputs_tensor_attr()] == [b"logits", b"last_hidden_state"]
    assert rknn.get_inputs_tensor_attr()[0].name == b"input_embeds"
    assert rknn.rknn3_query(RKNN3QueryCmd.RKNN3_QUERY_CORE_NUMBER).value == 8
    assert "backend cpu" in rknn.get_sdk_version()
    assert rknn.inference([np.zeros(1)]) is None


@pytest.mark.usefixtures("extras")
def test_the_flow_of_later_packages(package: Package, talk: Talk) -> None:
    rknn = RKNN3Lite(llm_mode=True)
    assert rknn.load_rknn(str(package.model), str(package.weight)) == 0
    assert rknn.init_runtime(target="rk1820", core_mask=0xFF, decrypt_key_path=None) == 0
    number = rknn.rknn3_query(RKNN3QueryCmd.RKNN3_QUERY_IN_OUT_NUM)
    attrs = [rknn.rknn3_query(RKNN3QueryCmd.RKNN3_QUERY_OUTPUT_ATTR, index=i) for i in range(number.n_output)]
    assert attrs[0].name == b"logits" and attrs[0].n_elems == VOCAB
    config = rknn.rknn3_query(RKNN3QueryCmd.RKNN3_QUERY_LLM_CONFIG)
    tensors = (RKNN3Tensor * 1)()
    assert rknn.create_mem(attrs[0], tensors[0]) is not None
    callback = talk.callback(output=lambda *_: 0)
    callback.output_tensors = ct.cast(tensors, ct.POINTER(RKNN3Tensor))
    callback.n_output_tensors = 1
    args = {"max_context_len": config.max_ctx_len, "vocab_size": config.vocab_size, "logits_name": b"output"}
    assert rknn.init_llm_session(llm_args=[args], llm_callback=callback) == 0
    assert rknn.set_kvcache_policy(RKNN3KVCachePolicy.RKNN3_KVCACHE_POLICY_NORMAL) == 0
    code, figures = rknn.session_run(prompt="hi", keep_history=False, max_new_tokens=3, enable_thinking=False)
    assert code == 0 and len(figures) == 4
    state = rknn.session_query_state()
    assert state.n_total_tokens >= state.n_max_tokens - 256
    assert rknn.clear_kvcache(RKNN3KVCacheClearPolicy.RKNN3_KVCACHE_CLEAR_ALL) == 0
    assert rknn.destroy_mem(tensors[0].mem) == 0
    rknn.release()


def test_sessions_share_a_model(rknn: RKNN3Lite, talk: Talk, package: Package) -> None:
    other = Talk(package)
    assert rknn.init_llm_session([ARGS], other.callback(), session_index=1) == 0
    tokens = run(rknn, talk, tokens=[1, 2, 3])
    assert run(rknn, other, tokens=[1, 2, 3], session_index=1) == tokens
    run(rknn, talk, tokens=[4], keep_history=True)
    state = rknn.session_query_state(session_index=1)
    assert state.n_total_tokens == 7 < rknn.session_query_state().n_total_tokens
    assert rknn.session_run(tokens=[1], session_index=2) == (-1, [])
    rknn.release(session_index=1)
    assert rknn.session_run(tokens=[1], session_index=1) == (-1, [])
    assert run(rknn, talk, tokens=[1, 2, 3]) == tokens


@pytest.mark.usefixtures("extras")
def test_what_the_callbacks_leave_out_comes_from_the_files_of_the_package(package: Package) -> None:
    rknn = RKNN3Lite(llm_mode=True)
    rknn.load_rknn(package.model, package.weight)
    assert rknn.init_runtime("rk1820", 0xFF) == 0
    code, figures = rknn.session_run(prompt="hello", max_new_tokens=3)
    assert code == 0 and figures[0] == 3
    rknn.release()
