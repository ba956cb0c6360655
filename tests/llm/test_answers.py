"""Answers taken apart: thoughts, content, calls of every family, in pieces of any size."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rknnlite_llm.answers import AnswerFormat, AnswerParser, AnswerPart, PartKind, answer_format, formats

from tests.llm.written_answers import WRITERS, calls_of, deepseek, hermes, read, said

EXAMPLE = Path(__file__).parents[2] / "examples" / "llm_chat"
REASONING, CONTENT, CALL, ARGUMENTS = PartKind
Writer = Callable[[Sequence[tuple[str, dict[str, Any]]]], str]

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="<>`|\uff5c"), max_size=12)
KEYS = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.floats(-1e6, 1e6), TEXTS)
VALUES = st.recursive(
    PLAIN, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=3), max_leaves=6
)
CALLS = st.lists(st.tuples(KEYS, st.dictionaries(KEYS, VALUES, max_size=3)), min_size=1, max_size=3)
CUTS = st.lists(st.integers(0, 400), max_size=12)
FORMS = [formats.HERMES, formats.CODER, formats.LLAMA, formats.MISTRAL, formats.GEMMA, formats.FUNCTION_GEMMA, formats.GEMMA4,
         formats.DEEPSEEK, formats.PHI, formats.HARMONY, formats.GENERAL]  # fmt: skip
PIECES = [
    "<tool_call>", "</tool_call>", "<function=f>", "<parameter=a>", "</parameter>", "</function>", "[TOOL_CALLS]",
    "[ARGS]", "[", "]", "{", "}", '"name"', '"arguments"', ":", ",", '"f"', "f", "{}", '{"a": 1}', "(a=1)", "\n", " ",
    '{"name": "f", "arguments": {"a": 1}}', '{"name": "f", "parameters": {', "<think>", "</think>", "[THINK]", "```",
    "```tool_code\n", "```json", "<|python_tag|>", ";", "<start_function_call>", "call:f{", "<escape>", "<|tool_call>",
    "<end_function_call>", "<|channel|>", "analysis", "final", "<|message|>", "<|end|>", "<|call|>", "<|start|>",
    "commentary to=functions.f", "text", "<", "\\", '"', *formats.DEEPSEEK.openings[:2], *formats.DEEPSEEK.closings[:3],
    "<|tool_call|>", "<|/tool_call|>", " to=functions.g", "\u00e4",
]  # fmt: skip


def _cut(text: str, cuts: Sequence[int]) -> list[str]:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return [text[a:b] for a, b in zip(places, places[1:])]


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.__name__)
@given(calls=CALLS, cuts=CUTS)
def test_calls_as_a_family_writes_them_are_read_back(writer: Writer, calls: Any, cuts: Any) -> None:
    if writer.__name__ in ("coder", "function_gemma", "gemma4", "gemma_list", "gemma_code"):
        calls = [(name, {k: v for k, v in given.items() if _plain(v)}) for name, given in calls]
    found = read(WRITERS[writer], _cut(writer(calls), cuts), _tools(calls))
    assert calls_of(found) == calls
    assert said(found) == ""
    assert [part.call for part in found if part.kind is CALL] == list(range(len(calls)))


def _plain(value: Any) -> bool:
    """Whether a writing without JSON's quotes carries it: short of its typed text, of blanks at its ends."""
    return (
        isinstance(value, (bool, int, float, str))
        and str(value).strip() == str(value)
        and str(value).isprintable()
    )


def _tools(calls: Any) -> list[dict[str, Any]]:
    """What makes texts texts."""
    tools: dict[str, Any] = {}
    for name, given_ in calls:
        known = tools.setdefault(name, {})
        known.update({k: {"type": "string"} for k, v in given_.items() if isinstance(v, str)})
    return [
        {"type": "function", "function": {"name": n, "parameters": {"properties": p}}}
        for n, p in tools.items()
    ]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=14),
    cuts=CUTS,
    thinking=st.booleans(),
    tools=st.booleans(),
)
@settings(max_examples=3 * settings.default.max_examples)
def test_how_a_text_is_cut_changes_nothing(
    form: AnswerFormat, pieces: list[str], cuts: list[int], thinking: bool, tools: bool
) -> None:
    text = "".join(pieces)
    whole = read(form, [text], tools, thinking)
    assert read(form, _cut(text, cuts), tools, thinking) == whole
    assert read(form, list(text), tools, thinking) == whole


@pytest.mark.parametrize(
    "form", [form for form in FORMS if form is not formats.HARMONY], ids=lambda form: form.name
)
@given(text=st.text(st.characters(codec="utf-8", exclude_characters="{[<`"), max_size=80), cuts=CUTS)
@settings(deadline=None)
def test_text_without_markers_is_content_to_the_letter(
    form: AnswerFormat, text: str, cuts: list[int]
) -> None:
    assert said(read(form, _cut(text, cuts))) == text


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>oops</tool_call>", '<tool_call>{"name": 5}</tool_call>', "<tool_call>{broken}</tool_call>",
        '<tool_call>{"name": "f", "arguments": {broken}}</tool_call>', "<tool_call>", "<tool_ca",
        '<tool_call>{"name": "f", "arguments": [1]}</tool_call>', "<tool_cakes>{}</tool_cakes>", '{"name": "f"',
        '<tool_call>{"nome": "f", "arguments": {}}</tool_call>', "[1, 2]", "a < b", "[TOOL_CALLS", "[TOOL_CALLS]?",
        '{"name": "Ann", "age": 5}', '{"name": "Ann"}', "```tool_code\nimport os\n```", "[f(a=x)]", "[f(a=1)",
        "<function=f>text", "<start_function_call>call:f{a:}<end_function_call>", "```json\n[1]\n```",
        "```tool_code\nf(a=1e999)\n```", "[f(1)]",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "form",
    [formats.CODER, formats.LLAMA, formats.GEMMA, formats.GENERAL],
    ids=lambda form: form.name,
)
def test_what_looks_like_a_call_and_is_none_is_content(form: AnswerFormat, text: str) -> None:
    for pieces in ([text], list(text)):
        found = read(form, pieces)
        assert {part.kind for part in found} == {CONTENT}
        assert said(found) == text


@pytest.mark.parametrize("writer", ["gemma_code", "gemma_list"])
def test_names_that_python_keeps_for_itself(writer: str) -> None:
    """A train goes ``from`` somewhere; texts that look like it stay as they are."""
    (writes,) = (writes for writes in WRITERS if writes.__name__ == writer)
    calls = [
        ("as", {}),
        ("book", {"from": "Bonn, from=(import)", "class": 2, "to": 'is "in" ('}),
        ("g", {"a": 1}),
    ]
    found = read(WRITERS[writes], [writes(calls)], _tools(calls))
    assert calls_of(found) == calls


def test_a_failed_marker_hides_no_call_behind_it() -> None:
    found = read(formats.HERMES, ["<tool_call>no " + hermes([("f", {"a": 1})])])
    assert said(found) == "<tool_call>no"
    assert calls_of(found) == [("f", {"a": 1})]


def test_text_before_between_and_behind_calls() -> None:
    text = f"Let me see.\n{hermes([('f', {})])}\nAnd then\n{hermes([('g', {})])}\n\nDone."
    assert read(formats.HERMES, [text]) == [
        AnswerPart(CONTENT, "Let me see."), AnswerPart(CALL, "f", 0), AnswerPart(ARGUMENTS, "{}", 0),
        AnswerPart(CONTENT, "And then"), AnswerPart(CALL, "g", 1), AnswerPart(ARGUMENTS, "{}", 1),
        AnswerPart(CONTENT, "Done."),
    ]  # fmt: skip


def test_name_and_arguments_come_as_soon_as_they_are_certain() -> None:
    parser = AnswerParser(formats.HERMES, True)
    assert parser.push("Yes <b") == [AnswerPart(CONTENT, "Yes <b")]
    assert parser.push("<tool_") == []
    assert parser.push('call>\n{"name": "set_light", ') == []
    assert parser.push('"arguments": {"room": "ki') == [
        AnswerPart(CALL, "set_light", 0),
        AnswerPart(ARGUMENTS, '{"room": "ki', 0),
    ]
    assert parser.push('tchen"}}\n</tool_call>') == [AnswerPart(ARGUMENTS, 'tchen"}', 0)]
    assert parser.finish() == []


def test_the_model_s_own_text_of_arguments_is_kept() -> None:
    own = '{ "a" :1.50,"b":"\\u00e4\\/" }'
    found = read(formats.HERMES, [f'<tool_call>{{"name":"f","arguments":{own}}}</tool_call>'])
    assert said(found, ARGUMENTS) == own


def test_control_characters_in_texts_become_json() -> None:
    found = read(formats.HERMES, ['<tool_call>{"name":"f","arguments":{"a":"x\ny\t"}}</tool_call>'])
    assert calls_of(found) == [("f", {"a": "x\ny\t"})]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('{"arguments": {"a": 1}, "name": "f"}', {"a": 1}), ('{"name": "f"}', {}), ('{"name": "f", "arguments": null}', {}),
        ('{"name": "f", "arguments": "{\\"a\\": 1}"}', {"a": 1}), ('{"name": "f", "parameters": {"a": 1}, "id": "x"}', {"a": 1}),
        ('{"type": "function", "name": "f", "arguments": {"a": 1}}', {"a": 1}), ('{"name": "f", "arguments": {"a": 1}', {"a": 1}),
    ],
)  # fmt: skip
def test_variants_of_a_call_in_json(written: str, expected: dict[str, Any]) -> None:
    for pieces in ([f"<tool_call>{written}</tool_call>"], list(f"<tool_call>{written}</tool_call>")):
        found = read(formats.HERMES, pieces)
        assert calls_of(found) == [("f", expected)]
        assert said(found) == ""


def test_arguments_that_break_after_the_call_began_stay_the_model_s_words() -> None:
    found = read(formats.HERMES, ['<tool_call>{"name": "f", "arguments": {"a": }</tool_call> rest'])
    assert [(part.kind, part.text) for part in found] == [
        (CALL, "f"),
        (ARGUMENTS, '{"a": }'),
        (CONTENT, "rest"),
    ]


def test_without_tools_nothing_is_a_call() -> None:
    text = hermes([("f", {"a": 1})])
    assert read(formats.HERMES, [text], tools=False) == [AnswerPart(CONTENT, text)]


def test_bare_objects_are_calls_of_known_functions_only() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    person = '{"name": "Ann", "parameters": {"age": 5}}'
    assert said(read(formats.LLAMA, [person], tools)) == person
    assert calls_of(read(formats.LLAMA, [person.replace("Ann", "f")], tools)) == [("f", {"age": 5})]
    assert said(read(formats.LLAMA, ["See: " + person.replace("Ann", "f")], tools)).startswith("See: {")


def test_types_of_a_schema_decide_about_text_in_tags() -> None:
    tags = "<tool_call>\n<function=f>\n<parameter=a>\n5\n</parameter>\n<parameter=b>\n5\n</parameter>\n</function>\n</tool_call>"
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    assert calls_of(read(formats.CODER, [tags], tools)) == [("f", {"a": "5", "b": 5})]
    assert calls_of(read(formats.CODER, [tags])) == [("f", {"a": 5, "b": 5})]


@pytest.mark.parametrize(
    ("form", "text", "thinking", "reasoning", "content"),
    [
        (formats.HERMES, "<think>\nHm, 1.\n</think>\n\nYes.", False, "Hm, 1.", "Yes."),
        (formats.HERMES, "Hm.\n</think>\n\nYes.", True, "Hm.", "Yes."),
        (formats.HERMES, "Hm. It goes on", True, "Hm. It goes on", ""),
        (formats.HERMES, "<think>It goes on\n", False, "It goes on\n", ""),
        (formats.HERMES, "<think>\n\n</think>\n\nYes.", False, "", "Yes."),
        (formats.HERMES, "Write <think> and </think>.", False, "", "Write <think> and </think>."),
        (formats.MISTRAL, "[THINK]Hm.[/THINK]Yes.", False, "Hm.", "Yes."),
        (formats.GEMMA4, "<|channel>thought\nHm.\n<channel|>Yes.", False, "Hm.", "Yes."),
        (formats.DEEPSEEK, "Hm.\n</think>\nYes.", True, "Hm.", "Yes."),
        (formats.HARMONY, "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>",
         False, "Hm.", "Yes."),
        (formats.HARMONY, "<|channel|>analysis<|message|>Hm", False, "Hm", ""),
    ],
)  # fmt: skip
def test_thoughts(form: AnswerFormat, text: str, thinking: bool, reasoning: str, content: str) -> None:
    for tools in (True, False):
        for pieces in ([text], list(text)):
            found = read(form, pieces, tools, thinking)
            assert (said(found, REASONING), said(found)) == (reasoning, content)


def test_a_thought_and_then_calls() -> None:
    found = read(formats.DEEPSEEK, ["Hm.</think>\n\n" + deepseek([("f", {"a": 1})])], thinking=True)
    assert [part.kind for part in found] == [REASONING, CALL, ARGUMENTS]


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{{ '<tool_call>\\n{\"name\": ...}' }}<|im_start|>", "hermes"), ("<tool_call>\n<function=example>", "coder"),
        ("<|start_header_id|>{{ '<|python_tag|>' }}", "llama"), ("<|start_header_id|>", "llama"), ("[INST][TOOL_CALLS]", "mistral"),
        ("<start_of_turn>", "gemma"), ("<start_of_turn><start_function_call>", "functiongemma"), ("<|turn><|tool_call>", "gemma4"),
        (f"<tool_call>{formats.DEEPSEEK.openings[0]}", "deepseek"), ("<|start|><|channel|><|message|>", "harmony"),
        ("<|tool_call|>[", "phi"), ("{{ messages }}", "general"),
    ],
)  # fmt: skip
def test_a_template_tells_the_form(template: str, name: str) -> None:
    assert answer_format(template).name == name


def test_the_example_model_s_form() -> None:
    form = answer_format((EXAMPLE / "chat_template.jinja").read_text())
    written = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Lisbon"}}\n</tool_call>'
    assert calls_of(read(form, list(written))) == [("get_weather", {"city": "Lisbon"})]


@pytest.mark.parametrize(
    "text",
    ["[" * 50000, '<tool_call>{"name": "f", "arguments": {"a": ' + "[" * 50000, "[f(" + "-" * 50000 + "1)]"],
)
def test_depth_ends_nothing(text: str) -> None:
    before = time.perf_counter()
    for form in FORMS:
        found = read(form, [text])
        assert sum(len(part.text) for part in found) >= 50000
    assert time.perf_counter() - before < 20


@pytest.mark.parametrize(
    "opening", ["<start_function_call>call:f{", '<tool_call>{"', '[TOOL_CALLS]{"name":"', "```tool_code"]
)
def test_openings_again_and_again_are_content_in_no_time(opening: str) -> None:
    text = opening * 1500
    for form in (formats.GENERAL, formats.FUNCTION_GEMMA):
        before = time.process_time()
        assert said(read(form, [text])) == text
        assert time.process_time() - before < 5


def test_json_round_trip_of_every_value() -> None:
    call = ("f", {"a": [1, -2.5e-3, True, None, 'x"\\\n\u4e2d', {"b": {}}], "c": []})
    assert json.loads(said(read(formats.HERMES, list(hermes([call]))), ARGUMENTS)) == call[1]
