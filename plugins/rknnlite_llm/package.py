"""The files of a reference package by role, and the embedding table."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, ModelInvalid, ModelUnsupported
from rknnlite.files.reading import read_bytes
from rknnlite.formats import ModelFile

from .container.description import MAGIC, read_llm

if TYPE_CHECKING:
    from rknnlite.spi.llm import EmbedCallback, LlmContext

__all__ = ["EmbedTable", "Package", "file_bytes", "no_table", "sample_digest"]

Array = NDArray[Any]
_SAMPLES = 64


@dataclass(frozen=True)
class Package:
    """Paths of the parts.

    Examples:
        >>> [path.name for path in Package.of("examples/llm_chat/models/tiny").files()]
        ['tiny.rknn', 'tiny.weight', 'tiny.embed.bin', 'tiny.tokenizer.gguf']
    """

    model: Path
    weight: Path
    embed: Path
    tokenizer: Path

    @classmethod
    def of(cls, prefix: str | Path) -> Package:
        """The parts of ``PREFIX``, or beside ``PREFIX.rknn`` or ``PREFIX.rkllm``."""
        text = str(prefix)
        kind = ".rkllm" if text.endswith(".rkllm") else ".rknn"
        text = text[: -len(kind)] if text.endswith(kind) else text
        return cls(*(Path(text + end) for end in (kind, ".weight", ".embed.bin", ".tokenizer.gguf")))

    @property
    def is_one_file(self) -> bool:
        """Whether weights, embeddings and a tokenizer are in the model file (``.rkllm``)."""
        return self.model.suffix == ".rkllm"

    def files(self) -> tuple[Path, ...]:
        """All paths; the tokenizer's need not exist."""
        return self.model, self.weight, self.embed, self.tokenizer

    def embeddings(self, context: LlmContext) -> EmbedTable | None:
        """The table for the callbacks of a model's sessions; None where the runtime has its own. Raises ModelInvalid."""
        if context.traits.own_embeddings:
            return None
        config = context.config
        return EmbedTable(self.embed, config.vocab_size, config.embedding_dim, self.embed_sample())

    def table(self, context: LlmContext) -> EmbedCallback:
        """As ``embeddings``, for calls that demand one; where the runtime has its own, they say themselves what they cannot do."""
        return self.embeddings(context) or no_table

    def embed_sample(self) -> str:
        """Digest of the embeddings that belong to the model; empty for a device file, which names none."""
        file = ModelFile(self.model)
        return read_llm(file).embed_sample if bytes(file.data[: len(MAGIC)]) == MAGIC else ""


def no_table(ids: NDArray[Any]) -> NDArray[Any]:
    """An embed callback for runtimes that have the table themselves; raises ModelUnsupported."""
    raise ModelUnsupported("the runtime has the model's table of embeddings, and does not hand it over")


def file_bytes(path: str | Path) -> bytes:
    """All of a file, copied: what is mapped could change while it is read. Raises ModelInvalid."""
    try:
        return read_bytes(Path(path))
    except OSError as error:
        raise ModelInvalid(f"{path}: cannot be read: {error.strerror or error}") from None
    except (MemoryError, ValueError) as error:  # ValueError: a name that no system takes
        raise ModelInvalid(f"{path}: cannot be read: {error or 'it is larger than the memory'}") from None


def sample_digest(table: Array) -> str:
    """SHA-256 of some rows of the embedding table: tells one table from another without reading all of it."""
    rows = np.linspace(0, len(table) - 1, min(_SAMPLES, len(table))).astype(int)
    return hashlib.sha256(np.ascontiguousarray(table[rows]).tobytes()).hexdigest()


class EmbedTable:
    """``PREFIX.embed.bin``: float16 (vocab, hidden), mapped; calling it is an embed callback.

    Of a package whose weights are float32 the table is float32, too; the size of the file tells them apart.

    Examples:
        >>> package = Package.of("examples/llm_chat/models/tiny")
        >>> with rknnlite.open_llm(package.model) as model:
        ...     table = EmbedTable(package.embed, model.config.vocab_size, model.config.embedding_dim)
        >>> table([1, 2]).shape == (2, model.config.embedding_dim)
        True
    """

    def __init__(self, path: str | Path, vocab_size: int, hidden: int, sample: str = "") -> None:
        """Raises ModelInvalid when the size, or the digest ``sample`` if given, does not fit."""
        half, single = (vocab_size * hidden * np.dtype(kind).itemsize for kind in (np.float16, np.float32))
        self._file = ModelFile(path)
        with self._file.naming():
            data = self._file.data
        if len(data) not in (half, single):
            raise ModelInvalid(
                f"{path}: {len(data)} bytes, but {vocab_size} tokens of {hidden} float16 values are {half} ({single} as "
                "float32); it belongs to another model"
            )
        kind = np.float16 if len(data) == half else np.float32
        self._table = np.frombuffer(data, kind).reshape(vocab_size, hidden)
        if sample and sample_digest(self._table) != sample:
            raise ModelInvalid(f"{path}: the embeddings are those of another model")

    def __call__(self, tokens: Array) -> Array:
        """Rows of some tokens; raises InputInvalid for an id outside the vocabulary, ModelInvalid for a changed file."""
        ids = np.asarray(tokens)
        if ids.size and not (ids.min() >= 0 and ids.max() < len(self._table)):
            bad = int(ids.min()) if ids.min() < 0 else int(ids.max())
            raise InputInvalid(f"token id {bad} is not in 0..{len(self._table) - 1}")
        self._file.check()
        return np.asarray(self._table[ids])
