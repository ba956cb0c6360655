"""What stands around a product on the CPU reference: other element types, rows alone, results in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rknnlite_cpu.kernels import gemm, threads

import rknnlite
from rknnlite.spi.matmul import MatmulType

from .reference import Quant, Quants, product, random_matrix

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(256, 256)


@pytest.fixture(params=["opencv", "numpy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With OpenCV's conversion where it is installed, and without."""
    if request.param == "numpy":
        monkeypatch.setattr(gemm, "_half", lambda: None)


def same_bits(found: np.ndarray, expected: np.ndarray) -> bool:
    kind = {2: np.uint16, 4: np.uint32}[found.itemsize]
    number = ~np.isnan(expected)
    alike = np.array_equal(found.view(kind)[number], expected.view(kind)[number])
    return alike and bool(np.isnan(found[~number]).all())


def test_every_half_becomes_its_float(way: None) -> None:
    assert same_bits(gemm.cast(HALVES, np.float32), HALVES.astype(np.float32))


def test_floats_become_the_nearest_half(way: None) -> None:
    """Ties to even, subnormal results, overflow to infinity, the sign of zero."""
    finite = np.sort(HALVES[np.isfinite(HALVES)].astype(np.float32))
    ties = (finite[1:] + finite[:-1]) / 2
    edges = np.concatenate([ties, np.nextafter(ties, np.float32(9)), np.nextafter(ties, np.float32(-9e9))])
    noise = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, np.uint32).view(np.float32)
    special = np.float32([0.0, -0.0, 65519.9, 65520, -65520, np.inf, -np.inf, np.nan, 2**-25, 1e30])
    for values in (edges, noise, special):
        with np.errstate(all="ignore"):
            assert same_bits(gemm.cast(values[None], np.float16), values[None].astype(np.float16))


def test_the_same_type_is_not_copied() -> None:
    values = np.zeros((3, 4), np.float32)
    assert gemm.cast(values, np.float32) is values


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_a_row_does_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    rng = np.random.default_rng(0)
    left, right = (rng.normal(0, 1, shape).astype(np.float32) for shape in ((1, 2500), (2500, 300)))
    alone = np.stack([left[0, at : at + 512] @ right[at : at + 512] for at in range(0, 2500, 512)])
    monkeypatch.setattr(threads, "_CORES", cores)
    sums = gemm.row_sums(left, right)
    assert np.array_equal(sums, alone)
    assert len(gemm.row_sums(left, right, 100)) == 25


@pytest.mark.parametrize(
    "kind", [MatmulType.INT8_INT8_INT8, MatmulType.INT8_INT8_FLOAT32], ids=lambda k: k.name
)
@pytest.mark.parametrize("m", [1, 700])
def test_results_of_many_blocks(kind: Any, m: int) -> None:
    k, n = 2048, 320
    rng = np.random.default_rng(1)
    a, b = (random_matrix(rng, kind.dtypes[i], shape) for i, shape in enumerate(((m, k), (k, n))))
    scale = rng.uniform(0.5, 2, n).astype(np.float32)
    quants = Quants(
        b=Quant(scale.astype(float)), c=Quant(4096.0 if kind is MatmulType.INT8_INT8_INT8 else 1.0)
    )
    with rknnlite.Matmul(m, k, n, kind, "rk3588", "cpu", b_quant="channel") as multiply:
        multiply.set_quant("B", scale)
        if kind is MatmulType.INT8_INT8_INT8:
            multiply.set_quant("C", 4096.0)
        found = multiply(a, b)
    expected = product(kind, a, b, quants)
    assert len(np.unique(found)) > 100
    assert np.array_equal(found, expected.astype(found.dtype))
