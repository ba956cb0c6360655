"""The calls by which the library comes to what was asked for: who renders, what is cleared, what is remembered.

With a chat template (an option, that of the tokenizer beside the model, or ``set_chat_template``) texts are rendered
here, whole conversations with their tools, and go to the model as they are: the library's template knows one turn of a
user or a tool, cannot be told earlier answers, and loses its tools when a system prompt is set. The library then finds
by itself what its cache holds of the beginning. Without one the library's own template is used, turn by turn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from rknnlite_llm.callbacks import CheckedCallbacks
from rknnlite_llm.chat_template import ChatTemplate, LiteralTemplate, Turn, checked_tools, parse_tools
from rknnlite_llm.inputs import split_inputs
from rknnlite_llm.messages import Message, checked_messages, leading_system, media_parts

from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.spi.llm import (
    EmbedInput,
    InputKind,
    LlmInput,
    MediaBlock,
    MessagesInput,
    MultimodalInput,
    PromptInput,
    TokenInput,
)

from . import run_inputs
from .abi.revisions import Revision
from .requests import RunInput

__all__ = ["Conversation", "Step"]

_TEMPLATE = (
    "open the model with chat_template (Jinja text, a file, or 'chatml'), or put PREFIX.tokenizer.gguf beside it: then whole "
    "conversations are rendered here"
)
Call = tuple[Any, ...]


@dataclass
class Step:
    """One run: its input, what the library is told before, and what to do with the text that it gave.

    ``undo`` is for a run that does not take place after all: the conversation is as it was.
    """

    input: RunInput
    keeps: bool = False
    before: list[Call] = field(default_factory=list)
    done: Callable[[str], None] = lambda text: None
    undo: Callable[[], None] = lambda: None


class Conversation:
    """Who speaks how in one session. Nothing here calls the library: calls to be made are returned."""

    def __init__(
        self, abi: Revision, template: Optional[ChatTemplate], tool_tag: str, tags: run_inputs.Tags
    ) -> None:
        self._abi, self._ours, self._tag, self._tags = abi, template, tool_tag, tags
        self._tools: list[Any] = []
        self._messages: Optional[list[Message]] = []  # of both sides so far; None: not known as text
        self._library_knows = ("", "")  # system prompt and tools
        # whether the cache begins with the system prompt of the library's template
        self._system_first = False
        self._outdated = False  # whether the cache begins with a system prompt from before the tools came
        self.cache_kept = False  # whether the library keeps a conversation from earlier runs

    # -- settings -----------------------------------------------------------------------------------------

    @property
    def opening(self) -> list[Call]:
        """Calls that switch the library's template off, where ours is used."""
        has = self._ours is not None and "rkllm_set_chat_template" in self._abi.exports
        return [("chat_template", "", "", "")] if has else []

    def set_template(self, system: str, prefix: str, postfix: str) -> list[Call]:
        """Literal text instead of the model's template."""
        self._ours = LiteralTemplate(system, prefix, postfix)
        self.forget()
        return self.opening

    def set_tools(self, text: str) -> list[Call]:
        """Tools for all that follows; raises ParamInvalid."""
        tools = parse_tools(text)
        calls = [] if self._ours is not None else self._library_calls("", tools)
        self._tools, self._outdated = tools, self._outdated or bool(calls and self.cache_kept)
        return calls

    def forget(self, system_stays: bool = False) -> None:
        """The conversation is empty again, but for the system prompt where that stays."""
        self._messages, self.cache_kept = [], system_stays and self._can_clear

    @property
    def keeps_system(self) -> bool:
        """Whether the cache may begin with a system prompt that is to stay; what is rendered here holds none."""
        return self._ours is None and self._system_first and not self._outdated

    def called(self, name: str, *args: Any) -> None:
        """A call was made."""
        if name == "function_tools":
            self._library_knows = (args[0], args[1])
        elif name == "clear_kvcache" and not args[0]:
            self._outdated = False

    def run_failed(self) -> None:
        """A run ended early: what the cache holds is not known."""
        self._messages, self.cache_kept, self._system_first = None, self._can_clear, False

    # -- steps --------------------------------------------------------------------------------------------

    def step(
        self, inputs: LlmInput | Sequence[LlmInput], keep: bool, calls: CheckedCallbacks, context: int
    ) -> Step:
        """How a run is made. Raises InputInvalid, ParamInvalid for what cannot be done; nothing is changed then."""
        was = self._messages, self.cache_kept, self._system_first, self._outdated

        def undo() -> None:
            self._messages, self.cache_kept, self._system_first, self._outdated = was

        try:
            step = self._step(inputs, keep, calls, context)
        except BaseException:
            undo()
            raise
        step.undo = undo
        return step

    def _step(
        self, inputs: LlmInput | Sequence[LlmInput], keep: bool, calls: CheckedCallbacks, context: int
    ) -> Step:
        main, aux = split_inputs(inputs)
        if aux:
            raise InputInvalid("librkllmrt takes no auxiliary inputs")
        if self._abi.RKLLMInput is None and (
            not isinstance(main, (MessagesInput, PromptInput)) or _blocks(main)
        ):
            raise InputInvalid(
                f"librkllmrt {self._abi.known_as} takes text alone; tokens, embeddings and images need 1.1 or later"
            )
        if isinstance(main, MessagesInput):
            return self._whole(main, calls)
        if isinstance(main, PromptInput):
            return self._prompt(main, [], keep, calls)
        if isinstance(main, MultimodalInput):
            if main.prompt is None:
                raise InputInvalid("librkllmrt takes media beside a text, not beside tokens; give prompt")
            turn = PromptInput(main.prompt, main.role, main.enable_thinking)
            return self._prompt(turn, main.blocks, keep, calls)
        if isinstance(main, TokenInput):
            goes = run_inputs.tokens(main.tokens, calls, context)
            return self._without_text(goes, keep and not main.whole, not main.whole)
        assert isinstance(main, EmbedInput)
        step = self._without_text(run_inputs.embedded(main.embeds, calls, context), keep, True)
        if not keep and self._can_clear:  # earlier embeddings count otherwise
            step.before = [("clear_kvcache", False)]
        return step

    def alone(self, step: Step) -> None:
        """Have the library forget earlier runs, whose beginning it reuses by itself: rows are told of what it computes only."""
        if self._can_clear and not any(name == "clear_kvcache" for name, *_ in step.before):
            step.before.insert(0, ("clear_kvcache", step.keeps and step.input.kind is not InputKind.TOKEN))

    def text(self, main: MessagesInput, calls: CheckedCallbacks) -> str:
        """A conversation as our template writes it; raises ParamInvalid without one."""
        if self._ours is None:
            raise ParamInvalid(f"librkllmrt does not tell its chat template; {_TEMPLATE}")
        return self._written(calls.plain_text.conversation(main), calls)

    def _written(self, talk: MessagesInput, calls: CheckedCallbacks) -> str:
        """What our template makes of a conversation whose texts are plain; raises ParamInvalid."""
        assert self._ours is not None
        if talk.enable_thinking and isinstance(self._ours, LiteralTemplate):
            raise ParamInvalid(
                "enable_thinking means nothing to the text that set_chat_template gave; write what has the model think into that "
                f"text, or {_TEMPLATE}"
            )
        return self._ours.conversation(talk, calls.plain_text.within(self._tools)).text

    @property
    def _can_clear(self) -> bool:
        return "rkllm_clear_kv_cache" in self._abi.exports

    def _cleared(self, keep_system: bool = False) -> list[Call]:
        """What has the library forget an earlier conversation; it keeps one only where it can clear it, too.

        Its own template's system prompt stays for its own turns; anything else would come behind that.
        """
        return [("clear_kvcache", keep_system and self.keeps_system)] if self.cache_kept else []

    def _without_text(self, goes: RunInput, continues: bool, keeps: bool) -> Step:
        """A run whose text is not known here."""
        if continues and not self._can_clear:
            raise ParamInvalid(
                f"librkllmrt {self._abi.known_as} keeps no conversation; keep_history needs 1.2.0 or later"
            )
        keeps = keeps and self._can_clear
        step = Step(goes, keeps, [] if continues else self._cleared())
        self._system_first = self._system_first and continues
        self._messages, self.cache_kept = None, keeps
        return step

    def _prompt(
        self, main: PromptInput, blocks: list[MediaBlock], keep: bool, calls: CheckedCallbacks
    ) -> Step:
        turn = Turn(main.prompt, main.role, main.enable_thinking)
        message: Message = {"role": turn.role, "content": turn.prompt}
        continues = keep or turn.role == "tool"
        if self._ours is None:
            return self._turn(message, turn.enable_thinking, blocks, continues, calls)
        if continues and self._messages is None:
            raise ParamInvalid(
                "the conversation so far holds tokens or embeddings, whose text is not known, or its last run failed; clear it "
                "first, or go on with tokens"
            )
        messages = [*(self._messages or []), message] if continues else [message]
        plain = calls.plain_text.marked if not self._ours.as_given else str
        said = [{**message, "content": plain(message["content"])} for message in messages]
        text = self._written(MessagesInput(said, None, turn.enable_thinking), calls)
        return self._rendered(text, messages, blocks, calls)

    def _rendered(
        self, text: str, messages: list[Message], blocks: list[MediaBlock], calls: CheckedCallbacks
    ) -> Step:
        before, self.cache_kept, self._messages = self._cleared(), False, None
        return Step(self._goes(text, "user", False, blocks, calls), False, before, self._remembers(messages))

    def _goes(
        self, text: str, role: str, thinking: bool, blocks: list[MediaBlock], calls: CheckedCallbacks
    ) -> RunInput:
        if not blocks:
            return run_inputs.prompt(text, role, thinking)
        per_run = self._abi.RKLLMMultiModalInput_image is not None
        return run_inputs.multimodal(text, blocks, calls, self._tags, per_run)

    def _remembers(self, messages: list[Message]) -> Callable[[str], None]:
        def done(text: str) -> None:
            self._messages = [*messages, {"role": "assistant", "content": text}]

        return done

    def _whole(self, main: MessagesInput, calls: CheckedCallbacks) -> Step:
        if media_parts(main.messages) and not main.blocks:
            raise InputInvalid("the messages have parts that are no text, and no data go with them")
        messages = checked_messages(main.messages)
        if self._ours is None:
            return self._next_turn(main, messages, calls)
        return self._rendered(self.text(main, calls), messages, main.blocks, calls)

    # -- the library's own template -----------------------------------------------------------------------

    def _turn(
        self,
        message: Message,
        thinking: bool,
        blocks: list[MediaBlock],
        continues: bool,
        calls: CheckedCallbacks,
    ) -> Step:
        """One turn by the library's template; it goes on from the last one, or begins anew."""
        if continues and not self._can_clear:
            raise ParamInvalid(
                f"librkllmrt {self._abi.known_as} keeps no conversation; {_TEMPLATE}, and history is kept in text"
            )
        if continues and self._outdated:
            raise ParamInvalid(
                "the library's own template writes tools at the beginning of a conversation, and this one began before they "
                f"came; clear it first (clear_kvcache), or {_TEMPLATE}"
            )
        messages = [*(self._messages or []), message] if continues else [message]
        content = calls.plain_text.marked(message["content"])
        goes = self._goes(content, message["role"], thinking, blocks, calls)
        known = not continues or self._messages is not None
        before = [] if continues else self._cleared(keep_system=True)
        self._system_first = self._system_first or not (continues and self.cache_kept)
        self.cache_kept, self._messages = self._can_clear, None
        return Step(goes, self._can_clear, before, self._remembers(messages) if known else lambda text: None)

    def _next_turn(self, main: MessagesInput, messages: list[Message], calls: CheckedCallbacks) -> Step:
        """The end of a conversation whose beginning this session has had; or a single question."""
        if main.arguments or not main.generate:
            raise ParamInvalid(
                f"arguments of a template, and generate=False, need a template that is known; {_TEMPLATE}"
            )
        system = leading_system(messages)
        tools = self._tools if main.tools is None else checked_tools(list(main.tools))
        rest = messages[len(system) :]
        new = rest[len(self._messages or []) :]
        continues = self.cache_kept and bool(self._messages) and _same(self._messages or [], rest)
        if not continues:
            new = rest
        if not _one_turn(new) or (not continues and new[0]["role"] == "tool"):
            raise ParamInvalid(
                f"the library's own template takes one turn at a time, and {len(new)} messages are new to this session; {_TEMPLATE}"
            )
        before = self._library_calls("\n\n".join(message["content"] for message in system), tools)
        if before:  # the cache is of no use without them, not even its system prompt
            self._outdated = self.cache_kept
        content = new[0]["content"]
        if new[0]["role"] == "tool":
            content = json.dumps([message["content"] for message in new], ensure_ascii=False)
        message = {"role": new[0]["role"], "content": content}
        step = self._turn(message, main.enable_thinking, main.blocks, continues, calls)
        step.before += before
        step.done = self._remembers(rest)
        return step

    def _library_calls(self, system: str, tools: list[Any]) -> list[Call]:
        """Calls that give the library's template its system prompt and tools."""
        text = json.dumps(tools, ensure_ascii=False) if tools else ""
        if (system, text) == self._library_knows:
            return []
        if not text:
            what = (
                "a system prompt goes to the library's own template together with tools only"
                if system
                else ("tools cannot be taken away from the library's own template")
            )
            raise ParamInvalid(f"{what}; {_TEMPLATE}, or open another session")
        if "rkllm_set_function_tools" not in self._abi.exports:
            raise ParamInvalid(
                f"librkllmrt {self._abi.known_as} has no tools; use 1.2.1 or later, or {_TEMPLATE}"
            )
        return [("function_tools", system, text, self._tag)]


def _blocks(main: LlmInput) -> bool:
    return bool(getattr(main, "blocks", ()))


def _one_turn(new: list[Message]) -> bool:
    """One message of a user, or results of tools only."""
    roles = [message["role"] for message in new]
    return roles == ["user"] or (bool(roles) and set(roles) == {"tool"})


def _same(earlier: list[Message], messages: list[Message]) -> bool:
    """Whether messages begin with the earlier ones; answers may lack their thoughts, and have calls taken apart."""
    return len(messages) > len(earlier) and all(map(_agree, earlier, messages))


def _agree(earlier: Message, message: Message) -> bool:
    if earlier["role"] != message["role"]:
        return False
    if earlier["role"] != "assistant":
        return bool(earlier["content"] == message["content"])
    text = earlier["content"].strip()
    named = all(call["function"]["name"] in text for call in message.get("tool_calls", []))
    return named and (text.endswith(message["content"].strip()) or "tool_calls" in message)
