"""Runs on all seven layouts, in this process and in one of their own: text, counts, what a version has and has not."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from rknnlite.errors import (
    ContextInvalid,
    DeviceUnmatch,
    InputInvalid,
    ModelUnsupported,
    OutOfMemory,
    ParamInvalid,
    RknnError,
)
from rknnlite.spi.llm import (
    AudioBlock,
    CallState,
    EmbedInput,
    ImageBlock,
    InferParams,
    KvPolicy,
    LlmCallbacks,
    LlmParams,
    MultimodalInput,
    OutputState,
    PromptInput,
    SamplingParams,
    TokenInput,
    VideoBlock,
    VocabInfo,
)
from tests.doubles.rkllm.standin import StandIn, build
from tests.rkllm.conftest import EVERY, Heard, Opener, talking

pytestmark = pytest.mark.slow

PLACES = pytest.mark.parametrize("in_process", [False, True], ids=["apart", "in process"])
each = pytest.mark.parametrize("version", EVERY)
with_inputs = pytest.mark.parametrize("version", EVERY[2:])
TEXT = "Grüße, 世界 🙂!"


@each
@PLACES
def test_text_arrives_whole(opened: Opener, heard: Heard, version: str, in_process: bool) -> None:
    session = talking(opened(version, "op say", f"say {TEXT}", in_process=in_process), heard)
    summary = session.run(PromptInput("x"), InferParams(max_new_tokens=100))
    assert heard.text == TEXT
    assert "\ufffd" not in heard.text
    assert summary.state is heard.states[-1] is CallState.FINISH
    if version != "1.0.0":  # tells no ids
        assert bytes(heard.tokens).decode() == TEXT
    assert all(result.text for result, state in heard.calls if state is CallState.NORMAL)


@each
def test_characters_in_pieces(opened: Opener, heard: Heard, version: str, modes: Callable[..., None]) -> None:
    modes(version, split=1)
    session = talking(opened(version, "op say", f"say {TEXT}"), heard)
    session.run(PromptInput("x"))
    assert heard.text == TEXT
    assert "\ufffd" not in "".join(result.text or "" for result, _ in heard.calls)


@each
@PLACES
def test_the_limit_of_a_run(opened: Opener, heard: Heard, version: str, in_process: bool) -> None:
    context = opened(version, "op count", "token_us 300", in_process=in_process, max_new_tokens=400)
    session = talking(context, heard)
    summary = session.run(PromptInput("x"), InferParams(max_new_tokens=7))
    assert (summary.state, summary.n_decode_tokens) == (CallState.MAX_NEW_TOKEN_REACHED, 7)
    assert len(heard.text) == 7


@pytest.mark.parametrize("version", EVERY[1:])
@PLACES
def test_an_abort_waits_for_the_prefill(opened: Opener, heard: Heard, version: str, in_process: bool) -> None:
    session = talking(opened(version, "op count", "prefill_us 3000", in_process=in_process), heard)
    run = session.run_async(PromptInput("x" * 150))
    time.sleep(0.1)
    session.stop()
    before = time.perf_counter()
    assert run.result(30).state is CallState.STOP
    assert 0.1 < time.perf_counter() - before < 3
    assert heard.tokens == []


def test_without_abort_a_run_goes_to_its_end(opened: Opener, heard: Heard) -> None:
    session = talking(opened("1.0.0", "op count", "token_us 1000", max_new_tokens=200), heard)
    run = session.run_async(PromptInput("x"))
    while not heard.calls:
        time.sleep(0.001)
    session.stop()
    assert run.result(30).state is CallState.STOP


@pytest.mark.parametrize("how", ["none", "error"])
def test_whatever_state_follows_an_abort(
    opened: Opener, heard: Heard, how: str, modes: Callable[..., None]
) -> None:
    modes("1.2.3", abort=how, token_us=500)
    session = talking(opened("1.2.3", "op count"), heard)
    run = session.run_async(PromptInput("x"))
    while not heard.calls:
        time.sleep(0.001)
    session.stop()
    assert run.result(30).state is heard.states[-1] is CallState.STOP


@pytest.mark.parametrize("how", ["twice", "null"])
def test_odd_ends(opened: Opener, heard: Heard, how: str, modes: Callable[..., None]) -> None:
    modes("1.2.3", finish=how)
    session = talking(opened("1.2.3", "op say", "say yes"), heard)
    summary = session.run(PromptInput("x"))
    assert (summary.state, summary.n_decode_tokens, heard.text) == (CallState.FINISH, 3, "yes")
    assert heard.states.count(CallState.FINISH) == 1


@PLACES
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("never", "returned 0, but no callback told that the answer is complete"),
        ("error", "returned 0, but its callback told of an error"),
    ],
)
def test_a_run_that_returns_0_and_is_not_complete_is_an_error(
    opened: Opener, heard: Heard, how: str, told: str, in_process: bool, modes: Callable[..., None]
) -> None:
    modes("1.2.3", finish=how)
    session = talking(opened("1.2.3", "op say", "say yes", in_process=in_process), heard)
    with pytest.raises(RknnError, match=told):
        session.run(PromptInput("x"))
    assert heard.text == "yes" and heard.states[-1] is CallState.ERROR


@each
@PLACES
def test_an_error_of_a_run_is_none_of_a_stop(
    opened: Opener, heard: Heard, version: str, in_process: bool, modes: Callable[..., None]
) -> None:
    modes(version, strike="error@2")
    session = talking(opened(version, "op count", in_process=in_process), heard)
    with pytest.raises(RknnError, match=r"librkllmrt .*rkllm_run failed"):
        session.run(PromptInput("x"))
    assert heard.states[-1] is CallState.ERROR  # 3 in the library, which is STOP here


def test_a_null_result_is_left_out(opened: Opener, heard: Heard, modes: Callable[..., None]) -> None:
    modes("1.3.0", strike="null@1")
    session = talking(opened("1.3.0", "op say", "say abc"), heard)
    session.run(PromptInput("x"))
    assert heard.text == "abc"


def test_garbage_is_an_error_even_where_the_library_says_that_all_is_well(
    opened: Opener, heard: Heard, modes: Callable[..., None]
) -> None:
    modes("1.2.3", driver="0.9.6")
    session = talking(opened("1.2.3", "op echo"), heard)
    with pytest.raises(DeviceUnmatch, match=r"garbage; update the NPU driver to 0\.9\.8"):
        session.run(PromptInput("x"))
    assert heard.states[-1] is CallState.ERROR


# -- sampling ---------------------------------------------------------------------------------------------


def test_sampling_and_length_of_each_run_from_1_3_0_on(opened: Opener, heard: Heard) -> None:
    session = talking(opened("1.3.0", "op sampling"), heard, sampling=SamplingParams(top_k=3))
    session.run(PromptInput("x"))
    assert heard.text.startswith("top_k=3 top_p=1 temperature=1 repeat_penalty=1 ")
    heard.calls.clear()
    session.set_llm_param(LlmParams(sampling=SamplingParams(top_k=7, temperature=0.5, top_p=0.75)))
    session.run(PromptInput("x"))
    assert heard.text.startswith("top_k=7 top_p=0.75 temperature=0.5 ")
    assert heard.text.endswith("mirostat=0 mirostat_tau=5 mirostat_eta=0.1")


@pytest.mark.parametrize("version", ["1.1.4", "1.2.3", "1.3.0"])
@PLACES
def test_mirostat_is_an_option_of_the_model(
    opened: Opener, heard: Heard, version: str, in_process: bool
) -> None:
    context = opened(version, "op sampling", in_process=in_process, mirostat=(2, 3.5, 0.25))
    talking(context, heard).run(PromptInput("x"))
    assert heard.text.endswith("mirostat=2 mirostat_tau=3.5 mirostat_eta=0.25")


@pytest.mark.parametrize("wrong", [2, (3, 5.0, 0.1), (1, 0, 0.1), (1, 5.0), "2"])
def test_mirostat_of_another_form_is_refused(opened: Opener, wrong: object) -> None:
    with pytest.raises(ParamInvalid, match="mirostat is"):
        opened("1.3.0", "op sampling", mirostat=wrong)


@pytest.mark.parametrize("version", EVERY[:-1])
def test_before_it_another_sampling_is_refused_with_the_reason(
    opened: Opener, heard: Heard, version: str
) -> None:
    session = talking(
        opened(version, "op sampling"), heard, sampling=SamplingParams(top_k=3, temperature=0.25)
    )
    session.run(PromptInput("x"), InferParams(max_new_tokens=400))
    assert "top_k=3 top_p=1 temperature=0.25" in heard.text
    session.set_llm_param(LlmParams(sampling=SamplingParams(top_k=3, temperature=0.25)))
    with pytest.raises(ParamInvalid, match=r"fixes sampling when the model is loaded .*open another session"):
        session.set_llm_param(LlmParams(sampling=SamplingParams(top_k=4)))


@pytest.mark.parametrize(
    ("sampling", "match"),
    [
        (SamplingParams(seed=1), "no seed"),
        (SamplingParams(min_p=0.1), "no min_p"),
        (SamplingParams(logit_bias=((1, 2.0),)), "no logit_bias"),
        (SamplingParams(top_k=0), "top_k is 0"),
    ],
)
def test_sampling_that_the_library_does_not_have(
    opened: Opener, sampling: SamplingParams, match: str
) -> None:
    with pytest.raises(ParamInvalid, match=match):
        talking(opened("1.3.0"), sampling=sampling)


# -- outputs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", EVERY[3:])
@PLACES
def test_logits_of_the_last_token(opened: Opener, version: str, in_process: bool) -> None:
    seen: list[tuple[OutputState, str, np.ndarray]] = []
    context = opened(version, "op echo", "vocab 300", in_process=in_process)
    calls = LlmCallbacks(
        output=lambda outs, state: seen.append((state, outs[0].attr.name, outs[0].data)), outputs=(0,)
    )
    session = context.session(callbacks=calls)
    session.run(TokenInput([5, 6, 7]), InferParams(max_new_tokens=1))
    state, name, values = seen[0]
    assert (state, name, values.shape) == (OutputState.PREFILL_FINISHED, "logits", (1, 300))
    want = (31 * 7 + 7 * np.arange(300) + 2) % 97 / 97
    np.testing.assert_allclose(values[0], want, rtol=1e-6)


@with_inputs
@PLACES
def test_hidden_states_of_all_tokens(opened: Opener, version: str, in_process: bool) -> None:
    seen: list[np.ndarray] = []
    context = opened(version, "op echo", "hidden 16", in_process=in_process)
    calls = LlmCallbacks(output=lambda outs, state: seen.append(outs[0].data), outputs=(1,))
    session = context.session(callbacks=calls)
    once = version >= "1.2.1"
    session.run(
        TokenInput([5, 6, 7]), InferParams(max_new_tokens=1, prefill_only=once and version != "1.2.1b1")
    )
    want = np.array([5, 6, 7])[:, None] + np.arange(16) / 100
    np.testing.assert_allclose(seen[0], want, rtol=1e-6)
    session.run(TokenInput([8]), InferParams(max_new_tokens=1))  # it does not go on with the paused one
    assert seen[-1].shape == (1, 16)


def test_what_the_callbacks_cannot_have(opened: Opener) -> None:
    context = opened("1.2.3", sessions=2)
    with pytest.raises(ParamInvalid, match="calls no sampling callback"):
        context.session(callbacks=LlmCallbacks(sampling=lambda logits, name: 0))
    with pytest.raises(ParamInvalid, match=r"logits or hidden states, not outputs \(0, 1\)"):
        context.session(callbacks=LlmCallbacks(output=lambda outs, state: None, outputs=(0, 1)))
    session = talking(context)
    with pytest.raises(ParamInvalid, match="disable_sampling"):
        session.run(PromptInput("x"), InferParams(disable_sampling=True))
    with pytest.raises(ParamInvalid, match="prefill_only needs an output callback"):
        session.run(PromptInput("x"), InferParams(prefill_only=True))


# -- inputs -----------------------------------------------------------------------------------------------


@with_inputs
@PLACES
def test_tokens_and_embeddings(opened: Opener, heard: Heard, version: str, in_process: bool) -> None:
    session = talking(opened(version, "op echo", in_process=in_process), heard)
    session.run(TokenInput(list(b"abc")), InferParams(max_new_tokens=50))
    assert heard.text == "abc"
    session.run(EmbedInput(np.ones((4, 8), np.float16)), InferParams(max_new_tokens=5))
    assert session.state().n_prefill_tokens == 4 or version < "1.2.1" or version == "1.2.1b1"


@pytest.mark.parametrize("version", EVERY[:2])
def test_the_first_versions_take_text_alone(opened: Opener, version: str) -> None:
    session = talking(opened(version))
    with pytest.raises(InputInvalid, match=r"takes text alone.*1\.1"):
        session.run(TokenInput([1]))


def test_more_tokens_than_the_context_holds(opened: Opener) -> None:
    session = talking(opened("1.2.3"), max_context_len=32)
    with pytest.raises(InputInvalid, match="33 tokens, the context holds 32"):
        session.run(TokenInput(range(33)))


@with_inputs
def test_images(opened: Opener, heard: Heard, version: str) -> None:
    tags = ("<s>", "<e>", "<pad>")
    context = opened(version, "op show", image_tags=tags)
    session = talking(context, heard)
    image = ImageBlock(np.ones((2, 8), np.float32), 2, 1, *tags, width=4, height=4)
    session.run(MultimodalInput("what is <image>?", image=image), InferParams(max_new_tokens=400))
    assert "**" in heard.text
    with pytest.raises(InputInvalid, match="0 tags <image>, the input 1"):
        session.run(MultimodalInput("what?", image=image))
    with pytest.raises(InputInvalid, match="no audio"):
        session.run(MultimodalInput("<audio>", audio=AudioBlock(np.ones((1, 8)), 1, content="x")))
    if version != "1.3.0":
        other = ImageBlock(np.ones((2, 8), np.float32), 2, 1, "<a>", "<b>", "<c>")
        with pytest.raises(InputInvalid, match=r"open the model with image_tags=\('<a>', '<b>', '<c>'\)"):
            session.run(MultimodalInput("<image>", image=other))
        video = VideoBlock(np.ones((4, 8), np.float32), 2, 2, content="<pad>", start="<s>", end="<e>")
        with pytest.raises(InputInvalid, match=r"video needs 1\.3\.0"):
            session.run(MultimodalInput("<video>", video=video))


@pytest.mark.parametrize("version", EVERY[5:])
@PLACES
def test_batches(opened: Opener, version: str, in_process: bool) -> None:
    session = talking(opened(version, "op echo", n_batch=3, in_process=in_process))
    pieces: list[int] = []
    answers = session.run_batch(
        [TokenInput(list(text.encode())) for text in ("a", "bcd", "éf")],
        InferParams(max_new_tokens=50),
        lambda index, piece: pieces.append(index),
    )
    assert [answer.text for answer in answers] == ["a", "bcd", "éf"]
    assert set(pieces) == {0, 1, 2}
    with pytest.raises(ParamInvalid, match="use run_batch"):
        session.run(PromptInput("x"))
    with pytest.raises(ParamInvalid, match="2 inputs, the model was opened with n_batch=3"):
        session.run_batch([PromptInput("x")] * 2)


# -- what only this library has ---------------------------------------------------------------------------


@with_inputs
def test_adapters(opened: Opener, version: str, tmp_path) -> None:
    session = talking(opened(version))
    adapter = tmp_path / "adapter.rkllm"
    adapter.write_bytes((tmp_path / "model.rkllm").read_bytes())
    session.load_lora(adapter, "mine", 0.5)
    with pytest.raises(ParamInvalid, match="no adapter 'other' is loaded; there are"):
        session.enable_lora("other")
    session.enable_lora("mine")
    session.run(PromptInput("x"), InferParams(max_new_tokens=2))
    session.disable_lora()
    session.run(PromptInput("x"), InferParams(max_new_tokens=2))


@with_inputs
def test_prompt_caches(opened: Opener, version: str, tmp_path) -> None:
    session = talking(opened(version))
    with pytest.raises(ModelUnsupported, match="save_prompt_cache"):
        session.save_kvcache("x")
    with pytest.raises(ModelUnsupported, match="load_prompt_cache"):
        session.load_kvcache("x")
    session.save_prompt_cache(tmp_path / "cache")
    session.run(TokenInput(list(b"a long beginning")), InferParams(max_new_tokens=2))
    assert (tmp_path / "cache").stat().st_size
    session.load_prompt_cache(tmp_path / "cache")
    session.run(TokenInput(list(b"a long beginning, and more")), InferParams(max_new_tokens=2))
    session.release_prompt_cache()


def test_cross_attention(opened: Opener) -> None:
    session = talking(opened("1.2.3", cross_attention=True))
    keys, values = np.ones((2, 5, 1, 4)), np.ones((2, 1, 4, 5))
    with pytest.raises(InputInvalid, match="keys, values, mask and positions have shapes"):
        session.set_cross_attention(keys, keys, np.ones(5), np.arange(5))
    session.set_cross_attention(keys, values, np.ones(5), np.arange(5))
    session.run(PromptInput("x"), InferParams(max_new_tokens=2))


# -- sessions and settings --------------------------------------------------------------------------------


def test_a_handle_is_a_session(opened: Opener) -> None:
    context = opened("1.2.3")
    first = talking(context)
    with pytest.raises(ContextInvalid, match=r"has 1 session already.*sessions=2.*GiB of memory are free"):
        talking(context)
    first.close()
    talking(context).close()


def test_settings_of_loading_cannot_change(opened: Opener) -> None:
    session = talking(opened("1.3.0"), max_context_len=64)
    with pytest.raises(ContextInvalid, match="open another session"):
        session.set_llm_param(LlmParams(max_context_len=128))
    with pytest.raises(ParamInvalid, match="cannot be told to stop there"):
        session.set_kvcache_policy(KvPolicy.NORMAL)
    with pytest.raises(ParamInvalid, match="open it with n_keep"):
        session.set_kvcache_policy(KvPolicy.RECURRENT, n_keep=4)
    assert session.state().n_max_tokens == 64


@pytest.mark.parametrize("version", EVERY[:-1])
def test_what_a_version_does_not_have_is_refused(opened: Opener, version: str) -> None:
    with pytest.raises(ParamInvalid, match="has no ignore_eos_token"):
        talking(opened(version), vocab=VocabInfo(ignore_eos_token=True))


def test_a_model_with_a_smaller_context_is_opened_with_that(opened: Opener) -> None:
    context = opened("1.2.3", "op echo", "limit 512")
    session = talking(context)
    assert session.state().n_max_tokens == context.config.max_ctx_len == 512
    session.close()
    with pytest.raises(ParamInvalid, match=r"max_context\[1024\].*smaller max_context_len"):
        talking(context, max_context_len=1024)


def test_no_memory_on_the_npu(opened: Opener, modes: Callable[..., None]) -> None:
    modes("1.2.3", domain_mb=50)
    with pytest.raises(OutOfMemory, match="base_domain_id of its own"):
        talking(opened("1.2.3", "op echo", "size_mb 100"))


def test_a_handle_that_is_null_is_no_handle(opened: Opener, modes: Callable[..., None]) -> None:
    modes("1.2.3", null_handle=1)
    for in_process in (False, True):
        with pytest.raises(RknnError, match="gave no handle"):
            talking(opened("1.2.3", in_process=in_process))


def test_an_exception_ends_a_run_in_process_within_tokens(opened: Opener) -> None:
    seen: list[int] = []

    def result(tokens, state) -> None:
        seen.append(threading.get_ident())
        if len(seen) == 3:
            raise ValueError("three")

    session = opened("1.2.3", "op count", "token_us 300", in_process=True).session(
        callbacks=LlmCallbacks(result=result)
    )
    with pytest.raises(ValueError, match="three"):
        session.run(PromptInput("x"))
    assert len(seen) == 3


@each
def test_a_session_that_is_dropped_after_a_run_gives_its_model_back(opened: Opener, version: str) -> None:
    double = StandIn(build(version))
    before = double.live()
    session = talking(opened(version, in_process=True))
    session.run(PromptInput("abc"), InferParams(max_new_tokens=3))
    assert double.live() != before
    del session
    gc.collect()
    assert double.live() == before
