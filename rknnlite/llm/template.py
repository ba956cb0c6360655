"""Chat templates: from a turn to the text that the model was trained on.

A template of the model is Jinja (extra ``llm``), run in a sandbox without any access to the program and with limits
of time and text (``budget``); ``set_chat_template`` gives literal text instead. Later turns are rendered as the
difference to what the KV cache holds already.
"""

from __future__ import annotations

import datetime
import json
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import ModelInvalid, ParamInvalid
from ..extras import missing
from .budget import Budget, RenderStopped, TemplateLimits

if TYPE_CHECKING:
    from .sandbox import BoundedEnvironment

__all__ = ["ChatTemplate", "JinjaTemplate", "LiteralTemplate", "Rendered", "Turn", "parse_tools"]

_ANSWER = "\u0002answer\u0003"  # stands for what the model said; no template treats it specially
_OPEN_MARKER = re.compile(r"<[|\uff5c][^<>|]*[|\uff5c]>$")
_ROLES = ("user", "tool")
_LONGEST = 1 << 18
"""Characters of a template; the longest in use has 20,000."""
_SHOWN = 200
_LONGEST_DATE = 256


@dataclass(frozen=True)
class Turn:
    """What the caller says: ``role`` is ``user`` or ``tool``."""

    prompt: str
    role: str = "user"
    enable_thinking: bool = False

    def __post_init__(self) -> None:
        if self.role not in _ROLES:
            raise ParamInvalid(f"role is {self.role!r}, must be 'user' or 'tool'")


@dataclass(frozen=True)
class Rendered:
    """Text to be tokenised; the first ``system`` characters are the system prompt."""

    text: str
    system: int = 0


class ChatTemplate(ABC):
    """Renders turns. ``closes`` says whether a later turn begins with the end mark of the model's answer."""

    closes: bool

    @abstractmethod
    def opening(self, turn: Turn, tools: list[Any]) -> Rendered:
        """Text of the first turn of a conversation."""

    @abstractmethod
    def following(self, turn: Turn, tools: list[Any]) -> Rendered:
        """Text of a later turn, to be added behind the model's answer."""


class LiteralTemplate(ChatTemplate):
    """``system``, then ``prefix + prompt + postfix`` for every turn."""

    closes = False

    def __init__(self, system: str = "", prefix: str = "", postfix: str = "") -> None:
        """Raises ParamInvalid for parts that are no text."""
        for name, part in (("system", system), ("prefix", prefix), ("postfix", postfix)):
            if not isinstance(part, str):
                raise ParamInvalid(f"the {name} of the chat template is {type(part).__name__}, not str")
        self.system, self.prefix, self.postfix = system, prefix, postfix

    def opening(self, turn: Turn, tools: list[Any]) -> Rendered:
        return Rendered(self.system + self.following(turn, tools).text, len(self.system))

    def following(self, turn: Turn, tools: list[Any]) -> Rendered:
        if tools:
            raise ParamInvalid(
                "a literal chat template has no place for function tools: put them into its system prompt, or "
                "leave set_chat_template out to use the model's own template"
            )
        return Rendered(self.prefix + turn.prompt + self.postfix)


class JinjaTemplate(ChatTemplate):
    """The model's own template in the form that Hugging Face tokenizers carry."""

    closes = True

    def __init__(
        self,
        source: str,
        bos: str = "",
        eos: str = "",
        stopping: Callable[[], bool] = lambda: False,
        limits: TemplateLimits | None = None,
    ) -> None:
        """Compile; ``stopping`` ends a rendering with RenderStopped, ``limits`` None means those of the settings.

        Raises ParamInvalid for a broken template, RknnError when jinja2 is missing.
        """
        self._names = {"bos_token": bos, "eos_token": eos}
        self._stopping, self._limits = stopping, limits or TemplateLimits.configured()
        self._environment = _environment()
        self._template = _compile(self._environment, source)
        self._lock = threading.Lock()

    @classmethod
    def of_model(
        cls,
        label: str,
        source: str,
        bos: str = "",
        eos: str = "",
        stopping: Callable[[], bool] = lambda: False,
    ) -> JinjaTemplate:
        """The template of a model; raises ModelInvalid naming the model when it is broken."""
        limits = TemplateLimits.configured()
        try:
            return cls(source, bos, eos, stopping, limits)
        except ParamInvalid as error:
            raise ModelInvalid(
                f"model {label}, chat_template: {error}; give the session another one with set_chat_template"
            ) from None

    def opening(self, turn: Turn, tools: list[Any]) -> Rendered:
        text = self._render([_message(turn)], turn, tools)
        return Rendered(text, self._system(turn, tools, text))

    def following(self, turn: Turn, tools: list[Any]) -> Rendered:
        earlier = [{"role": "user", "content": "-"}, {"role": "assistant", "content": _ANSWER}]
        text = self._render([*earlier, _message(turn)], turn, tools)
        if _ANSWER not in text:
            raise ParamInvalid(
                "the chat template leaves out the model's earlier answers, so turns cannot follow"
            )
        return Rendered(text.rsplit(_ANSWER, 1)[1])

    def _system(self, turn: Turn, tools: list[Any], text: str) -> int:
        """Length of what comes before the first message, whoever speaks it."""
        try:
            other = self._render([{"role": "assistant", "content": turn.prompt}], turn, tools)
        except ParamInvalid:
            return 0  # the template insists on a user's message first
        same = next((i for i, (a, b) in enumerate(zip(text, other)) if a != b), 0)
        return len(_OPEN_MARKER.sub("", text[:same]))

    def _render(self, messages: list[dict[str, str]], turn: Turn, tools: list[Any]) -> str:
        names = {"messages": messages, "tools": tools or None, "enable_thinking": turn.enable_thinking}
        try:
            with self._lock:  # the environment has one budget at a time
                self._environment.budget = Budget(self._limits, self._stopping)
                return str(self._template.render(**names, add_generation_prompt=True, **self._names))
        except RenderStopped:
            raise
        except Exception as error:
            raise ParamInvalid(
                f"the chat template cannot render a turn of role {turn.role!r}: {_reason(error)}"
            ) from None


def _message(turn: Turn) -> dict[str, str]:
    return {"role": turn.role, "content": turn.prompt}


def _reason(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _environment() -> BoundedEnvironment:
    try:
        from .sandbox import BoundedEnvironment
    except ImportError as error:
        raise missing(
            "llm", "the model's chat template needs jinja2, unless set_chat_template is called", error
        ) from None
    environment = BoundedEnvironment()
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = _now
    return environment


def _compile(environment: BoundedEnvironment, source: str) -> Any:
    if len(source) > _LONGEST:
        raise ParamInvalid(f"the chat template has {len(source)} characters, {_LONGEST} are allowed")
    try:
        return environment.from_string(source)
    except RecursionError:
        raise ParamInvalid("the chat template is nested too deeply") from None
    except Exception as error:  # of jinja2, or of Python's compiler where the generated code is odd
        line = getattr(error, "lineno", None)
        place = f" at line {line}" if isinstance(line, int) else ""
        raise ParamInvalid(f"the chat template is broken{place}: {_reason(error)}") from None


def _now(form: str) -> str:
    return datetime.datetime.now().strftime(str(form)[:_LONGEST_DATE])


def _refuse(message: object) -> NoReturn:
    raise ParamInvalid(str(message)[:_SHOWN])


def parse_tools(tools: str) -> list[Any]:
    """The JSON list of ``set_function_tools``; raises ParamInvalid."""
    if not isinstance(tools, str):
        raise ParamInvalid(f"function tools are {type(tools).__name__}, must be JSON text")
    if not tools.strip():
        return []
    try:
        value = json.loads(tools)
    except (ValueError, RecursionError) as error:
        raise ParamInvalid(f"function tools are no JSON: {error}") from None
    if not isinstance(value, list) or not all(isinstance(tool, dict) for tool in value):
        raise ParamInvalid("function tools must be a JSON list of objects, as OpenAI's API describes tools")
    return value
