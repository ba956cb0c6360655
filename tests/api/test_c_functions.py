"""C functions that programs call through ``rknn_runtime.lib``: the same program on the CPU reference and on librknnrt.

What would end the process on a board is tried on the CPU reference alone.
"""

from __future__ import annotations

import ctypes as ct
import gc
import mmap
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from rknnlite_backend.addresses import is_mapped

from rknnlite.abi import rknn_api as abi
from rknnlite.abi.rknn_op import CONTEXT, TensorAttrStruct, TensorMem
from rknnlite.api import RKNNLite
from rknnlite.api.rknn_runtime import RKNNOutput

from .corpus import genuine
from .test_field_programs import Board, ask, board, picture

__all__ = ["board"]

UINT8, FLOAT32, NHWC, NCHW = 3, 0, 1, 0


class Mem(ct.Structure):
    """``rknn_tensor_mem`` as programs declare it."""

    _fields_ = (
        ("virt_addr", ct.c_void_p), ("phys_addr", ct.c_uint64), ("fd", ct.c_int32), ("offset", ct.c_int32),
        ("size", ct.c_uint32), ("flags", ct.c_uint32), ("priv_data", ct.c_void_p),
    )  # fmt: skip


@pytest.fixture
def rknn(board: Board) -> Iterator[RKNNLite]:
    face = board.start()
    yield face
    face.release()


@pytest.fixture
def cpu_runtime(cpu: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("RKNNLITE_BACKEND", "cpu")
    face = Board("cpu", genuine("conv_1x1.rk3588.i8"), genuine("dynamic_two.rk3588.fp16")).start()
    yield face.rknn_runtime
    face.release()


def attr_by(runtime: Any, command: int, index: int = 0) -> TensorAttrStruct:
    attr = TensorAttrStruct(index=index)
    assert ask(runtime, command, attr) == 0
    return attr


def inputs_of(*arrays: np.ndarray, **fields: Any) -> Any:
    """``rknn_input`` for uint8 NHWC arrays."""
    structs = (abi.InputStruct * len(arrays))()
    for index, (struct, array) in enumerate(zip(structs, arrays)):
        struct.index, struct.buf, struct.size = index, array.ctypes.data, array.nbytes
        struct.type, struct.fmt = UINT8, NHWC
        for name, value in fields.items():
            setattr(struct, name, value)
    return structs


def floats(runtime: Any, context: Any = None, extend: Any = None) -> np.ndarray:
    """The only output of the last run in float32."""
    context = runtime.context if context is None else context
    outputs = (RKNNOutput * 1)(RKNNOutput(want_float=1))
    assert runtime.lib.rknn_outputs_get(context, 1, outputs, extend) == 0
    data = ct.cast(outputs[0].buf, ct.POINTER(ct.c_float))
    found = np.ctypeslib.as_array(data, (outputs[0].size // 4,)).copy()
    assert runtime.lib.rknn_outputs_release(context, 1, outputs) == 0
    return found


# -- common path --------------------------------------------------------------------------------------------


def test_inputs_run_outputs(rknn: RKNNLite) -> None:
    runtime, image = rknn.rknn_runtime, picture(rknn)
    expected = rknn.inference([image])[0].ravel()
    given = image.copy()
    assert runtime.lib.rknn_inputs_set(runtime.context, 1, inputs_of(given)) == 0
    given[...] = 0  # the runtime has its copy
    assert runtime.lib.rknn_run(runtime.context, None) == 0
    assert np.array_equal(floats(runtime), expected)


def test_inputs_passed_through(rknn: RKNNLite) -> None:
    """As the native tensor lies; with bytes of its own type the same as through the face."""
    runtime, native = rknn.rknn_runtime, attr_by(rknn.rknn_runtime, 8)
    stored = np.random.default_rng(2).integers(-100, 100, native.size).astype(np.int8)
    expected = rknn.inference([stored.reshape(native.dims[: native.n_dims])], inputs_pass_through=[1])
    given = inputs_of(stored, pass_through=1)
    assert runtime.lib.rknn_inputs_set(runtime.context, 1, given) == 0
    assert runtime.lib.rknn_run(runtime.context, None) == 0
    assert np.array_equal(floats(runtime), expected[0].ravel())


def test_rows_that_are_passed_through_with_their_padding(cpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_BACKEND", "cpu")
    rknn = Board("cpu", genuine("mean_std.rk3588.i8"), genuine("mean_std.rk3588.i8")).start()
    runtime, native = rknn.rknn_runtime, attr_by(rknn.rknn_runtime, 8)
    n, h, w, c = native.dims[:4]
    assert native.w_stride > w and native.size_with_stride == n * h * native.w_stride * c
    padded = np.random.default_rng(3).integers(-100, 100, (n, h, native.w_stride, c)).astype(np.int8)
    results = []
    for stored in (padded, np.ascontiguousarray(padded[:, :, :w])):
        assert runtime.lib.rknn_inputs_set(runtime.context, 1, inputs_of(stored, pass_through=1)) == 0
        assert runtime.lib.rknn_run(runtime.context, None) == 0
        results.append(floats(runtime))
    assert np.array_equal(*results) and results[0].any()
    rknn.release()


def test_runs_that_do_not_block(rknn: RKNNLite) -> None:
    runtime, lib, image = rknn.rknn_runtime, rknn.rknn_runtime.lib, picture(rknn)
    expected = rknn.inference([image])[0].ravel()  # frame 0
    assert lib.rknn_inputs_set(runtime.context, 1, inputs_of(image)) == 0
    for number in (1, 2):
        extend = abi.RunExtend(non_block=1, timeout_ms=0, fence_fd=-1)
        assert lib.rknn_run(runtime.context, ct.byref(extend)) == 0
        assert extend.frame_id == number
        waiting = abi.RunExtend(frame_id=extend.frame_id, timeout_ms=20_000)
        assert lib.rknn_wait(runtime.context, ct.byref(waiting)) == 0
        told = abi.OutputExtend(frame_id=99)
        assert np.array_equal(floats(runtime, extend=ct.byref(told)), expected)
        assert told.frame_id in (number, 99)  # the double tells in async mode only
    blocking = abi.RunExtend(non_block=0, timeout_ms=20_000)
    assert lib.rknn_run(runtime.context, ct.byref(blocking)) == 0 and blocking.frame_id == 3


# -- memory -------------------------------------------------------------------------------------------------


def bound(runtime: Any, image: np.ndarray, make: Callable[[int], Any]) -> tuple[Any, np.ndarray, Any]:
    """Bind uint8 input and float32 output: the memory of both, and a view of the output."""
    lib, context = runtime.lib, runtime.context
    native = attr_by(runtime, 8)
    native.type, native.fmt = UINT8, NHWC
    if native.n_dims != 4:  # the other form for layouts that no program fills by hand
        native = attr_by(runtime, 10)
        native.type = UINT8
    n, h, w, c = native.dims[:4]
    stride = native.w_stride or w
    into = make(max(native.size_with_stride, n * h * stride * c))
    where = into.contents.virt_addr + into.contents.offset
    rows = np.ctypeslib.as_array(ct.cast(where, ct.POINTER(ct.c_uint8)), (into.contents.size,))
    rows[: n * h * stride * c].reshape(n, h, stride, c)[:, :, :w] = image
    assert lib.rknn_mem_sync(context, into, 1) == 0
    assert lib.rknn_set_io_mem(context, into, ct.byref(native)) == 0
    plain = attr_by(runtime, 2)
    plain.type = FLOAT32
    out = make(plain.n_elems * 4)
    assert lib.rknn_set_io_mem(context, out, ct.byref(plain)) == 0
    where = out.contents.virt_addr + out.contents.offset
    return into, np.ctypeslib.as_array(ct.cast(where, ct.POINTER(ct.c_float)), (plain.n_elems,)), out


def test_memory_that_is_bound(board: Board) -> None:
    rknn = board.start()
    image = picture(rknn)
    expected = rknn.inference([image])[0].ravel()
    rknn.release()
    rknn = board.start()  # one context takes one path
    runtime = rknn.rknn_runtime
    lib, context = runtime.lib, runtime.context
    into, view, out = bound(runtime, image, lambda size: lib.rknn_create_mem(context, size))
    assert lib.rknn_run(context, None) == lib.rknn_mem_sync(context, out, 2) == 0
    assert np.array_equal(view, expected)
    assert into.contents.size >= image.size and into.contents.flags == 1
    del view
    assert lib.rknn_destroy_mem(context, into) == lib.rknn_destroy_mem(context, out) == 0
    rknn.release()


def test_memory_by_descriptor(board: Board) -> None:
    """``virt_addr`` is where the descriptor is mapped, without the offset."""
    rknn = board.start()
    image = picture(rknn)
    expected = rknn.inference([image])[0].ravel()
    rknn.release()
    rknn = board.start()
    runtime = rknn.rknn_runtime
    lib, context, offset, kept = runtime.lib, runtime.context, 4096, []

    def make(size: int) -> Any:
        fd = os.memfd_create("test")
        os.ftruncate(fd, offset + size)
        mapping = mmap.mmap(fd, offset + size)
        base = ct.addressof(ct.c_char.from_buffer(mapping))
        mem = lib.rknn_create_mem_from_fd(context, fd, base, size, offset)
        assert mem and mem.contents.virt_addr == base and mem.contents.offset == offset
        assert (mem.contents.fd, mem.contents.size, mem.contents.flags) == (fd, size, 2)
        kept.append((fd, mapping, mem))
        return mem

    _, view, out = bound(runtime, image, make)
    assert lib.rknn_run(context, None) == lib.rknn_mem_sync(context, out, 2) == 0
    assert np.array_equal(view, expected)
    for fd, _, mem in kept:
        assert lib.rknn_destroy_mem(context, mem) == 0
        os.close(fd)
    rknn.release()


def test_memory_by_its_virtual_address(cpu_runtime: Any) -> None:
    """On the CPU reference a physical address is a name, and the virtual one is what counts."""
    lib, context = cpu_runtime.lib, cpu_runtime.context
    block = np.zeros(8192, np.uint8)
    mem = lib.rknn_create_mem_from_phys(context, 0x1000, block.ctypes.data, 8192)
    assert (mem.contents.virt_addr, mem.contents.phys_addr, mem.contents.size, mem.contents.flags) == (
        block.ctypes.data, 0x1000, 8192, 3,
    )  # fmt: skip
    assert lib.rknn_mem_sync(0, mem, 3) == 0  # the context may be left out
    assert lib.rknn_destroy_mem(context, mem) == 0
    assert not lib.rknn_create_mem_from_phys(context, 0x1000, None, 8192)


def test_prototypes_of_the_program(cpu_runtime: Any) -> None:
    """A program declares structures and results of its own, as it does with the vendor's library."""
    lib, context = cpu_runtime.lib, cpu_runtime.context
    lib.rknn_create_mem.restype = ct.POINTER(Mem)
    lib.rknn_create_mem.argtypes = [ct.c_uint64, ct.c_uint32]
    assert lib.rknn_create_mem.argtypes == [ct.c_uint64, ct.c_uint32]
    mem = lib.rknn_create_mem(context, 64)
    assert isinstance(mem.contents, Mem) and mem.contents.size == 64
    ct.memset(mem.contents.virt_addr, 7, 64)
    assert lib.rknn_destroy_mem(ct.c_uint64(context), mem) == 0
    lib.rknn_create_mem.restype = ct.c_void_p
    address = lib.rknn_create_mem(context, 64)
    assert lib.rknn_destroy_mem(context, address) == 0 and lib.rknn_create_mem(context, 0) is None
    lib.rknn_create_mem.restype = ct.c_uint64
    assert lib.rknn_create_mem(context, 0) == 0
    with pytest.raises(AttributeError):
        lib.rknn_matmul_run  # noqa: B018


# -- contexts -----------------------------------------------------------------------------------------------


def test_duplicates(rknn: RKNNLite) -> None:
    runtime, lib, image = rknn.rknn_runtime, rknn.rknn_runtime.lib, picture(rknn)
    expected = rknn.inference([image])[0].ravel()
    ours, theirs = CONTEXT(int(runtime.context)), CONTEXT(0)
    assert lib.rknn_dup_context(ct.byref(ours), ct.byref(theirs)) == 0
    assert theirs.value not in (0, ours.value)
    assert lib.rknn_inputs_set(theirs, 1, inputs_of(image)) == lib.rknn_run(theirs, None) == 0
    assert np.array_equal(floats(runtime, theirs), expected)
    number = abi.InputOutputNum()
    assert lib.rknn_query(theirs, 0, ct.byref(number), 8) == 0 and number.n_output == 1
    assert lib.rknn_destroy(theirs) == 0
    assert np.array_equal(rknn.inference([image])[0].ravel(), expected)


def test_a_duplicate_that_is_destroyed(cpu_runtime: Any) -> None:
    lib = cpu_runtime.lib
    ours, theirs = CONTEXT(cpu_runtime.context), CONTEXT(0)
    assert lib.rknn_dup_context(ct.byref(ours), ct.byref(theirs)) == 0
    mem = lib.rknn_create_mem(theirs, 64)
    assert lib.rknn_set_io_mem(ours, mem, ct.byref(attr_by(cpu_runtime, 8))) == -5  # another's
    assert lib.rknn_destroy(theirs) == 0
    assert lib.rknn_destroy(theirs) == lib.rknn_run(theirs, None) == lib.rknn_mem_sync(0, mem, 3) == -7
    ct.memset(mem.contents.virt_addr, 7, 64)  # the program's until it destroys it
    assert lib.rknn_destroy_mem(theirs, mem) == 0 and not mem.contents.virt_addr


# -- queries ------------------------------------------------------------------------------------------------


def test_figures_per_layer(board: Board) -> None:
    rknn = RKNNLite(verbose=True)
    rknn.load_rknn(str(board.image_model))
    rknn.init_runtime()
    runtime, found = rknn.rknn_runtime, abi.PerfDetail()
    assert ask(runtime, 3, found) == -5  # before a run
    rknn.inference([picture(rknn)])
    assert ask(runtime, 3, found) == 0
    table = ct.string_at(found.perf_data, found.data_len).rstrip(b"\0").decode()
    assert "ID" in table and "OpType" in table and len(table) == len(ct.string_at(found.perf_data).decode())
    gc.collect()
    assert ct.string_at(found.perf_data, 8) == table[:8].encode()
    rknn.release()


def test_ranges_of_a_dynamic_model(board: Board) -> None:
    rknn = board.start(board.dynamic_model)
    runtime = rknn.rknn_runtime
    shapes = runtime._shapes
    for index in range(len(shapes[0])):
        found = abi.InputRange(index=index)
        assert ask(runtime, 13, found) == 0
        attr = runtime.get_tensor_attr(index)
        assert (found.index, found.shape_number, found.name) == (
            index,
            len(shapes),
            attr.name.split(b"\0")[0],
        )
        assert found.fmt == (NHWC if found.n_dims == 4 else 3)
        ranges = [tuple(found.dyn_range[k][: found.n_dims]) for k in range(found.shape_number)]
        assert ranges == [tuple(entry[index]) for entry in shapes]
    attrs = (TensorAttrStruct * len(shapes[0]))(*(attr_by(runtime, 1, i) for i in range(len(shapes[0]))))
    for entry in shapes:
        for attr, dims in zip(attrs, entry):
            attr.n_dims, attr.fmt = len(dims), NHWC if len(dims) == 4 else 3
            attr.dims[: len(dims)] = dims
        assert runtime.lib.rknn_set_input_shapes(runtime.context, len(entry), attrs) == 0
        assert tuple(attr_by(runtime, 14).dims[: len(entry[0])]) == tuple(entry[0])
    attrs[0].dims[0] = 1000
    assert runtime.lib.rknn_set_input_shapes(runtime.context, len(attrs), attrs) < 0
    rknn.release()


def test_a_static_model_has_no_range(rknn: RKNNLite) -> None:
    assert ask(rknn.rknn_runtime, 13, abi.InputRange()) == -6


def test_memory_of_the_device(rknn: RKNNLite) -> None:
    assert ask(rknn.rknn_runtime, 12, TensorMem()) == -5  # librknnmrt alone answers it


def test_memory_of_the_device_where_librknnmrt_computes(cpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_BACKEND", "cpu")
    model = genuine("conv_1x1.rv1106.i8")
    rknn = Board("cpu", model, model).start()
    found, size = TensorMem(), abi.MemSize()
    assert ask(rknn.rknn_runtime, 12, found) == ask(rknn.rknn_runtime, 6, size) == 0
    assert found.size == size.total_dma_allocated_size > 0 and found.fd == -1 and not found.virt_addr
    rknn.release()


# -- what would end the process -----------------------------------------------------------------------------

WILD = ct.c_void_p(16)
"""A pointer that is not NULL and leads nowhere."""


def closed_memory(lib: Any, context: int) -> Any:
    mem = lib.rknn_create_mem(context, 64)
    assert lib.rknn_destroy_mem(context, mem) == 0
    return mem


def set_with(runtime: Any, **fields: Any) -> int:
    attr = attr_by(runtime, 1)
    image = np.zeros(attr.n_elems, np.uint8)
    code: int = runtime.lib.rknn_inputs_set(runtime.context, 1, inputs_of(image, **fields))
    return code


def bind_with(runtime: Any, size: int = 1 << 20, **fields: Any) -> int:
    attr = attr_by(runtime, 8)
    for name, value in fields.items():
        setattr(attr, name, value)
    mem = runtime.lib.rknn_create_mem(runtime.context, size)
    code: int = runtime.lib.rknn_set_io_mem(runtime.context, mem, ct.byref(attr))
    return code


FAULTS: dict[str, tuple[Callable[[Any], int], int, str]] = {
    "inputs nowhere": (lambda r: r.lib.rknn_inputs_set(r.context, 1, WILD), -5, "leads nowhere"),
    "inputs NULL": (lambda r: r.lib.rknn_inputs_set(r.context, 1, None), -5, "a pointer is NULL"),
    "inputs of text": (lambda r: r.lib.rknn_inputs_set(r.context, 1, object()), -5, "where a pointer belongs"),
    "too many inputs": (lambda r: r.lib.rknn_inputs_set(r.context, 1 << 31, WILD), -8, "2147483648 inputs given"),
    "no such input": (lambda r: set_with(r, index=7), -8, "there is no input 7"),
    "an input of no buffer": (lambda r: set_with(r, buf=None), -8, "is NULL"),
    "a buffer nowhere": (lambda r: set_with(r, buf=16), -8, "the buffer of input .* leads nowhere"),
    "a size too small": (lambda r: set_with(r, size=5), -5, "5 bytes given, .* are needed"),
    "a size without end": (lambda r: set_with(r, size=0xFFFFFFFF), -8, "4294967295 bytes given"),
    "a type that is none": (lambda r: set_with(r, type=77), -8, "type 77 is none"),
    "NCHW": (lambda r: set_with(r, fmt=NCHW), -8, "must be NHWC"),
    "passed through, too short": (lambda r: set_with(r, pass_through=1, size=3), -5, "passed through"),
    "query nowhere": (lambda r: r.lib.rknn_query(r.context, 0, WILD, 8), -5, "leads nowhere"),
    "query without end": (
        lambda r: r.lib.rknn_query(r.context, 0, (ct.c_uint32 * 2)(), 0x7FFFFFFF_FFFFFFFF), -5, "leads nowhere",
    ),
    "query of a word": (lambda r: r.lib.rknn_query(r.context, "five", WILD, 8), -5, "where a number belongs"),
    "outputs nowhere": (lambda r: r.lib.rknn_outputs_get(r.context, 1, WILD, None), -5, "leads nowhere"),
    "release nowhere": (lambda r: r.lib.rknn_outputs_release(r.context, 1, WILD), -5, "leads nowhere"),
    "run with a wild extend": (lambda r: r.lib.rknn_run(r.context, WILD), -5, "leads nowhere"),
    "run without inputs": (lambda r: r.lib.rknn_run(r.context, None), -7, "set inputs"),
    "start without inputs": (
        lambda r: r.lib.rknn_run(r.context, ct.byref(abi.RunExtend(non_block=1))), -7, "set inputs",
    ),
    "wait without a start": (lambda r: r.lib.rknn_wait(r.context, None), -5, "no frame to wait for"),
    "wait for another frame": (
        lambda r: r.lib.rknn_wait(r.context, ct.byref(abi.RunExtend(frame_id=2**63))), -5, "is not under way",
    ),
    "a context that is none": (lambda r: r.lib.rknn_run(4711, None), -7, "this context is closed"),
    "dup of nowhere": (lambda r: r.lib.rknn_dup_context(WILD, WILD), -5, "leads nowhere"),
    "dup of another": (
        lambda r: r.lib.rknn_dup_context(ct.byref(CONTEXT(4711)), ct.byref(CONTEXT())), -7, "is closed",
    ),
    "sync of nowhere": (lambda r: r.lib.rknn_mem_sync(r.context, WILD, 1), -5, "no rknn_tensor_mem at 0x10"),
    "sync of closed memory": (
        lambda r: r.lib.rknn_mem_sync(r.context, closed_memory(r.lib, r.context), 1), -5, "it was destroyed",
    ),
    "sync in no direction": (
        lambda r: r.lib.rknn_mem_sync(r.context, r.lib.rknn_create_mem(r.context, 64), 9), -5, "mode is 9",
    ),
    "closing memory twice": (
        lambda r: r.lib.rknn_destroy_mem(r.context, closed_memory(r.lib, r.context)), -5, "it was destroyed",
    ),
    "binding closed memory": (
        lambda r: r.lib.rknn_set_io_mem(
            r.context, closed_memory(r.lib, r.context), ct.byref(TensorAttrStruct())
        ), -5, "it was destroyed",
    ),
    "binding by a wild attribute": (
        lambda r: r.lib.rknn_set_io_mem(r.context, r.lib.rknn_create_mem(r.context, 64), WILD), -5, "leads nowhere",
    ),
    "binding too little": (lambda r: bind_with(r, size=8), -8, "the memory has 8 bytes"),
    "binding a tensor of 99 dims": (lambda r: bind_with(r, n_dims=99), -5, "has 99 dims"),
    "binding a type that is none": (lambda r: bind_with(r, type=-3), -5, "has type -3"),
    "binding an unknown tensor": (lambda r: bind_with(r, name=b"nobody"), -5, "no tensor 'nobody'"),
    "weights in closed memory": (
        lambda r: r.lib.rknn_set_weight_mem(r.context, closed_memory(r.lib, r.context)), -5, "it was destroyed",
    ),
    "shapes of a static model": (
        lambda r: r.lib.rknn_set_input_shapes(r.context, 1, ct.byref(attr_by(r, 1))), -5, "static shapes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(cpu_runtime: Any, capfd: pytest.CaptureFixture[str], fault: str) -> None:
    call, code, text = FAULTS[fault]
    assert call(cpu_runtime) == code
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("E rknn_") and f"({code})" in line
    assert re.search(text, line), line


NULLS: dict[str, Callable[[Any], Any]] = {
    "no bytes": lambda r: r.lib.rknn_create_mem(r.context, 0),
    "flags that are none": lambda r: r.lib.rknn_create_mem2(r.context, 64, 1 << 20),
    "another context": lambda r: r.lib.rknn_create_mem(4711, 64),
    "a descriptor that is none": lambda r: r.lib.rknn_create_mem_from_fd(r.context, -1, None, 64, 0),
    "a mapping nowhere": lambda r: r.lib.rknn_create_mem_from_fd(r.context, 0, 16, 64, 0),
    "a mapping of text": lambda r: r.lib.rknn_create_mem_from_fd(r.context, 0, object(), 64, 0),
    "a negative offset": lambda r: r.lib.rknn_create_mem_from_fd(r.context, 0, None, 64, -64),
    "virtual nowhere": lambda r: r.lib.rknn_create_mem_from_phys(r.context, 0x1000, 16, 64),
}


@pytest.mark.parametrize("call", NULLS.values(), ids=NULLS)
def test_memory_that_cannot_be_had(cpu_runtime: Any, capfd: pytest.CaptureFixture[str], call: Any) -> None:
    assert not call(cpu_runtime)
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("E rknn_create_mem")


def test_outputs_that_are_released_twice(cpu_runtime: Any) -> None:
    """The outputs of one array stay when another is released."""
    lib, context = cpu_runtime.lib, cpu_runtime.context
    image = np.zeros(attr_by(cpu_runtime, 1).n_elems, np.uint8)
    assert lib.rknn_inputs_set(context, 1, inputs_of(image)) == lib.rknn_run(context, None) == 0
    first, second = (RKNNOutput * 1)(), (RKNNOutput * 1)()
    for outputs in (first, second):
        assert lib.rknn_outputs_get(context, 1, outputs, None) == 0
    assert lib.rknn_outputs_release(context, 1, first) == lib.rknn_outputs_release(context, 1, first) == 0
    assert not first[0].buf and len(ct.string_at(second[0].buf, second[0].size)) == second[0].size
    short = (RKNNOutput * 1)(RKNNOutput(is_prealloc=1, buf=16, size=1 << 20))
    assert lib.rknn_outputs_get(context, 1, short, None) == -9
    assert lib.rknn_outputs_release(context, 1, second) == 0


def test_what_is_mapped() -> None:
    block = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    where = ct.addressof(ct.c_char.from_buffer(block))
    assert is_mapped(where, 2 * mmap.PAGESIZE) and is_mapped(where + 5, 1) and is_mapped(where, 0)
    assert not is_mapped(0, 1) and not is_mapped(-8, 4) and not is_mapped(where, -1)
    assert not is_mapped(16, 8) and not is_mapped(where, 1 << 62) and not is_mapped((1 << 64) - 8, 16)
