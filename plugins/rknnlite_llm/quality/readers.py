"""Who reads a text, token by token, and says what may follow: packages, checkpoints, transformers."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Callable

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.formats import ModelFile
from rknnlite.spi.llm import (
    EmbedCallback,
    InferParams,
    LlmCallbacks,
    LlmContext,
    LlmParams,
    TokenInput,
    VocabInfo,
)

from ..container.description import read_llm
from ..export import export_llm
from ..hf_config import architecture
from ..hf_folder import HfFolder, read_object
from ..opening import open_llm
from ..package import Package

__all__ = ["Reader", "SourceReader", "exact_type", "package_reader", "source_reader"]

Array = NDArray[Any]
Reader = Callable[[Sequence[int]], Iterator[Array]]
"""Token ids of a text -> the logits (vocab,) behind each of them, in order."""


@contextlib.contextmanager
def package_reader(prefix: str | Path, **options: Any) -> Iterator[Reader]:
    """The package ``PREFIX`` on a backend; ``options`` as in ``open_llm``."""
    package = Package.of(prefix)
    with open_llm(package.model, package.weight, **options) as context:
        table = package.table(context)
        yield lambda text: _rows(context, text, table)


@contextlib.contextmanager
def source_reader(
    hf_dir: str | Path, longest: int, folder: str | Path | None = None, **options: Any
) -> Iterator[SourceReader]:
    """A checkpoint, float32, on the CPU, for texts of up to ``longest`` tokens.

    Its weights are laid out for the decoder without losing a bit, in a temporary file below ``folder`` as large as the
    checkpoint (``exact_type``), which is mapped; embeddings are taken from the checkpoint itself. ``options`` of the CPU reference.

    Raises ModelInvalid, ModelUnsupported as ``export_llm``.
    """
    with tempfile.TemporaryDirectory(prefix="rknnlite-eval-", dir=folder) as work:
        prefix = Path(work) / "source"
        package = export_llm(hf_dir, prefix, exact_type(hf_dir), "f32", longest)
        arch = read_llm(ModelFile(package.model)).arch
        tokens = HfFolder(Path(hf_dir), arch.family).get
        table = tokens(_table_name(arch.family), arch.vocab_size, arch.hidden)
        with open_llm(package.model, package.weight, backend="cpu", **options) as context:
            yield SourceReader(context, package, lambda ids: table[ids])


class SourceReader:
    """See ``source_reader``; ``package`` is the temporary one."""

    def __init__(self, context: LlmContext, package: Package, embed: EmbedCallback) -> None:
        self._context, self.package, self._embed = context, package, embed

    def __call__(self, text: Sequence[int]) -> Iterator[Array]:
        """A ``Reader``."""
        return _rows(self._context, text, self._embed)


def _table_name(family: str) -> str:
    from ..container.families import FAMILIES

    return FAMILIES[family].table


def exact_type(hf_dir: str | Path) -> str:
    """The narrowest type of weights that holds every matrix of a checkpoint as it is: ``f16``, ``bf16`` or ``f32``."""
    arch = architecture(read_object(Path(hf_dir) / "config.json"))
    kinds = HfFolder(Path(hf_dir), arch.family).matrix_types()
    if kinds == {"F16"}:
        return "f16"
    return "bf16" if kinds == {"BF16"} else "f32"


def _rows(context: LlmContext, text: Sequence[int], embed: EmbedCallback) -> Iterator[Array]:
    try:
        pieces = context.logits(text, embed)
    except ModelUnsupported:
        return _one_by_one(context, text, embed)
    return (row for piece in pieces for row in piece)


def _one_by_one(context: LlmContext, text: Sequence[int], embed: EmbedCallback) -> Iterator[Array]:
    """Where only sessions compute: the given tokens are what sampling chooses."""
    seen: list[Array] = []

    def sampling(logits: Array, name: str) -> int:
        seen.append(np.array(logits, np.float32))
        return int(text[min(len(seen), len(text) - 1)])

    callbacks = LlmCallbacks(embed=embed, sampling=sampling)
    with context.session(LlmParams(vocab=VocabInfo(ignore_eos_token=True)), callbacks) as session:
        session.run(TokenInput(list(text[:1])), InferParams(max_new_tokens=len(text)))
    if len(seen) < len(text):
        raise ModelInvalid(
            f"backend {context.backend_name} gave {len(seen)} logits for a text of {len(text)} tokens; use shorter "
            "texts (--context)"
        )
    return iter(seen)
