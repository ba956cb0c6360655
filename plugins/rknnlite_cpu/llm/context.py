"""A language model on the CPU: opened from its files, shared by sessions that step through it together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from rknnlite_llm.callbacks import CheckedCallbacks
from rknnlite_llm.checksums import check_beside, check_sum
from rknnlite_llm.container.description import LlmModel, read_llm
from rknnlite_llm.engine import EngineContext
from rknnlite_llm.package import Package

from rknnlite.errors import InputInvalid, ModelInvalid, ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi.llm import EmbedCallback, LlmCallbacks, LlmOptions, LlmParams, LlmTraits

from .compiled_products import chosen
from .draft_model import Draft
from .engine import CpuEngine
from .linear import make_linear, observed
from .session import CpuLlmSession

__all__ = ["CpuLlmContext"]

_CHUNK = 256
_GUESSES = 4  # with a draft, where nobody says how many
_ALL_CORES = 0xFF  # a coprocessor has eight


class CpuLlmContext(EngineContext[CpuEngine, CpuLlmSession]):
    """See ``LlmContext``; outputs are float16 as on the coprocessor, callbacks get what was computed, in float32.

    Options: ``draft``, the prefix of a package whose model guesses tokens (``LlmParams.speculate``); ``prefill_chunk``,
    tokens that are prefilled at a time; ``engine``, what multiplies (``numpy``, ``native``); ``observe``, called with the
    name of a matrix and float32 (n, inputs) before each product; ``verify`` False leaves out the checksums of the files,
    True compares those that were compared before, too.
    """

    def __init__(self, file: ModelFile, weights: ModelFile | None, options: LlmOptions) -> None:
        """Raises ModelInvalid, ModelUnsupported or ParamInvalid."""
        model = read_llm(file)
        _check_mask(model, options.core_mask)
        chunk = _positive("prefill_chunk", options.extra.get("prefill_chunk", _CHUNK))
        weights = weights or _beside(file)
        products = chosen(options.extra.get("engine"))
        make, attention = (make_linear, None) if products is None else (products.linear, products.attention)
        observe = options.extra.get("observe")
        if observe is not None:
            make = observed(make, observe)
        super().__init__(CpuEngine(model, weights, chunk, make, attention))
        verify = options.extra.get("verify")
        if verify is None or verify:
            _verify(file, weights, again=verify is not None)
        self._draft: Draft | None = None
        if options.extra.get("draft") is not None:
            self._draft = Draft(options.extra["draft"], model, chunk, make, attention)
            self._engine.speculate = _GUESSES

    @property
    def backend_name(self) -> str:
        return "cpu"

    @property
    def traits(self) -> LlmTraits:
        return LlmTraits(speculation=True)

    @property
    def model(self) -> LlmModel:
        """What the container says."""
        return self._engine.model

    def _new_session(self, params: LlmParams | Sequence[LlmParams], callbacks: LlmCallbacks) -> CpuLlmSession:
        return CpuLlmSession(self._engine, self._engine.checked(params), callbacks, self._draft)

    def init_loras(self, source: str | os.PathLike[str] | bytes) -> None:
        """A folder as PEFT saves it, or one of such folders; the names of the folders are those of the adapters."""
        from .peft import read_adapter  # few programs have adapters

        _ = self._engine.steps
        self._engine.check_open()
        folder = Path(os.fsdecode(source))
        alone = (folder / "adapter_config.json").exists()
        found = [folder] if alone else sorted(path.parent for path in folder.glob("*/adapter_config.json"))
        if not found:
            raise ModelInvalid(f"{folder}: no adapter_config.json there, nor in the folders in it")
        read = [read_adapter(path, self.model) for path in found]
        self._engine.adapters.update({adapter.name: adapter for adapter in read})

    def embed(self, texts: Sequence[Sequence[int]], embed: EmbedCallback) -> NDArray[Any]:
        engine = self._engine
        calls = self._table_calls(embed)
        ids = [calls.checked_ids(text, f"text {number}") for number, text in enumerate(texts)]
        engine.check_open()
        engine.check_weights()
        return engine.embedding(ids, calls)

    def score(
        self, texts: Sequence[Sequence[int]], seconds: Sequence[int], embed: EmbedCallback
    ) -> NDArray[Any]:
        engine = self._engine
        calls = self._table_calls(embed)
        ids = [calls.checked_ids(text, f"text {number}") for number, text in enumerate(texts)]
        if len(seconds) != len(ids):
            raise InputInvalid(f"{len(seconds)} places where second texts begin for {len(ids)} texts")
        engine.check_open()
        engine.check_weights()
        return engine.embedding.score(ids, seconds, calls)

    def logits(self, text: Sequence[int], embed: EmbedCallback) -> Iterator[NDArray[Any]]:
        from .prompt_logits import prompt_logits  # evaluation only

        engine = self._engine
        calls = self._table_calls(embed)
        engine.check_open()
        engine.check_weights()
        return prompt_logits(engine, calls.checked_ids(text, "the text"), calls)

    def _table_calls(self, embed: EmbedCallback) -> CheckedCallbacks:
        arch = self._engine.model.arch
        return CheckedCallbacks(LlmCallbacks(embed=embed), arch.vocab_size, arch.row_size)

    def close(self) -> None:
        self._engine.closed = True
        if self._draft is not None:
            self._draft.engine.closed = True
        self._close_sessions()


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


def _verify(file: ModelFile, weights: ModelFile, again: bool) -> None:
    """Compare the files of a package with what was exported; raises ModelInvalid naming the one that changed."""
    if read_llm(file).sums is not None:
        check_sum(weights, read_llm(file).sums.weight, again)
        if read_llm(file).arch.experts is not None:  # most of it is not read for a while
            weights.drop_pages()
    if file.path is not None:
        check_beside(file, Package.of(file.path), again=again)


def _beside(file: ModelFile) -> ModelFile:
    if file.path is None:
        raise ParamInvalid("the model came as bytes, so its weight file cannot be found beside it; name it")
    path = Package.of(file.path).weight
    if not Path(path).exists():
        raise ModelInvalid(
            f"{file.label}: its weight file {path} is not there; name it, or export the model again"
        )
    return ModelFile(path)
