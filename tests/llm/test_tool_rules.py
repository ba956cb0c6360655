"""Grammars for answers with tools: what a family writes passes, arguments that break their schema do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import pytest
from rknnlite_llm.answers import answer_format, formats, tool_rule
from rknnlite_llm.constraints import Choice, Gbnf, JsonObject, JsonSchema, Lark, Regex, Rule

from rknnlite.errors import ParamInvalid
from tests.llm.written_answers import (
    coder,
    deepseek,
    deepseek_fenced,
    function_gemma,
    gemma4,
    harmony,
    hermes,
    llama,
    mistral,
    mistral_args,
    phi,
)  # fmt: skip

llguidance = pytest.importorskip("llguidance")

WEATHER = {
    "type": "object", "additionalProperties": False, "required": ["city"],
    "properties": {"city": {"type": "string"}, "days": {"$ref": "#/$defs/days"}},
    "$defs": {"days": {"type": "integer", "minimum": 1, "maximum": 7}},
}  # fmt: skip
LIGHT = {
    "type": "object", "additionalProperties": False, "required": ["room", "level", "state"],
    "properties": {"room": {"type": "string", "maxLength": 8}, "level": {"type": "number"}, "state": {"enum": ["on", "off"]}},
}  # fmt: skip
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": schema}}
    for name, schema in {"get_weather": WEATHER, "set_light": LIGHT}.items()
]
ONE = ("get_weather", {"city": 'New York "1" \u4e2d', "days": 3})
TWO = ("set_light", {"room": "kitchen", "level": 0.5, "state": "on"})
BAD = [
    ("get_weather", {"city": "Oslo", "days": 9}), ("get_weather", {"days": 3}), ("get_whether", {"city": "Oslo"}),
    ("set_light", {"room": "kitchen", "level": "high", "state": "on"}),
    ("set_light", {"room": "kitchen", "level": 1, "state": "dim"}),
    ("set_light", {"room": "k" * 9, "level": 1, "state": "on"}),
]  # fmt: skip
WRITERS = {
    hermes: formats.HERMES, coder: formats.CODER, llama: formats.LLAMA, mistral: formats.MISTRAL,
    mistral_args: formats.MISTRAL_ARGS, function_gemma: formats.FUNCTION_GEMMA, gemma4: formats.GEMMA4,
    deepseek: formats.DEEPSEEK, deepseek_fenced: formats.DEEPSEEK_FENCED, phi: formats.PHI, harmony: formats.HARMONY,
}  # fmt: skip
FAMILIES = pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.__name__)
MARKERS = pytest.mark.parametrize("special", [False, True], ids=["text", "tokens"])
Writer = Callable[[Sequence[Any]], str]


class Tokens:
    """A token per byte, and one per special marker."""

    def __init__(self, special: bool) -> None:
        known = {marker for form in WRITERS.values() for marker in form.markers(True)} - {
            "```tool_code",
            "<function=",
        }
        self.special = sorted(known) if special else []
        self.tokens = [bytes([i]) for i in range(256)] + [b"<eos>", *(text.encode() for text in self.special)]
        self.bos_token_id, self.eos_token_id, self.unk_token_id = None, 256, None
        self.special_token_ids = list(range(256, len(self.tokens)))

    def __call__(self, text: str) -> list[int]:
        return list(text if isinstance(text, bytes) else text.encode())

    def id(self, marker: str) -> Optional[int]:
        return 257 + self.special.index(marker) if marker in self.special else None

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        while text:
            marker = max((m for m in self.special if text.startswith(m)), key=len, default="")
            ids += [self.id(marker)] if marker else list(text[0].encode())
            text = text[len(marker) or 1 :]
        return ids


def passes(rule: Lark, text: str, tokens: Tokens) -> bool:
    """Whether a text is a whole answer under a rule."""
    matcher = llguidance.LLMatcher(llguidance.LLTokenizer(llguidance.TokenizerWrapper(tokens)), rule.text)
    assert not matcher.is_error(), matcher.get_error() + rule.text
    ids = tokens.encode(text)
    return bool(matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting())


def _ended(text: str) -> str:
    return text[: -len("<|call|>")] if text.endswith("<|call|>") else text  # the end of the answer is no text


@FAMILIES
@MARKERS
@pytest.mark.parametrize("required", [True, False], ids=["required", "free"])
def test_what_a_family_writes_passes_and_bad_arguments_do_not(
    writer: Writer, special: bool, required: bool
) -> None:
    tokens = Tokens(special)
    rule = tool_rule(WRITERS[writer], TOOLS, required, special=tokens.id)
    for calls in ([ONE], [TWO], [("get_weather", {"city": ""})], [ONE, TWO, ONE]):
        if len(calls) == 1 or writer is not harmony:
            assert passes(rule, _ended(writer(calls)), tokens), calls
    for call in BAD:
        assert not passes(rule, _ended(writer([call])), tokens), call
    if writer is not harmony:
        assert passes(rule, "Hello. It is 5 < 6.", tokens) is not required


@FAMILIES
@MARKERS
def test_a_named_tool_and_no_parallel_calls(writer: Writer, special: bool) -> None:
    tokens = Tokens(special)
    rule = tool_rule(WRITERS[writer], TOOLS, True, "set_light", parallel=False, special=tokens.id)
    assert passes(rule, _ended(writer([TWO])), tokens)
    assert not passes(rule, _ended(writer([ONE])), tokens)
    assert not passes(rule, writer([TWO, TWO]), tokens)
    assert not passes(rule, "Hello", tokens)


@pytest.mark.parametrize(
    "writer", [w for w in WRITERS if w is not harmony], ids=lambda writer: writer.__name__
)
@MARKERS
@pytest.mark.parametrize(
    ("otherwise", "good", "bad"),
    [
        (JsonObject(), '{"a": [1]}', "[1]"), (JsonSchema({"$ref": "#/$defs/x", "$defs": {"x": {"type": "integer"}}}), "5", '"5"'),
        (JsonSchema({"type": "object", "required": ["k"], "properties": {"k": {"type": "null"}}}), '{"k": null}', '{"k": 1}'),
        (Regex("[0-9]{3}/[a-z]+"), "123/ab", "12/a"), (Choice(("yes", "no")), "no", "nope"),
        (Gbnf('root ::= "a" b\nb ::= [0-9]+'), "a12", "b"), (Lark('start: "x" /y+/'), "xyy", "y"),
    ],
)  # fmt: skip
def test_content_keeps_its_rule_where_no_tool_is_called(
    writer: Writer, special: bool, otherwise: Rule, good: str, bad: str
) -> None:
    tokens = Tokens(special)
    rule = tool_rule(WRITERS[writer], TOOLS, otherwise=otherwise, special=tokens.id)
    assert passes(rule, good, tokens)
    assert not passes(rule, bad, tokens)
    assert passes(rule, writer([ONE]), tokens)
    assert not passes(rule, writer([BAD[0]]), tokens)


@MARKERS
def test_text_before_and_behind_calls(special: bool) -> None:
    tokens = Tokens(special)
    free = tool_rule(formats.HERMES, TOOLS, special=tokens.id)
    assert passes(free, f"Let me see.\n{hermes([ONE])}\nAnd\n{hermes([TWO])} done", tokens)
    assert not passes(free, f"Let me see.\n{hermes([BAD[0]])}", tokens)
    single = tool_rule(formats.HERMES, TOOLS, parallel=False, special=tokens.id)
    assert passes(single, f"Let me see.\n{hermes([ONE])}", tokens)
    assert not passes(single, hermes([ONE, ONE]), tokens)


@MARKERS
def test_a_thought_comes_first(special: bool) -> None:
    tokens = Tokens(special)
    rule = tool_rule(formats.HERMES, TOOLS, True, special=tokens.id, thinking=True)
    assert passes(rule, f"Hm, <tool>.\n</think>\n\n{hermes([ONE])}", tokens)
    assert not passes(rule, hermes([ONE]), tokens)
    assert not passes(rule, "Hm.\n</think>\n\nHello", tokens)


@MARKERS
def test_a_thought_in_a_channel_comes_first(special: bool) -> None:
    tokens = Tokens(special)
    rule = tool_rule(formats.HARMONY, TOOLS, special=tokens.id)
    thought = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
    assert passes(rule, thought + _ended(harmony([ONE])), tokens)
    assert passes(rule, thought + "<|channel|>final<|message|>Hello.", tokens)
    assert not passes(rule, thought + _ended(harmony([BAD[0]])), tokens)


def test_free_text_of_llama_and_gemma_begins_like_no_call() -> None:
    tokens = Tokens(False)
    for form in (formats.LLAMA, formats.GEMMA):
        rule = tool_rule(form, TOOLS, special=tokens.id)
        for text in ("Hello {world}", "", " \nHi", "```python\nx\n```"):
            assert passes(rule, text, tokens), text
        for text in (
            '{"name": "x"',
            "[get_weather(city=5)]",
            '```json\n{"name"',
            "Hi ```tool_code\nf()\n```",
        ):
            assert not passes(rule, text, tokens), text


def test_nested_values_in_gemma_s_writing() -> None:
    tokens = Tokens(True)
    schema = {
        "properties": {
            "a": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": ["integer", "null"]}}}, "minItems": 1},
            "c": {"anyOf": [{"type": "string"}, {"type": "boolean"}]}, "d": {"type": "array"},
        },
        "required": ["c"],
    }  # fmt: skip
    rule = tool_rule(
        formats.FUNCTION_GEMMA,
        [{"function": {"name": "f", "parameters": schema}}],
        True,
        special=tokens.id,
    )
    for good in (
        {"c": True},
        {"a": [{"b": 1}, {"b": None}, {}], "c": "x{,}"},
        {"c": "x", "d": []},
        {"c": "x", "d": ["y", "z"]},
    ):
        assert passes(rule, function_gemma([("f", good)]), tokens), good
    for bad in ({}, {"a": [], "c": True}, {"a": [{"b": True}], "c": True}, {"c": 1}):
        assert not passes(rule, function_gemma([("f", bad)]), tokens), bad


def test_a_tool_without_parameters_takes_any_object() -> None:
    tokens = Tokens(False)
    rule = tool_rule(formats.GENERAL, [{"type": "function", "function": {"name": "f"}}], True)
    assert passes(rule, hermes([("f", {})]), tokens)
    assert passes(rule, hermes([("f", {"x": [1]})]), tokens)


@pytest.mark.parametrize("otherwise", [None, JsonObject(), JsonSchema(True)])
def test_blanks_between_parts_of_json_come_to_an_end(otherwise: Optional[Rule]) -> None:
    tokens = Tokens(False)
    rule = tool_rule(formats.HERMES, TOOLS, otherwise is None, otherwise=otherwise)
    call = hermes([ONE])
    assert passes(rule, call.replace(": ", ":"), tokens) is False  # the head is the template's
    assert not passes(rule, call.replace('"city": ', '"city":' + " " * 50), tokens)
    if otherwise is not None:
        assert passes(rule, '{\n  "a": [\n    1\n  ]\n}', tokens)
        assert not passes(rule, '{"a":' + " " * 50 + "1}", tokens)


def test_a_rule_without_a_tool_is_refused() -> None:
    with pytest.raises(ParamInvalid, match="2 tools, none of them 'f'"):
        tool_rule(formats.HERMES, TOOLS, name="f")


def test_templates_tell_which_of_two_writings() -> None:
    assert answer_format("[TOOL_CALLS]{{name}}[ARGS]").name == "mistral-args"
    assert answer_format(formats.DEEPSEEK.openings[0] + "```json").name == "deepseek-fenced"
