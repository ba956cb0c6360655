"""Products of every type and layout, against plain numpy."""

from __future__ import annotations

import dataclasses
import os
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rknnlite
from rknnlite import errors
from rknnlite.matmul import layout
from rknnlite.spi.matmul import MatmulType
from rknnlite.tensor import DType
from tests.support.examples import examples

from .conftest import Make
from .reference import Quant, Quants, product, random_matrix

TYPES = sorted(MatmulType)
TOLERANCE = {DType.FLOAT32: 1e-5, DType.FLOAT16: 2e-3, DType.BFLOAT16: 1e-2}


def matrices(kind: MatmulType, m: int, k: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return random_matrix(rng, kind.dtypes[0], (m, k)), random_matrix(rng, kind.dtypes[1], (k, n))


def check(kind: MatmulType, found: np.ndarray, expected: np.ndarray) -> None:
    c = kind.dtypes[2]
    if not c.is_float:
        assert found.dtype == c.numpy
        assert np.array_equal(found, expected)
        return
    assert found.dtype == (np.float16 if c is DType.FLOAT16 else np.float32)
    worst = np.abs(found.astype(np.float64) - expected).max()
    assert worst <= TOLERANCE[c] * np.abs(expected).max()


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name.lower())
@pytest.mark.parametrize("b_layout", ["normal", "native", "transposed"])
@pytest.mark.parametrize("ac_layout", ["normal", "native"])
def test_every_type_in_every_layout(make: Make, kind: MatmulType, b_layout: str, ac_layout: str) -> None:
    m, k, n = 5, 96, 128
    a, b = matrices(kind, m, k, n)
    multiply = make(m, k, n, kind.name.lower(), b_layout=b_layout, ac_layout=ac_layout)
    expected = product(kind, a, b)
    check(kind, multiply(a, b), expected)
    a2, _ = matrices(kind, m, k, n, 1)
    check(kind, multiply(a2), product(kind, a2, b))  # B as it was


def test_memory_is_described_as_the_table_says(make: Make) -> None:
    native = make(5, 96, 128, "float16_int4_float16", b_layout="native", ac_layout="native")
    assert (native.A.dims, native.B.dims, native.C.dims) == ((12, 5, 8), (2, 3, 64, 32), (16, 5, 8))
    assert (native.A.size, native.B.size, native.C.size) == (5 * 96 * 2, 96 * 128 // 2, 5 * 128 * 2)
    wide = make(5, 96, 128, 2, b_layout="native", ac_layout="native")
    assert (wide.A.dims, wide.B.dims, wide.C.dims) == ((6, 5, 16), (4, 3, 32, 32), (32, 5, 4))
    small = make(5, 96, 128, MatmulType.INT4_INT4_INT16, ac_layout="native", b_layout="transposed")
    assert (small.A.dims, small.B.dims, small.C.dims) == ((3, 5, 32), (128, 96), (16, 5, 8))


def test_int16_saturates(make: Make) -> None:
    multiply = make(1, 1024, 64, "int4_int4_int16")
    a, b = np.full((1, 1024), -8, np.int8), np.full((1024, 64), -8, np.int8)
    assert (multiply(a, b) == 32767).all()
    assert (multiply(a, -b - 1) == -32768).all()


def test_the_largest_integers_are_exact(make: Make) -> None:
    multiply = make(2, 4096, 32, "int8_int8_int32")
    a, b = np.full((2, 4096), -128, np.int8), np.full((4096, 32), -128, np.int8)
    b[0] = 127
    assert (multiply(a, b) == 4095 * 16384 - 128 * 127).all()


def test_rows_beyond_a_segment_are_packed_anew(make: Make) -> None:
    k = 8192 + 96
    a, b = matrices(MatmulType.INT8_INT8_INT32, 2, k, 64)
    multiply = make(2, k, 64, "int8_int8_int32", b_layout="native")
    assert np.array_equal(multiply(a, b), a.astype(np.int64) @ b)
    packed = layout.pack_b(b, (32, 32), 8192)
    whole = layout.pack_b(b[:8192], (32, 32)).reshape(-1)
    assert np.array_equal(packed[: whole.size], whole)


# -- quantisation ---------------------------------------------------------------------------------------------


def test_int8_results_are_requantised(make: Make) -> None:
    kind = MatmulType.INT8_INT8_INT8
    a, b = matrices(kind, 4, 64, 64)
    multiply = make(4, 64, 64, kind, asymmetric=True)
    for name, scale, zero in (("A", 0.02, 3), ("B", 0.03, -5), ("C", 0.9, 7)):
        multiply.set_quant(name, scale, zero)
    f32 = np.float32
    quants = Quants(Quant(float(f32(0.02)), 3), Quant(float(f32(0.03)), -5), Quant(float(f32(0.9)), 7))
    found, expected = multiply(a, b).astype(int), product(kind, a, b, quants).astype(int)
    assert len(np.unique(expected)) > 20
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("kind", [MatmulType.INT8_INT8_FLOAT32, MatmulType.FLOAT16_INT8_FLOAT32,
                                  MatmulType.FLOAT16_INT4_BFLOAT16, MatmulType.INT8_INT4_FLOAT16])  # fmt: skip
@pytest.mark.parametrize("b_quant", ["layer", "channel", "group"])
def test_scales_of_b(make: Make, kind: MatmulType, b_quant: str) -> None:
    m, k, n = 3, 128, 64
    a, b = matrices(kind, m, k, n)
    rng = np.random.default_rng(5)
    shape = {"layer": (1,), "channel": (n,), "group": (k // 64, n)}[b_quant]
    scale = rng.uniform(0.001, 0.01, shape).astype(np.float32)
    zero = rng.integers(-3, 4, shape)
    options = {"group_size": 64} if b_quant == "group" else {}
    multiply = make(m, k, n, kind, b_quant=b_quant, asymmetric=True, **options)
    multiply.set_quant("B", scale, zero)
    spread = np.repeat(scale, 64, axis=0) if b_quant == "group" else scale
    zeros = np.repeat(zero, 64, axis=0) if b_quant == "group" else zero
    check(kind, multiply(a, b), product(kind, a, b, Quants(b=Quant(spread.astype(float), zeros))))


def test_wide_integers_with_a_scale_per_column(make: Make) -> None:
    kind = MatmulType.INT8_INT8_INT32
    a, b = matrices(kind, 4, 64, 32)
    scale = np.linspace(0.5, 2, 32).astype(np.float32)
    multiply = make(4, 64, 32, kind, b_quant="channel")
    multiply.set_quant("B", scale)
    assert multiply.b_scale() == 2.0
    found = multiply(a, b)
    assert np.array_equal(found, product(kind, a, b, Quants(b=Quant(scale))))
    real = a.astype(float) @ (b * scale.astype(float))
    assert np.abs(found * multiply.b_scale() - real).max() <= 1.0


@pytest.mark.parametrize(
    ("name", "scale", "zero", "words"),
    [
        ("D", 1.0, 0, "no matrix 'D'"),
        ("A", [1.0, 2.0], 0, "A takes 1 scales"),
        ("B", [1.0] * 3, 0, "B takes 1 or 64 scales"),
        ("B", [1.0] * 64, [0] * 3, "as many zero points"),
        ("A", 0.0, 0, "above 0"),
        ("A", float("nan"), 0, "finite"),
        ("B", 1.0, 1, "symmetric"),
    ],
)
def test_quantisation_that_does_not_fit(make: Make, name: str, scale: Any, zero: Any, words: str) -> None:
    multiply = make(4, 64, 64, "int8_int8_int8", b_quant="channel")
    with pytest.raises(errors.ParamInvalid, match=words):
        multiply.set_quant(name, scale, zero)


# -- several shapes -------------------------------------------------------------------------------------------


def test_shapes_switch(make: Make) -> None:
    shapes = [(1, 64, 32), (7, 64, 32), (16, 128, 96)]
    multiply = make(shapes=shapes, type="int8_int8_int32", b_layout="native", ac_layout="native")
    for shape in (*shapes, *shapes[::-1]):
        multiply.set_shape(*shape)
        assert tuple(multiply.shape) == shape
        a, b = matrices(multiply.type, *shape)
        with pytest.raises(errors.ContextInvalid, match="no B yet"):
            multiply(a)
        assert np.array_equal(multiply(a, b), a.astype(int) @ b)
    with pytest.raises(errors.ParamInvalid, match=r"\(2, 64, 32\) is not among.*\(7, 64, 32\)"):
        multiply.set_shape(2, 64, 32)


# -- memory of the caller -------------------------------------------------------------------------------------


def test_memory_is_bound_and_bound_again(make: Make) -> None:
    multiply = make(4, 64, 32)
    a, b = matrices(multiply.type, 4, 64, 32)
    mems = {t.name: multiply.create_mem(t.size) for t in (multiply.A, multiply.B, multiply.C)}
    with pytest.raises(errors.ContextInvalid, match="bind memory to A, B"):
        multiply.run()
    mems["A"].ndarray[:] = a.reshape(-1).view(np.uint8)
    mems["B"].ndarray[:] = b.reshape(-1).view(np.uint8)
    for tensor in (multiply.A, multiply.B, multiply.C):
        multiply.bind(tensor, mems[tensor.name])
    multiply.run()
    result = mems["C"].ndarray.view(np.int32).reshape(4, 32)
    assert np.array_equal(result, a.astype(int) @ b)
    mems["A"].ndarray[:] = 0  # the runtime took A over when it was bound
    multiply.run()
    assert np.array_equal(result, a.astype(int) @ b)
    multiply.bind(multiply.A, mems["A"])
    multiply.run()
    assert not result.any()
    other = multiply.create_mem(multiply.C.size)
    multiply.bind(multiply.C, other)
    result[:] = 5
    multiply.run()
    assert (result == 5).all() and not other.ndarray.any()


def test_memory_is_imported(make: Make) -> None:
    multiply = make(4, 64, 32)
    a, b = matrices(multiply.type, 4, 64, 32)
    fd = os.memfd_create("weights")
    os.pwrite(fd, b"\0" * 64 + b.tobytes(), 0)
    mem = multiply.import_mem(fd, multiply.B.size, 64)
    multiply.bind(multiply.B, mem)
    for tensor, data in ((multiply.A, a), (multiply.C, None)):
        own = multiply.create_mem(tensor.size)
        if data is not None:
            own.ndarray[:] = data.reshape(-1).view(np.uint8)
        multiply.bind(tensor, own)
    multiply.run()
    assert np.array_equal(own.ndarray.view(np.int32).reshape(4, 32), a.astype(int) @ b)
    os.close(fd)


def test_memory_that_does_not_fit(make: Make) -> None:
    multiply, other = make(4, 64, 32), make(4, 64, 32)
    small = multiply.create_mem(multiply.B.size - 1)
    with pytest.raises(errors.ParamInvalid, match=r"B: the memory has 2047 bytes, 2048 are needed \(INT8"):
        multiply.bind(multiply.B, small)
    with pytest.raises(errors.ParamInvalid, match="belongs to another context"):
        multiply.bind(multiply.B, other.create_mem(4096))
    with pytest.raises(errors.ParamInvalid):
        multiply.bind(dataclasses.replace(multiply.B, dims=(32, 64)), multiply.create_mem(4096))


def bind_all(multiply: rknnlite.Matmul, a: np.ndarray, b: np.ndarray) -> dict[str, Any]:
    """Memory for the current shape, filled and bound."""
    layouts = multiply.context.spec
    packed = {
        "A": layout.pack_lanes(a, multiply.A.dims[-1]) if layouts.ac_native else a,
        "B": layout.pack_b(b, multiply.B.dims[2:]) if layouts.b_layout else b,
    }
    mems = {t.name: multiply.create_mem(t.size) for t in (multiply.A, multiply.B, multiply.C)}
    for tensor in (multiply.A, multiply.B, multiply.C):
        if tensor.name in packed:
            mems[tensor.name].ndarray[:] = layout.to_bytes(packed[tensor.name], tensor.dtype)
        multiply.bind(tensor, mems[tensor.name])
    return mems


def result_of(multiply: rknnlite.Matmul, mem: Any) -> np.ndarray:
    """C as a matrix."""
    found = layout.from_bytes(mem.ndarray, multiply.C.dtype, multiply.C.dims)
    return layout.unpack_lanes(found, multiply.shape.n) if multiply.context.spec.ac_native else found


@pytest.mark.parametrize(
    "layouts", [{}, {"b_layout": "native", "ac_layout": "native"}], ids=["normal", "native"]
)
def test_b_stays_bound_where_m_changes(make: Make, layouts: dict[str, str]) -> None:
    shapes = [(7, 64, 32), (1, 64, 32), (4, 64, 32)]
    multiply = make(shapes=shapes, **layouts)
    a, b = matrices(multiply.type, 7, 64, 32)
    mems = bind_all(multiply, a, b)
    mems["B"].ndarray[:] = 0  # repacked when it was bound: this is not seen
    for m, _, _ in shapes:
        multiply.set_shape(m, 64, 32)
        native = multiply.context.spec.ac_native
        packed = layout.pack_lanes(a[:m], multiply.A.dims[-1]) if native else a[:m]
        mems["A"].ndarray[: multiply.A.size] = packed.reshape(-1).view(np.uint8)
        multiply.bind(multiply.A, mems["A"])
        multiply.bind(multiply.C, mems["C"])
        multiply.run()
        assert np.array_equal(result_of(multiply, mems["C"]), a[:m].astype(int) @ b)


@pytest.mark.parametrize(
    "layouts", [{}, {"b_layout": "native", "ac_layout": "native"}], ids=["normal", "native"]
)
def test_what_changes_its_size_is_bound_again_by_the_shape(make: Make, layouts: dict[str, str]) -> None:
    large, small = (7, 128, 96), (4, 64, 32)
    multiply = make(shapes=[large, small], **layouts)
    mems = bind_all(multiply, *matrices(multiply.type, *large))
    filled = make(shapes=[small], **layouts)
    a, b = matrices(multiply.type, *small)
    for name, mem in bind_all(filled, a, b).items():
        mems[name].ndarray[: mem.size] = mem.ndarray
    multiply.set_shape(*small)
    mems["B"].ndarray[:] = 0  # set_shape has read it
    multiply.run()
    assert np.array_equal(result_of(multiply, mems["C"]), a.astype(int) @ b)


def test_memory_that_is_too_small_for_the_next_shape(make: Make) -> None:
    small, large = (4, 64, 32), (4, 64, 64)
    multiply = make(shapes=[small, large])
    a, b = matrices(multiply.type, *small)
    mems = bind_all(multiply, a, b)
    multiply.set_shape(*large)
    words = r"B: the memory that is bound has 2048 bytes, 4096 are needed for shape \(4, 64, 64\)"
    with pytest.raises(errors.ContextInvalid, match=words):
        multiply.run()
    multiply.set_shape(*small)
    multiply.run()
    assert np.array_equal(result_of(multiply, mems["C"]), a.astype(int) @ b)
    mems["B"].close()
    multiply.set_shape(*large)
    with pytest.raises(errors.ContextInvalid, match="bind memory to B"):
        multiply.run()


def test_scales_without_zero_points(make: Make) -> None:
    """As programs of the C API give them: a length of 0."""
    multiply = make(4, 64, 32, "int8_int8_float32", b_quant="group", group_size=32)
    scales = np.linspace(0.1, 0.4, 64, dtype=np.float32)
    multiply.context.set_quant("B", scales.tolist(), [])
    a, b = matrices(multiply.type, 4, 64, 32)
    real = b * np.repeat(scales.reshape(2, 32), 32, axis=0)
    assert np.allclose(multiply(a, b), a @ real.astype(np.float64), rtol=1e-5, atol=1e-2)


def test_scales_of_another_shape_are_refused() -> None:
    shapes = [(4, 64, 32), (4, 64, 64)]
    with rknnlite.Matmul(
        shapes=shapes, type="int8_int8_float32", b_quant="channel", backend="cpu"
    ) as multiply:
        multiply.set_quant("B", [0.5] * 32)
        multiply.set_shape(*shapes[1])
        a, b = matrices(multiply.type, *shapes[1])
        with pytest.raises(errors.ContextInvalid, match=r"B has 32 scales, shape .* needs 64"):
            multiply(a, b)
        multiply.set_quant("B", [0.5] * 64)
        assert np.array_equal(multiply(a, b), (a.astype(int) @ b) * 0.5)


def test_scales_of_the_largest_shape_count_for_all() -> None:
    """Set once, before a loop over the shapes; groups of rows only where all are alike."""
    shapes = [(4, 64, 32), (4, 96, 64), (2, 32, 96)]
    scales = np.linspace(0.1, 0.4, 96, dtype=np.float32)
    for quant, numbers in (("channel", scales), ("group", np.full(3 * 96, 0.25, np.float32))):
        options = {"group_size": 32} if quant == "group" else {}
        with rknnlite.Matmul(
            shapes=shapes, type="int8_int8_float32", b_quant=quant, backend="cpu", **options
        ) as multiply:
            multiply.context.set_quant("B", numbers.tolist(), [])
            for shape in shapes:
                multiply.set_shape(*shape)
                a, b = matrices(multiply.type, *shape)
                columns = numbers[: shape[2]] if quant == "channel" else numbers[0]
                assert np.allclose(multiply(a, b), (a.astype(int) @ b) * columns, rtol=1e-6)
                assert multiply.context.b_scale() == columns.max()
            if quant == "group":
                multiply.context.set_quant("B", [*numbers[1:].tolist(), 0.5], [])
                with pytest.raises(errors.ContextInvalid, match=r"B has 288 scales, shape .* needs 96"):
                    multiply(a, b)


# -- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "kind", "words"),
    [
        ((4, 65, 32), "int8_int8_int32", r"K=65 is outside the limits of rk3588 for INT8: a multiple of 32"),
        ((4, 64, 33), "int8_int8_int32", r"N=33 .*a multiple of 32 and at most 4096"),
        ((4, 64, 96), "int4_int4_int16", r"N=96 .*INT4: a multiple of 64 and at most 8192"),
        ((4, 48, 64), "float16_float16_float32", r"K=48 .*FLOAT16"),
        ((0, 64, 64), "int8_int8_int32", "must be at least 1"),
        ((4, -32, 64), "int8_int8_int32", "must be at least 1"),
    ],
)
def test_sizes_outside_the_limits(make: Make, shape: tuple[int, ...], kind: str, words: str) -> None:
    with pytest.raises(errors.ParamInvalid, match=words) as caught:
        make(*shape, kind)
    assert caught.value.code == -5


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((4, 64, 64, "int9_int9_int9"), {}, "int8_int8_int32, int8_int8_int8"),
        ((4, 64, 64, 13), {}, "13 does not exist"),
        ((4, 64), {}, "give M, K and N"),
        ((4, 64, 64), {"shapes": [(4, 64, 64)]}, "give M, K and N"),
        ((), {"shapes": []}, "at least one shape"),
        ((4, 64, 64), {"b_layout": "odd"}, "b_layout 'odd' is not one of normal, native, transposed"),
        ((4, 64, 64), {"ac_layout": "transposed"}, "ac_layout 'transposed'"),
        ((4, 64, 64), {"b_quant": "group"}, "group_size 0 must be a multiple of 32"),
        ((4, 64, 64), {"b_quant": "group", "group_size": 48}, "divides every K"),
        ((4, 64, 64), {"group_size": 32}, "goes with b_quant='group' only"),
        ((4, 64, 64), {"iommu_domain": -1}, "iommu domain -1"),
        ((4, 64, 64), {"core_mask": 5}, "0x5 is not legal on rk3588"),
    ],
)
def test_arguments_that_make_no_sense(make: Make, arguments: Any, options: Any, words: str) -> None:
    with pytest.raises(errors.RknnError, match=words):
        make(*arguments, **options)


def test_masks(make: Make) -> None:
    multiply = make(4, 64, 64, core_mask=7, iommu_domain=1)
    for mask in (0, 1, 2, 4, 3, 7, 0xFFFF):
        multiply.set_core_mask(mask)
    for mask in (5, 6, 8, -1):
        with pytest.raises(errors.RknnError, match="not legal on rk3588") as caught:
            multiply.set_core_mask(mask)
        assert caught.value.code == -1


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (np.zeros((4, 63), np.int8), None, r"A has shape \[4, 63\], \[4, 64\] is needed"),
        (np.zeros((4, 64), np.int16), None, "A has element type int16, int8 is needed"),
        (np.zeros((4, 64), np.float32), None, "element type float32"),
        (np.zeros((4, 64), np.int8), np.zeros((32, 64), np.int8), r"B has shape \[32, 64\]"),
    ],
)
def test_arrays_that_do_not_fit(make: Make, a: Any, b: Any, words: str) -> None:
    multiply = make(4, 64, 32)
    with pytest.raises(errors.InputInvalid, match=words):
        multiply(a, np.zeros((64, 32), np.int8) if b is None else b)


def test_int4_values_are_checked(make: Make) -> None:
    multiply = make(4, 64, 64, "int4_int4_int16")
    with pytest.raises(errors.InputInvalid, match=r"A is int4: values must be -8\.\.7, got 0\.\.8"):
        multiply(np.pad(np.array([[8]], np.int8), ((0, 3), (0, 63))), np.zeros((64, 64), np.int8))


def test_after_close(make: Make) -> None:
    multiply = make(4, 64, 32)
    mem = multiply.create_mem(64)
    multiply.close()
    multiply.close()
    for call in (multiply.run, lambda: multiply.create_mem(4), lambda: multiply.set_core_mask(1)):
        with pytest.raises(errors.ContextInvalid, match="closed"):
            call()
    with pytest.raises(errors.ContextInvalid):
        _ = mem.ndarray


def test_one_caller_at_a_time(make: Make) -> None:
    multiply = make(4, 64, 32)
    caught: list[BaseException] = []

    def intrude() -> None:
        try:
            multiply.run()
        except errors.ContextInvalid as error:
            caught.append(error)

    with multiply.context.exclusive():
        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
    assert "in use by another thread" in str(caught[0])


# -- other chips (the CPU reference plays them) -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("soc", "kind", "a", "b", "c"),
    [
        ("rk3566", "int8_int8_int32", (8, 3, 8), (6, 2, 16, 32), (24, 3, 4)),
        ("rk3562", "int8_int8_int32", (4, 3, 16), (6, 2, 16, 32), (24, 3, 4)),
        ("rk3576", "int8_int8_int32", (4, 3, 16), (3, 2, 32, 32), (24, 3, 4)),
        ("rk3568", "float16_float16_float32", (16, 3, 4), (12, 4, 8, 16), (24, 3, 4)),
        ("rk3562", "float16_float16_float32", (8, 3, 8), (12, 2, 8, 32), (24, 3, 4)),
        ("rk3576", "int8_int4_int32", (4, 3, 16), (2, 2, 64, 32), (32, 3, 4)),
    ],
)
def test_native_layouts_by_chip(soc: str, kind: str, a: Any, b: Any, c: Any) -> None:
    n = 128 if "int4" in kind else 96
    with rknnlite.Matmul(3, 64, n, kind, soc, "cpu", b_layout="native", ac_layout="native") as multiply:
        assert (multiply.A.dims, multiply.B.dims, multiply.C.dims) == (a, b, c)
        left, right = matrices(multiply.type, 3, 64, n)
        check(multiply.type, multiply(left, right), product(multiply.type, left, right))


@pytest.mark.parametrize(
    ("soc", "shape", "kind", "error", "words"),
    [
        ("rk3566", (1, 10272, 16), "int8_int8_int32", errors.ParamInvalid, "at most 10240"),
        ("rk3566", (1, 32, 4112), "int8_int8_int32", errors.ParamInvalid, "N=4112 .*at most 4096"),
        ("rk3566", (1, 32, 64), "int4_int4_int16", errors.TargetPlatformUnmatch, "no INT4 matrices"),
        ("rv1126b", (1, 32, 32), "int8_int8_int32", errors.TargetPlatformUnmatch, "rv1126b"),
        ("rv1106", (1, 32, 32), "int8_int8_int32", errors.TargetPlatformUnmatch, "rv1106"),
    ],
)
def test_limits_by_chip(soc: str, shape: Any, kind: str, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        rknnlite.Matmul(*shape, kind, soc, "cpu")


def test_single_core_chips_take_no_mask() -> None:
    with (
        rknnlite.Matmul(1, 32, 32, soc="rk3566", backend="cpu") as multiply,
        pytest.raises(errors.TargetPlatformUnmatch),
    ):
        multiply.set_core_mask(1)


# -- layouts --------------------------------------------------------------------------------------------------


@settings(max_examples=examples(30))
@given(
    rows=st.integers(1, 80), columns=st.integers(1, 150), tile=st.sampled_from([(32, 32), (16, 32), (8, 16), (64, 32)]),
    segment=st.sampled_from([0, 32, 64]), dtype=st.sampled_from([np.int8, np.float16, np.int32]),
)  # fmt: skip
def test_packing_and_back(rows: int, columns: int, tile: tuple[int, int], segment: int, dtype: Any) -> None:
    matrix = np.arange(rows * columns).reshape(rows, columns).astype(np.int8).astype(dtype)
    packed = layout.pack_b(matrix, tile, segment)
    assert np.array_equal(layout.unpack_b(packed, (rows, columns), tile, segment), matrix)
    if not segment:
        n, k = tile
        assert packed.shape == (-(-columns // n), -(-rows // k), n, k)
        assert packed[-1, -1, (columns - 1) % n, (rows - 1) % k] == matrix[-1, -1]
    lanes = layout.pack_lanes(matrix, tile[0])
    assert np.array_equal(layout.unpack_lanes(lanes, columns), matrix)
    assert lanes[(columns - 1) // tile[0], rows - 1, (columns - 1) % tile[0]] == matrix[-1, -1]


def test_packing_without_opencv_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = np.random.default_rng(0).integers(-128, 128, (320, 96)).astype(np.int8)
    quick = layout.pack_b(matrix, (32, 32))
    monkeypatch.setattr(layout, "_merge", lambda: None)
    assert np.array_equal(layout.pack_b(matrix, (32, 32)), quick)


def test_packing_needs_a_matrix() -> None:
    for bad in (np.zeros(4, np.int8), np.zeros((2, 0), np.int8), np.zeros((1, 2, 3), np.int8)):
        with pytest.raises(errors.ParamInvalid, match="needs a matrix"):
            layout.pack_b(bad, (32, 32))


@given(st.lists(st.integers(-8, 7), min_size=1, max_size=9))
def test_int4_in_bytes(values: list[int]) -> None:
    array = np.array(values, np.int8)
    data = layout.to_bytes(array, DType.INT4)
    assert data.size == (len(values) + 1) // 2 and (data[0] & 15) == values[0] & 15
    assert np.array_equal(layout.from_bytes(data, DType.INT4, (len(values),)), array)


def test_bfloat16_rounds_to_even() -> None:
    values = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, np.inf, -2.5], np.float32)
    stored = layout.float_to_bfloat16(values)
    assert layout.bfloat16_to_float(stored).tolist() == [1.0, 1.0, 1 + 2**-6, np.inf, -2.5]
    assert np.isnan(layout.bfloat16_to_float(layout.float_to_bfloat16(np.float32([np.nan]))))[0]
