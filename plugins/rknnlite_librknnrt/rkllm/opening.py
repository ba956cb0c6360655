"""Conversations of ``librkllmrt.so``: each is one model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from rknnlite_llm import Package, open_llm
from rknnlite_llm.tokenizer import Tokenizer

from rknnlite import config
from rknnlite.errors import ModelUnsupported, RknnError
from rknnlite.spi.llm import LlmContext, LlmParams, SamplingParams, VocabInfo

from ..calls import Reply
from ..packed import Packed
from ..protocol import Request, Wire
from .callbacks import ProgramCallbacks
from .model import Engine, Model, Settings, read_sampling
from .stand_in import stand_in

__all__ = ["begin", "code"]

_TOKENIZER, _EMBED = 1, 2
_BEFORE_TEMPLATES = 10200


@dataclass(frozen=True)
class _Param:
    """``RKLLMParam``, and what the environment of the program says."""

    version: int
    path: str
    named: Optional[str]
    context: int
    most: int
    sampling: SamplingParams
    skip_special: bool
    ignore_eos: bool
    tags: tuple[str, str, str]
    n_keep: int
    n_batch: int
    cross: int


def code(error: RknnError, call: int) -> int:
    """Every function of the API answers 0 or -1."""
    del error, call
    return -1


def begin(request: Request) -> tuple[Model, Reply]:
    """A model, and the first answer: values per embedding, and what the program is told. Raises RknnError."""
    asks = Wire(request.fds.take_socket())
    try:
        param = _read(Packed(request.payload))
        if param.cross:
            raise ModelUnsupported("use_cross_attn is set, but the model has no cross attention")
        chosen = stand_in(param.path, param.named)
        package = Package.of(chosen.package)
        context = open_llm(package.model, package.weight, backend=config.get("backend") or "cpu")
        try:
            return _opened(param, package, context, asks, request.args[0], chosen.note)
        except BaseException:
            context.close()
            raise
    except BaseException:
        asks.close()
        raise


def _opened(
    param: _Param, package: Package, context: LlmContext, asks: Wire, there: int, note: str
) -> tuple[Model, Reply]:
    config = context.config
    program = ProgramCallbacks(asks, config.embedding_dim)
    tokenizer = None
    if package.tokenizer.is_file() or not there & _TOKENIZER:
        tokenizer = Tokenizer(package.tokenizer)
        tokenizer.made_for(config.max_ctx_len, package.model.name)
    own_table = package.embed.is_file() or not there & _EMBED
    embed = package.table(context) if own_table else program.embed
    engine = Engine(context, tokenizer, tokenizer or program.tokenize, embed)
    notes, size = [note] if note else [], param.context
    if size > config.max_ctx_len:
        notes.append(
            f"W rkllm: max_context_len {size} is more than the {config.max_ctx_len} tokens of {package.model.name}, which are taken"
        )
        size = config.max_ctx_len
    llm = LlmParams(
        max_context_len=size,
        sampling=param.sampling,
        vocab=VocabInfo(skip_special_token=param.skip_special, ignore_eos_token=param.ignore_eos),
    )
    settings = Settings(
        param.version, llm, param.most, param.skip_special, param.tags, param.n_keep, param.n_batch
    )
    model = Model(engine, program, settings)
    if param.version < _BEFORE_TEMPLATES:
        model.set_template("", "", "")  # the program brings the whole text
    return model, Reply(
        "\n".join(notes).encode("utf-8", "backslashreplace"), (engine.hidden, engine.media_width)
    )


def _read(packed: Packed) -> _Param:
    version, path, named = packed.number(), packed.path() or "", packed.path()
    context, most = packed.signed(), packed.signed()
    sampling = read_sampling(packed)
    return _Param(
        version, path, named, context, most, sampling, bool(packed.number()), bool(packed.number()),
        (packed.text() or "", packed.text() or "", packed.text() or ""), packed.signed(), packed.number(), packed.number(),
    )  # fmt: skip
