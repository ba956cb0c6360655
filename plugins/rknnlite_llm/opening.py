"""Opening a language model, and the simplest way to talk to one."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Union

from rknnlite.choosing import choose_llm_backend
from rknnlite.errors import ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi.arguments import Typed, WrongType, typed
from rknnlite.spi.llm import (
    InferParams,
    LlmCallbacks,
    LlmContext,
    LlmOptions,
    LlmParams,
    MessagesInput,
    PromptInput,
    RunSummary,
    TokenInput,
)

from .answers import (
    Answer,
    AnswerParser,
    AnswerPart,
    answer_decoder,
    answer_format,
    can_think,
    ends_in_thought,
    rule_behind_thought,
    special_token,
    tool_rule,
)
from .chat_template import CHATML
from .constraints import Rule
from .messages import media_parts
from .package import Package
from .streaming import AnswerText, astream, stream
from .tokenizer import Tokenizer

__all__ = ["Chat", "open_llm"]

Messages = Sequence[Mapping[str, Any]]
"""Objects as in OpenAI's API: messages, or tools."""
Said = Union[str, Sequence[Mapping[str, Any]]]
"""Text of one turn, or a list of messages."""

_PARAMS = LlmParams()


@typed
def open_llm(
    model: str | os.PathLike[str] | bytes | ModelFile,
    weights: str | os.PathLike[str] | bytes | ModelFile | None = None,
    backend: str | None = None,
    core_mask: int | None = None,
    soc: str | None = None,
    device_id: str | None = None,
    **extra: Any,
) -> LlmContext:
    """Open a language model on a backend.

    Args:
        model: path or bytes of ``PREFIX.rknn``, or the path of a ``.rkllm`` file.
        weights: path or bytes of ``PREFIX.weight``; None looks beside the model.
        backend: ``cpu``, ``rknn3rt``, ``rkllm``, ...; None: ``RKNNLITE_BACKEND``, else the best one that takes the model.
        core_mask: cores of the coprocessor, as many as the model was made for; None or 0 leaves the choice.
        soc: the coprocessor that is meant, e.g. ``"rk1820"``; None: any.
        device_id: which one, see ``Backend.devices``; None: the only one.
        extra: options of the backend.

    Raises:
        ModelInvalid, ModelUnsupported: unusable files.
        BackendUnavailable: nothing can run it.
        ParamInvalid: an unknown SoC.
    """
    file = model if isinstance(model, ModelFile) else ModelFile(_source(model))
    weight = weights if weights is None or isinstance(weights, ModelFile) else ModelFile(_source(weights))
    options = LlmOptions(core_mask=core_mask, device_id=device_id, soc=soc, extra=extra)
    return choose_llm_backend(file, backend, options).open_llm(file, weight, options)


def _source(given: Any) -> Any:
    return given if isinstance(given, (bytes, bytearray, memoryview)) else Path(given)


class Chat(Typed):
    """A model, a session, its tokenizer and its embeddings: ``for piece in chat.stream("Hello"): ...``.

    ``session`` takes all settings, ``last`` is the summary of the last run. Of text, history is kept from call to call;
    ``chat.session.clear_kvcache()`` forgets it. A list of messages is a whole conversation by itself.

    Examples:
        >>> with Chat("examples/llm_chat/models/tiny") as chat:
        ...     answer = chat.ask("What is 12 + 30?", max_new_tokens=16)
        ...     pieces = list(chat.stream("What is 1 + 2?", max_new_tokens=16))
        >>> "42" in answer
        True
    """

    def __init__(self, prefix: str | os.PathLike[str], params: LlmParams = _PARAMS, **options: Any) -> None:
        """Open the package ``PREFIX``, or a ``.rkllm`` file; ``options`` as in ``open_llm``."""
        package = Package.of(os.fspath(prefix))
        weight = None if package.is_one_file else package.weight
        self.context = open_llm(package.model, weight, **options)
        try:
            self.tokenizer = _tokenizer(package, self.context)
            self._decode = self.tokenizer.decode if self.tokenizer is not None else None
            embed = package.embeddings(self.context)
            self.session = self.context.session(params, LlmCallbacks(tokenizer=self.tokenizer, embed=embed))
        except BaseException:
            self.context.close()
            raise
        self.last: RunSummary | None = None
        self._drawing = params
        self._rules: Any = None

    def ask(self, prompt: Said, max_new_tokens: int = 1024, rule: Rule | None = None, **turn: Any) -> str:
        """The whole answer.

        ``rule``: what it must look like, e.g. ``JsonSchema({...})`` of ``rknnlite_llm.constraints``; one that
        ``max_new_tokens`` ends before its time is not complete. Needs the extra ``constraints``.
        ``turn``: role, enable_thinking, and all of ``MessagesInput`` for a list of messages.

        Raises ParamInvalid for a rule that cannot be followed, BackendUnavailable without the extra.
        """
        text, results = AnswerText(self._decode), []
        with self._bound(rule, prompt):
            before = self.session.callbacks

            def result(tokens: Any, state: Any) -> None:
                results.append(tokens)

            self.session.set_callbacks(replace(before, result=result))
            try:
                self.last = self.session.run(_input(prompt, turn), self._params(max_new_tokens))
            finally:
                self.session.set_callbacks(before)
        return "".join(map(text.push, (*results, None)))

    def stream(
        self, prompt: Said, max_new_tokens: int = 1024, rule: Rule | None = None, **turn: Any
    ) -> Iterator[str]:
        """The answer piece by piece, arguments as in ``ask``; leaving the loop stops the model."""
        with self._bound(rule, prompt):
            self.last = yield from stream(
                self.session, _input(prompt, turn), self._decode, self._params(max_new_tokens)
            )

    async def astream(
        self, prompt: Said, max_new_tokens: int = 1024, rule: Rule | None = None, **turn: Any
    ) -> AsyncGenerator[str, None]:
        """``stream`` for ``async for``."""
        with self._bound(rule, prompt):
            pieces = astream(self.session, _input(prompt, turn), self._decode, self._params(max_new_tokens))
            try:
                async for piece in pieces:
                    yield piece
            finally:
                await pieces.aclose()

    def answer(
        self,
        messages: Messages,
        tools: Messages = (),
        max_new_tokens: int = 1024,
        rule: Rule | None = None,
        **turn: Any,
    ) -> Answer:
        """The whole answer to a conversation, taken apart: content, reasoning, calls of tools.

        ``rule`` says what it must look like where no tool is called; calls are kept valid then, too.
        ``answer.message`` goes on the list of messages, followed by ``{"role": "tool", "content": ...}`` for each call.
        ``turn``: enable_thinking, template_arguments and so on, see ``MessagesInput``; ``image`` with its ``aux`` come from a
        ``VisionEncoder``.
        """
        return Answer.of(self.parts(messages, tools, max_new_tokens, rule, **turn))

    def parts(
        self,
        messages: Messages,
        tools: Messages = (),
        max_new_tokens: int = 1024,
        rule: Rule | None = None,
        **turn: Any,
    ) -> Iterator[AnswerPart]:
        """``answer`` piece by piece; leaving the loop stops the model."""
        aux = turn.pop("aux", ())
        given = MessagesInput(messages, tools or None, **turn)
        said: Any = [given, *aux] if aux else given
        template = self.context.config.chat_template or CHATML
        form = answer_format(template)
        thinking = False
        if not media_parts(messages) and self.tokenizer is not None:
            tokens = self.session.rendered(given)
            end = self.tokenizer.decode(tokens[-8:], skip_special=False)
            said, thinking = TokenInput(tokens, whole=True), ends_in_thought(form, end)
        parser = AnswerParser(form, tools, thinking)
        decode = None
        if self.tokenizer is not None and not self.context.traits.own_text:
            decode = answer_decoder(self.tokenizer, form, bool(tools))
        if rule is not None:
            special = special_token(self._vocabulary())
            first = thinking or (given.enable_thinking and can_think(form, template))
            if tools:
                rule = tool_rule(form, tools, otherwise=rule, special=special, thinking=first)
            elif first:
                rule = rule_behind_thought(form, rule, special)
        with (
            self._bound(rule, messages),
            closing(stream(self.session, said, decode, self._params(max_new_tokens))) as pieces,
        ):
            while True:
                try:
                    piece = next(pieces)
                except StopIteration as end:
                    self.last = end.value
                    break
                yield from parser.push(piece)
        yield from parser.finish()

    def _params(self, max_new_tokens: int) -> InferParams:
        return InferParams(keep_history=True, max_new_tokens=max_new_tokens)

    @contextmanager
    def _bound(self, rule: Rule | None, prompt: Said) -> Iterator[None]:
        """Answers follow the rule meanwhile: the tokens are chosen on the host."""
        if rule is None:
            yield
            return
        if isinstance(prompt, str) and self._drawing.sampling.repeat_penalty != 1:
            raise ParamInvalid(
                "with a rule, repeat_penalty needs the conversation as a list of messages, whose tokens it counts"
            )
        from .grammars import Grammars  # most programs bind no answers
        from .host_sampling import HostSampling

        vocabulary = self._vocabulary()
        if self._rules is None:
            eos = self._drawing.vocab.special_eos_ids or (vocabulary.eos_id,)
            self._rules = Grammars(vocabulary, self.context.config.vocab_size, eos, check=False)
        before = self.session.callbacks
        sampling = HostSampling(self._drawing.sampling, constraint=self._rules.constraint(rule))

        tokenizer = _Heard(before.tokenizer or vocabulary, sampling.saw)
        self.session.set_callbacks(replace(before, tokenizer=tokenizer, sampling=sampling))
        try:
            yield
        finally:
            self.session.set_callbacks(before)

    def _vocabulary(self) -> Tokenizer:
        """The tokenizer for rules; raises ParamInvalid where answers cannot be bound by any."""
        if self.tokenizer is None or not self.context.traits.host_sampling:
            raise ParamInvalid(
                f"backend {self.context.backend_name} chooses tokens by itself, so no rule can bind its answers; ask "
                "without a rule, or use another backend"
            )
        return self.tokenizer

    def close(self) -> None:
        """Release everything; may be called again."""
        self.context.close()

    def __enter__(self) -> Chat:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Heard:
    """A tokenizer callback whose tokens are told to somebody else, too."""

    def __init__(self, inner: Any, told: Callable[[list[int]], None]) -> None:
        self._inner, self._told = inner, told

    def __call__(self, text: str) -> list[int]:
        ids = list(self._inner(text))
        self._told(ids)
        return ids

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _tokenizer(package: Package, context: LlmContext) -> Tokenizer | None:
    """The tokenizer beside the model; None where there is none and the runtime has one of its own."""
    if context.traits.own_text and not package.tokenizer.is_file():
        return None
    tokenizer = Tokenizer(package.tokenizer)
    tokenizer.made_for(context.config.max_ctx_len, package.model.name)
    return tokenizer


def _input(prompt: Said, turn: dict[str, Any]) -> Any:
    """The input of a run, with the auxiliary ones (``aux``) that belong to its pictures."""
    if not isinstance(prompt, (str, list, tuple)):
        raise WrongType(
            f"prompt is {type(prompt).__name__}, must be text or a list of messages; tokens go to the session"
        )
    aux = turn.pop("aux", ())
    main = PromptInput(prompt, **turn) if isinstance(prompt, str) else MessagesInput(prompt, **turn)
    return [main, *aux] if aux else main
