"""Language models on the double: callbacks from a foreign thread, inputs, cache, stop, misuse."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_backend.library import FunctionMissing
from rknnlite_llm import open_llm
from rknnlite_llm.draft_and_adapters import DraftAndAdapters
from rknnlite_llm.streaming import stream

from rknnlite.errors import (
    ContextInvalid,
    InputInvalid,
    ModelInvalid,
    ModelUnsupported,
    ParamInvalid,
    RknnError,
)
from rknnlite.spi.llm import (
    AudioBlock,
    AuxInput,
    CallState,
    EmbedInput,
    ImageBlock,
    InferParams,
    KvClear,
    KvPolicy,
    LlmParams,
    MessagesInput,
    MultimodalInput,
    OutputState,
    PromptInput,
    SamplingParams,
    TaskType,
    TokenInput,
    VideoBlock,
    VocabInfo,
)
from tests.doubles.rknn3.double3 import Double3, model
from tests.support.needs import needs

from .conftest import CNN, HIDDEN, LLM, VOCAB, Heard, callbacks, embed, tokenize

Chat = Callable[..., Any]
FEW = InferParams(max_new_tokens=5)


def counted(start: int, count: int) -> list[int]:
    return list(range(start + 1, start + 1 + count))


def test_config(chat: Chat) -> None:
    context = chat()
    config = context.config
    assert (config.vocab_size, config.embedding_dim, config.max_ctx_len) == (VOCAB, HIDDEN, 256)
    assert config.chat_template == "chatml" and config.core_num == 2 and config.kvcache_group_size == 16
    assert [a.name for a in context.inputs] == ["input_embeds", "shift"]
    assert [a.name for a in context.outputs] == ["logits", "last_hidden"]
    assert context.backend_name == "rknn3rt" and context.versions.driver == "1.0.0"


def test_a_network_is_no_language_model(double: Double3) -> None:
    with pytest.raises(RknnError, match="is this a language model"):
        open_llm(model(*CNN))


def test_tokens_count_on(chat: Chat) -> None:
    heard = Heard()
    with chat().session(callbacks=callbacks(result=heard)) as session:
        summary = session.run(TokenInput([3, 4, 5]), FEW)
    assert heard.ids == counted(5, 5) and heard.states[-1] is CallState.MAX_NEW_TOKEN_REACHED
    assert (summary.n_prefill_tokens, summary.n_decode_tokens) == (3, 5)
    assert summary.start <= summary.first_token <= summary.end


def test_incomplete_characters_wait(chat: Chat) -> None:
    heard = Heard()
    with chat("generate echo").session(callbacks=callbacks(result=heard)) as session:
        assert session.run(PromptInput("Grüße, 你好 🎉")).state is CallState.FINISH
    assert heard.text == "Grüße, 你好 🎉"
    assert heard.states.count(CallState.WAITING) == 1 + 1 + 2 + 2 + 3
    assert heard.states[-1] is CallState.FINISH


def test_text_is_streamed_by_character(chat: Chat) -> None:
    with chat("generate echo").session(callbacks=callbacks()) as session:
        pieces = list(
            stream(session, PromptInput("häl你o"), lambda ids: bytes(ids).decode("utf-8", "replace"))
        )
    assert "".join(pieces) == "häl你o" and "\ufffd" not in "".join(pieces)


@pytest.mark.parametrize("thread", ["foreign", "caller"])
def test_callbacks_come_in_the_documented_order(chat: Chat, thread: str) -> None:
    calls: list[str] = []
    threads: set[int] = set()

    def note(name: str, answer: Any) -> Any:
        calls.append(name)
        threads.add(threading.get_ident())
        return answer

    wanted = callbacks(
        tokenizer=lambda text: note("tokenizer", tokenize(text)),
        embed=lambda tokens: note("embed", embed(tokens)),
        output=lambda outputs, state: note(f"output {state.name}", 0),
        outputs=(0,),
        sampling=lambda logits, name: note("sampling", int(logits.argmax())),
        result=lambda result, state: note(f"result {state.name}", 0),
    )
    with chat(f"thread {thread}").session(callbacks=wanted) as session:
        session.run(PromptInput("a"), InferParams(max_new_tokens=2))
    step = ["sampling", "result NORMAL"]
    assert calls == [
        *("tokenizer", "embed", "output PREFILL_FINISHED", *step, "embed", "output DECODE_PROCESSING", *step),
        *("output DECODE_FINISHED", "result MAX_NEW_TOKEN_REACHED"),
    ]
    assert len(threads) == 1 and threading.get_ident() not in threads


def test_a_callback_may_choose_tokens(chat: Chat) -> None:
    heard, shapes = Heard(), []

    def choose(logits: Any, name: str) -> int:
        shapes.append((logits.dtype.name, logits.shape, name))
        return int(logits.argmax()) + 9

    with chat().session(callbacks=callbacks(result=heard, sampling=choose)) as session:
        session.run(TokenInput([10]), InferParams(max_new_tokens=3))
        assert heard.ids == [20, 30, 40] and shapes == [("float16", (VOCAB,), "logits")] * 3
        session.set_callbacks(callbacks(result=heard))  # and no more
        session.run(TokenInput([10]), InferParams(max_new_tokens=1))
    assert heard.ids[-1] == 11


class Bytewise:
    """A tokenizer whose tokens are bytes."""

    def token_table(self) -> tuple[list[bytes], list[int]]:
        return [bytes([byte]) for byte in range(256)], []

    def encode(self, text: str) -> list[int]:
        return tokenize(text)


def test_answers_follow_a_rule_on_the_device(chat: Chat) -> None:
    """Through the sampling callback, whatever the model counts on to."""
    pytest.importorskip("llguidance")
    from rknnlite_llm.constraints import Choice, JsonSchema, Regex
    from rknnlite_llm.grammars import Grammars
    from rknnlite_llm.host_sampling import HostSampling

    end = 299
    params = LlmParams(vocab=VocabInfo(special_eos_ids=(end,)))
    grammars = Grammars(Bytewise(), VOCAB, (end,), check=False)
    rules = [
        (JsonSchema({"const": {"a": "ü"}}), r'\{\s*"a"\s*:\s*"ü"\s*\}'),
        (Choice(("yes", "no")), "yes|no"),
        (Regex("[x-z]{5}"), "[x-z]{5}"),
    ]
    for rule, pattern in rules:
        heard = Heard()
        sampling = HostSampling(SamplingParams(top_k=0, seed=1), constraint=grammars.constraint(rule))
        with chat().session(params, callbacks(result=heard, sampling=sampling)) as session:
            summary = session.run(TokenInput([8]), InferParams(max_new_tokens=100))
        assert summary.state is CallState.FINISH and re.fullmatch(pattern, heard.text)


def test_outputs_are_shown(chat: Chat) -> None:
    seen: list[Any] = []

    def show(outputs: Any, state: OutputState) -> None:
        seen.append((state, [(o.attr.name, o.data.shape, float(o.data[0, 0])) for o in outputs]))

    with chat().session(callbacks=callbacks(output=show, outputs=(1, 0))) as session:
        session.run(TokenInput([7]), InferParams(max_new_tokens=2))
    assert [state.name for state, _ in seen] == ["PREFILL_FINISHED", "DECODE_PROCESSING", "DECODE_FINISHED"]
    assert seen[0][1] == [("last_hidden", (1, HIDDEN), 8.0), ("logits", (1, VOCAB), 8.0)]


def test_embeddings(chat: Chat) -> None:
    heard = Heard()
    with chat().session(callbacks=callbacks(result=heard)) as session:
        for rows in (
            embed(np.array([1, 2])),
            embed(np.array([1, 2]))[None],
            embed(np.array([1, 2])).astype(np.float32),
        ):
            session.run(EmbedInput(rows), InferParams(max_new_tokens=2))
            assert heard.ids[-2:] == [3, 4]
        with pytest.raises(InputInvalid, match="beyond float16"):
            session.run(EmbedInput(np.full((2, HIDDEN), 1e6, np.float32)))
        with pytest.raises(InputInvalid, match=r"float16 \[n_tokens, 8\]"):
            session.run(EmbedInput(np.zeros((2, 9), np.float16)))


def test_images_audio_and_video(chat: Chat) -> None:
    heard = Heard()
    image = ImageBlock(embed(np.array([210, 211])), 1, 2, "<", ">", "*", 14, 28)
    audio = AudioBlock(embed(np.array([220])), 1, content="+")
    video = VideoBlock(embed(np.array([230, 231, 232, 233])), 2, 2, content="=")
    with chat("generate echo").session(callbacks=callbacks(result=heard)) as session:
        session.run(
            MultimodalInput("a<image>b<image>c<audio>d<video>e", image=image, audio=audio, video=video)
        )
        assert heard.ids == [*(97, 60, 210, 62, 98, 60, 211, 62, 99, 220, 100, 230, 231, 232, 233, 101)]
        tokens = MultimodalInput(tokens=[1, 43, 2], audio=audio)
        heard.ids.clear()
        session.run(tokens)
        assert heard.ids == [1, 220, 2]
        for bad, words in (
            (MultimodalInput("no tag", image=image), "0 tags <image>, the input 2"),
            (
                MultimodalInput("<video>", video=replace(video, seconds=0.5)),
                "0.5 seconds between pictures",
            ),
            (
                MultimodalInput("<image><image>", image=replace(image, embeds=embed(np.array([1])))),
                "image data",
            ),
            (MultimodalInput("<audio>", audio=replace(audio, content="")), "content marker"),
        ):
            with pytest.raises(InputInvalid, match=words):
                session.run(bad)


def test_auxiliary_inputs(chat: Chat, double: Double3) -> None:
    heard = Heard()
    with chat().session(callbacks=callbacks(result=heard)) as session:
        shift = AuxInput(1, np.array([[100, 0, 0, 0]], np.float32))
        session.run([TokenInput([5]), shift], InferParams(max_new_tokens=1))
        assert heard.ids == [106]
        assert "mems" not in double.live()
        with pytest.raises(
            InputInvalid, match="no auxiliary input 2; its inputs are 0 input_embeds, 1 shift"
        ):
            session.run([TokenInput([5]), replace(shift, index=2)])
        with pytest.raises(InputInvalid, match="input shift"):
            session.run([TokenInput([5]), AuxInput(1, np.zeros(3, np.float16))])
        with pytest.raises(InputInvalid, match="takes one of"):
            session.run([shift])
    assert "mems" not in double.live()


def test_parameters_reach_the_library(chat: Chat) -> None:
    context, heard = chat(), Heard()
    ends = LlmParams(vocab=VocabInfo(special_eos_ids=(12, -1), special_bos_ids=(1,)))
    with context.session(ends, callbacks(result=heard)) as session:
        assert session.run(TokenInput([8])).state is CallState.FINISH and heard.ids == [9, 10, 11]
        session.set_llm_param(replace(ends, vocab=replace(ends.vocab, ignore_eos_token=True)))
        session.run(TokenInput([8]), FEW)
        assert heard.ids[3:] == counted(8, 5)
        with pytest.raises(ContextInvalid, match="max_context_len cannot change to 64 while the cache holds"):
            session.set_llm_param(LlmParams(64))
        session.clear_kvcache()
        session.set_llm_param(LlmParams(64))
        assert session.state().n_max_tokens == 64
    with context.session([LlmParams(logits_name="logits")]) as session:
        assert session.state().n_max_tokens == 256


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (LlmParams(257), r"max_context_len is 257, the model was converted for 1\.\.256"),
        (LlmParams(-1), "max_context_len is -1"),
        (LlmParams(vocab=VocabInfo(vocab_size=7)), "vocab_size is 7, the model has 300"),
        (LlmParams(vocab=VocabInfo(special_eos_ids=(300,))), "special token 300"),
        (LlmParams(vocab=VocabInfo(special_eos_ids=(1,) * 65)), "65 special EOS ids; 64 fit"),
        (LlmParams(vocab=VocabInfo(special_bos_ids=(1,) * 65)), "65 special BOS ids; 64 fit"),
        (LlmParams(sampling=SamplingParams(temperature=-1)), "temperature is -1"),
        (LlmParams(logits_name="other"), "rknn3_session_init gave no session"),
        ([], "none were given"),
        ([LlmParams(), LlmParams()], "needs its logits_name"),
    ],
)
def test_parameters_that_do_not_fit(chat: Chat, params: Any, words: str) -> None:
    with pytest.raises(ParamInvalid, match=words):
        chat().session(params)


def test_templates_and_tools(chat: Chat) -> None:
    texts: list[str] = []

    def note(text: str) -> list[int]:
        texts.append(text)
        return tokenize(text)

    with chat().session(callbacks=callbacks(tokenizer=note)) as session:
        session.set_chat_template("You are brief.", "<user>", "<bot>")
        session.run(PromptInput("hi"), FEW)
        session.set_function_tools('[{"name": "clock"}]')
        session.run(PromptInput("time?"), InferParams(True, 5))
        session.set_function_tools("")
        session.run(PromptInput("12:00", role="tool"), FEW)
        with pytest.raises(ParamInvalid):
            session.set_function_tools("{not json")
        with pytest.raises(InputInvalid, match="role 'robot'"):
            session.run(PromptInput("x", role="robot"))
        with pytest.raises(InputInvalid, match="NUL"):
            session.run(PromptInput("a\0b"))
    assert texts == [
        "You are brief.",
        "<user>hi<bot>",
        '[{"name": "clock"}]<user>time?<bot>',
        "<user>12:00<bot>",
    ]


def test_history_and_cache(chat: Chat, tmp_path: Path) -> None:
    context = chat()
    with context.session(callbacks=callbacks()) as session:
        session.run(TokenInput([1, 2, 3]), InferParams(max_new_tokens=1))
        assert session.state().n_total_tokens == 3
        session.run(TokenInput([1, 2, 3]), InferParams(True, 1))
        assert session.state().n_total_tokens == 6
        session.save_kvcache(str(tmp_path / "kv"))
        session.clear_kvcache()
        assert session.state().n_total_tokens == 0
        session.load_kvcache(str(tmp_path / "kv"))
        assert session.state().n_total_tokens == 6
        session.set_chat_template("sys", "", "")
        session.run(PromptInput("abc"), InferParams(max_new_tokens=1))
        session.clear_kvcache(KvClear.KEEP_SYSTEM_PROMPT)
        assert session.state().n_total_tokens == 3
        with pytest.raises(RknnError, match=r"can .* be written"):
            session.save_kvcache(str(tmp_path / "no" / "kv"))
        with pytest.raises(ModelInvalid, match="there is no KV cache file"):
            session.load_kvcache(str(tmp_path / "none"))
        (tmp_path / "junk").write_bytes(b"RKKV 300")
        (tmp_path / "alien").write_bytes(b"RKKV 301 8 5\n")
        for name in ("junk", "alien"):
            with pytest.raises(ModelInvalid, match="no KV cache of this model"):
                session.load_kvcache(str(tmp_path / name))
        with pytest.raises(ParamInvalid, match="use KvClear"):
            session.clear_kvcache(9)


def test_cache_policies(chat: Chat) -> None:
    heard = Heard()
    with chat().session(LlmParams(32), callbacks(result=heard)) as session:
        session.set_kvcache_policy(KvPolicy.NORMAL)
        assert session.run(TokenInput(range(20))).state is CallState.MAX_NEW_TOKEN_REACHED
        assert len(heard.ids) == 13 and session.state().kvcache_policy is KvPolicy.NORMAL
        session.set_kvcache_policy(KvPolicy.RECURRENT, n_keep=16, n_keep_aligned=16)
        session.run(TokenInput(range(20)), InferParams(max_new_tokens=50))
        assert len(heard.ids) == 63 and session.state().n_total_tokens == 32
        with pytest.raises(InputInvalid, match="INPUT_INVALID"):
            session.run(TokenInput(range(40)))
        with pytest.raises(ParamInvalid, match="use KvPolicy"):
            session.set_kvcache_policy(5)
        with pytest.raises(ParamInvalid, match="n_keep is -1"):
            session.set_kvcache_policy(KvPolicy.RECURRENT, n_keep=-1)
        with pytest.raises(ParamInvalid, match="rknn3_session_set_kvcache_policy failed"):
            session.set_kvcache_policy(KvPolicy.RECURRENT, n_keep_aligned=3)


def test_what_only_later_runtimes_do(chat: Chat, version: str) -> None:
    heard = Heard()
    with chat().session(callbacks=callbacks(result=heard)) as session:
        if version == "1.0.0":
            with pytest.raises(ParamInvalid, match=r"prefill_only needs runtime 1\.0\.4"):
                session.run(TokenInput([1]), InferParams(prefill_only=True))
            with pytest.raises(FunctionMissing, match="rknn3_session_pause"):
                session.pause()
            assert session.loras() == ()
            return
        assert session.run(TokenInput([1]), InferParams(prefill_only=True)).n_decode_tokens == 0
        assert session.run(TokenInput([1]), InferParams(disable_sampling=True)).state is CallState.FINISH
        assert heard.ids == []
        with pytest.raises(FunctionMissing, match="query_lora"):
            session.loras()


def test_pause_and_resume(chat: Chat, version: str) -> None:
    if version == "1.0.0":
        with chat().session() as session, pytest.raises(FunctionMissing, match="pause"):
            session.pause()
        return
    heard, reached = Heard(), threading.Event()

    def result(found: Any, state: CallState) -> int:
        if not reached.is_set():
            session.pause()
            reached.set()
        return heard(found, state)

    with chat().session(callbacks=callbacks(result=result)) as session:
        future = session.run_async(TokenInput([1]), FEW)
        assert reached.wait(60) and not future.done()
        session.resume()
        future.result(60)
    assert heard.ids == counted(1, 5) and set(heard.states) == {
        CallState.NORMAL,
        CallState.MAX_NEW_TOKEN_REACHED,
    }


def test_no_tokens_are_guessed_and_adapters_need_names(chat: Chat, tmp_path: Path, version: str) -> None:
    context = chat()
    with pytest.raises(ParamInvalid, match="backend rknn3rt computes one token after the other"):
        DraftAndAdapters(speculate=2).open(context)
    if version == "1.0.0":
        with pytest.raises(FunctionMissing, match="rknn3_lora_init"):
            DraftAndAdapters(lora=str(tmp_path)).open(context)


def test_adapters_are_not_there_yet(chat: Chat) -> None:
    with chat().session() as session:
        for call in (session.enable_lora, session.disable_lora):
            with pytest.raises(RknnError, match="_lora failed"):
                call("polite")
        with pytest.raises(ParamInvalid, match="1 to 255 bytes"):
            session.enable_lora("x" * 256)


def test_what_later_runtimes_add(chat: Chat, version: str, tmp_path: Path, double: Double3) -> None:
    context = chat()
    calls = {
        "rknn3_lora_init": lambda: context.init_loras(tmp_path / "adapters"),
        "rknn3_lora_init_from_data": lambda: context.init_loras(b"adapters"),
        "rknn3_lora_load": lambda: context.lora("load", "polite"),
        "rknn3_lora_enable": lambda: context.lora("enable", "polite", 0.5),
        "rknn3_lora_disable": lambda: context.lora("disable", "polite"),
        "rknn3_lora_unload": lambda: context.lora("unload", "polite"),
        "rknn3_load_weight_chunk": lambda: context.load_weight_chunk(0, b"weights"),
        "rknn3_set_kvcache_group": lambda: context.set_kvcache_group(1),
        "rknn3_set_input_name_alias": lambda: context.set_input_name_alias("a", "b"),
    }
    for function, call in calls.items():
        if version == "1.0.0":
            with pytest.raises(FunctionMissing, match=function):
                call()
            continue
        call()
        assert double.count(function) == 1
        double.fault(function, -17)
        with pytest.raises(ContextInvalid, match=f"{function} failed"):
            call()
    with pytest.raises(ParamInvalid, match="not 'praise'"):
        context.lora("praise", "polite")
    with pytest.raises(ParamInvalid, match="0 bytes of weights"):
        context.load_weight_chunk(0, b"")


def test_a_cache_from_memory(chat: Chat, version: str) -> None:
    with chat().session() as session:
        if version == "1.0.0":
            with pytest.raises(FunctionMissing):
                session.load_kvcache_data(b"RKKV 300 8 9")
            return
        session.load_kvcache_data(b"RKKV 300 8 9")
        assert session.state().n_total_tokens == 9
        with pytest.raises(ModelInvalid):
            session.load_kvcache_data(b"RKKV 301 8 9")


# -- stopping ---------------------------------------------------------------------------------------------

ENDLESS = InferParams(max_new_tokens=1_000_000)


def test_stop_from_a_callback(chat: Chat) -> None:
    heard = Heard()

    def result(found: Any, state: CallState) -> int:
        if len(heard.ids) == 3:
            session.stop()
            assert session.state().n_decode_tokens >= 3
        return heard(found, state)

    with chat().session(callbacks=callbacks(result=result)) as session:
        assert session.run(TokenInput([1]), ENDLESS).state is CallState.STOP
        assert heard.states[-1] is CallState.STOP and 3 <= len(heard.ids) <= 5
        assert session.run(TokenInput([1]), InferParams(max_new_tokens=2)).state is not CallState.STOP


def test_stop_from_another_thread(chat: Chat, double: Double3) -> None:
    double.latency(300)
    begun = threading.Event()

    def result(found: Any, state: CallState) -> None:
        begun.set()

    with chat().session(callbacks=callbacks(result=result)) as session:
        for _ in range(5):
            begun.clear()
            future = session.run_async(TokenInput([1]), ENDLESS)
            assert begun.wait(60)
            session.stop()
            assert future.result(60).state is CallState.STOP


def test_stop_right_after_the_start(chat: Chat) -> None:
    with chat().session(callbacks=callbacks()) as session:
        session.stop()  # without a run it does nothing
        session.run(TokenInput([1]), FEW)
        for _ in range(50):
            future = session.run_async(TokenInput([1]), ENDLESS)
            session.stop()
            assert future.result(60).state is CallState.STOP


def test_close_stops_and_waits(chat: Chat, double: Double3) -> None:
    context = chat()
    double.latency(200)
    heard = Heard()
    session = context.session(callbacks=callbacks(result=heard))
    future = session.run_async(TokenInput([1]), ENDLESS)
    session.close()
    assert future.result(1).state is CallState.STOP
    count = len(heard.states)
    session.close()
    assert len(heard.states) == count
    for use in (lambda: session.run(TokenInput([1])), session.state, session.clear_kvcache):
        with pytest.raises(ContextInvalid, match=r"the session is closed|this session is closed"):
            use()
    session.stop()


def test_closing_the_model_closes_its_sessions(chat: Chat, double: Double3) -> None:
    context = chat()
    sessions = [context.session(callbacks=callbacks()) for _ in range(3)]
    double.latency(200)
    runs = [session.run_async(TokenInput([1]), ENDLESS) for session in sessions]
    context.close()
    assert {run.result(1).state for run in runs} == {CallState.STOP}
    assert double.live() == {}
    with pytest.raises(ContextInvalid, match="the model is closed"):
        context.session()


def test_an_interrupt_ends_the_run(chat: Chat, double: Double3) -> None:
    import signal

    double.latency(200)
    seen = threading.Event()

    def result(found: Any, state: CallState) -> None:
        if not seen.is_set():
            seen.set()
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with chat().session(callbacks=callbacks(result=result)) as session:
        with pytest.raises(KeyboardInterrupt):
            session.run(TokenInput([1]), ENDLESS)
        session.run(TokenInput([1]), FEW)


def test_the_librarys_own_asynchronous_runs(chat: Chat, double: Double3) -> None:
    heard = Heard()

    def fail(tokens: Any) -> Any:
        raise LookupError("no row")

    with chat(native_async=True).session(callbacks=callbacks(result=heard)) as session:
        for _ in range(20):
            assert session.run(TokenInput([5]), FEW).n_decode_tokens == 5
            future = session.run_async(TokenInput([5]), ENDLESS)
            session.stop()
            assert future.result(60).state is CallState.STOP
        session.set_callbacks(callbacks(embed=fail))
        with pytest.raises(LookupError, match="no row"):
            session.run(TokenInput([5]))
        double.fault("rknn3_session_run_async", -13)
        with pytest.raises(RknnError, match="COMMUNICATION"):
            session.run(TokenInput([5]))
    assert heard.ids[:5] == counted(5, 5) and double.count("rknn3_session_run") == 0


def test_an_interrupt_while_the_thread_starts(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        assert begun.wait(60)
        raise KeyboardInterrupt

    with chat().session(callbacks=callbacks(result=lambda found, state: begun.set())) as session:
        for _ in range(3):
            begun.clear()
            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    session.run(TokenInput([1]), ENDLESS)
            assert session.run(TokenInput([1]), FEW).n_decode_tokens == 5


def test_no_thread_can_be_had(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with chat().session(callbacks=callbacks()) as session:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refused)
            with pytest.raises(ContextInvalid, match="no thread for the run: can't start"):
                session.run(TokenInput([1]), FEW)
        session.run(TokenInput([1]), FEW)


# -- mistakes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tokenizer", "embed", "sampling", "output", "result"])
def test_an_exception_in_a_callback_reaches_the_caller(chat: Chat, name: str) -> None:
    class Mine(Exception):
        pass

    states: list[CallState] = []

    def fail(*_: Any) -> Any:
        raise Mine(name)

    given = {"result": lambda found, state: states.append(state), name: fail}
    if name == "output":
        given["outputs"] = (0,)  # type: ignore[assignment]
    with chat().session(callbacks=callbacks(**given)) as session:
        for call in (session.run, lambda *a: session.run_async(*a).result(60)):
            with pytest.raises(Mine) as caught:
                call(PromptInput("x"), FEW)
            assert any(entry.name == "fail" for entry in caught.traceback)
        assert states == ([] if name == "result" else [CallState.ERROR] * 2)
        session.set_callbacks(callbacks())
        session.run(PromptInput("x"), FEW)


def test_a_library_that_ignores_failing_callbacks(chat: Chat) -> None:
    states: list[CallState] = []

    def result(found: Any, state: CallState) -> None:
        states.append(state)
        if len(states) == 2:
            raise LookupError("enough")

    with (
        chat("stubborn").session(callbacks=callbacks(result=result)) as session,
        pytest.raises(LookupError, match="enough"),
    ):
        session.run(TokenInput([1]), ENDLESS)
    assert states == [CallState.NORMAL] * 2


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("tokenizer", "text", "returned 'text', not token ids"),
        ("tokenizer", [], "gave \\[\\]"),
        ("tokenizer", [300], "token id 300"),
        ("tokenizer", [1] * 50, "made 50 tokens of 1 bytes; the runtime has room for 3"),
        ("embed", np.zeros((1, 4), np.float16), "needed is float16"),
        ("embed", np.full((1, HIDDEN), 1e6, np.float32), "beyond float16"),
        ("sampling", 300, "chose token 300"),
        ("sampling", "x", "not a token id"),
        ("result", "x", "the result callback returned 'x'"),
        ("result", 1, "the result callback returned 1"),
    ],
)
def test_wrong_answers(chat: Chat, name: str, answer: Any, words: str) -> None:
    session = chat().session(callbacks=callbacks(**{name: lambda *_: answer}))
    with pytest.raises(RknnError, match=words):
        session.run(PromptInput("x"), FEW)
    session.close()


def test_missing_callbacks(chat: Chat) -> None:
    with chat().session(callbacks=callbacks(tokenizer=None)) as session:
        with pytest.raises(ParamInvalid, match="text needs a tokenizer callback"):
            session.run(PromptInput("x"))
        session.set_callbacks(callbacks(embed=None))
        with pytest.raises(ParamInvalid, match="need an embed callback"):
            session.run(TokenInput([1]))
    with pytest.raises(ParamInvalid, match="cannot be called"):
        chat().session(callbacks=callbacks(result=7))
    with pytest.raises(ParamInvalid, match=r"wants outputs \(5,\)"):
        chat().session(callbacks=callbacks(outputs=(5,)))


def test_calling_back_into_the_session(chat: Chat) -> None:
    context = chat()
    other = context.session(callbacks=callbacks())
    tried: list[str] = []

    def result(found: Any, state: CallState) -> None:
        for call in (
            lambda: session.run(TokenInput([1])),
            lambda: session.run_async(TokenInput([1])),
            lambda: session.clear_kvcache(),
            lambda: session.close(),
            lambda: context.close(),
            lambda: other.run(TokenInput([1])),
        ):
            with pytest.raises(ContextInvalid, match="inside a callback"):
                call()
        tried.append(state.name)

    with context.session(callbacks=callbacks(result=result)) as session:
        session.run(TokenInput([1]), FEW)
    assert len(tried) == 6
    other.close()


def test_two_threads_on_one_session(chat: Chat, double: Double3) -> None:
    double.latency(300)
    with chat().session(callbacks=callbacks()) as session:
        future = session.run_async(TokenInput([1]), ENDLESS)
        with pytest.raises(ContextInvalid, match="in use by another thread"):
            session.run(TokenInput([1]))
        with pytest.raises(ContextInvalid, match="in use by another thread"):
            session.clear_kvcache()
        session.stop()
        future.result(60)


def test_sessions_take_turns(chat: Chat, double: Double3) -> None:
    context = chat()
    double.latency(50)
    heard = [Heard() for _ in range(4)]
    sessions = [context.session(callbacks=callbacks(result=h)) for h in heard]
    runs = [s.run_async(TokenInput([10 * n]), FEW) for n, s in enumerate(sessions)]
    assert all(run.result(60).n_decode_tokens == 5 for run in runs)
    assert [h.ids for h in heard] == [counted(10 * n, 5) for n in range(4)]


def test_bad_parameters_of_a_run(chat: Chat) -> None:
    with chat().session(callbacks=callbacks()) as session:
        with pytest.raises(ParamInvalid, match="max_new_tokens is 0"):
            session.run(TokenInput([1]), InferParams(max_new_tokens=0))
        for wrong in ("text", [], [PromptInput("a"), PromptInput("b")], TokenInput([]), TokenInput([-1])):
            with pytest.raises(InputInvalid):
                session.run(wrong)


def test_internal_memory_of_a_vision_model_and_its_llm(chat: Chat, start: Callable[..., Any]) -> None:
    from rknnlite_rknn3rt.device_memory import share_internal

    llm = chat(user_internal=True)
    vision = start(*CNN, "internal 2048", user_internal=True)
    assert [(m.core_id, m.size) for m in share_internal(vision, llm)] == [(0, 2048), (1, 1024)]
    assert vision.infer(np.zeros((1, 4, 6, 3), np.uint8))[0].shape == (1, 72)
    with llm.session(callbacks=callbacks()) as session:
        session.run(TokenInput([1]), FEW)


def test_after_a_fork_the_child_owns_nothing(chat: Chat, double: Double3) -> None:
    context = chat()
    double.latency(300)
    session = context.session(callbacks=callbacks())
    run = session.run_async(TokenInput([1]), ENDLESS)
    child = os.fork()
    if child == 0:  # no assert in here: the child must not run pytest's machinery
        try:
            session.close()
            context.close()
            session.run(TokenInput([1]))
        except ContextInvalid:
            os._exit(0 if double.count("rknn3_session_destroy") == 0 else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    session.stop()
    assert run.result(60).state is CallState.STOP


def test_a_session_that_is_dropped(chat: Chat, double: Double3) -> None:
    context = chat()
    session = context.session(callbacks=callbacks())
    session.run(TokenInput([1]), FEW)
    del session
    assert "sessions" not in double.live()


def test_a_model_that_is_dropped(double: Double3) -> None:
    session = open_llm(model(*LLM)).session(callbacks=callbacks())
    session.run(TokenInput([1]), FEW)
    assert double.live() == {"contexts": 1, "sessions": 1}
    del session
    assert double.live() == {}


@pytest.mark.parametrize("options", [{"priorty": 1}, {"priority": "bogus"}, {"priority": "high"}])
def test_options_that_mean_nothing_are_refused(chat: Chat, options: dict[str, Any]) -> None:
    with pytest.raises(ParamInvalid, match="priority"):
        chat(**options)


# -- whole conversations -------------------------------------------------------------------------------------

TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]


def test_a_whole_conversation_is_rendered_here(chat: Chat) -> None:
    needs("jinja2")
    heard = Heard()
    with chat("generate echo").session(callbacks=callbacks(result=heard)) as session:
        session.run(MessagesInput(TALK))
    assert heard.text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_the_next_turn_hands_over_what_is_new(chat: Chat) -> None:
    needs("jinja2")
    heard = Heard()
    with chat("generate echo").session(callbacks=callbacks(result=heard)) as session:
        first = session.run(MessagesInput(TALK))
        said = {"role": "assistant", "content": heard.text}
        talk = [*TALK, said, {"role": "user", "content": "And?"}]
        held = session.state().n_total_tokens
        assert session.cached(session.rendered(MessagesInput(talk))) == held
        second = session.run(MessagesInput(talk))
        assert first.n_cached_tokens == 0
        assert second.n_cached_tokens == held == first.n_prefill_tokens + first.n_decode_tokens
        new = len("<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n")
        assert second.n_prefill_tokens == new


def test_another_conversation_begins_with_an_empty_cache(chat: Chat) -> None:
    needs("jinja2")
    with chat("generate echo").session(callbacks=callbacks()) as session:
        session.run(MessagesInput(TALK))
        other = session.run(MessagesInput([{"role": "user", "content": "Who?"}]))
    assert other.n_cached_tokens == 0
    assert other.n_prefill_tokens == len("<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n")


def test_after_other_inputs_nothing_is_known_of_the_cache(chat: Chat) -> None:
    tokens = [65, 66, 67]
    with chat("generate echo").session(callbacks=callbacks()) as session:
        session.run(TokenInput(tokens, whole=True))
        assert session.cached([*tokens, *tokens, 68]) == 6
        session.run(TokenInput([70]), InferParams(keep_history=True))
        assert session.cached([*tokens, *tokens, 68]) == 0


def test_a_tool_is_offered_by_the_template_that_was_set(chat: Chat) -> None:
    heard = Heard()
    with chat("generate echo").session(callbacks=callbacks(result=heard)) as session:
        session.set_chat_template("S", "<", ">")
        session.run(MessagesInput(TALK, tools=[{"name": "f"}]))
    assert heard.text.startswith("S<You can call") and '{"name": "f"}' in heard.text


def test_embeddings_of_texts_are_the_last_hidden_state(chat: Chat, version: str) -> None:
    context = chat()
    with pytest.raises(
        ModelUnsupported, match="converted for GENERATE and has the outputs logits, last_hidden;"
    ):
        context.embed([[1]], embed)
    engine = context._engine
    engine._config = replace(engine.config, task_type=TaskType.EMBEDDING)
    hidden = engine.output_tensors[1]
    engine.output_tensors[1] = replace(hidden, native=replace(hidden.native, name="last_hidden_state"))
    if version == "1.0.0":
        with pytest.raises(ParamInvalid, match=r"prefill_only needs runtime 1\.0\.4"):
            context.embed([[1]], embed)
        return
    found = context.embed([[7], [1, 2, 3]], embed)
    assert found.shape == (2, HIDDEN) and found.dtype == np.float32
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    assert found[:, 0].tolist() == [1, 1] and not found[:, 1:].any(), "the double shows the next token first"
    engine._config = replace(engine.config, embedding_dim=HIDDEN // 2)
    with pytest.raises(RknnError):
        context.embed([[7]], embed)
