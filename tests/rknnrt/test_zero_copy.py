"""Memory that program and NPU share: created, imported, bound, synced; what does not fit is refused."""

from __future__ import annotations

import dataclasses
import mmap
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rknnlite_rknnrt import abi

from rknnlite.errors import ContextInvalid, InputInvalid, OutOfMemory, OutputInvalid, ParamInvalid
from rknnlite.spi import AttrKind, Input
from rknnlite.tensor import DType, Layout, TensorAttr
from tests.doubles.double import Double

from .models import AFFINE, DYNAMIC, FLOATS, NATIVE, TWO, identity, picture, real, scores, stored

Start = Callable[..., Any]


def bound(context: Any, attr: TensorAttr, **edits: Any) -> np.ndarray:
    """Bind new memory with an attribute; a view of it in that attribute's type and with its row padding."""
    attr = dataclasses.replace(attr, **edits)
    own_width = attr.dtype.bits == 8 * (attr.size // attr.n_elems)
    padded = attr.w_stride if own_width and attr.layout is Layout.NHWC else 0
    shape = (*attr.dims[:2], padded or attr.dims[2], *attr.dims[3:]) if len(attr.dims) == 4 else attr.dims
    size = max(attr.size_with_stride, attr.size, int(np.prod(shape)) * attr.dtype.bits // 8)
    memory = context.create_mem(size)
    context.bind(attr, memory)
    return memory.ndarray[: int(np.prod(shape)) * attr.dtype.bits // 8].view(attr.dtype.numpy).reshape(shape)


def as_map(native: np.ndarray) -> np.ndarray:
    """NC1HWC2 of one image -> NCHW, three channels."""
    return native.transpose(0, 1, 4, 2, 3).reshape(1, -1, *native.shape[2:4])[:, :3]


def test_pixels_in_scores_out(start: Start, double: Double) -> None:
    """The attribute as it was asked for, uint8 instead of int8: the library quantises while it reads."""
    context = start(*AFFINE)
    image = bound(context, context.native_inputs[0], dtype=DType.UINT8)
    result = bound(context, context.native_outputs[0], dtype=DType.FLOAT32)
    assert image.shape == (1, 4, 16, 3)  # rows padded to w_stride
    for seed in (1, 2, 3):
        image[:, :, :6] = picture(seed)
        context.run()
        assert np.array_equal(result, scores(picture(seed)))
    assert double.count("rknn_inputs_set") == double.count("rknn_outputs_get") == 0
    assert double.count("rknn_set_io_mem") == 2


def test_nchw_is_taken_for_an_output_of_rank_two(start: Start) -> None:
    """As the vendor's programs set it, whatever the rank."""
    context = start(*AFFINE)
    image = bound(context, context.native_inputs[0], dtype=DType.UINT8)
    result = bound(context, context.native_outputs[0], dtype=DType.FLOAT32, layout=Layout.NCHW)
    image[:, :, :6] = picture(1)
    context.run()
    assert np.array_equal(result, scores(picture(1)))


def test_native_elements_pass_through(start: Start) -> None:
    context = start(*NATIVE)
    image = bound(context, context.native_inputs[0], pass_through=True)
    result = bound(context, context.native_outputs[0])
    assert result.shape == (1, 1, 4, 6, 16)  # NC1HWC2
    elements = np.random.default_rng(4).integers(-128, 128, (1, 4, 6, 3), dtype=np.int8)
    image[:, :, :6] = elements
    context.run()
    assert np.array_equal(as_map(result), elements.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.FLOAT32])
@pytest.mark.parametrize("kind", [AttrKind.OUTPUT, AttrKind.NATIVE_NHWC_OUTPUT, AttrKind.NATIVE_OUTPUT])
def test_outputs_in_every_layout_and_type(start: Start, kind: AttrKind, dtype: DType) -> None:
    context = start(*NATIVE)
    image = bound(context, context.native_inputs[0], dtype=DType.UINT8)
    result = bound(context, context.attrs(kind)[0], dtype=dtype)
    image[:, :, :6] = picture()
    context.run()
    order = {Layout.NCHW: lambda a: a, Layout.NHWC: lambda a: a.transpose(0, 3, 1, 2), Layout.NC1HWC2: as_map}
    got = order[context.attrs(kind)[0].layout](result)
    seen = stored(picture().transpose(0, 3, 1, 2), 0.5, -3)
    assert np.array_equal(got, seen if dtype is DType.INT8 else real(seen, 0.5, -3))


@pytest.mark.parametrize("through", [True, False])
def test_many_channels(start: Start, through: bool) -> None:
    """7 channels: NC1HWC2 with pass_through; NHWC without, and the library packs."""
    context = start(*FLOATS)
    values = np.random.default_rng(5).normal(size=(1, 3, 5, 7)).astype(np.float16)
    if through:
        bound(context, context.native_inputs[0], pass_through=True)[0, 0, :, :, :7] = values[0]
    else:
        bound(context, context.attrs(AttrKind.NATIVE_NHWC_INPUT)[0])[:, :, :5] = values
    result = bound(context, context.outputs[0], dtype=DType.FLOAT32)
    context.run()
    expected = (values.transpose(0, 3, 1, 2).astype(np.float64) + 0.5).astype(np.float16)
    assert np.array_equal(result, expected.astype(np.float32))


def test_all_tensors_have_to_be_bound(start: Start) -> None:
    context = start(*TWO)
    image, state = context.native_inputs
    bound(context, image)
    with pytest.raises(ContextInvalid, match=r"bind input state, output map, output next before running"):
        context.run()
    for attr in (state, *context.native_outputs):
        bound(context, attr)
    context.run()


def test_memory_may_be_bound_anew(start: Start) -> None:
    """Two inputs in turn, as a camera gives them."""
    context = start(*AFFINE)
    (attr,) = context.native_inputs
    result = bound(context, context.native_outputs[0], dtype=DType.FLOAT32)
    frames = [context.create_mem(attr.size_with_stride) for _ in range(2)]
    for seed, frame in enumerate(frames):
        frame.ndarray.reshape(4, 16, 3)[:, :6] = picture(seed)[0]
    for seed in (0, 1, 0):
        context.bind(dataclasses.replace(attr, dtype=DType.UINT8), frames[seed])
        context.run()
        assert np.array_equal(result, scores(picture(seed)))


def test_shapes_are_chosen_before_memory_is_bound(start: Start) -> None:
    context = start(*DYNAMIC)
    for dims in ((1, 4, 6, 3), (1, 8, 12, 3)):
        context.set_shapes([dims, (1, 4 if dims[1] == 4 else 6)])
        with pytest.raises(ContextInvalid):
            context.run()  # bind again after a change
        image = bound(context, context.native_inputs[0], dtype=DType.UINT8)
        bound(context, context.native_inputs[1])
        result = bound(context, context.outputs[0], dtype=DType.FLOAT32)
        image[:, :, : dims[2]] = picture(0, dims)
        context.run()
        assert np.array_equal(result, identity(picture(0, dims)))


# -- memory ------------------------------------------------------------------------------------------------


def test_create(start: Start, double: Double) -> None:
    context = start(*AFFINE)
    memory = context.create_mem(1000)
    assert (memory.size, memory.offset, memory.ndarray.shape, memory.ndarray.dtype) == (
        1000,
        0,
        (1000,),
        np.uint8,
    )
    assert memory.fd >= 0 and memory.phys > 0 and memory.address > 0
    assert repr(memory) == f"<RknnrtMemory 1000 bytes, fd {memory.fd}>"
    assert double.count("rknn_create_mem") == 1
    context.create_mem(1000, abi.MemAlloc.NON_CACHEABLE | abi.MemAlloc.TRY_ALLOC_SRAM)
    assert double.count("rknn_create_mem2") == 1
    with pytest.raises(ParamInvalid, match=r"memory of 0 bytes was asked for"):
        context.create_mem(0)
    with pytest.raises(OutOfMemory, match=r"rknn_create_mem2 gave no memory for"):
        context.create_mem(1 << 33)


def test_less_memory_than_asked_for(start: Start, double: Double) -> None:
    context = start(*AFFINE)
    double.short("rknn_create_mem")
    with pytest.raises(OutOfMemory, match=r"rknn_create_mem gave 500 of 1000 bytes"):
        context.create_mem(1000)
    assert "mems" not in double.live()


def test_a_view_keeps_its_memory(start: Start, double: Double) -> None:
    """Not even the end of the context pulls memory away from under an array."""
    context = start(*AFFINE)
    view = context.create_mem(100).ndarray
    view[:] = 7
    context.close()
    assert view.sum() == 700 and double.live() == {"contexts": 1, "mems": 1}
    del view
    assert double.live() == {}


def test_memory_goes_when_nobody_holds_it(start: Start, double: Double) -> None:
    context = start(*AFFINE)
    memory = context.create_mem(100)
    memory.close()
    memory.close()
    assert memory.closed and repr(memory) == "<RknnrtMemory closed>"
    context.create_mem(100)  # dropped at once
    assert "mems" not in double.live()
    assert double.count("rknn_destroy_mem") == 2


def test_import_by_descriptor(start: Start) -> None:
    """A memfd stands for a dma-buf; the picture lies at an offset."""
    context = start(*AFFINE)
    (attr,) = context.native_inputs
    page = mmap.PAGESIZE
    fd = os.memfd_create("camera")
    os.ftruncate(fd, page + attr.size_with_stride)
    result = bound(context, context.native_outputs[0], dtype=DType.FLOAT32)
    memory = context.import_mem(fd, attr.size_with_stride, page)
    with mmap.mmap(fd, page + attr.size_with_stride) as camera:
        rows = np.zeros((4, 16, 3), np.uint8)
        rows[:, :6] = picture()[0]
        camera[page:] = rows.tobytes()
    assert memory.offset == page and memory.ndarray[:3].tolist() == rows.ravel()[:3].tolist()
    context.bind(dataclasses.replace(attr, dtype=DType.UINT8), memory)
    context.run()
    assert np.array_equal(result, scores(picture()))
    memory.close()
    os.fstat(fd)  # the descriptor stays the program's
    os.close(fd)


def test_imports_that_cannot_be(start: Start) -> None:
    context = start(*AFFINE)
    fd = os.memfd_create("small")
    os.ftruncate(fd, 100)
    try:
        with pytest.raises(
            ParamInvalid, match=f"file descriptor {fd} holds 100 bytes, 150 were to be imported"
        ):
            context.import_mem(fd, 100, 50)
        for wrong in ((-1, 100, 0), (fd, 0, 0), (fd, 100, -1), (fd, 1 << 32, 0)):
            with pytest.raises(ParamInvalid, match=r"cannot import"):
                context.import_mem(*wrong)
    finally:
        os.close(fd)
    with pytest.raises(ParamInvalid, match=r"descriptor .* cannot be (mapped|used)"):
        context.import_mem(fd, 10)
    reader, writer = os.pipe()
    try:
        with pytest.raises(ParamInvalid, match=r"cannot be mapped"):
            context.import_mem(reader, 10)
    finally:
        os.close(reader)
        os.close(writer)


def test_import_by_physical_address(start: Start) -> None:
    context = start(*AFFINE)
    (attr,) = context.native_inputs
    pixels = np.zeros((4, 16, 3), np.uint8)
    pixels[:, :6] = picture()[0]
    memory = context.import_phys(0x1000, pixels.nbytes, pixels.ctypes.data)
    assert memory.phys == 0x1000
    result = bound(context, context.native_outputs[0], dtype=DType.FLOAT32)
    context.bind(dataclasses.replace(attr, dtype=DType.UINT8), memory)
    context.run()
    assert np.array_equal(result, scores(picture()))
    blind = context.import_phys(0x2000, 100)
    with pytest.raises(ParamInvalid, match=r"no virtual address: the CPU cannot look at it"):
        _ = blind.ndarray
    with pytest.raises(ParamInvalid, match=r"cannot import 0 bytes at physical address 0x1000"):
        context.import_phys(0x1000, 0)


@pytest.mark.parametrize("direction", ["to_device", "from_device", "both"])
def test_sync(start: Start, double: Double, direction: str) -> None:
    context = start(*AFFINE)
    context.sync(context.create_mem(10), direction)
    assert double.count("rknn_mem_sync") == 1


def test_sync_in_no_direction(start: Start) -> None:
    context = start(*AFFINE)
    with pytest.raises(ParamInvalid, match=r"direction 'up' is not one of to_device, from_device, both"):
        context.sync(context.create_mem(10), "up")


# -- what does not fit -------------------------------------------------------------------------------------

INPUT_EDITS = [
    ({"dtype": DType.INT16}, "input image: type INT16 is not supported; legal are INT8"),
    (
        {"layout": Layout.NCHW, "dims": (1, 3, 4, 6)},
        r"layout NCHW \[1, 3, 4, 6\] is not among NHWC \[1, 4, 6, 3\]",
    ),
    ({"dims": (1, 4, 8, 3)}, r"layout NHWC \[1, 4, 8, 3\] is not among"),
    ({"w_stride": 8}, "w_stride is 16 and read-only, 8 was given"),
    (
        {"dtype": DType.UINT8, "pass_through": True},
        "with pass_through the memory holds the native tensor, INT8 NHWC",
    ),
]


@pytest.mark.parametrize("edits, text", INPUT_EDITS)
def test_inputs_that_do_not_fit(start: Start, edits: dict[str, Any], text: str) -> None:
    context = start(*NATIVE)
    attr = dataclasses.replace(context.native_inputs[0], **edits)
    with pytest.raises(InputInvalid, match=text):
        context.bind(attr, context.create_mem(4096))


def test_outputs_that_do_not_fit(start: Start) -> None:
    context = start(*NATIVE)
    (attr,) = context.native_outputs
    with pytest.raises(
        OutputInvalid, match=r"output map: type UINT8 is not supported; legal are INT8, FLOAT32, FLOAT16"
    ):
        context.bind(dataclasses.replace(attr, dtype=DType.UINT8), context.create_mem(4096))


def test_memory_that_is_too_small(start: Start) -> None:
    context = start(*NATIVE)
    image, result = context.native_inputs[0], context.native_outputs[0]
    with pytest.raises(
        InputInvalid, match=r"the memory has 72 bytes, 192 are needed \(INT8 NHWC .*, w_stride 16\)"
    ):
        context.bind(image, context.create_mem(72))
    with pytest.raises(OutputInvalid, match=r"the memory has 384 bytes, 1536 are needed"):
        context.bind(dataclasses.replace(result, dtype=DType.FLOAT32), context.create_mem(384))


def test_tensors_that_the_model_lacks(start: Start) -> None:
    context = start(*NATIVE)
    attr = dataclasses.replace(context.native_inputs[0], name="picture")
    with pytest.raises(
        ParamInvalid, match=r"no tensor 'picture' \(index 0\); it has input image, output map"
    ):
        context.bind(attr, context.create_mem(4096))


def test_memory_of_another_context(start: Start) -> None:
    ours, theirs = start(*AFFINE), start(*AFFINE)
    with pytest.raises(
        ParamInvalid, match=r"belongs to another context; share it .*: import_mem\(mem.fd, ...\)"
    ):
        ours.bind(ours.native_inputs[0], theirs.create_mem(4096))


def test_closed_memory_never_reaches_c(start: Start, double: Double) -> None:
    context = start(*AFFINE)
    memory = context.create_mem(4096)
    memory.close()
    for use in (
        lambda: context.bind(context.native_inputs[0], memory),
        lambda: context.sync(memory, "both"),
        lambda: context.set_internal_mem(memory),
        lambda: memory.ndarray,
    ):
        with pytest.raises(ContextInvalid, match=r"this memory is closed; create it again"):
            use()
    assert double.count("rknn_set_io_mem") == double.count("rknn_mem_sync") == 0


def test_closing_memory_that_is_bound(start: Start, double: Double) -> None:
    """The NPU must not write to memory that is gone."""
    context = start(*AFFINE)
    image = context.create_mem(4096)
    context.bind(context.native_inputs[0], image)
    bound(context, context.native_outputs[0])
    context.run()
    image.close()
    runs = double.count("rknn_run")
    with pytest.raises(ContextInvalid, match=r"bind input image before running"):
        context.run()
    assert double.count("rknn_run") == runs
    bound(context, context.native_inputs[0])
    context.run()


def test_the_two_paths_do_not_mix(start: Start) -> None:
    common, shared = start(*AFFINE), start(*AFFINE)
    common.infer(picture())
    with pytest.raises(ContextInvalid, match=r"must not be mixed on one context; open a second one"):
        common.bind(common.native_inputs[0], common.create_mem(4096))
    bound(shared, shared.native_inputs[0])
    memory = shared.create_mem(4096)
    shared.bind(shared.native_outputs[0], memory)
    shared.run()
    memory.close()  # unbound: the context stays a zero-copy one
    for call in (lambda: shared.set_inputs([Input(0, picture())]), shared.get_outputs):
        with pytest.raises(ContextInvalid, match=r"must not be mixed on one context"):
            call()
    assert np.array_equal(common.infer(picture())[0], scores(picture()))


@pytest.mark.parametrize("side", ["input", "output"])
def test_a_library_without_nhwc_attributes(start: Start, double: Double, side: str) -> None:
    """Older ones answer -5; NHWC is not offered then (an input has it as its plain form), the other forms are."""
    context = start(*NATIVE)
    (image,), (nhwc,) = context.native_inputs, context.attrs(AttrKind.NATIVE_NHWC_OUTPUT)
    # native and NHWC form of the input, of the output
    double.fault("rknn_query", -5, nth=2 if side == "input" else 4)
    pixels = bound(context, image, dtype=DType.UINT8)
    if side == "output":
        with pytest.raises(OutputInvalid, match=r"layout NHWC \[1, 4, 6, 3\] is not among NC1HWC2 .*; NCHW "):
            bound(context, nhwc)
    result = bound(context, context.outputs[0], dtype=DType.FLOAT32)
    assert double.count("rknn_set_io_mem") == 2
    pixels[:, :, :6] = picture()
    context.run()
    assert np.array_equal(result, identity(picture()))
