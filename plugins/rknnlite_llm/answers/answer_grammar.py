"""The grammar of an answer with tools: it keeps calls in the form of the model's family, and valid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from rknnlite.errors import ParamInvalid

from ..constraints import Lark, Rule
from .formats import THINK, AnswerFormat
from .lark_grammar import Grammar, body_of, combined
from .tool_call_grammars import WRITERS, ToolCallGrammar

__all__ = ["rule_behind_thought", "tool_rule"]

_BLANKS = r"/[ \t\r\n]{0,4}/"


def tool_rule(
    form: AnswerFormat,
    tools: Sequence[Mapping[str, Any]],
    required: bool = False,
    name: Optional[str] = None,
    parallel: bool = True,
    otherwise: Optional[Rule] = None,
    special: Callable[[str], Optional[int]] = lambda text: None,
    thinking: bool = False,
) -> Lark:
    """A rule for ``Constraint`` in llguidance's words.

    Args:
        tools: as in OpenAI's API; one at least.
        required: a tool must be called; by ``name`` that one.
        parallel: more than one call is allowed.
        otherwise: what content must look like where no tool is called; None: any text, also before and behind calls.
        special: id of a marker that is one special token, see ``special_token``.
        thinking: a thought comes first, or the prompt ends inside of one.

    Raises ParamInvalid when there is no tool to call.
    """
    functions = [tool.get("function", tool) for tool in tools]
    if name is not None:
        functions = [function for function in functions if function.get("name") == name]
    if not functions:
        raise ParamInvalid(f"{len(tools)} tools, none of them {name!r}; a rule needs a tool to call")
    grammar = Grammar(special)
    writing: ToolCallGrammar = WRITERS.get(form.name, WRITERS["hermes"])(grammar, functions)
    calls = writing.calls(parallel)
    if required or name is not None:
        start = calls
    elif otherwise is None:
        start = writing.free(form, parallel)
    elif writing.bare:
        start = combined(grammar, calls, otherwise, functions)
    else:
        start = f"{calls} | {body_of(grammar, otherwise)}"
    grammar.rule("start", f"{_thought(grammar, form)} ({start})" if thinking else start)
    return Lark(grammar.text)


def rule_behind_thought(
    form: AnswerFormat, rule: Rule, special: Callable[[str], Optional[int]] = lambda text: None
) -> Lark:
    """The rule for an answer that begins with a thought, or goes on inside of one."""
    grammar = Grammar(special)
    grammar.rule("start", f"{_thought(grammar, form)} ({body_of(grammar, rule)})")
    return Lark(grammar.text)


def _thought(grammar: Grammar, form: AnswerFormat) -> str:
    """A thought up to its closing marker, and blanks."""
    if form.name == "harmony":
        return ""
    closing = next(iter(form.thoughts or (THINK,)))[1]
    return f"{grammar.text_up_to(closing)} {grammar.terminal('BLANKS', _BLANKS)}"
