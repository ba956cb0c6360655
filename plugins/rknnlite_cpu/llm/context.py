"""A language model on the CPU: its weights, shared by sessions that run one after another."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rknnlite.errors import ContextInvalid, ModelInvalid, ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.formats.llm import LlmModel
from rknnlite.formats.safetensors import SafeTensors
from rknnlite.llm.package import Package
from rknnlite.llm.sampling import check_sampling
from rknnlite.llm.template import ChatTemplate, JinjaTemplate, LiteralTemplate
from rknnlite.spi.llm import KvStore, LlmCallbacks, LlmConfig, LlmContext, LlmOptions, LlmParams, LlmSession
from rknnlite.tensor import DType, Layout, TensorAttr

from .model import Decoder
from .session import CpuLlmSession

__all__ = ["CpuLlmContext"]

_CHUNK = 256
_ALL_CORES = 0xFF  # a coprocessor has eight
_PARAMS, _NO_CALLBACKS = LlmParams(), LlmCallbacks()
_LOOK = 0.02  # seconds between looks at a stop request while another session runs


class CpuLlmContext(LlmContext):
    """See ``LlmContext``. Option ``prefill_chunk``: tokens that are prefilled at a time."""

    def __init__(self, file: ModelFile, weights: ModelFile | None, options: LlmOptions) -> None:
        """Raises ModelInvalid, ModelUnsupported or ParamInvalid."""
        self.model: LlmModel = file.llm
        _check_mask(self.model, options.core_mask)
        self.chunk = _positive("prefill_chunk", options.extra.get("prefill_chunk", _CHUNK))
        weights = weights or _beside(file)
        self.decoder = Decoder(self.model, SafeTensors(weights.data, weights.label))
        self._sessions: weakref.WeakSet[CpuLlmSession] = weakref.WeakSet()
        self._turn = threading.Lock()
        self._runner: int | None = None
        self._closed = False

    @property
    def backend_name(self) -> str:
        return "cpu"

    @property
    def config(self) -> LlmConfig:
        model = self.model
        return LlmConfig(
            chat_template=model.chat_template,
            vocab_size=model.arch.vocab_size,
            embedding_dim=model.arch.hidden,
            max_ctx_len=model.max_context,
            max_position_embeddings=model.arch.max_position,
            kvcache_store_method=KvStore.GROUP_QUANT if model.kv.group else KvStore.NORMAL,
            kvcache_dtype=model.kv.dtype,
            kvcache_group_size=model.kv.group,
            kvcache_residual_depth=model.kv.group,
            model_type=model.arch.family,
            core_num=model.core_num,
        )

    @property
    def inputs(self) -> list[TensorAttr]:
        return [
            TensorAttr(
                0, "input_embeds", (1, self.chunk, self.model.arch.hidden), DType.FLOAT16, Layout.UNDEFINED
            )
        ]

    @property
    def outputs(self) -> list[TensorAttr]:
        """float16 as on the coprocessor; callbacks get the values in float32, as they were computed."""
        arch = self.model.arch
        return [
            TensorAttr(0, "logits", (1, arch.vocab_size), DType.FLOAT16, Layout.UNDEFINED),
            TensorAttr(1, "last_hidden_state", (1, arch.hidden), DType.FLOAT16, Layout.UNDEFINED),
        ]

    def session(
        self,
        params: LlmParams | Sequence[LlmParams] = _PARAMS,
        callbacks: LlmCallbacks = _NO_CALLBACKS,
    ) -> LlmSession:
        if self._closed:
            raise ContextInvalid("the model is closed; open it again")
        session = CpuLlmSession(self, self.checked(params), callbacks)
        self._sessions.add(session)
        return session

    def checked(self, params: LlmParams | Sequence[LlmParams]) -> LlmParams:
        """The parameters for the one logits output, defaults filled in. Raises ParamInvalid."""
        given = [params] if isinstance(params, LlmParams) else list(params)
        if len(given) != 1 or given[0].logits_name not in ("", "logits"):
            names = [p.logits_name for p in given]
            raise ParamInvalid(f"parameters for {len(given)} outputs {names}; the model has one, 'logits'")
        check_sampling(given[0].sampling)
        self._check_vocab(given[0])
        longest = self.model.max_context
        size = given[0].max_context_len or longest
        if not 1 <= size <= longest:
            raise ParamInvalid(
                f"max_context_len is {size}, model {self.model.name} was exported for 1..{longest}"
            )
        group = max(1, self.model.kv.group)
        if size < group:
            raise ParamInvalid(
                f"max_context_len is {size}, the KV cache is stored in groups of {group} tokens"
            )
        return replace(given[0], max_context_len=size // group * group)

    def _check_vocab(self, params: LlmParams) -> None:
        size = self.model.arch.vocab_size
        vocab = params.vocab
        if vocab.vocab_size not in (0, size):
            raise ParamInvalid(f"vocab_size is {vocab.vocab_size}, model {self.model.name} has {size} tokens")
        wrong = [i for i in (*vocab.special_eos_ids, *vocab.special_bos_ids) if not -1 <= i < size]
        if wrong:
            raise ParamInvalid(f"special token {wrong[0]} is not in the vocabulary 0..{size - 1}")

    def chat_template(self) -> ChatTemplate:
        """The model's template; plain text when it has none."""
        if not self.model.chat_template:
            return LiteralTemplate()
        tokens = self.model.tokens
        spelt = [
            tokens[i].decode("utf-8", "replace") if tokens and i >= 0 else ""
            for i in (self.model.bos_id, self._eos)
        ]
        return JinjaTemplate(self.model.chat_template, *spelt)

    @property
    def _eos(self) -> int:
        return self.model.eos_ids[0] if self.model.eos_ids else -1

    @contextmanager
    def turn(self, stopping: Callable[[], bool]) -> Iterator[bool]:
        """One session at a time; False when it was stopped while it waited for the others."""
        if self._runner == threading.get_ident():
            raise ContextInvalid(
                "a session was run from inside a callback of another session of the same model"
            )
        while not self._turn.acquire(timeout=_LOOK):
            if stopping():
                yield False
                return
        self._runner = threading.get_ident()
        try:
            if self._closed:
                raise ContextInvalid("the model is closed; open it again")
            yield True
        finally:
            self._runner = None
            self._turn.release()

    def close(self) -> None:
        self._closed = True
        for session in list(self._sessions):
            session.close()


def _check_mask(model: LlmModel, mask: int | None) -> None:
    if mask and (not 0 < mask <= _ALL_CORES or bin(mask).count("1") != model.core_num):
        raise ParamInvalid(
            f"core_mask {mask:x} is not match with npu core number {model.core_num}! Name as many cores as the "
            f"model was exported for, e.g. {(1 << model.core_num) - 1:#x}"
        )


def _positive(name: str, value: object) -> int:
    if not isinstance(value, int) or value < 1:
        raise ParamInvalid(f"option {name} is {value!r}, must be a positive number")
    return value


def _beside(file: ModelFile) -> ModelFile:
    if file.path is None:
        raise ParamInvalid("the model came as bytes, so its weight file cannot be found beside it; name it")
    path = Package.of(file.path).weight
    if not Path(path).exists():
        raise ModelInvalid(
            f"{file.label}: its weight file {path} is not there; name it, or export the model again"
        )
    return ModelFile(path)
