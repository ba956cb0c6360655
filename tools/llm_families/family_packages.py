"""The package of a case, with the weights that it names."""

from __future__ import annotations

from pathlib import Path

from cases import Case
from rknnlite_llm import Package, export_llm
from rknnlite_llm.container.description import Chosen, read_llm
from rknnlite_llm.quality.mixed_precision import write_mixed
from rknnlite_llm.weights import matrices

from rknnlite.formats import ModelFile

__all__ = ["export_case"]


def export_case(case: Case, source: Path, folder: Path) -> Package:
    """float32, the integers of the case, or a mixture of both: every other matrix has four bits. KV caches are float32."""
    if case.weights != "auto":
        return export_llm(source, folder / "p", case.weights, "f32", pooling=case.embeds or None)
    parts = (
        export_llm(source, folder / "narrow", "w4", "f32"),
        export_llm(source, folder / "wide", "w8", "f32"),
    )
    names = matrices(read_llm(ModelFile(parts[0].model)).arch)
    chosen = [Chosen(name, ("w4", "w8")[number % 2], 0.0) for number, name in enumerate(names)]
    mixed = Package.of(folder / "p")
    write_mixed(mixed, parts, tuple(chosen))
    return mixed
