"""Answers with tools from the example model, and what of its tokens is seen."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from rknnlite_llm import Chat, Package, Tokenizer
from rknnlite_llm.answers import (
    Answer,
    PartKind,
    answer_decoder,
    answer_format,
    can_think,
    ends_in_thought,
    formats,
    special_token,
)
from rknnlite_llm.chat_template import JinjaTemplate

from rknnlite.spi.llm import CallState, MessagesInput
from tests.support.needs import needs

EXAMPLE = Path(__file__).parents[2] / "examples" / "llm_chat"
TINY = EXAMPLE / "models" / "tiny"
ASKED: list[dict[str, Any]] = [{"role": "user", "content": "What is the weather in Lisbon?"}]


@pytest.fixture
def chat() -> Iterator[Chat]:
    needs("jinja2")
    with Chat(TINY) as made:
        yield made


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    sys.modules.pop("questions", None)
    from questions import TOOLS

    return list(TOOLS)


def test_a_call_its_result_and_the_answer(chat: Chat, tools: list[dict[str, Any]]) -> None:
    called = chat.answer(ASKED, tools)
    assert (called.content, called.reasoning) == ("", "")
    assert [(call.name, call.arguments) for call in called.calls] == [("get_weather", {"city": "Lisbon"})]
    assert str(called.calls[0]) == "get_weather(city='Lisbon')"
    assert chat.last is not None and chat.last.state is CallState.FINISH
    spoken = chat.last.n_prefill_tokens + chat.last.n_decode_tokens
    result = {"role": "tool", "content": '{"sky": "rainy", "degrees": 14}'}
    answer = chat.answer([*ASKED, called.message, result], tools)
    assert (answer.content, answer.calls) == ("It is rainy in Lisbon at 14 degrees.", [])
    assert chat.last.n_cached_tokens >= spoken - 1  # the call is in the cache as the model wrote it


def test_parts_come_while_the_model_speaks_and_the_loop_may_be_left(
    chat: Chat, tools: list[dict[str, Any]]
) -> None:
    kinds = [part.kind for part in chat.parts(ASKED, tools)]
    assert kinds[0] is PartKind.CALL and kinds.count(PartKind.ARGUMENTS) > 2
    for _ in chat.parts(ASKED, tools):
        break
    assert chat.answer([{"role": "user", "content": "What is 47 + 38?"}]).content == "47 + 38 = 85"


def test_without_tools_a_call_is_text(chat: Chat) -> None:
    said = [{"role": "user", "content": "Wake me in 25 minutes."}]
    assert chat.answer(said).calls == []


def test_a_stopped_run_does_not_end_the_next_rendering(chat: Chat) -> None:
    for _ in chat.stream("What is 47 + 38?"):
        break
    assert chat.session.rendered(MessagesInput(ASKED))


def test_a_template_that_knows_no_calls_is_given_them_as_text() -> None:
    needs("jinja2")
    template = JinjaTemplate("{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}")
    call = {"type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    talk = [*ASKED, {"role": "assistant", "content": "Hm.", "tool_calls": [call]}]
    text = template.conversation(MessagesInput(talk), []).text
    assert text.endswith('assistant:Hm.\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>;')


class Words:
    """A tokenizer of whole words."""

    def __init__(self) -> None:
        self.special = {"<eot>": 0, "<pad>": 1, "[TOOL_CALLS]": 2, "[THINK]": 3, "[/THINK]": 4}
        self.words = [*self.special, "a", "b"]

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        return "".join(self.words[i] for i in ids if not (skip_special and i < len(self.special)))


def test_markers_are_seen_and_other_special_tokens_are_not() -> None:
    words, ids = Words(), [3, 5, 4, 6, 1, 2, 5, 0]
    assert answer_decoder(words, formats.MISTRAL)(ids) == "[THINK]a[/THINK]b[TOOL_CALLS]a"
    assert answer_decoder(words, formats.MISTRAL, tools=False)(ids) == "[THINK]a[/THINK]ba"
    assert answer_decoder(words, formats.HERMES)(ids) == "aba"
    assert special_token(words)("[TOOL_CALLS]") == 2
    assert special_token(words)("a") is None


def test_special_tokens_of_a_tokenizer() -> None:
    tokenizer = Tokenizer(Package.of(str(TINY)).tokenizer)
    assert tokenizer.special == {"<|endoftext|>": 0, "<|im_start|>": 1, "<|im_end|>": 2}
    ids = tokenizer.encode("a<|im_end|>b")
    assert answer_decoder(tokenizer, formats.HERMES)(ids) == "ab"


@pytest.mark.parametrize(
    ("form", "prompt", "inside"),
    [
        (formats.HERMES, "<|im_start|>assistant\n<think>\n", True), (formats.HERMES, "<think>\n\n</think>\n\n", False),
        (formats.MISTRAL, "[/INST][THINK]", True), (formats.GEMMA4, "<|channel>thought\n", True),
        (formats.HARMONY, "assistant", False),
        (formats.HARMONY, "<|start|>assistant<|channel|>analysis<|message|>", True),
    ],
)  # fmt: skip
def test_a_prompt_may_end_inside_of_a_thought(form: Any, prompt: str, inside: bool) -> None:
    assert ends_in_thought(form, prompt) is inside


def test_an_answer_as_a_message() -> None:
    from rknnlite_llm.answers import AnswerPart, ToolCall

    answer = Answer.of([
        AnswerPart(PartKind.REASONING, "Hm."), AnswerPart(PartKind.CONTENT, "Yes"), AnswerPart(PartKind.CALL, "f", 0),
        AnswerPart(PartKind.ARGUMENTS, '{"a"', 0), AnswerPart(PartKind.ARGUMENTS, ": 1}", 0),
    ])  # fmt: skip
    assert answer == Answer("Yes", "Hm.", [ToolCall("f", '{"a": 1}')])
    function = {"name": "f", "arguments": '{"a": 1}'}
    assert answer.message == {
        "role": "assistant", "content": "Yes", "reasoning_content": "Hm.",
        "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
    }  # fmt: skip
    assert str(ToolCall("f", '{"a": ')) == 'f({"a": )'


@pytest.mark.parametrize(
    ("template", "able"),
    [
        ("{% if enable_thinking %}<think>{% endif %}", True),
        ("{{ messages }}", False),
        ("...'[THINK]'...[TOOL_CALLS]", True),
    ],
)
def test_a_template_tells_whether_its_model_can_think(template: str, able: bool) -> None:
    assert can_think(answer_format(template), template) is able
