"""What else is damaged besides model files of the corpus: language model packages, KV cache files, configurations, weight
bombs, files of the first toolkit, and every reader of ``readers.py``.

A target draws damaged inputs and uses them as a program would. ``use`` says whether the input was taken; a typed error
is a refusal, whatever else is raised a finding.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from rknnlite_llm import Package, export_llm, open_llm

from rknnlite.errors import RknnError
from tests.formats.test_hostile import ALLOWANCE, RUNNABLE, declared
from tests.graph.rknn1.test_hostile import VICTIMS as TOOLKIT_1
from tests.support import damage, llm_damage, rknn1_damage
from tests.support.corpus import genuine, open_cpu
from tests.support.llm_models import FAMILIES, write_model
from tools.fuzz.readers import READERS, used
from tools.sweep1.cases import CASES as SWEEP

__all__ = ["TARGETS", "Case", "folder"]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/llm_chat/models/tiny"
BOMBS = [
    "packed_i16.rk3588.i16",
    "packed_mixed.rk3562.i8",
    "packed_mixed.rk3568.i8",
    "packed_mixed.rk3576.fp16",
]
"""Files with compressed weights, one per codec and element type."""
WEIGHTS, CACHES = ("f32", "f16", "bf16", "w8", "w4"), (None, "int8", "int4")


@dataclass(frozen=True)
class Case:
    """Inputs of one kind: where they come from, how they are used, and the files that show one."""

    victim: str
    inputs: st.SearchStrategy[Any]
    use: Callable[[Any], bool]
    files: Callable[[Any], dict[str, bytes]]


def _chosen(rng: np.random.Generator, of: Sequence[Any]) -> Any:
    return of[int(rng.integers(len(of)))]


def _tiny(rng: np.random.Generator, folder: Path) -> tuple[str, Package]:
    """A package with weights and a cache of any type, made now; or the trained one, which has a tokenizer."""
    if rng.random() < 0.4:
        return "trained", Package.of(EXAMPLE)
    family, weights, cache = _chosen(rng, FAMILIES), _chosen(rng, WEIGHTS), _chosen(rng, CACHES)
    source = write_model(folder / "hf", family, head_dim=16, hidden_size=64)
    return f"{family}-{weights}-{cache}", export_llm(source, folder / "tiny", weights, cache)


def package(rng: np.random.Generator, folder: Path) -> Case:
    """Language model packages."""
    name, made = _tiny(rng, folder)
    parts = llm_damage.Parts.of(made)
    return Case(
        f"package-{name}",
        llm_damage.packages(parts),
        lambda damaged: llm_damage.use_package(damaged, folder),
        lambda damaged: {field.name: getattr(damaged, field.name) for field in fields(damaged)},
    )


def kv(rng: np.random.Generator, folder: Path) -> Case:
    """KV cache files."""
    name, made = _tiny(rng, folder)
    context = open_llm(made.model, made.weight, backend="cpu")
    good = llm_damage.saved_kv(context, made, folder / "kv")
    return Case(
        f"kv-{name}",
        llm_damage.kv_files(good),
        lambda damaged: llm_damage.use_kv(context, made, damaged, folder / "kv"),
        lambda damaged: {"kv": damaged},
    )


def config(rng: np.random.Generator, folder: Path) -> Case:
    """Configuration files."""
    return Case(
        "config",
        llm_damage.configurations(),
        lambda damaged: llm_damage.use_configuration(damaged, folder / "config.yaml"),
        lambda damaged: {"yaml": damaged},
    )


def bomb(rng: np.random.Generator, folder: Path) -> Case:
    """Model files with compressed weights, which may not become more than the file justifies."""
    victim = _chosen(rng, BOMBS)
    data = genuine(victim).read_bytes()
    return Case(
        f"bomb-{victim}",
        st.one_of([getattr(damage, kind)(data) for kind in damage.KINDS]),
        _runs,
        lambda damaged: {"rknn": damaged},
    )


def _runs(data: bytes) -> bool:
    with damage.limits(llm_damage.SECONDS, ALLOWANCE + llm_damage.PER_BYTE * len(data)):
        try:
            with open_cpu(data) as context:
                if declared(context) <= RUNNABLE:
                    context.infer([np.zeros(attr.dims, np.float32) for attr in context.inputs])
        except RknnError as error:
            llm_damage.told(error)
            return False
    return True


def first_generation(rng: np.random.Generator, folder: Path) -> Case:
    """Model files of the first toolkit."""
    victim = _chosen(rng, TOOLKIT_1)
    return Case(
        f"rknn1-{victim}",
        rknn1_damage.mixed(SWEEP[victim]().data),
        _runs,
        lambda damaged: {"rknn": damaged},
    )


def reading(name: str) -> Callable[[np.random.Generator, Path], Case]:
    """One of the readers of bytes and texts."""
    reader = READERS[name]
    return lambda rng, folder: Case(
        name, reader.inputs(), lambda damaged: used(reader, damaged, folder), lambda damaged: {"bin": damaged}
    )


TARGETS: dict[str, Callable[[np.random.Generator, Path], Case]] = {
    **{name: reading(name) for name in READERS},
    "bomb": bomb,
    "config": config,
    "kv": kv,
    "package": package,
    "rknn1": first_generation,
}


def folder() -> tempfile.TemporaryDirectory[str]:
    """Where a case keeps its files."""
    return tempfile.TemporaryDirectory(prefix="rknnlite-fuzz-")
