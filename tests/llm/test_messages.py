"""Whole conversations as input: what a template sees, and what of them the KV cache spares."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_llm import open_llm
from rknnlite_llm.chat_template import JinjaTemplate, LiteralTemplate
from rknnlite_llm.messages import checked_messages

from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.spi.llm import (
    ImageBlock,
    InferParams,
    LlmCallbacks,
    LlmContext,
    LlmParams,
    LlmSession,
    MessagesInput,
    PromptInput,
    VocabInfo,
)
from tests.llm.conftest import Maker, Recorder, embed_of
from tests.support.llm_models import HIDDEN, VOCAB
from tests.support.needs import needs

CHATML = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls %}{{ c.function.name }}({{ c.function.arguments.a }}){% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is 2 + 2?"},
    {"role": "assistant", "content": "4"},
    {"role": "user", "content": [{"type": "text", "text": "And "}, {"type": "text", "text": "3 + 3?"}]},
]
NEVER_ENDS = LlmParams(vocab=VocabInfo(ignore_eos_token=True))
SHORT = InferParams(max_new_tokens=6)


def characters(text: str) -> list[int]:
    return [ord(c) % VOCAB for c in text]


# -- rendering -----------------------------------------------------------------------------------------------


def test_a_template_sees_the_whole_conversation() -> None:
    needs("jinja2")
    rendered = JinjaTemplate(CHATML).conversation(MessagesInput(TALK), [])
    assert rendered.text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhat is 2 + 2?<|im_end|>\n"
        "<|im_start|>assistant\n4<|im_end|>\n<|im_start|>user\nAnd 3 + 3?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert rendered.text[: rendered.system] == "<|im_start|>system\nBe brief.<|im_end|>\n"


def test_a_template_sees_tool_calls_with_parsed_arguments() -> None:
    needs("jinja2")
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 5}'}}
    talk = [
        TALK[1],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "9"},
    ]
    text = JinjaTemplate(CHATML).conversation(MessagesInput(talk, tools=[{"name": "add"}]), []).text
    assert text.startswith('<|im_start|>system\n[{"name": "add"}]<|im_end|>\n')
    assert "<|im_start|>assistant\nadd(5)<|im_end|>\n<|im_start|>tool\n9<|im_end|>\n" in text


def test_tools_of_the_session_are_offered_unless_the_input_has_its_own() -> None:
    needs("jinja2")
    template = JinjaTemplate(CHATML)
    assert "mine" in template.conversation(MessagesInput(TALK), [{"name": "mine"}]).text
    assert "mine" not in template.conversation(MessagesInput(TALK, tools=[]), [{"name": "mine"}]).text


def test_arguments_reach_the_template_and_cannot_replace_the_messages() -> None:
    needs("jinja2")
    template = JinjaTemplate("{{ mood }}{{ messages | length }}{{ enable_thinking }}")
    said = MessagesInput(TALK, enable_thinking=True, arguments={"mood": "calm"})
    assert template.conversation(said, []).text == "calm4True"
    with pytest.raises(ParamInvalid, match="messages"):
        template.conversation(replace(said, arguments={"messages": []}), [])


def test_literal_text_tells_of_system_and_tools_in_front_of_the_first_prompt() -> None:
    text = LiteralTemplate("S", "<", ">", end="$").conversation(MessagesInput(TALK), [{"name": "f"}]).text
    assert text.startswith("S<You can call")
    assert text.endswith("Be brief.\n\nWhat is 2 + 2?>4$<And 3 + 3?>")
    assert '{"name": "f"}' in text


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ("hello", "messages are str"),
        ([], "empty"),
        (["hello"], r"messages\[0\] is str"),
        ([{"content": "x"}], r"messages\[0\]: role is None"),
        ([TALK[1], {"role": "robot", "content": "x"}], r"messages\[1\]: role is 'robot'"),
        ([{"role": "user"}], r"messages\[0\]: content is missing"),
        ([{"role": "user", "content": 5}], "content is 5"),
        ([{"role": "user", "content": [{"type": "smell"}]}], r"content\[0\] is"),
        ([{"role": "user", "content": "x", "tool_calls": [{}]}], "only assistants"),
        ([{"role": "assistant", "tool_calls": [{"function": {}}]}], r"tool_calls\[0\]"),
        ([{"role": "user", "content": "x", "name": 3}], "name is 3"),
    ],
)
def test_what_is_no_conversation_is_named_by_its_place(messages: Any, place: str) -> None:
    with pytest.raises(ParamInvalid, match=place):
        checked_messages(messages)


def test_text_of_arguments_that_is_no_object_stays_text() -> None:
    call = {"function": {"name": "f", "arguments": "{broken"}}
    checked = checked_messages([{"role": "assistant", "tool_calls": [call]}])
    assert checked[0]["tool_calls"][0]["function"]["arguments"] == "{broken"
    assert json.dumps(checked)


# -- the cache -----------------------------------------------------------------------------------------------


def answer(session: LlmSession, recorder: Recorder, said: MessagesInput) -> tuple[list[int], int, int]:
    before = len(recorder.tokens)
    summary = session.run(said, SHORT)
    return recorder.tokens[before:], summary.n_prefill_tokens, summary.n_cached_tokens


def fresh(context: LlmContext, package: Maker, said: MessagesInput) -> list[int]:
    recorder = Recorder()
    callbacks = LlmCallbacks(result=recorder, embed=embed_of(package()), tokenizer=characters)
    with context.session(NEVER_ENDS, callbacks) as session:
        session.set_chat_template("System: ", "U:", " A:")
        return answer(session, recorder, said)[0]


def test_a_later_turn_computes_what_is_new(
    session: LlmSession, recorder: Recorder, context: LlmContext, package: Maker
) -> None:
    session.set_chat_template("System: ", "U:", " A:")
    first, prefilled, cached = answer(session, recorder, MessagesInput(TALK[:2]))
    assert cached == 0 and prefilled == len("System: U:Be brief.\n\nWhat is 2 + 2? A:")
    said = "".join(chr(token) for token in first)  # characters are tokens here
    talk = [*TALK[:2], {"role": "assistant", "content": said}, TALK[3]]
    second, prefilled, cached = answer(session, recorder, MessagesInput(talk))
    assert cached == len("System: U:Be brief.\n\nWhat is 2 + 2? A:") + len(first) - 1
    assert second == fresh(context, package, MessagesInput(talk))


def test_another_conversation_keeps_the_common_beginning(
    session: LlmSession, recorder: Recorder, context: LlmContext, package: Maker
) -> None:
    session.set_chat_template("System: ", "U:", " A:")
    answer(session, recorder, MessagesInput(TALK[:2]))
    other = MessagesInput([TALK[0], {"role": "user", "content": "Who are you?"}])
    tokens, _, cached = answer(session, recorder, other)
    assert cached == len("System: U:Be brief.\n\nWh")
    assert tokens == fresh(context, package, other)


def test_the_same_again_computes_one_token(session: LlmSession, recorder: Recorder) -> None:
    first, prefilled, _ = answer(session, recorder, MessagesInput(TALK))
    again, computed, cached = answer(session, recorder, MessagesInput(TALK))
    assert (again, computed, cached) == (first, 1, prefilled - 1)


def test_a_turn_of_its_own_kind_forgets_as_before(session: LlmSession, recorder: Recorder) -> None:
    alone = session.run(PromptInput("hello"), SHORT).n_prefill_tokens
    session.run(MessagesInput(TALK), SHORT)
    assert session.run(PromptInput("hello"), SHORT).n_prefill_tokens == alone


@pytest.mark.parametrize(("kvcache", "kept"), [("f16", 30), ("int8", 16), ("int4", 16)])
def test_quantised_caches_give_what_they_would_give_afresh(package: Maker, kvcache: str, kept: int) -> None:
    made = package("qwen3", "f32", kvcache)  # whose heads are as wide as a group
    system = {"role": "system", "content": "Be brief, whatever they ask."}
    first = [system, TALK[1]]
    other = [system, {"role": "user", "content": "How are you, and what is the time there?"}]
    found = []
    for earlier in ([], [first]):
        recorder = Recorder()
        callbacks = LlmCallbacks(result=recorder, embed=embed_of(made), tokenizer=characters)
        with open_llm(made.model, backend="cpu", prefill_chunk=1) as opened:
            session = opened.session(NEVER_ENDS, callbacks)
            for talk in earlier:
                session.run(MessagesInput(talk), SHORT)
            found.append(answer(session, recorder, MessagesInput(other)))
    (alone, _, none), (behind, _, cached) = found
    assert (none, cached) == (0, kept)
    assert behind == alone


def test_a_saved_cache_serves_the_same_conversation(
    session: LlmSession, context: LlmContext, recorder: Recorder, tmp_path: Path
) -> None:
    first = answer(session, recorder, MessagesInput(TALK))[0]
    session.save_kvcache(str(tmp_path / "talk.kv"))
    with context.session(NEVER_ENDS, session.callbacks) as other:
        other.load_kvcache(str(tmp_path / "talk.kv"))
        again, computed, _ = answer(other, recorder, MessagesInput(TALK))
    assert (again, computed) == (first, 1)


def test_a_full_ring_starts_over(context: LlmContext, recorder: Recorder, session: LlmSession) -> None:
    params = replace(NEVER_ENDS, max_context_len=64)
    with context.session(params, session.callbacks) as small:
        small.run(MessagesInput(TALK[1:2]), InferParams(max_new_tokens=100))
        _, computed, cached = answer(small, recorder, MessagesInput(TALK[1:2]))
    assert (computed, cached) == (len("What is 2 + 2?"), 0)


def picture(value: float) -> ImageBlock:
    return ImageBlock(np.full((2, HIDDEN), value, np.float32), 2, content="\x07")


def test_pictures_are_reused_when_they_are_the_same(session: LlmSession, recorder: Recorder) -> None:
    talk = [{"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": " What is it?"}]}]
    first = answer(session, recorder, MessagesInput(talk, image=picture(0.5)))[0]
    again, computed, _ = answer(session, recorder, MessagesInput(talk, image=picture(0.5)))
    assert (again, computed) == (first, 1)
    _, computed, cached = answer(session, recorder, MessagesInput(talk, image=picture(0.25)))
    assert cached == 0 and computed == 2 + len(" What is it?")


def test_a_picture_without_its_data_is_an_error(session: LlmSession) -> None:
    talk = [{"role": "user", "content": [{"type": "image_url"}]}]
    with pytest.raises(InputInvalid, match="1 tags <image>, the input 0"):
        session.run(MessagesInput(talk))
