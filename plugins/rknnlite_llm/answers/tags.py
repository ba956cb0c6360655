"""Calls between markers: Hermes and Qwen, Qwen3-Coder, Mistral, DeepSeek, Phi."""

from __future__ import annotations

from .answer_parts import NoCall, Parts, as_json
from .incremental_text import IncrementalText, Reading
from .json_calls import json_calls
from .offered_tools import OfferedTools
from .streamed_json import call_arguments

__all__ = ["deepseek_calls", "function_tag", "listed_calls", "mistral_calls", "python_tag", "tool_call"]

_PARAMETER, _END_PARAMETER, _END_FUNCTION = "<parameter=", "</parameter>", "</function>"


def tool_call(source: IncrementalText, parts: Parts, offered: OfferedTools) -> Reading[None]:
    """Behind ``<tool_call>``: JSON, or tags as Qwen3-Coder writes them."""
    yield from source.blank()
    if (yield from source.took("<function=")):
        yield from function_tag(source, parts, offered)
    else:
        yield from json_calls(source, parts, ("</tool_call>",))
    yield from _closed(source, "</tool_call>")


def listed_calls(source: IncrementalText, parts: Parts, offered: OfferedTools) -> Reading[None]:
    """Behind ``<|tool_call|>`` and the like: a list of JSON objects."""
    closers = ("<|/tool_call|>", "</tool_calls>")
    yield from json_calls(source, parts, closers)
    yield from _closed(source, *closers)


def function_tag(source: IncrementalText, parts: Parts, offered: OfferedTools) -> Reading[None]:
    """Behind ``<function=``: ``name>``, then ``<parameter=a>text</parameter>``, then ``</function>``."""
    name = yield from source.name()
    yield from source.expect(">")
    yield from source.blank()
    if not (yield from source.found(_PARAMETER, _END_FUNCTION)):
        raise NoCall
    parts.call(name)
    opening = "{"
    while True:
        end = source.at
        yield from source.blank()
        try:
            yield from source.expect(_PARAMETER)
            argument = yield from source.name()
            yield from source.expect(">")
        except NoCall:
            source.at = end
            break
        parts.arguments(f"{opening}{as_json(argument)}: ")
        opening = ", "
        try:
            text = yield from source.before(_END_PARAMETER)
        except NoCall:  # the answer ends in the middle
            parts.arguments(as_json(source.data[end:].partition(">")[2].lstrip("\n"))[:-1])
            source.at = len(source.data)
            return
        yield from source.expect(_END_PARAMETER)
        text = text[1:] if text.startswith("\n") else text
        text = text[:-1] if text.endswith("\n") else text
        try:
            parts.arguments(as_json(offered.value(name, argument, text)))
        except NoCall:
            parts.arguments(as_json(text))
    parts.arguments("{}" if opening == "{" else "}")
    yield from _closed(source, _END_FUNCTION)


def mistral_calls(source: IncrementalText, parts: Parts, offered: OfferedTools) -> Reading[None]:
    """Behind ``[TOOL_CALLS]``: a list of JSON objects, or ``name[ARGS]{...}``."""
    yield from source.blank()
    if (yield from source.peek()) in ("[", "{"):
        yield from json_calls(source, parts)
        return
    name = yield from source.name()
    if (yield from source.took("[CALL_ID]")):
        yield from source.name()
        yield from source.expect("[ARGS]")
    else:
        yield from source.took("[ARGS]")
    yield from call_arguments(source, parts, name, ("[TOOL_CALLS]",))


_CALLS_BEGIN = ("<\uff5ctool\u2581calls\u2581begin\uff5c>", "<|tool\u2581calls\u2581begin|>")
_CALLS_END = ("<\uff5ctool\u2581calls\u2581end\uff5c>", "<|tool\u2581calls\u2581end|>")
_CALL_BEGIN = ("<\uff5ctool\u2581call\u2581begin\uff5c>", "<|tool\u2581call\u2581begin|>")
_CALL_END = ("<\uff5ctool\u2581call\u2581end\uff5c>", "<|tool\u2581call\u2581end|>")
_SEP = ("<\uff5ctool\u2581sep\uff5c>", "<|tool\u2581sep|>")


def deepseek_calls(source: IncrementalText, parts: Parts, offered: OfferedTools) -> Reading[None]:
    """Behind the marker of all calls, or of one: ``name SEP {...}``, or ``function SEP name``, JSON in a fence."""
    source.at = source.data.rfind("<", 0, source.at)  # the marker itself may be that of one call
    yield from source.took(*_CALLS_BEGIN)
    count = parts.calls
    while True:
        end = source.at
        yield from source.blank()
        try:
            yield from source.expect(*_CALL_BEGIN)
            yield from _deepseek_call(source, parts)
        except NoCall:
            source.at = end
            break
    if parts.calls == count:
        raise NoCall
    yield from _closed(source, *_CALLS_END)


def _deepseek_call(source: IncrementalText, parts: Parts) -> Reading[None]:
    name = yield from source.name()
    yield from source.expect(*_SEP)
    yield from source.blank()
    fenced = (yield from source.peek()) != "{"
    if fenced:
        name = yield from source.name()
        yield from source.blank()
        yield from source.expect("```json", "```")
    whole = yield from call_arguments(source, parts, name, _CALL_END)
    if fenced and whole:
        yield from _closed(source, "```")
    yield from _closed(source, *_CALL_END)


def python_tag(source: IncrementalText, parts: Parts, offered: OfferedTools) -> Reading[None]:
    """Behind ``<|python_tag|>``, which Llama writes before JSON."""
    yield from json_calls(source, parts)


def _closed(source: IncrementalText, *markers: str) -> Reading[None]:
    """Take a closing marker, and blanks before it; nothing when there is none."""
    end = source.at
    yield from source.blank()
    if not (yield from source.took(*markers)):
        source.at = end
