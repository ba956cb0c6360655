"""Calls as each family of models writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rknnlite_llm.answers import AnswerFormat, AnswerParser, AnswerPart, PartKind, formats

Call = tuple[str, dict[str, Any]]
BAR, LOW = "\uff5c", "\u2581"


def marker(words: str) -> str:
    """One of DeepSeek's."""
    return f"<{BAR}tool{LOW}{words.replace(' ', LOW)}{BAR}>"


def _object(call: Call, arguments: str = "arguments") -> str:
    return json.dumps({"name": call[0], arguments: call[1]}, ensure_ascii=False)


def hermes(calls: Sequence[Call]) -> str:
    return "\n".join(f"<tool_call>\n{_object(call)}\n</tool_call>" for call in calls)


def _told(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def coder(calls: Sequence[Call]) -> str:
    def one(call: Call) -> str:
        given = "".join(f"<parameter={k}>\n{_told(v)}\n</parameter>\n" for k, v in call[1].items())
        return f"<tool_call>\n<function={call[0]}>\n{given}</function>\n</tool_call>"

    return "\n".join(one(call) for call in calls)


def llama(calls: Sequence[Call]) -> str:
    return "; ".join(_object(call, "parameters") for call in calls)


def llama_tagged(calls: Sequence[Call]) -> str:
    return "<|python_tag|>" + llama(calls)


def mistral(calls: Sequence[Call]) -> str:
    listed = [{"name": n, "arguments": a, "id": "123456789"} for n, a in calls]
    return "[TOOL_CALLS]" + json.dumps(listed, ensure_ascii=False)


def mistral_args(calls: Sequence[Call]) -> str:
    return "".join(f"[TOOL_CALLS]{n}[ARGS]{json.dumps(a, ensure_ascii=False)}" for n, a in calls)


def _python(calls: Sequence[Call]) -> str:
    return ", ".join(f"{n}({', '.join(f'{k}={v!r}' for k, v in a.items())})" for n, a in calls)


def gemma_list(calls: Sequence[Call]) -> str:
    return f"[{_python(calls)}]"


def gemma_code(calls: Sequence[Call]) -> str:
    return "```tool_code\n" + "\n".join(_python([call]) for call in calls) + "\n```"


def gemma_json(calls: Sequence[Call]) -> str:
    return "```json\n[" + ", ".join(_object(call, "parameters") for call in calls) + "]\n```"


def _braces(value: Any, quote: str) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{k}:{_braces(v, quote)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_braces(item, quote) for item in value) + "]"
    return f"{quote}{value}{quote}" if isinstance(value, str) else json.dumps(value)


def function_gemma(calls: Sequence[Call]) -> str:
    one = "<start_function_call>call:{}{}<end_function_call>"
    return "".join(one.format(n, _braces(a, "<escape>")) for n, a in calls)


def gemma4(calls: Sequence[Call]) -> str:
    return "".join(f"<|tool_call>call:{n}" + _braces(a, '<|"|>') + "<tool_call|>" for n, a in calls)


def deepseek_fenced(calls: Sequence[Call]) -> str:
    def one(call: Call) -> str:
        given = json.dumps(call[1], ensure_ascii=False)
        head = f"{marker('call begin')}function{marker('sep')}{call[0]}"
        return f"{head}\n```json\n{given}\n```{marker('call end')}"

    return marker("calls begin") + "\n".join(one(call) for call in calls) + marker("calls end")


def deepseek(calls: Sequence[Call]) -> str:
    inner = "".join(
        f"{marker('call begin')}{n}{marker('sep')}{json.dumps(a, ensure_ascii=False)}{marker('call end')}"
        for n, a in calls
    )
    return marker("calls begin") + inner + marker("calls end")


def phi(calls: Sequence[Call]) -> str:
    return "<|tool_call|>[" + ", ".join(_object(call) for call in calls) + "]<|/tool_call|>"


def harmony(calls: Sequence[Call]) -> str:
    one = "<|channel|>commentary to=functions.{} <|constrain|>json<|message|>{}<|call|>"
    return "<|start|>assistant".join(one.format(n, json.dumps(a, ensure_ascii=False)) for n, a in calls)


WRITERS = {
    hermes: formats.HERMES, coder: formats.CODER, llama: formats.LLAMA, llama_tagged: formats.LLAMA,
    mistral: formats.MISTRAL, mistral_args: formats.MISTRAL, gemma_list: formats.GEMMA, gemma_code: formats.GEMMA,
    gemma_json: formats.GEMMA, function_gemma: formats.FUNCTION_GEMMA, gemma4: formats.GEMMA4,
    deepseek_fenced: formats.DEEPSEEK, deepseek: formats.DEEPSEEK, phi: formats.PHI, harmony: formats.HARMONY,
}  # fmt: skip
"""How a family writes calls -> its form."""


def read(
    form: AnswerFormat, pieces: Sequence[str], tools: Any = True, thinking: bool = False
) -> list[AnswerPart]:
    """The parts of an answer, pieces of one kind put together."""
    parser, found = AnswerParser(form, tools, thinking), []
    for part in [part for piece in pieces for part in parser.push(piece)] + parser.finish():
        last = found[-1] if found else None
        if last and part.kind is not PartKind.CALL and (last.kind, last.call) == (part.kind, part.call):
            found[-1] = AnswerPart(part.kind, last.text + part.text, part.call)
        else:
            found.append(part)
    return found


def calls_of(parts: Sequence[AnswerPart]) -> list[Call]:
    """Names with parsed arguments."""
    names = [part.text for part in parts if part.kind is PartKind.CALL]
    given = [part.text for part in parts if part.kind is PartKind.ARGUMENTS]
    return [(name, json.loads(text)) for name, text in zip(names, given)]


def said(parts: Sequence[AnswerPart], kind: PartKind = PartKind.CONTENT) -> str:
    """All text of a kind."""
    return "".join(part.text for part in parts if part.kind is kind)
