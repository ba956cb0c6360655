"""Bad input: every mistake has an error of its own that names the numbers, and the session lives on."""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rknnlite_llm import Chat, EmbedTable, open_llm

import rknnlite
from rknnlite.errors import ContextInvalid, InputInvalid, ModelInvalid, ModelUnsupported, ParamInvalid
from rknnlite.spi.llm import (
    AudioBlock,
    AuxInput,
    CallState,
    EmbedInput,
    ImageBlock,
    InferParams,
    KvPolicy,
    LlmCallbacks,
    LlmContext,
    LlmParams,
    LlmSession,
    MessagesInput,
    MultimodalInput,
    PromptInput,
    TokenInput,
    VideoBlock,
    VocabInfo,
)
from tests.llm.conftest import Maker, Recorder, embed_of
from tests.support.interrupts import alarmed
from tests.support.llm_models import HIDDEN, VOCAB

FEW = InferParams(max_new_tokens=3)
ROWS = np.zeros((4, HIDDEN), np.float16)


@pytest.mark.parametrize(
    ("inputs", "match"),
    [
        (TokenInput([1, VOCAB]), "token id 160"),
        (TokenInput([-1]), "token id -1"),
        (TokenInput([]), "one or more"),
        (TokenInput([0.5]), "one or more"),
        (TokenInput([1] * 1025), "1025 tokens long, the context holds 1024"),
        (EmbedInput(np.zeros((2, HIDDEN + 1), np.float16)), r"needed is float16 \[n_tokens, 32\]"),
        (EmbedInput(np.zeros((2, HIDDEN), np.int32)), "int32"),
        (EmbedInput(np.stack([ROWS, ROWS])), r"gave \[2, 4, 32\]; a run takes one sequence"),
        (EmbedInput([[0.0], [0.0, 0.0]]), "inhomogeneous"),
        (TokenInput([[1], [1, 2]]), "inhomogeneous"),
        (EmbedInput(np.full((2, HIDDEN), np.nan, np.float32)), "not finite"),
        ([PromptInput("a"), EmbedInput(ROWS)], "PROMPT, EMBED"),
        ([], "none"),
        ([AuxInput(2, ROWS)], "none"),
        ([TokenInput([1]), AuxInput(2, ROWS)], "no auxiliary input 2"),
        (PromptInput(b"bytes"), "bytes, not str"),
        ("text", "str is no LLM input"),
        (MultimodalInput("no data <image>"), "without image"),
        (MultimodalInput(image=ImageBlock(ROWS, 4)), "needs a prompt or tokens"),
        (MultimodalInput("no tag", image=ImageBlock(ROWS, 4, content="c")), "0 tags <image>, the input 1"),
        (MultimodalInput("<image><image>", image=ImageBlock(ROWS, 4, content="c")), "2 tags <image>"),
        (MultimodalInput("<image><audio>", image=ImageBlock(ROWS, 4, content="c")), "1 tags <audio>"),
        (MultimodalInput("<image>", image=ImageBlock(ROWS, 4)), "set content"),
        (MultimodalInput("<image>", image=ImageBlock(ROWS, 4, content="cc")), "must be one"),
        (MultimodalInput("c<image>", image=ImageBlock(ROWS, 4, content="c")), "5 times"),
        (MultimodalInput("<image>", image=ImageBlock(ROWS[:3], 4, content="c")), "3 rows for 4"),
    ],
)
def test_inputs_that_do_not_fit(session: LlmSession, inputs: object, match: str) -> None:
    with pytest.raises(InputInvalid, match=match):
        session.run(inputs, FEW)
    assert session.run(TokenInput([1]), FEW).n_decode_tokens == 3


def test_multimodal_embeddings_take_the_places_of_their_markers(
    session: LlmSession, package: Maker, recorder: Recorder
) -> None:
    embed = embed_of(package())
    rows = embed(np.array([11, 12, 13, 14]))
    block = ImageBlock(rows.reshape(1, 2, 2, HIDDEN), 2, n_image=2, start="(", end=")", content="#")
    session.run(MultimodalInput("a<image>b<image>c", image=block), FEW)
    tokens = [ord(c) for c in "a(..)b(..)c"]
    tokens[2:4], tokens[7:9] = [11, 12], [13, 14]
    session.run(TokenInput(tokens), FEW)
    assert recorder.tokens[:3] == recorder.tokens[3:]


def test_audio_and_video_beside_an_image(session: LlmSession, package: Maker, recorder: Recorder) -> None:
    rows = embed_of(package())(np.arange(10, 21))
    media = MultimodalInput(
        "<video>x<audio>y<image>",
        image=ImageBlock(rows[:2], 2, content="#"),
        audio=AudioBlock(rows[2:5], 3, start="[", content="%"),
        video=VideoBlock(rows[5:], 3, 2, end="]", content="&"),
    )
    session.run(media, FEW)
    marks = [0, 0, 0, 0, 0, 0, *b"]x[", 0, 0, 0, *b"y", 0, 0]
    ids = iter([15, 16, 17, 18, 19, 20, 12, 13, 14, 10, 11])
    session.run(TokenInput([mark or next(ids) for mark in marks]), FEW)
    assert recorder.tokens[:3] == recorder.tokens[3:]


@pytest.mark.parametrize("wrong", [0, -5, "7", None, 1.5])
def test_max_new_tokens_must_be_positive(session: LlmSession, wrong: object) -> None:
    with pytest.raises(ParamInvalid, match=f"max_new_tokens is {wrong!r}"):
        session.run(TokenInput([1]), InferParams(max_new_tokens=wrong))


def test_history_that_fills_a_normal_cache(context: LlmContext, package: Maker) -> None:
    session = context.session(LlmParams(max_context_len=32), LlmCallbacks(embed=embed_of(package())))
    session.set_kvcache_policy(KvPolicy.NORMAL)
    session.run(TokenInput(range(30)), replace(FEW, prefill_only=True))
    with pytest.raises(InputInvalid, match="3 tokens long, the context holds 32 of which 30 are taken"):
        session.run(TokenInput([1, 2, 3]), replace(FEW, keep_history=True))


def test_missing_callbacks_are_named(context: LlmContext) -> None:
    with pytest.raises(ParamInvalid, match="embed callback"):
        context.session().run(TokenInput([1]))
    with pytest.raises(ParamInvalid, match="tokenizer callback"):
        context.session().run(PromptInput("hello"))
    with pytest.raises(ParamInvalid, match="cannot be called"):
        context.session(callbacks=LlmCallbacks(result="print"))


@pytest.mark.parametrize(
    ("name", "answer", "match"),
    [
        ("result", lambda *_: "well", "result callback returned 'well'"),
        ("result", lambda *_: -1, "result callback returned -1"),
        ("tokenizer", lambda text: None, "tokenizer callback returned None"),
        ("tokenizer", lambda text: [], "one or more"),
        ("tokenizer", lambda text: [VOCAB], "token id 160"),
        ("embed", lambda tokens: None, "embed callback"),
        ("embed", lambda tokens: np.zeros((1, HIDDEN), np.float16), "1 rows for 2 tokens"),
        ("sampling", lambda logits, name: None, "sampling callback returned None"),
        ("sampling", lambda logits, name: -1, "sampling callback chose token -1"),
        ("output", lambda outputs, state: 3, "output callback returned 3"),
    ],
)
def test_callbacks_that_return_nonsense(
    context: LlmContext, package: Maker, name: str, answer: object, match: str
) -> None:
    good = LlmCallbacks(embed=embed_of(package()), tokenizer=lambda text: [1, 2], outputs=(0,))
    session = context.session(callbacks=replace(good, **{name: answer}))
    with pytest.raises((ParamInvalid, InputInvalid), match=match):
        session.run(PromptInput("hi"), FEW)


@pytest.mark.parametrize("name", ["result", "tokenizer", "embed", "sampling", "output"])
def test_an_exception_in_a_callback_reaches_the_caller_with_its_own_traceback(
    context: LlmContext, package: Maker, name: str
) -> None:
    def my_mistake(*_: object) -> None:
        raise ZeroDivisionError("mine")

    recorder = Recorder()
    good = LlmCallbacks(recorder, embed=embed_of(package()), tokenizer=lambda text: [1, 2], outputs=(0,))
    session = context.session(callbacks=replace(good, **{name: my_mistake}))
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        session.run(PromptInput("hi"), FEW)
    assert caught.traceback[-1].name == "my_mistake"
    if name != "result":
        assert recorder.states == [CallState.ERROR]
    with pytest.raises(ZeroDivisionError):
        session.run_async(PromptInput("hi"), FEW).result(30)
    session.set_callbacks(good)
    assert session.run(PromptInput("hi"), FEW).n_decode_tokens > 0


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.run(TokenInput([1])),
        lambda s: s.run_async(TokenInput([1])),
        lambda s: s.clear_kvcache(),
        lambda s: s.close(),
        lambda s: s.set_kvcache_policy(KvPolicy.NORMAL),
    ],
)
def test_calling_back_into_the_session_is_refused(context: LlmContext, package: Maker, call) -> None:
    def result(tokens, state) -> None:
        if state == CallState.NORMAL:
            call(session)

    session = context.session(callbacks=LlmCallbacks(result, embed=embed_of(package())))
    with pytest.raises(ContextInvalid, match="inside a callback"):
        session.run(TokenInput([1]), FEW)
    session.close()


def test_running_another_session_from_a_callback_is_refused(context: LlmContext, package: Maker) -> None:
    embed = embed_of(package())
    other = context.session(callbacks=LlmCallbacks(embed=embed))
    session = context.session(
        callbacks=LlmCallbacks(lambda *_: other.run(TokenInput([1])) and None, embed=embed)
    )
    with pytest.raises(ContextInvalid, match="callback of another session"):
        session.run(TokenInput([1]), FEW)


def test_two_threads_on_one_session(context: LlmContext, package: Maker) -> None:
    began, go_on = threading.Event(), threading.Event()

    def hold(tokens, state) -> None:
        began.set()
        go_on.wait(30)

    session = context.session(callbacks=LlmCallbacks(hold, embed=embed_of(package())))
    run = session.run_async(TokenInput([1]), FEW)
    began.wait(30)
    with pytest.raises(ContextInvalid, match="in use by another thread"):
        session.run(TokenInput([1]), FEW)
    assert session.state().n_prefill_tokens == 1
    go_on.set()
    run.result(30)
    session.run(TokenInput([1]), FEW)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        (LlmParams(vocab=VocabInfo(vocab_size=VOCAB + 1)), "vocab_size is 161"),
        (LlmParams(vocab=VocabInfo(special_eos_ids=(VOCAB,))), "special token 160"),
        (LlmParams(max_context_len=5000), "max_context_len is 5000"),
        (LlmParams(max_context_len=-1), "max_context_len is -1"),
        (LlmParams(logits_name="other"), "the model has one"),
        ([], "the model has one"),
    ],
)
def test_parameters_that_do_not_fit(context: LlmContext, params: object, match: str) -> None:
    with pytest.raises(ParamInvalid, match=match):
        context.session(params)


def test_settings_that_do_not_fit(session: LlmSession) -> None:
    with pytest.raises(ParamInvalid, match="n_keep is 1024"):
        session.set_kvcache_policy(KvPolicy.RECURRENT, n_keep=1024)
    with pytest.raises(ParamInvalid, match="KvPolicy"):
        session.set_kvcache_policy(9)
    with pytest.raises(ParamInvalid, match="KvClear"):
        session.clear_kvcache(9)
    with pytest.raises(ParamInvalid, match="no JSON"):
        session.set_function_tools("{")
    with pytest.raises(ParamInvalid, match="JSON list"):
        session.set_function_tools("{}")
    with pytest.raises(ParamInvalid, match="list, must be JSON text"):
        session.set_function_tools([])
    with pytest.raises(ParamInvalid, match="prefix of the chat template is bytes"):
        session.set_chat_template("", b"", "")
    session.run(TokenInput([1]), FEW)
    with pytest.raises(ContextInvalid, match="cannot change from 1024 to 32"):
        session.set_llm_param(LlmParams(max_context_len=32))
    with pytest.raises(ParamInvalid, match="outputs"):
        session.set_callbacks(LlmCallbacks(outputs=(2,)))
    with pytest.raises(ParamInvalid, match="role"):
        session.run(PromptInput("x", role="system"))


def test_core_masks_must_name_as_many_cores_as_the_model_has(package: Maker) -> None:
    for mask in (0x0F, 0x1FF, -1):
        with pytest.raises(ParamInvalid, match="npu core number 8"):
            open_llm(package().model, core_mask=mask)
    open_llm(package().model, core_mask=0xFF).close()


def test_weights_of_another_model(package: Maker, tmp_path: Path) -> None:
    with pytest.raises(ModelInvalid, match="belongs to package"):
        open_llm(package("qwen2").model, package("qwen3").weight)
    alone = tmp_path / "alone.rknn"
    shutil.copy(package().model, alone)
    with pytest.raises(ModelInvalid, match="weight file"):
        open_llm(alone)
    cut = tmp_path / "cut.weight"
    cut.write_bytes(package().weight.read_bytes()[:-64])
    with pytest.raises(ModelInvalid, match="cut or damaged"):
        open_llm(package().model, cut)


def test_embeddings_of_another_model(package: Maker) -> None:
    with pytest.raises(ModelInvalid, match="belongs to another model"):
        EmbedTable(package().embed, VOCAB + 1, HIDDEN)
    with pytest.raises(ModelInvalid, match="another model"):
        EmbedTable(package().embed, VOCAB, HIDDEN, sample="0" * 64)
    with pytest.raises(InputInvalid, match="token id 160"):
        embed_of(package())(np.array([VOCAB]))


def test_files_meet_the_wrong_door(package: Maker, tmp_path: Path) -> None:
    device = tmp_path / "device.rknn"
    device.write_bytes(b"RKNX" + bytes(100))
    with pytest.raises(ModelUnsupported, match="on its device"):
        open_llm(device)
    with pytest.raises(ModelUnsupported, match="LLM package"):
        rknnlite.open(package().model)
    network = sorted((Path(__file__).parents[1] / "data").glob("*.rknn"))[0]
    with pytest.raises(ModelUnsupported, match="not a language model"):
        open_llm(network)


def test_a_signal_handler_is_refused_or_right(context: LlmContext, package: Maker) -> None:
    """It runs the session that it interrupts, or another one of the same model."""
    seen: list[Recorder] = []

    def session() -> LlmSession:
        seen.append(Recorder())
        callbacks = LlmCallbacks(seen[-1], embed=embed_of(package()))
        return context.session(LlmParams(vocab=VocabInfo(ignore_eos_token=True)), callbacks)

    with session() as busy, session() as other:
        mine, its = seen

        def run(one: LlmSession, tokens: list[int]) -> None:
            one.run(TokenInput(tokens), FEW)
            one.clear_kvcache()

        def tokens_of(recorder: Recorder) -> list[int]:
            found, recorder.calls = recorder.tokens, []
            return found

        run(busy, [1, 2, 3])
        run(other, [4, 5])
        wanted, others = tokens_of(mine), tokens_of(its)

        def ask() -> None:
            # a list of its own: what is interrupted may be reading this one
            before, mine.calls = mine.calls, []
            with suppress(ContextInvalid):  # none in the middle of a run
                run(busy, [4, 5])
            mine.calls = before
            run(other, [4, 5])
            assert tokens_of(its) == others

        def work() -> None:
            run(busy, [1, 2, 3])
            assert tokens_of(mine) == wanted

        assert alarmed(work, ask) >= 10


def test_a_signal_handler_in_the_middle_of_a_chat(example: Path) -> None:
    """Templates, tokenizer and session: whatever is interrupted."""
    pytest.importorskip("jinja2", reason="needs the package jinja2 (extra llm)")
    sum_of_five, sum_of_eight = ([{"role": "user", "content": f"What is {n} + 3?"}] for n in (2, 5))
    with Chat(example) as chat, Chat(example) as other:
        wanted, others = (chat.ask(said, max_new_tokens=4) for said in (sum_of_five, sum_of_eight))

        def ask() -> None:
            assert other.session.rendered(MessagesInput(sum_of_eight))
            assert other.ask(sum_of_eight, max_new_tokens=4) == others
            assert chat.ask(sum_of_eight, max_new_tokens=4) == others

        def work() -> None:
            assert chat.ask(sum_of_five, max_new_tokens=4) == wanted

        assert alarmed(work, ask) >= 10
