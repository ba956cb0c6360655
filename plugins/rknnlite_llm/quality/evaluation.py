"""Packages beside their source, on texts: the work of ``rknnlite llm-eval``."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional

import numpy as np

from rknnlite.errors import ModelInvalid, ParamInvalid
from rknnlite.formats import ModelFile

from ..container.description import read_llm
from ..package import Package
from ..tokenizer import Tokenizer
from .divergence import Agreement, Compared, compared
from .readers import Reader, package_reader, source_reader
from .texts import Piece, Text, packaged_texts, pieces
from .transformers_reader import transformers_reader

__all__ = ["EvaluationSettings", "Report", "evaluate", "read_along"]

Progress = Optional[Callable[[int, int, str], None]]


@dataclass(frozen=True)
class EvaluationSettings:
    """``context``: tokens of a piece of text; ``tokens``: about how many of all texts; ``folder``: for temporary files;
    ``python``: an interpreter with torch and transformers, which read along; ``backend``: of the packages."""

    context: int = 256
    tokens: int = 2048
    folder: Optional[Path] = None
    python: Optional[str] = None
    backend: Optional[str] = None


@dataclass(frozen=True)
class Report:
    """One candidate beside the source.

    Attributes:
        name: the package, or ``transformers``.
        weights: its type of weights.
        bytes: size of its weight file; 0 for one without.
        all: over all texts.
        texts: of every text.
    """

    name: str
    weights: str
    bytes: int
    all: Agreement
    texts: Mapping[str, Agreement]


def evaluate(
    hf_dir: str | Path,
    prefixes: Sequence[str | Path],
    texts: Sequence[Text] = (),
    settings: EvaluationSettings = EvaluationSettings(),
    progress: Progress = None,
) -> list[Report]:
    """Have the source and all candidates read the same texts; a report for each candidate, in order.

    ``texts``: without any, those that come along. ``progress``: tokens that were read, of how many, and which text.

    Raises ModelInvalid, ModelUnsupported for files that cannot be used; ParamInvalid without a tokenizer or text.
    """
    read = pieces(list(texts) or packaged_texts(), _tokenizer(prefixes), settings.context, settings.tokens)
    longest = max(len(piece.tokens) for piece in read)
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(source_reader(hf_dir, longest, settings.folder))
        candidates = [
            stack.enter_context(package_reader(prefix, backend=settings.backend)) for prefix in prefixes
        ]
        if settings.python:
            candidates.append(stack.enter_context(transformers_reader(settings.python, hf_dir)))
        results = read_along(source, candidates, read, progress)
    heads = [_head(prefix) for prefix in prefixes]
    heads += [("transformers", "f32", 0)] if settings.python else []
    return [_report(*head, read, found) for head, found in zip(heads, results)]


def _tokenizer(prefixes: Sequence[str | Path]) -> Tokenizer:
    if not prefixes:
        raise ParamInvalid("no package to compare with the source; name one or more")
    path = Package.of(prefixes[0]).tokenizer
    if not path.exists():
        raise ParamInvalid(
            f"{path} is not there, and text needs a tokenizer; export the model from a folder with tokenizer.json"
        )
    return Tokenizer(path)


def _head(prefix: str | Path) -> tuple[str, str, int]:
    package = Package.of(prefix)
    try:
        weights = read_llm(ModelFile(package.model)).weights
    except ModelInvalid:  # a device's file says it in no way that is known
        weights = "?"
    return str(prefix), weights, package.weight.stat().st_size if package.weight.exists() else 0


def read_along(
    source: Reader, candidates: Sequence[Reader], read: Sequence[Piece], progress: Progress = None
) -> list[list[Compared]]:
    """For every candidate, every piece. All read in step, so that only one row of logits of each is kept."""
    found: list[list[Compared]] = [[] for _ in candidates]
    total, done = sum(len(piece.tokens) for piece in read), 0
    for piece in read:
        positions: list[list[Any]] = [[] for _ in candidates]
        readers = [reader(piece.tokens) for reader in candidates]
        for truth, following, *others in zip(source(piece.tokens), piece.tokens[1:], *readers):
            if progress:
                progress(done, total, piece.name)
            done += 1
            for told, other in zip(positions, others):
                told.append(compared(truth, other, following))
        done += 1  # nothing is known to follow the last token
        for results, told in zip(found, positions):
            kl, same, ours, theirs = (np.array(column) for column in zip(*told))
            results.append(Compared(kl, same, ours, theirs))
    return found


def _report(name: str, weights: str, size: int, read: Sequence[Piece], found: Sequence[Compared]) -> Report:
    named: dict[str, list[Compared]] = {}
    for piece, result in zip(read, found):
        named.setdefault(piece.name, []).append(result)
    return Report(
        name, weights, size, Agreement.of(found), {key: Agreement.of(some) for key, some in named.items()}
    )
