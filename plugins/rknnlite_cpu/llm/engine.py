"""A language model on the CPU, loaded: what its context and all its sessions share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Optional

import numpy as np
from rknnlite_llm.chat_template import ChatTemplate, JinjaTemplate, LiteralTemplate
from rknnlite_llm.container.description import LlmModel
from rknnlite_llm.container.safetensors import SafeTensors
from rknnlite_llm.engine import LlmEngine
from rknnlite_llm.sampling import check_sampling

from rknnlite.errors import ContextInvalid, ModelUnsupported, ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi.llm import KvStore, LlmConfig, LlmParams, TaskType
from rknnlite.tensor import DType, Layout, TensorAttr

from .attention import AttentionFunction
from .continuous_batching import StepBatcher
from .decoder import Decoder
from .embedding import EmbeddingPass
from .encoder import Encoder
from .linear import Maker, make_linear
from .lora import Adapter

__all__ = ["CpuEngine"]

_MOST_GUESSES = 15  # with the chosen token 16 rows, whose products are made as those of one are


class CpuEngine(LlmEngine):
    """The decoder on its weights, and what sessions ask about the model.

    ``chunk``: tokens prefilled at a time; ``make``: what wraps a matrix; ``attention``: see ``Decoder``;
    ``speculate``: tokens that are guessed where nobody says how many.
    """

    def __init__(
        self,
        model: LlmModel,
        weights: ModelFile,
        chunk: int,
        make: Maker = make_linear,
        attention: Optional[AttentionFunction] = None,
    ) -> None:
        """Raises ModelInvalid when model and weights do not belong together."""
        super().__init__()
        self.model, self.chunk = model, chunk
        self._weights = weights
        weights.check()
        tensors = SafeTensors(weights.data, weights.label)
        weights.want_large_pages()
        network = (
            Encoder(model, tensors, make) if model.arch.encoder else Decoder(model, tensors, make, attention)
        )
        self.embedding = EmbeddingPass(model, network, tensors, chunk)
        self._steps = StepBatcher(network) if isinstance(network, Decoder) and model.arch.causal else None
        self.closed = False
        self.speculate = 0
        self.adapters: dict[str, Adapter] = {}
        self._runners: set[int] = set()

    @property
    def steps(self) -> StepBatcher:
        """The decoder's steps; raises ModelUnsupported for a model that generates nothing."""
        if self._steps is None or not self.model.arch.head:
            what = (
                "gives scores and generates no text; use rknnlite_llm.Reranker, or LlmContext.score"
                if self.model.arch.scorer
                else "makes embeddings and generates no text; use rknnlite_llm.Embedder, or LlmContext.embed"
            )
            raise ModelUnsupported(f"model {self.model.name} {what}")
        return self._steps

    @property
    def config(self) -> LlmConfig:
        model = self.model
        return LlmConfig(
            chat_template=model.chat_template,
            vocab_size=model.arch.vocab_size,
            embedding_dim=model.arch.row_size,
            max_ctx_len=model.max_context,
            max_position_embeddings=model.arch.max_position,
            kvcache_store_method=KvStore.GROUP_QUANT if model.kv.group else KvStore.NORMAL,
            kvcache_dtype=model.kv.dtype,
            kvcache_group_size=model.kv.group,
            kvcache_residual_depth=model.kv.group,
            model_type=model.arch.family,
            task_type=TaskType.EMBEDDING if model.embedding else TaskType.GENERATE,
            core_num=model.core_num,
        )

    @property
    def inputs(self) -> list[TensorAttr]:
        arch = self.model.arch
        shapes: dict[str, tuple[int, ...]] = {"input_embeds": (1, self.chunk, arch.row_size)}
        if arch.rope.sections:  # they follow from the sizes of images, nobody hands them in
            shapes["position_ids"] = (3, 1, self.chunk)
        if arch.media is not None and arch.media.deepstack:
            shapes.update(
                {f"deepstack_{i}": (1, self.chunk, arch.hidden) for i in range(arch.media.deepstack)}
            )
        return [
            TensorAttr(
                number,
                name,
                shape,
                DType.INT64 if name == "position_ids" else DType.FLOAT16,
                Layout.UNDEFINED,
            )
            for number, (name, shape) in enumerate(shapes.items())
        ]

    @property
    def outputs(self) -> list[TensorAttr]:
        """float16 as on the coprocessor; callbacks get the values in float32, as they were computed."""
        arch = self.model.arch
        sizes = {"logits": arch.vocab_size} if arch.head else {}
        sizes["last_hidden_state"] = arch.hidden
        return [
            TensorAttr(number, name, (1, size), DType.FLOAT16, Layout.UNDEFINED)
            for number, (name, size) in enumerate(sizes.items())
        ]

    def check_open(self) -> None:
        """Raise ContextInvalid after the context was closed."""
        if self.closed:
            raise ContextInvalid("the model is closed; open it again")

    @contextmanager
    def one_run(self, stopping: Callable[[], bool]) -> Iterator[bool]:
        """Sessions run side by side here: their steps go through the weights together (``StepBatcher``)."""
        thread = threading.get_ident()
        if thread in self._runners:
            raise ContextInvalid(
                "a session was run from inside a callback of another session of the same model"
            )
        self._runners.add(thread)
        try:
            self.check_open()
            yield True
        finally:
            self._runners.discard(thread)

    def abandon(self) -> None:
        super().abandon()
        self.embedding.forget()
        if self._steps is not None:
            self._steps.forget()
        self._runners = set()

    def check_weights(self) -> None:
        """Raise ModelInvalid when the weight file was changed since; before every turn, which reads all of it."""
        self._weights.check()

    def checked(self, params: LlmParams | Sequence[LlmParams]) -> LlmParams:
        """The parameters for the one logits output, defaults filled in. Raises ParamInvalid."""
        given = [params] if isinstance(params, LlmParams) else list(params)
        if len(given) != 1 or given[0].logits_name not in ("", "logits"):
            names = [p.logits_name for p in given]
            raise ParamInvalid(f"parameters for {len(given)} outputs {names}; the model has one, 'logits'")
        _ = self.steps
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
        return replace(given[0], max_context_len=size // group * group, speculate=self._guesses(given[0]))

    def _guesses(self, params: LlmParams) -> int:
        count = self.speculate if params.speculate is None else params.speculate
        if not isinstance(count, (int, np.integer)) or not 0 <= count <= _MOST_GUESSES:
            raise ParamInvalid(
                f"speculate is {count!r}, must be 0 to {_MOST_GUESSES} tokens, or None for what the model was opened with"
            )
        return int(count)

    def _check_vocab(self, params: LlmParams) -> None:
        size = self.model.arch.vocab_size
        vocab = params.vocab
        if vocab.vocab_size not in (0, size):
            raise ParamInvalid(f"vocab_size is {vocab.vocab_size}, model {self.model.name} has {size} tokens")
        wrong = [i for i in (*vocab.special_eos_ids, *vocab.special_bos_ids) if not -1 <= i < size]
        if wrong:
            raise ParamInvalid(f"special token {wrong[0]} is not in the vocabulary 0..{size - 1}")

    def adapter(self, name: str) -> Adapter:
        """An adapter by its name; raises ParamInvalid."""
        if name not in self.adapters:
            known = ", ".join(sorted(self.adapters)) or "none; see LlmContext.init_loras"
            raise ParamInvalid(f"model {self.model.name} has no adapter {name!r}; it has {known}")
        return self.adapters[name]

    def chat_template(self, stopping: Callable[[], bool]) -> ChatTemplate:
        """The model's template, whose renderings ``stopping`` ends; plain text when it has none."""
        model = self.model
        if not model.chat_template:
            return LiteralTemplate(end=self.end_mark)
        return JinjaTemplate.of_model(
            model.name, model.chat_template, self._spelt(model.bos_id), self.end_mark, stopping=stopping
        )

    @property
    def end_mark(self) -> str:
        """Text of the token that ends an answer; empty when it is not known."""
        return self._spelt(self.model.eos_ids[0] if self.model.eos_ids else -1)

    def _spelt(self, token: int) -> str:
        tokens = self.model.tokens
        return tokens[token].decode("utf-8", "replace") if tokens and 0 <= token < len(tokens) else ""
