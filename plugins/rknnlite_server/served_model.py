"""A language model that the server has opened: its sessions, who waits for them, and what it says about itself."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rknnlite_llm import Package, Tokenizer, open_llm
from rknnlite_llm.answers import (
    ThoughtBudget,
    answer_format,
    can_think,
    ends_in_thought,
    rule_behind_thought,
    special_token,
    tool_rule,
)
from rknnlite_llm.chat_template import CHATML, JinjaTemplate
from rknnlite_llm.constraints import Rule
from rknnlite_llm.draft_and_adapters import DraftAndAdapters
from rknnlite_llm.grammars import Grammars
from rknnlite_llm.host_sampling import Constraint
from rknnlite_llm.inputs import expanded

from rknnlite.errors import BackendUnavailable, ModelInvalid, ModelUnsupported, ParamInvalid
from rknnlite.files.reading import read_text
from rknnlite.spi.llm import (
    KvPolicy,
    LlmCallbacks,
    LlmParams,
    LlmSession,
    MessagesInput,
    RunSummary,
    SamplingParams,
    TaskType,
    VocabInfo,
)

from .errors import ApiError
from .media import media_of
from .queueing import Turnstile
from .session_pool import SessionPool
from .settings import ModelSettings, ServerSettings
from .tool_choice import Tools

__all__ = ["ServedModel", "abilities_of"]

_VOCAB_TYPE_BPE = 2
"""``LLAMA_VOCAB_TYPE_BPE`` of llama.cpp, by whose numbers the field ``vocab_type`` of ``/v1/models`` goes."""


class ServedModel:
    """Opened in a thread of its own, used from the event loop; ``close`` ends all runs."""

    def __init__(self, settings: ModelSettings, server: ServerSettings) -> None:
        """Raises what ``open_llm`` raises, ModelInvalid for parts that do not belong together."""
        self.settings, self.name = settings, settings.name
        self.created = int(time.time())
        self.ran: Callable[[float, Future[RunSummary]], None] = lambda arrived, run: None
        package = _package(settings)
        extra: dict[str, Any] = {"device_id": settings.device_id} if settings.device_id else {}
        if settings.model2 and _is_rkllm(settings):
            extra["image_tags"] = (settings.img_start, settings.img_end, settings.img_content)
        draft_and_adapters = settings.draft_and_adapters
        extra.update(draft_and_adapters.options)
        weight = None if package.is_one_file else _path(settings.weight) or str(package.weight)
        self.context = open_llm(_path(settings.model), weight, backend=settings.backend or None, **extra)
        try:
            draft_and_adapters.open(self.context)
            self.config = config = self.context.config
            if not self.context.traits.tokens:
                version = f"{self.context.versions.library} {self.context.versions.api}"
                raise ModelUnsupported(
                    f"{self.name}: {version} takes text alone, and the server gives it tokens; use a newer runtime"
                )
            self.tokenizer = Tokenizer(_tokenizer(settings, package))
            embed = Path(_path(settings.embed) or package.embed)
            self._embed = replace(package, embed=embed).embeddings(self.context)
            self._source = _template(settings, config.chat_template)
            self.template = JinjaTemplate.of_model(self.name, self._source, *_special(self.tokenizer))
            self.limit = min(settings.ctx_size or config.max_ctx_len, config.max_ctx_len)
            if self.limit < 1:
                raise ParamInvalid(f"{self.name}: ctx-size is {settings.ctx_size}, must be 0 or more")
            self.tokenizer.made_for(self.limit, self.name)
            self.plain_text = self.tokenizer.plain_text
            self.form = answer_format(self._source)
            self._rules = Grammars(self.tokenizer, config.vocab_size, self.end_ids)
            self.media = media_of(
                settings, _path(settings.model2), _path(settings.weight2), config.embedding_dim
            )
            parallel = min(server.parallel, self.context.traits.sessions or server.parallel)
            self.pool = SessionPool(self._session, parallel)
            self.turnstile = Turnstile(parallel, server.queue)
            if draft_and_adapters != DraftAndAdapters():
                self.pool.give(self.pool.take())  # what does not fit is told now
        except BaseException:
            self.context.close()
            raise

    def under(self, settings: ModelSettings) -> ServedModel:
        """The same open model with another name, and other assumptions about requests; closing one closes all."""
        settings = replace(settings, model=self.settings.model)
        if settings == self.settings:
            return self
        other = copy.copy(self)
        other.settings, other.name = settings, settings.name
        return other

    def _session(self) -> LlmSession:
        session = self.context.session(self.params(self.settings.sampling), self.callbacks)
        self.settings.draft_and_adapters.enable(session)
        if KvPolicy.NORMAL in self.context.traits.kvcache_policies:
            session.set_kvcache_policy(KvPolicy.NORMAL)
        if self.settings.model2 and not self.context.traits.media_beside_tokens:
            session.set_chat_template("", "", "")  # prompts with images are rendered here
        return session

    def params(self, sampling: SamplingParams) -> LlmParams:
        """Parameters of the sessions."""
        return LlmParams(
            self.limit,
            vocab=VocabInfo(),
            sampling=sampling,
            speculate=self.settings.draft_and_adapters.speculate,
        )

    def prompt(self, messages: MessagesInput, begun: str = "") -> list[int]:
        """The tokens of a conversation, with the beginning of the answer; takes time, so not in the event loop.

        Raises ParamInvalid, InputInvalid.
        """
        text = self.template.conversation(messages, []).text
        return self.tokenizer.encode(expanded(text, messages) + begun)

    def prompt_text(self, messages: MessagesInput, begun: str = "") -> Callable[[], str] | None:
        """What makes the text of a conversation, where images do not go with tokens; else None."""
        if self.context.traits.media_beside_tokens:
            return None
        return lambda: self.template.conversation(messages, []).text + begun

    def constraint(
        self, rule: Rule | None, tools: Tools, thinking: bool = False
    ) -> Callable[[], Constraint] | None:
        """What makes a constraint for an answer; None when anything will do. ``thinking``: a thought comes first.

        Calls of tools keep to the form of the model's family, and their arguments to the schema of the tool. Raises
        ParamInvalid for a bad rule, ApiError without the library where something is demanded of the answer.
        """
        demanded = rule is not None or tools.required
        if not self.context.traits.host_sampling:
            if demanded:
                raise ApiError(
                    501,
                    "not_supported_error",
                    f"backend {self.context.backend_name} chooses tokens by itself: "
                    "it cannot be bound to a schema, a grammar or a tool",
                )
            return None
        special = special_token(self.tokenizer)
        if tools.offered:
            rule = tool_rule(
                self.form, tools.offered, tools.required, tools.name, tools.parallel, rule, special, thinking
            )
        elif rule is None:
            return None
        elif thinking:
            rule = rule_behind_thought(self.form, rule, special)
        bound: Rule = rule
        try:
            self._rules.constraint(bound)  # a bad one is told now
        except BackendUnavailable as error:
            if not demanded:
                return None
            raise ApiError(501, "not_supported_error", str(error)) from None
        return lambda: self._rules.constraint(bound)

    def thinking_within(
        self, budget: int, thinking: bool, inner: Callable[[], Constraint] | None
    ) -> Callable[[], Constraint] | None:
        """A constraint that ends a thought after so many tokens, beside another one; see ``ThoughtBudget``."""
        if not self.context.traits.host_sampling or self.form.name == "harmony":
            return inner
        return lambda: ThoughtBudget(self.form, self.tokenizer, budget, thinking, inner and inner())

    def opens_thought(self, tokens: Sequence[int]) -> bool:
        """Whether the prompt ends inside of a thought."""
        return ends_in_thought(self.form, self.tokenizer.decode(tokens[-8:], skip_special=False))

    def thinks_first(self, tokens: Sequence[int], asked: bool) -> bool:
        """Whether the answer begins with a thought: the prompt has opened one, or the model was asked to and can."""
        return self.opens_thought(tokens) or (asked and can_think(self.form, self._source))

    def must_generate(self) -> None:
        """Raise ApiError for a model of embeddings."""
        if self.embeds:
            raise ApiError(
                501, "not_supported_error", f"{self.name} makes embeddings, it does not generate text"
            )

    def must_embed(self) -> None:
        """Raise ApiError for a model that generates text, unless the server was told that it is for embeddings."""
        if not self.embeds:
            raise ApiError(
                501,
                "not_supported_error",
                f"{self.name} generates text; start the server with --embedding for embeddings of it",
            )

    def token_text(self, token: int) -> str:
        """Text of one token, special ones spelt out."""
        return self.tokenizer.decode([token], skip_special=False)

    def token_bytes(self, token: int) -> bytes:
        """Bytes of one token."""
        return self.token_text(token).encode()

    @property
    def embeds(self) -> bool:
        """Whether it is a model for embeddings and generates no text."""
        return self.settings.embedding or self.config.task_type is TaskType.EMBEDDING

    @cached_property
    def chat_template(self) -> str:
        """The text of the template."""
        return _template(self.settings, self.config.chat_template)

    @cached_property
    def abilities(self) -> tuple[str, ...]:
        """What it can do."""
        return abilities_of(self.chat_template, self.embeds, bool(self.settings.model2))

    @property
    def callbacks(self) -> LlmCallbacks:
        """What every run needs."""
        return LlmCallbacks(tokenizer=self.tokenizer, embed=self._embed)

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Tokens that end an answer."""
        return (self.tokenizer.eos_id,) if self.tokenizer.eos_id >= 0 else ()

    @property
    def meta(self) -> dict[str, Any]:
        """What ``/v1/models`` says about it."""
        config = self.config
        files = [Path(path) for path in (_path(self.settings.model), _path(self.settings.weight)) if path]
        if not self.settings.weight and not _package(self.settings).is_one_file:
            files.append(_package(self.settings).weight)
        return {
            "vocab_type": _VOCAB_TYPE_BPE,
            "n_vocab": config.vocab_size,
            "n_ctx_train": config.max_position_embeddings,
            "n_ctx": self.limit,
            "n_embd": config.embedding_dim,
            "n_embed": config.embedding_dim,
            "n_params": getattr(self.context, "parameters", None),
            "size": sum(path.stat().st_size for path in files if path.exists()),
        }

    def close(self) -> None:
        """End all runs and release the model; may be called again."""
        self.pool.close()
        self._rules.close()
        self.media.close()
        self.context.close()


def abilities_of(template: str, embeds: bool, sees: bool) -> tuple[str, ...]:
    """What a model with this chat template can do, in Ollama's words: completion, tools, thinking, vision; or embedding."""
    if embeds:
        return ("embedding",)
    known = {
        "completion": True,
        "tools": bool(re.search(r"\btools\b", template)),
        "thinking": bool(re.search(r"enable_thinking|<think>", template)),
        "vision": sees,
    }
    return tuple(name for name, able in known.items() if able)


def _package(settings: ModelSettings) -> Package:
    """The model and what lies beside it. Raises ParamInvalid: nothing lies beside a file descriptor."""
    needed = () if _is_rkllm(settings) else ("weight", "embed", "vocab")
    missing = [name for name in needed if not getattr(settings, name)]
    if missing and _path(settings.model) != settings.model:
        raise ParamInvalid(f"{settings.name}: {missing[0]} is missing; nothing lies beside a file descriptor")
    path = Path(_path(settings.model))
    return replace(Package.of(path), model=path)


def _is_rkllm(settings: ModelSettings) -> bool:
    """Whether a model is one file for librkllmrt, which is opened with the tags of its images."""
    return Path(_path(settings.model)).suffix == ".rkllm"


def _tokenizer(settings: ModelSettings, package: Package) -> str | Path:
    """The tokenizer's file; raises ModelInvalid where a ``.rkllm`` file has none beside it, as most are published."""
    if not settings.vocab and package.is_one_file and not package.tokenizer.is_file():
        raise ModelInvalid(
            f"{settings.name}: there is no {package.tokenizer}, and the server counts tokens: the tokenizer in a .rkllm file "
            "cannot be read. llama.cpp's converter makes the file from the original model (--vocab-only); name it with --vocab"
        )
    return _path(settings.vocab) or package.tokenizer


def _path(given: str) -> str:
    """A path; a number is that of an open file descriptor."""
    return f"/proc/self/fd/{given}" if given.isascii() and given.isdigit() else given


def _special(tokenizer: Tokenizer) -> tuple[str, str]:
    """Texts of the tokens that begin a text and end an answer."""
    ids = (tokenizer.bos_id, tokenizer.eos_id)
    bos, eos = (tokenizer.tokens[number] if number >= 0 else "" for number in ids)
    return bos, eos


def _template(settings: ModelSettings, own: str) -> str:
    if settings.made.template:
        return settings.made.template
    if settings.chat_template_file:
        path = Path(_path(settings.chat_template_file))
        try:
            return read_text(path)
        except (OSError, ValueError) as error:
            raise ModelInvalid(f"{settings.name}: chat template {path}: {error}") from None
    return own or CHATML
