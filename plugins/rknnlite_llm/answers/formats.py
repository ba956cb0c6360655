"""How families of models mark thoughts and calls, and which family a chat template belongs to."""

from __future__ import annotations

from dataclasses import dataclass, replace

from . import harmony

__all__ = ["THINK", "AnswerFormat", "answer_format", "can_think", "ends_in_thought"]

THINK = ("<think>", "</think>")
_THOUGHTS = (THINK,)
_BAR, _LOW = "\uff5c", "\u2581"


@dataclass(frozen=True)
class AnswerFormat:
    """How a family of models marks thinking and tool calls.

    ``special``: markers are special tokens. ``openings``: what a call begins with; ``bare``: what it begins with where
    nothing was said before. ``closings``: the other markers of calls. ``thoughts``: pairs around a thought.
    """

    name: str
    special: bool = False
    openings: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()
    closings: tuple[str, ...] = ()
    thoughts: tuple[tuple[str, str], ...] = _THOUGHTS

    def markers(self, tools: bool) -> frozenset[str]:
        """All markers; without tools those of thoughts only."""
        thoughts = [marker for pair in self.thoughts for marker in pair]
        calls = (*self.openings, *self.closings) if tools else ()
        return frozenset((*thoughts, *calls, *(harmony.MARKERS if self.name == "harmony" else ())))


def _deepseek(*words: str) -> tuple[str, ...]:
    """Markers with the wide bar of the real ones, and with a plain one."""
    wide = [f"<{_BAR}tool{_LOW}{word.replace(' ', _LOW)}{_BAR}>" for word in words]
    return (*wide, *(marker.replace(_BAR, "|") for marker in wide))


HERMES = AnswerFormat("hermes", openings=("<tool_call>",), closings=("</tool_call>",))
CODER = AnswerFormat("coder", openings=("<tool_call>", "<function="), closings=("</tool_call>",))
LLAMA = AnswerFormat("llama", True, openings=("<|python_tag|>",), bare=("{", "["))
MISTRAL = AnswerFormat(
    "mistral",
    True,
    openings=("[TOOL_CALLS]",),
    closings=("[ARGS]", "[CALL_ID]"),
    thoughts=(("[THINK]", "[/THINK]"), THINK),
)
MISTRAL_ARGS = replace(MISTRAL, name="mistral-args")
"""``name[ARGS]{...}`` in place of a list of objects; both are read."""
GEMMA = AnswerFormat("gemma", openings=("```tool_code",), bare=("[", "{", "```json"))
FUNCTION_GEMMA = AnswerFormat(
    "functiongemma", True, openings=("<start_function_call>",), closings=("<end_function_call>", "<escape>")
)
GEMMA4 = AnswerFormat(
    "gemma4",
    True,
    openings=("<|tool_call>",),
    closings=("<tool_call|>", '<|"|>'),
    thoughts=(("<|channel>thought", "<channel|>"), THINK),
)
DEEPSEEK = AnswerFormat(
    "deepseek",
    True,
    openings=_deepseek("calls begin", "call begin"),
    closings=_deepseek("calls end", "call end", "sep"),
)
DEEPSEEK_FENCED = replace(DEEPSEEK, name="deepseek-fenced")
"""With the arguments in a fence, as in V3 and R1; both are read."""
PHI = AnswerFormat("phi", True, openings=("<|tool_call|>",), closings=("<|/tool_call|>",))
HARMONY = AnswerFormat("harmony", True, thoughts=())
_KNOWN = (CODER, LLAMA, MISTRAL, FUNCTION_GEMMA, DEEPSEEK, PHI)
GENERAL = AnswerFormat(
    "general",
    openings=(
        *dict.fromkeys(marker for form in _KNOWN for marker in form.openings),
        "<tool_calls>",
        "```tool_code",
    ),
    bare=("{", "["),
    closings=(*dict.fromkeys(marker for form in _KNOWN for marker in form.closings), "</tool_calls>"),
    thoughts=MISTRAL.thoughts,
)
"""For templates that say nothing of calls: any marker of the others."""

_SIGNS = (
    ("<|channel|>", HARMONY),
    (f"tool{_LOW}call", DEEPSEEK),
    ("[TOOL_CALLS]", MISTRAL),
    ("<start_function_call>", FUNCTION_GEMMA),
    ("<|tool_call>", GEMMA4),
    ("<function=", CODER),
    ("<tool_call>", HERMES),
    ("<|tool_call|>", PHI),
    ("<|python_tag|>", LLAMA),
    ("<|start_header_id|>", LLAMA),
    ("<start_of_turn>", GEMMA),
    ("[INST]", MISTRAL),
    ("<|im_start|>", HERMES),
)


def answer_format(template: str) -> AnswerFormat:
    """The form that goes with a chat template, by the markers that the template writes; its own for thoughts come first."""
    form = next((form for sign, form in _SIGNS if sign in template), GENERAL)
    if form is MISTRAL and "[ARGS]" in template:
        form = MISTRAL_ARGS
    if form is DEEPSEEK and "```json" in template:
        form = DEEPSEEK_FENCED
    thoughts = tuple(sorted(form.thoughts, key=lambda pair: not any(mark in template for mark in pair)))
    return form if thoughts == form.thoughts else replace(form, thoughts=thoughts)


def ends_in_thought(form: AnswerFormat, prompt: str) -> bool:
    """Whether a prompt, or the end of one, leaves the model inside of a thought."""
    if form.name == "harmony":
        return prompt.endswith("<|channel|>analysis<|message|>")
    return prompt.rstrip().endswith(tuple(opening for opening, _ in form.thoughts))


def can_think(form: AnswerFormat, template: str) -> bool:
    """Whether a model that is asked to think does so, which its template tells."""
    return any(mark in template for pair in form.thoughts for mark in pair)
