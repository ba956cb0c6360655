"""Nothing grows per call: memory, descriptors, mappings, GPU buffers, over 20,000 calls of every host."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest

import rknnlite
from tests.support.corpus import ROOT
from tests.support.needs import needs

from .models import PROBE, Probe, probe_golden

CALLS = 20_000


def benchmark() -> Any:
    """The benchmark's module: what it measures is what is tested here."""
    spec = importlib.util.spec_from_file_location(
        "custom_ops_benchmark", ROOT / "benchmarks" / "custom_ops.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def flat(grown: dict[str, int], memory_kb: int = 1024) -> None:
    assert grown["memory kB"] < memory_kb, grown
    assert grown["descriptors"] == 0, grown
    assert grown["mappings"] <= 12, grown  # the allocator's own
    assert grown["GPU buffers"] == 0, grown


@pytest.mark.slow
def test_compiled_gpu_and_riscv_operators_do_not_grow(tmp_path: Path) -> None:
    needs("gcc")
    module = benchmark()
    seen = []
    for way, opened in module.ways(tmp_path, 1024):
        with opened as call:
            flat(module.growth(call, CALLS))
        seen.append(way)
    assert "C, isolated" in seen
    assert ("RISC-V" in seen) == (shutil.which("riscv64-unknown-elf-gcc") is not None)


@pytest.mark.slow
def test_a_python_operator_in_a_model_does_not_grow() -> None:
    module = benchmark()
    inputs = probe_golden().inputs
    with rknnlite.open(PROBE, custom_ops=[Probe()]) as context:
        flat(module.growth(lambda: context.infer(inputs), CALLS))


@pytest.mark.slow
def test_opening_and_closing_gives_everything_back(tmp_path: Path) -> None:
    needs("gcc")
    module = benchmark()
    ways = [way for way, opened in module.ways(tmp_path, 64) if not _open_and_close(opened)]
    before = module.held()
    for _, opened in module.ways(tmp_path, 64):
        _open_and_close(opened)
    after = module.held()
    assert len(ways) >= 2
    assert after["descriptors"] <= before["descriptors"]
    assert after["GPU buffers"] == before["GPU buffers"]


def _open_and_close(opened: Any) -> None:
    with opened as call:
        call()
