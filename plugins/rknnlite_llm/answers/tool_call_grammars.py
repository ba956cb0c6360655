"""How each family writes tool calls, as grammars."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from .argument_grammars import braces, tags
from .formats import DEEPSEEK, AnswerFormat
from .lark_grammar import ANY, Grammar, arguments_of

__all__ = ["WRITERS", "ToolCallGrammar"]

Functions = Sequence[Mapping[str, Any]]


class ToolCallGrammar(ABC):
    """Writes the calls of some functions in one form. ``opening``: the marker of a call; none where ``bare``."""

    opening = "<tool_call>"
    between = "\n"
    bare = False

    def __init__(self, grammar: Grammar, functions: Functions) -> None:
        self.grammar = grammar
        self._behind = grammar.fresh(" | ".join(self.function(f) for f in functions), "call")

    @abstractmethod
    def function(self, function: Mapping[str, Any]) -> str:
        """One call, behind its opening."""

    def calls(self, parallel: bool) -> str:
        """A call, or several."""
        one = f"{self.grammar.marker(self.opening)} {self._behind}"
        between = f"{self.grammar.literal(self.between)} " if self.between else ""
        return f"{one} ({between}{one})*" if parallel else one

    def free(self, form: AnswerFormat, parallel: bool) -> str:
        """Any text with calls in it, or none."""
        text = self.grammar.terminal("TEXT", ANY)
        if self.grammar.is_token(self.opening):
            one = f"{self.grammar.marker(self.opening)} {self._behind}"
            return f"{text}? ({one} {text}?)*" if parallel else f"{text}? ({one})?"
        one = f"{self.grammar.text_up_to(self.opening)} {self._behind}"
        tail = self.grammar.fresh(text, "tail")
        return f"({one})* {tail}" if parallel else f"{one} | {tail}"

    def named(self, function: Mapping[str, Any], key: str = "arguments", end: str = "") -> str:
        """``{"name": ..., "arguments": ...}``; the schema stands alone, so that its references hold."""
        head = f'{{"name": {self.grammar.literal(function["name"])}, "{key}": '
        return f'{self.grammar.literal(head)} {self.arguments(function)} {end}"}}"'

    def arguments(self, function: Mapping[str, Any]) -> str:
        """The arguments as JSON."""
        return self.grammar.json_rule(arguments_of(function))


class Hermes(ToolCallGrammar):
    """JSON between tags."""

    def function(self, function: Mapping[str, Any]) -> str:
        return f'"\\n" {self.named(function)} "\\n" {self.grammar.marker("</tool_call>")}'


class Coder(ToolCallGrammar):
    """Tags all the way."""

    def function(self, function: Mapping[str, Any]) -> str:
        head = self.grammar.literal(f"\n<function={function['name']}>\n")
        inner = tags(self.grammar, arguments_of(function))
        return f'{head} {inner} "</function>\\n" {self.grammar.marker("</tool_call>")}'


class Mistral(ToolCallGrammar):
    """A list of objects behind one marker."""

    opening = "[TOOL_CALLS]"

    def function(self, function: Mapping[str, Any]) -> str:
        return self.named(function, end=r'(", \"id\": \"" /[a-zA-Z0-9]{9}/ "\"")? ')

    def calls(self, parallel: bool) -> str:
        return f"{self.grammar.marker(self.opening)} {self._list(parallel)}"

    def free(self, form: AnswerFormat, parallel: bool) -> str:
        if self.grammar.is_token(self.opening):
            text = self.grammar.terminal("TEXT", ANY)
            return f"{text}? ({self.calls(parallel)})?"
        return f"{self.grammar.text_up_to(self.opening)} {self._list(parallel)} | {self.grammar.fresh(ANY, 'tail')}"

    def _list(self, parallel: bool) -> str:
        more = f'(", " {self._behind})*' if parallel else ""
        return f'"[" {self._behind} {more} "]"'


class Phi(Mistral):
    """The same with a marker at the end."""

    opening = "<|tool_call|>"

    def _list(self, parallel: bool) -> str:
        return f"{super()._list(parallel)} {self.grammar.marker('<|/tool_call|>')}"


class MistralArgs(ToolCallGrammar):
    """A name, a marker, arguments."""

    opening, between = "[TOOL_CALLS]", ""

    def function(self, function: Mapping[str, Any]) -> str:
        name = self.grammar.literal(function["name"])
        return f"{name} {self.grammar.marker('[ARGS]')} {self.arguments(function)}"


class DeepSeek(ToolCallGrammar):
    """All calls behind one marker, each between two."""

    opening = DEEPSEEK.openings[0]
    begin, (all_end, end, sep) = DEEPSEEK.openings[1], DEEPSEEK.closings[:3]

    def function(self, function: Mapping[str, Any]) -> str:
        marker, name = self.grammar.marker, self.grammar.literal(function["name"])
        return f"{marker(self.begin)} {name} {marker(self.sep)} {self.arguments(function)} {marker(self.end)}"

    def calls(self, parallel: bool) -> str:
        return f"{self.grammar.marker(self.opening)} {self._all(parallel)}"

    def free(self, form: AnswerFormat, parallel: bool) -> str:
        text = self.grammar.terminal("TEXT", ANY)
        if self.grammar.is_token(self.opening):
            return f"{text}? ({self.calls(parallel)})?"
        return f"{self.grammar.text_up_to(self.opening)} {self._all(parallel)} | {self.grammar.fresh(text, 'tail')}"

    def _all(self, parallel: bool) -> str:
        more = f'("\\n"? {self._behind})*' if parallel else ""
        return f"{self._behind} {more} {self.grammar.marker(self.all_end)}"


class DeepSeekFenced(DeepSeek):
    """The arguments in a fence."""

    def function(self, function: Mapping[str, Any]) -> str:
        marker, name = self.grammar.marker, self.grammar.literal(function["name"] + "\n```json\n")
        head = f'{marker(self.begin)} "function" {marker(self.sep)} {name}'
        return f'{head} {self.arguments(function)} "\\n```" {marker(self.end)}'


class Bare(ToolCallGrammar):
    """JSON objects without a marker (Llama, Gemma)."""

    bare = True

    def function(self, function: Mapping[str, Any]) -> str:
        return self.named(function, "parameters")

    def calls(self, parallel: bool) -> str:
        return f'{self._behind} ("; " {self._behind})*' if parallel else self._behind

    def free(self, form: AnswerFormat, parallel: bool) -> str:
        calls = self.calls(parallel)
        return f"{calls} | {self.grammar.terminal('FREE', self._free())}"

    def _free(self) -> str:
        """Text that is not read as a call."""
        fences = r" & ~/(?s:.*)```tool_code(?s:.*)/ & ~/[ \t\r\n]*```json(?s:.*)/"
        return r"/([ \t\r\n]*[^ \t\r\n{\[](.|\n)*)?/" + fences


class FunctionGemma(ToolCallGrammar):
    """Values in Gemma's own writing."""

    opening, between = "<start_function_call>", ""
    closing, quote = "<end_function_call>", "<escape>"

    def function(self, function: Mapping[str, Any]) -> str:
        head = self.grammar.literal(f"call:{function['name']}")
        inner = braces(self.grammar, arguments_of(function), self.quote)
        return f"{head} {inner} {self.grammar.marker(self.closing)}"


class Gemma4(FunctionGemma):
    """The same with other markers."""

    opening, closing, quote = "<|tool_call>", "<tool_call|>", '<|"|>'


class Harmony(ToolCallGrammar):
    """Channels. What a thought is stands in one of its own, so it may always come first."""

    opening = "<|channel|>"

    def function(self, function: Mapping[str, Any]) -> str:
        marker = self.grammar.marker
        head = self.grammar.literal(f"commentary to=functions.{function['name']} ")
        return f'{head} {marker("<|constrain|>")} "json" {marker("<|message|>")} {self.arguments(function)}'

    def calls(self, parallel: bool) -> str:
        return f"{self._thought()} {self.grammar.marker(self.opening)} {self._behind}"

    def free(self, form: AnswerFormat, parallel: bool) -> str:
        text = self.grammar.terminal("TEXT", ANY)
        final = f'"final" {self.grammar.marker("<|message|>")} {text}?'
        return f"{self._thought()} {self.grammar.marker(self.opening)} ({self._behind} | {final})"

    def _thought(self) -> str:
        marker = self.grammar.marker
        told = self.grammar.text_up_to("<|end|>")
        thought = f'{marker("<|channel|>")} "analysis" {marker("<|message|>")} {told}'
        return f'({thought} {marker("<|start|>")} "assistant")*'


WRITERS: dict[str, type[ToolCallGrammar]] = {
    "hermes": Hermes,
    "coder": Coder,
    "mistral": Mistral,
    "mistral-args": MistralArgs,
    "phi": Phi,
    "llama": Bare,
    "gemma": Bare,
    "functiongemma": FunctionGemma,
    "gemma4": Gemma4,
    "deepseek": DeepSeek,
    "deepseek-fenced": DeepSeekFenced,
    "harmony": Harmony,
}
