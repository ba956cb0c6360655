"""Chat templates: from a turn to the text that the model was trained on.

A template of the model is Jinja (extra ``llm``), run in a sandbox without any access to the program and with limits
of time and text (``template_budget``); ``set_chat_template`` gives literal text instead. A whole conversation is rendered as it is
(``conversation``); of single turns the later ones are rendered as the difference to what the KV cache holds already.
"""

from __future__ import annotations

import datetime
import itertools
import json
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from rknnlite.errors import ModelInvalid, ParamInvalid
from rknnlite.extras import missing
from rknnlite.files.json_text import parse_json
from rknnlite.spi.llm import MessagesInput

from .messages import Message, checked_messages, leading_system
from .template_budget import Budget, RenderStopped, TemplateLimits

if TYPE_CHECKING:
    from .jinja_sandbox import BoundedEnvironment

__all__ = [
    "CHATML",
    "ChatTemplate",
    "JinjaTemplate",
    "LiteralTemplate",
    "Rendered",
    "Turn",
    "checked_tools",
    "parse_tools",
    "tools_text",
]

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The template that models name by this word, and servers take where a model has none."""

_ANSWER = "\u0002answer\u0003"  # stands for what the model said; no template treats it specially
_OPEN_MARKER = re.compile(r"<[|\uff5c][^<>|]*[|\uff5c]>$")
_ROLES = ("user", "tool")
_LONGEST = 1 << 18
"""Characters of a template; the longest in use has 20,000."""
_MOST_PARTS = 20_000  # compiling takes 25 us and 2 KiB for each
_SHOWN = 200
_ROLES_SHOWN = 4
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
    """Renders turns. ``closes`` says whether a later turn begins with the end mark of the model's answer.

    ``as_given``: nothing is added to a prompt, so it may have control tokens of its own.
    """

    closes: bool
    as_given = False

    @abstractmethod
    def opening(self, turn: Turn, tools: list[Any]) -> Rendered:
        """Text of the first turn of a conversation."""

    @abstractmethod
    def following(self, turn: Turn, tools: list[Any]) -> Rendered:
        """Text of a later turn, to be added behind the model's answer."""

    @abstractmethod
    def conversation(self, main: MessagesInput, tools: list[Any]) -> Rendered:
        """Text of a whole conversation; ``tools`` are in force where the input brings none. Raises ParamInvalid."""


class LiteralTemplate(ChatTemplate):
    """``system``, then ``prefix + prompt + postfix`` for every turn.

    It has no place for tools and system messages: their text goes in front of the first prompt. ``end`` closes earlier
    answers of a conversation.
    """

    closes = False

    def __init__(self, system: str = "", prefix: str = "", postfix: str = "", end: str = "") -> None:
        """Raises ParamInvalid for parts that are no text."""
        for name, part in (("system", system), ("prefix", prefix), ("postfix", postfix)):
            if not isinstance(part, str):
                raise ParamInvalid(f"the {name} of the chat template is {type(part).__name__}, not str")
        self.system, self.prefix, self.postfix, self.end = system, prefix, postfix, end
        self.as_given = not (system or prefix or postfix)

    def opening(self, turn: Turn, tools: list[Any]) -> Rendered:
        prompt = _joined([tools_text(tools), turn.prompt])
        return Rendered(self.system + self._wrapped(prompt), len(self.system))

    def following(self, turn: Turn, tools: list[Any]) -> Rendered:
        return Rendered(self._wrapped(turn.prompt))

    def conversation(self, main: MessagesInput, tools: list[Any]) -> Rendered:
        messages = checked_messages(main.messages)
        system = leading_system(messages)
        first = [tools_text(_offered(main, tools)), *(message["content"] for message in system)]
        text = self.system
        for message in messages[len(system) :]:
            if message["role"] == "assistant":
                text += _spoken(message) + self.end
            else:
                text += self._wrapped(_joined([*first, message["content"]]))
                first = []
        if any(first):
            text += self._wrapped(_joined(first))
        return Rendered(text, len(self.system))

    def _wrapped(self, prompt: str) -> str:
        return self.prefix + prompt + self.postfix


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
        self._knows_calls = "tool_calls" in source
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

    def conversation(self, main: MessagesInput, tools: list[Any]) -> Rendered:
        messages = checked_messages(main.messages)
        if not self._knows_calls:  # or the model would not see what it called
            messages = [{**message, "content": _spoken(message)} for message in messages]
        offered = _offered(main, tools)
        settings = {
            **_arguments(main.arguments),
            "enable_thinking": main.enable_thinking,
            "add_generation_prompt": main.generate,
        }
        text = self._rendered(messages, offered, settings)
        return Rendered(text, self._before(messages, offered, settings, text))

    def _system(self, turn: Turn, tools: list[Any], text: str) -> int:
        return self._before([_message(turn)], tools, _settings(turn), text)

    def _before(self, messages: list[Message], tools: list[Any], settings: dict[str, Any], text: str) -> int:
        """Length of what comes before the first message that is not the system's, whoever speaks it."""
        system = leading_system(messages)
        if len(system) == len(messages):
            return 0
        other = {"role": "assistant", "content": messages[len(system)]["content"]}
        try:
            changed = self._rendered([*system, other], tools, settings)
        except ParamInvalid:
            return 0  # the template insists on a user's message first
        same = next((i for i, (a, b) in enumerate(zip(text, changed)) if a != b), 0)
        return len(_OPEN_MARKER.sub("", text[:same]))

    def _render(self, messages: list[Message], turn: Turn, tools: list[Any]) -> str:
        return self._rendered(messages, tools, _settings(turn))

    def _rendered(self, messages: list[Message], tools: list[Any], settings: dict[str, Any]) -> str:
        try:
            with self._lock:  # the environment has one budget at a time
                self._environment.budget = Budget(self._limits, self._stopping)
                return str(
                    self._template.render(messages=messages, tools=tools or None, **settings, **self._names)
                )
        except RenderStopped:
            raise
        except Exception as error:
            roles = ", ".join(message["role"] for message in messages[-_ROLES_SHOWN:])
            raise ParamInvalid(
                f"the chat template cannot render turns of role {roles}: {_reason(error)}"
            ) from None


def tools_text(tools: list[Any]) -> str:
    """Function tools described in plain text, for templates that know nothing of them; empty without tools."""
    if not tools:
        return ""
    described = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    return (
        f"You can call these functions:\n<tools>\n{described}\n</tools>\nTo call one, answer with\n"
        '<tool_call>\n{"name": NAME, "arguments": {...}}\n</tool_call>'
    )


def _offered(main: MessagesInput, tools: list[Any]) -> list[Any]:
    """The tools of a conversation; raises ParamInvalid for what are none."""
    return tools if main.tools is None else checked_tools(list(main.tools))


def _arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    taken = sorted({"messages", "tools", "bos_token", "eos_token"} & set(given))
    if taken or not all(isinstance(name, str) and name.isidentifier() for name in given):
        raise ParamInvalid(f"arguments of the chat template: {taken or list(given)} cannot be given")
    return dict(given)


def _spoken(message: Message) -> str:
    """An earlier answer as the model gave it, tool calls in the form that ``tools_text`` asks for."""
    calls = [
        f"<tool_call>\n{json.dumps(call['function'], ensure_ascii=False)}\n</tool_call>"
        for call in message.get("tool_calls", [])
    ]
    return "\n".join(part for part in [message["content"], *calls] if part)


def _joined(parts: list[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _settings(turn: Turn) -> dict[str, Any]:
    return {"enable_thinking": turn.enable_thinking, "add_generation_prompt": True}


def _message(turn: Turn) -> Message:
    return {"role": turn.role, "content": turn.prompt}


def _reason(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _environment() -> BoundedEnvironment:
    try:
        from .jinja_sandbox import BoundedEnvironment
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
        parts = sum(
            1
            for _, kind, _ in itertools.islice(environment.lex(source), 2 * _MOST_PARTS)
            if kind != "whitespace"
        )
        if parts > _MOST_PARTS:
            raise ParamInvalid(
                f"the chat template has more than {_MOST_PARTS} words and signs; published ones have some thousands"
            )
        return environment.from_string(source)
    except ParamInvalid:
        raise
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
        value = parse_json(tools)
    except ValueError as error:
        raise ParamInvalid(f"function tools are no JSON: {error}") from None
    return checked_tools(value)


def checked_tools(tools: Any) -> list[Any]:
    """The tools; raises ParamInvalid unless they are a list of objects."""
    if not isinstance(tools, list) or not all(isinstance(tool, Mapping) for tool in tools):
        raise ParamInvalid("function tools must be a JSON list of objects, as OpenAI's API describes tools")
    return tools
