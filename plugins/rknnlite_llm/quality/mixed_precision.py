"""Packages whose matrices have four bits or eight: as few with eight as a measured divergence from the source allows."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ParamInvalid
from rknnlite.files.reading import open_file
from rknnlite.files.writing import write_file, writing
from rknnlite.formats import ModelFile

from ..checksums import file_sum
from ..container import description as container
from ..container.description import AUTO, MOST_CHOSEN, Chosen, LlmModel, read_llm
from ..container.safetensors import SafeTensors
from ..container.weight_types import COLUMNS, GROUP, WEIGHT_TYPES
from ..export import export_llm
from ..package import Package
from ..tokenizer import Tokenizer
from ..weights import matrices
from .divergence import Agreement
from .evaluation import read_along
from .merged_weights import assembled
from .readers import Reader, package_reader, source_reader
from .texts import Piece, Text, packaged_texts, pieces

__all__ = ["Mixed", "export_mixed", "write_mixed"]

Array = NDArray[Any]
Progress = Optional[Callable[[int, int, str], None]]
NARROW, WIDE = "w4", "w8"
_TOKENS, _PIECE = 512, 128
_TILES = 8
"""Times 128 outputs whose errors are computed at a time."""


@dataclass(frozen=True)
class Mixed:
    """What was chosen.

    Attributes:
        package: the files.
        chosen: the type of every matrix and its error.
        agreement: with the source, measured on the text that the choice was made by.
        narrow, wide: that of a package of ``w4`` alone and of ``w8`` alone, on the same text.
    """

    package: Package
    chosen: tuple[Chosen, ...]
    agreement: Agreement
    narrow: Agreement
    wide: Agreement


def export_mixed(
    hf_dir: str | Path,
    prefix: str | Path,
    max_kl: float = 0.05,
    kvcache: str | None = None,
    max_context: int | None = None,
    core_num: int = 8,
    progress: Progress = None,
    texts: Sequence[Text] = (),
    folder: Path | None = None,
) -> Mixed:
    """``export_llm`` with ``w4`` where that is good enough and ``w8`` elsewhere.

    Matrices get eight bits in the order of the error that this takes away per byte, until the package diverges from the source
    by no more than ``max_kl`` (mean, nats per token) on ``texts``; how many that are is found by bisection, each trial is
    measured. Where ``w8`` alone diverges by more, all have eight bits.

    ``folder``: for temporary files, twice as large as the source. Other arguments and errors as in ``export_llm``;
    ParamInvalid without a tokenizer, and for more matrices than a description holds.
    """
    with tempfile.TemporaryDirectory(prefix="rknnlite-auto-", dir=folder) as name:
        work = Path(name)
        common = (kvcache, max_context, core_num, progress)
        narrow = export_llm(hf_dir, work / NARROW, NARROW, *common)
        _check(read_llm(ModelFile(narrow.model)), narrow)
        wide = export_llm(hf_dir, work / WIDE, WIDE, *common)
        read = pieces(list(texts) or packaged_texts(), Tokenizer(narrow.tokenizer), _PIECE, _TOKENS)
        seen = _Inputs()
        with source_reader(hf_dir, _PIECE, work, observe=seen) as source:
            for piece in read:
                for _ in source(piece.tokens):
                    pass
            seen.done = True
            errors = _errors(source.package, narrow, wide, seen)
            return _chosen(source, errors, (narrow, wide), Package.of(prefix), read, max_kl, progress)


def _check(model: LlmModel, package: Package) -> None:
    if not model.arch.head:
        raise ParamInvalid(
            f"weights=auto is for models that generate text, and {model.name} does not; use w4 or w8"
        )
    if len(matrices(model.arch)) > MOST_CHOSEN:
        raise ParamInvalid(
            f"weights=auto is for up to {MOST_CHOSEN} matrices, {model.name} has {len(matrices(model.arch))}; use w4 or w8"
        )
    if not package.tokenizer.exists():
        raise ParamInvalid("weights=auto reads text, and there is no tokenizer.json; use w4 or w8")


class _Inputs:
    """Sums of the squares of what goes into each matrix."""

    def __init__(self) -> None:
        self.squares: dict[str, Array] = {}
        self.done = False

    def __call__(self, name: str, x: Array) -> None:
        if not self.done:
            self.squares[name] = self.squares.get(name, 0) + np.einsum("mi,mi->i", x, x)


def _errors(exact: Package, narrow: Package, wide: Package, seen: _Inputs) -> dict[str, tuple[float, float]]:
    """Name -> error of the narrow and of the wide type: what the products lose, the squared error over the square.

    Inputs of a matrix count as often and as much as they come in the text; where none came, all count alike.
    """
    model = read_llm(ModelFile(exact.model))
    files = [SafeTensors(ModelFile(package.weight).data) for package in (exact, narrow, wide)]
    found = {}
    for name, (inputs, outputs) in matrices(model.arch).items():
        importance = seen.squares.get(name, np.ones(inputs, np.float32))
        whole, lost = 0.0, [0.0, 0.0]
        kinds = (model.weights, NARROW, WIDE)
        for truth, *others in zip(
            *(_columns(file, name, kind, inputs, outputs) for file, kind in zip(files, kinds))
        ):
            whole += _weighed(truth, importance)
            lost = [sum_ + _weighed(other - truth, importance) for sum_, other in zip(lost, others)]
        found[name] = lost[0] / (whole or 1.0), lost[1] / (whole or 1.0)
    return found


def _weighed(rows: Array, importance: Array) -> float:
    return float(np.dot(np.einsum("io,io->i", rows, rows), importance))


def _columns(file: SafeTensors, name: str, weights: str, inputs: int, outputs: int) -> Iterator[Array]:
    """A matrix as float32 (inputs, some outputs), the same ones for all types."""
    kind, step = WEIGHT_TYPES[weights], _TILES * COLUMNS
    for start in range(0, outputs, step):
        stop = min(outputs, start + step)
        if not kind.tiled:
            yield np.asarray(file[name][:, start:stop], np.float32)
            continue
        tiles = slice(start // COLUMNS, -(-stop // COLUMNS))
        codes = file[name][tiles]
        wide = np.empty((*codes.shape[:2], GROUP, COLUMNS), np.float32)
        kind.widen(codes, wide)
        if kind.scaled:
            wide *= file[f"{name}.scale"][tiles].astype(np.float32)[:, :, None]
        rows = wide.transpose(1, 2, 0, 3).reshape(codes.shape[1] * GROUP, -1)
        yield rows[:inputs, : stop - start]


def _chosen(
    source: Reader,
    errors: dict[str, tuple[float, float]],
    parts: tuple[Package, Package],
    target: Package,
    read: Sequence[Piece],
    max_kl: float,
    progress: Progress,
) -> Mixed:
    """Bisect over how many matrices are wide; write what was found."""
    order = _ranking(errors, read_llm(ModelFile(parts[0].model)))
    trial = Package.of(parts[0].model.parent / "trial")

    def measured(count: int) -> Agreement:
        if progress:
            progress(0, 0, f"{count} of {len(order)} matrices with eight bits")
        write_mixed(trial, parts, _types(errors, order[:count]))
        with package_reader(trial.model, backend="cpu") as reader:
            return Agreement.of(read_along(source, [reader], read)[0])

    ends = {0: measured(0), len(order): measured(len(order))}
    found = dict(ends)
    low, high = 0, len(order)  # fewer than needed; enough
    if ends[0].kl_mean <= max_kl:
        high = 0
    while high - low > 1 and ends[len(order)].kl_mean <= max_kl:
        middle = (low + high) // 2
        found[middle] = measured(middle)
        low, high = (low, middle) if found[middle].kl_mean <= max_kl else (middle, high)
    chosen = _types(errors, order[:high])
    target.model.parent.mkdir(parents=True, exist_ok=True)
    write_mixed(target, parts, chosen)
    return Mixed(target, chosen, found[high], ends[0], ends[len(order)])


def _ranking(errors: dict[str, tuple[float, float]], model: LlmModel) -> list[str]:
    """Matrices by how much error eight bits take away per byte."""
    sizes = matrices(model.arch)
    return sorted(
        errors, key=lambda name: -(errors[name][0] - errors[name][1]) / (sizes[name][0] * sizes[name][1])
    )


def _types(errors: dict[str, tuple[float, float]], wide: Sequence[str]) -> tuple[Chosen, ...]:
    some = set(wide)
    return tuple(
        Chosen(name, WIDE if name in some else NARROW, error[name in some]) for name, error in errors.items()
    )


def write_mixed(target: Package, parts: tuple[Package, Package], chosen: tuple[Chosen, ...]) -> None:
    """A package of which each matrix comes from one of two, the narrow and the wide one, which are of one model."""
    package_id = assembled(
        target.weight, [part.weight for part in parts], {one.name: one.weights == WIDE for one in chosen}
    )
    for ours, theirs in zip((target.embed, target.tokenizer), (parts[0].embed, parts[0].tokenizer)):
        if not theirs.exists():  # models without a tokenizer
            continue
        with open_file(theirs) as source, writing(ours) as copy:
            shutil.copyfileobj(source, copy)
    model = read_llm(ModelFile(parts[0].model))
    sums = replace(model.sums, weight=file_sum(ModelFile(target.weight))) if model.sums else None
    tokens = model.tokens
    spelt = [tokens[token] for token in range(len(tokens))] if tokens else None
    made = replace(model, weights=AUTO, chosen=chosen, package_id=package_id, sums=sums, tokens=None)
    write_file(target.model, container.write(made, spelt))
