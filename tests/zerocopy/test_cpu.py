"""The zero-copy path of the CPU reference: what a board does with memory, and what it refuses."""

from __future__ import annotations

import dataclasses
import mmap
import os
import threading
from typing import Any

import numpy as np
import pytest

from rknnlite import errors
from rknnlite.spi import AttrKind, Context, Memory
from rknnlite.tensor import DType, Layout, TensorAttr
from tests.support.corpus import DATA, genuine, golden_of, open_cpu

from .memories import bound, elements, fill, plain

IMAGE = "mean_std.rk3588.i8"
DEEP = "vit_like.rk3588.i8"
EVERY = sorted(
    path.stem
    for path in DATA.glob("*.rknn")
    if "dynamic" not in path.stem
    and path.stem.rpartition(".")[2] not in ("i16", "bf16")
    and path.with_suffix(".npz").exists()
    and path.stat().st_size < 60_000
)


@pytest.mark.parametrize("name", EVERY)
def test_memory_gives_what_arrays_give(name: str) -> None:
    """Any file of the corpus: inputs in the caller's type where that is legal, outputs in the native form."""
    golden = golden_of(name)
    with open_cpu(genuine(name)) as common:
        expected = common.infer(*golden.inputs, raw=True)
    with open_cpu(genuine(name)) as context:
        for attr, data in zip(context.attrs(AttrKind.NATIVE_NHWC_INPUT), golden.inputs):
            dtype = DType.from_numpy(data.dtype)
            if dtype is not attr.dtype:
                stride = attr.w_stride if dtype.bits == attr.dtype.bits else 0
                attr = dataclasses.replace(attr, dtype=dtype, w_stride=stride, size_with_stride=0)
                attr = dataclasses.replace(attr, size_with_stride=_rows(attr))
            attr, mem = bound(context, attr)
            fill(attr, mem, data)
        results = [bound(context, attr) for attr in context.native_outputs]
        context.run()
        for (attr, mem), wanted in zip(results, expected):
            assert np.array_equal(plain(attr, mem, wanted.data.shape), wanted.data), attr.name


@pytest.mark.parametrize("name", ["int16_chain.rk3588.i16", "bfloat_chain.rk3588.bf16"])
def test_wide_types_are_not_converted(name: str) -> None:
    with open_cpu(genuine(name)) as context:
        (native, *_) = context.native_inputs
        mem = context.create_mem(4 * native.size_with_stride)
        with pytest.raises(
            errors.InputInvalid, match=f"FLOAT32 is not supported; legal are {native.dtype.name}$"
        ):
            context.bind(dataclasses.replace(native, dtype=DType.FLOAT32, w_stride=0), mem)
        context.bind(native, mem)


@pytest.mark.parametrize(("row", "room", "warned"), [(0, 4608, 0), (24, 960, 0), (24, 4608, 1)])
def test_rows_of_pixels_for_a_float_network(
    row: int, room: int, warned: int, caplog: pytest.LogCaptureFixture
) -> None:
    """They have no padding; a ``w_stride`` that memory would have room for is spoken of, once."""
    image = np.random.default_rng(3).integers(0, 256, (1, 16, 20, 3), np.uint8)
    with open_cpu(genuine("dynamic_two.rk3588.fp16")) as context:
        context.set_shapes([image.shape])
        (expected,) = context.infer([image])
    with open_cpu(genuine("dynamic_two.rk3588.fp16")) as context:
        context.set_shapes([image.shape])
        (native,) = context.native_inputs
        assert native.w_stride == 24 and native.dtype is DType.FLOAT16
        mem = context.create_mem(room)
        mem.ndarray[: image.size] = image.reshape(-1)
        for _ in range(2):
            context.bind(dataclasses.replace(native, dtype=DType.UINT8, w_stride=row), mem)
        (output,) = context.attrs(AttrKind.OUTPUT)
        result = bound(context, output, dtype=DType.FLOAT32, size_with_stride=0)
        context.run()
        assert np.array_equal(plain(*result, expected.shape), expected)
    words = "rows of UINT8 are taken without padding, 20 pixels each"
    assert sum(words in record.getMessage() for record in caplog.records) == warned


def _rows(attr: TensorAttr) -> int:
    if attr.layout is not Layout.NHWC or not attr.w_stride:
        return attr.size
    return attr.size // attr.dims[2] * attr.w_stride


@pytest.fixture
def context() -> Any:
    with open_cpu(genuine(IMAGE)) as context:
        yield context


@pytest.fixture
def expected() -> list[Any]:
    with open_cpu(genuine(IMAGE)) as context:
        return context.infer(*golden_of(IMAGE).inputs, raw=True)


def bind_all(context: Context, dtype: DType = DType.UINT8, **edits: Any) -> list[tuple[TensorAttr, Memory]]:
    """The image in ``dtype`` and every output in its native form."""
    (attr,) = context.native_inputs
    attr, mem = bound(context, attr, dtype=dtype, **edits)
    data = golden_of(IMAGE).inputs[0]
    if dtype is DType.FLOAT32:
        attr = dataclasses.replace(attr, w_stride=0)
    fill(attr, mem, data.astype(dtype.numpy))
    return [(attr, mem), *(bound(context, out) for out in context.native_outputs)]


def test_rows_are_padded(context: Context, expected: list[Any]) -> None:
    (native,) = context.native_inputs
    n, h, w, c = native.dims
    assert native.w_stride == -(-w // 16) * 16 and native.size_with_stride == n * h * native.w_stride * c
    (_, mem), *results = bind_all(context)
    context.run()
    for (attr, out), wanted in zip(results, expected):
        assert np.array_equal(plain(attr, out, wanted.data.shape), wanted.data)
    before = results[0][1].ndarray.copy()
    elements(native, mem)[:, :, w:] = 99  # nobody reads the padding
    context.run()
    assert np.array_equal(results[0][1].ndarray, before)
    elements(native, mem)[:, :, :w] = 0
    context.run()
    assert not np.array_equal(results[0][1].ndarray, before)


def test_floats_lie_without_padding(context: Context, expected: list[Any]) -> None:
    *_, (attr, out) = bind_all(context, DType.FLOAT32)
    context.run()
    assert np.array_equal(plain(attr, out, expected[-1].data.shape), expected[-1].data)


def test_elements_pass_through(context: Context, expected: list[Any]) -> None:
    (native,) = context.native_inputs
    image = golden_of(IMAGE).inputs[0]
    feed = context._shapes.current.feeds[0]  # type: ignore[attr-defined]
    from rknnlite.spi import Input

    centred = feed.values(Input(0, image))[0]
    stored = (centred + native.quant.zero_point).astype(np.int8).transpose(0, 2, 3, 1)  # type: ignore[union-attr]
    attr, mem = bound(context, native, pass_through=True)
    fill(attr, mem, stored)
    results = [bound(context, out) for out in context.native_outputs]
    context.run()
    for (attr, out), wanted in zip(results, expected):
        assert np.array_equal(plain(attr, out, wanted.data.shape), wanted.data)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT16])
@pytest.mark.parametrize("kind", [AttrKind.OUTPUT, AttrKind.NATIVE_NHWC_OUTPUT, AttrKind.NATIVE_OUTPUT])
def test_outputs_in_other_types_and_layouts(
    context: Context, expected: list[Any], dtype: DType, kind: AttrKind
) -> None:
    bind_all(context)
    for attr, wanted in zip(context.attrs(kind), expected):
        attr, mem = bound(context, attr, dtype=dtype, w_stride=0, size_with_stride=0)
        context.run()
        real = (wanted.data.astype(np.float32) - wanted.zero_point) * np.float32(wanted.scale)
        found = plain(attr, mem, wanted.data.shape)
        assert np.array_equal(found, real.astype(dtype.numpy))


def test_a_batch_lies_item_after_item() -> None:
    name = "batch_four.rk3588.i8"
    (data,) = golden_of(name).inputs
    with open_cpu(genuine(name)) as common:
        (wanted,) = common.infer(data, raw=True)
    for extra in (0, 5):
        with open_cpu(genuine(name)) as context:
            (attr,) = context.native_inputs
            rows = attr.dims[1] + extra
            attr, mem = bound(context, attr, dtype=DType.UINT8, h_stride=rows if extra else 0)
            step = mem.size // 4
            for item in range(4):
                view = mem.ndarray[item * step : (item + 1) * step].reshape(rows, attr.w_stride, -1)
                view[: attr.dims[1], : attr.dims[2]] = data[item]
            (native,) = context.native_outputs
            out, result = bound(context, native)
            context.run()
            assert np.array_equal(plain(out, result, wanted.data.shape), wanted.data)


def test_shapes_switch_and_memory_is_bound_anew() -> None:
    with open_cpu(genuine("dynamic_three.rk3588.i8")) as context:
        for shapes in context.shapes:
            context.set_shapes(shapes)
            with pytest.raises(errors.ContextInvalid, match="set inputs"):
                context.run()
            for attr in (*context.native_inputs, *context.native_outputs):
                bound(context, attr)
            context.run()


def test_memory_is_shared_by_descriptor(context: Context, expected: list[Any]) -> None:
    (native,) = context.native_inputs
    fd = os.memfd_create("camera")
    os.ftruncate(fd, 4096 + native.size_with_stride)
    imported = context.import_mem(fd, native.size_with_stride, 4096)
    context.bind(dataclasses.replace(native, dtype=DType.UINT8), imported)
    with mmap.mmap(fd, 0) as other:  # somebody else's view of the same pages
        frame = np.frombuffer(other, np.uint8, native.size_with_stride, 4096)
        fill(native, _Plain(frame), golden_of(IMAGE).inputs[0])
        del frame
    attr, result = bound(context, context.native_outputs[0])
    context.run()
    copied = np.frombuffer(os.pread(result.fd, result.size, 0), np.uint8)
    assert np.array_equal(copied, result.ndarray)
    assert np.array_equal(plain(attr, result, expected[0].data.shape), expected[0].data)
    imported.close()
    os.fstat(fd)  # still open: it is the caller's
    os.close(fd)


class _Plain(Memory):
    def __init__(self, array: np.ndarray) -> None:
        self._array, self.size = array, array.size

    @property
    def ndarray(self) -> np.ndarray:
        return self._array

    def close(self) -> None:
        pass


# -- rules ----------------------------------------------------------------------------------------------------


def test_paths_do_not_mix() -> None:
    image = golden_of(IMAGE).inputs[0]
    with open_cpu(genuine(IMAGE)) as context:
        context.infer(image)
        with pytest.raises(errors.ContextInvalid, match="must not be mixed"):
            bind_all(context)
    with open_cpu(genuine(IMAGE)) as context:
        bind_all(context)
        with pytest.raises(errors.ContextInvalid, match="must not be mixed"):
            context.infer(image)
        context.run()
        with pytest.raises(errors.ContextInvalid, match="must not be mixed"):
            context.get_outputs()


@pytest.mark.parametrize(
    ("edits", "size", "error", "words"),
    [
        ({}, -1, errors.InputInvalid, r"the memory has \d+ bytes, \d+ are needed"),
        ({"dtype": DType.FLOAT32}, 0, errors.InputInvalid, "are needed"),
        ({"dtype": DType.INT32}, 1 << 20, errors.InputInvalid, "INT32 is not supported; legal are INT8"),
        ({"layout": Layout.NC1HWC2}, 0, errors.InputInvalid, "NC1HWC2.*is not among NHWC"),
        ({"w_stride": 7}, 0, errors.InputInvalid, "read-only, 7 was given"),
        ({"h_stride": 1}, 0, errors.InputInvalid, "h_stride 1 does not fit"),
        ({"h_stride": 500}, 0, errors.InputInvalid, "are needed"),
        ({"pass_through": True, "dtype": DType.UINT8}, 0, errors.InputInvalid, "the native tensor, INT8"),
        ({"name": "nobody"}, 0, errors.ParamInvalid, "no tensor 'nobody'"),
    ],
)
def test_what_does_not_fit_an_input(
    context: Context, edits: dict[str, Any], size: int, error: type, words: str
) -> None:
    (native,) = context.native_inputs
    mem = context.create_mem(native.size_with_stride + size)
    with pytest.raises(error, match=words):
        context.bind(dataclasses.replace(native, **edits), mem)


def test_what_does_not_fit_an_output(context: Context) -> None:
    native = context.native_outputs[0]
    small = context.create_mem(native.size_with_stride - 1)
    with pytest.raises(errors.OutputInvalid, match="are needed"):
        context.bind(native, small)
    mem = context.create_mem(8 * native.size_with_stride)
    with pytest.raises(errors.OutputInvalid, match="UINT8 is not supported"):
        context.bind(dataclasses.replace(native, dtype=DType.UINT8), mem)


def test_memory_begins_at_whole_elements() -> None:
    with open_cpu(genuine("batch_three.rk3588.fp16")) as context:
        (native,) = context.native_outputs
        with open_memfd(8192) as fd:
            for offset in (1, 3):
                mem = context.import_mem(fd, 4096, offset)
                with pytest.raises(
                    errors.OutputInvalid, match=f"begins at offset {offset}, no multiple of 2"
                ):
                    context.bind(native, mem)
            context.bind(native, context.import_mem(fd, 4096, 2))


class open_memfd:
    def __init__(self, size: int) -> None:
        self.fd = os.memfd_create("test")
        os.ftruncate(self.fd, size)

    def __enter__(self) -> int:
        return self.fd

    def __exit__(self, *exc: object) -> None:
        os.close(self.fd)


def test_everything_has_to_be_bound(context: Context) -> None:
    (native,) = context.native_inputs
    bound(context, native)
    with pytest.raises(errors.ContextInvalid, match=f"bind output {context.outputs[0].name}"):
        context.run()
    bound(context, context.native_outputs[0])
    context.run()


def test_memory_of_another_context(context: Context) -> None:
    with open_cpu(genuine(IMAGE)) as other:
        mem = other.create_mem(1 << 16)
        with pytest.raises(errors.ParamInvalid, match=r"belongs to another context.*import_mem\(mem\.fd"):
            context.bind(context.native_inputs[0], mem)
        with pytest.raises(errors.ParamInvalid, match="another context"):
            context.sync(mem, "both")
        mine = context.import_mem(mem.fd, mem.size)
        context.bind(context.native_inputs[0], mine)
        mem.ndarray[0] = 77
        assert mine.ndarray[0] == 77


def test_closed_memory(context: Context) -> None:
    (_, mem), *_ = bind_all(context)
    view = mem.ndarray
    mem.close()
    mem.close()
    view[0] = 1  # a view keeps the pages
    assert "closed" in repr(mem)
    with pytest.raises(errors.ContextInvalid, match="closed"):
        _ = mem.ndarray
    with pytest.raises(errors.ContextInvalid, match="closed"):
        context.bind(context.native_inputs[0], mem)
    with pytest.raises(errors.ContextInvalid, match="bind input"):
        context.run()


def test_a_closed_context_closes_its_memory(context: Context) -> None:
    (_, mem), *_ = bind_all(context)
    fd = mem.fd
    context.close()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)
    with pytest.raises(errors.ContextInvalid):
        _ = mem.ndarray
    with pytest.raises(errors.ContextInvalid):
        context.create_mem(64)


@pytest.mark.parametrize("size", [0, -1, 1 << 32])
def test_sizes_that_no_memory_has(context: Context, size: int) -> None:
    with pytest.raises(errors.ParamInvalid, match="bytes was asked for"):
        context.create_mem(size)


def test_flags(context: Context) -> None:
    for flags in (0, 1, 2, 4, 5):
        context.create_mem(64, flags)
    for flags in (3, 8, 0x20000):
        with pytest.raises(errors.ParamInvalid, match="not legal"):
            context.create_mem(64, flags)


@pytest.mark.parametrize(("size", "offset"), [(0, 0), (-1, 0), (100, -1), (5000, 0), (4096, 1), (1 << 33, 0)])
def test_descriptors_that_do_not_hold_enough(context: Context, size: int, offset: int) -> None:
    with open_memfd(4096) as fd, pytest.raises(errors.ParamInvalid, match=f"descriptor {fd}"):
        context.import_mem(fd, size, offset)


def test_what_is_no_descriptor(context: Context) -> None:
    for fd in (-1, 999_999):
        with pytest.raises(errors.ParamInvalid, match="descriptor"):
            context.import_mem(fd, 64)
    with pytest.raises(errors.ParamInvalid, match="no physical addresses"):
        context.import_phys(0x1000, 64)


def test_sync_directions(context: Context) -> None:
    mem = context.create_mem(64)
    for direction in ("to_device", "from_device", "both"):
        context.sync(mem, direction)
    with pytest.raises(errors.ParamInvalid, match="'sideways'"):
        context.sync(mem, "sideways")


@pytest.fixture
def by_hand() -> Any:
    with open_cpu(genuine(IMAGE), extra={"flush_inputs": False, "flush_outputs": False}) as context:
        yield context


def test_what_is_not_synced_is_not_seen(
    by_hand: Context, expected: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    (_, frame), *results = bind_all(by_hand)
    attr, out = results[0]
    with pytest.raises(errors.ContextInvalid, match=r"never synced; call sync\(mem, 'to_device'\)"):
        by_hand.run()
    by_hand.sync(frame, "to_device")
    by_hand.run()
    assert not out.ndarray.any()
    by_hand.sync(out, "from_device")
    wanted = expected[0].data
    assert np.array_equal(plain(attr, out, wanted.shape), wanted)
    frame.ndarray[:] = 0
    with caplog.at_level("WARNING", "rknnlite"):
        by_hand.run()
    assert "was written after the last sync" in caplog.text
    by_hand.sync(out, "both")
    assert np.array_equal(plain(attr, out, wanted.shape), wanted)
    by_hand.sync(frame, "both")
    by_hand.run()
    by_hand.sync(out, "from_device")
    assert not np.array_equal(plain(attr, out, wanted.shape), wanted)


def test_imported_memory_is_synced_like_any(by_hand: Context, expected: list[Any]) -> None:
    """Twice imported it is still one memory: what counts is what was synced, by whichever name."""
    (_, frame), *results = bind_all(by_hand)
    attr, out = results[0]
    (native,) = by_hand.native_inputs
    attr_in = dataclasses.replace(native, dtype=DType.UINT8)
    mine = by_hand.import_mem(frame.fd, frame.size)
    by_hand.bind(attr_in, mine)
    with pytest.raises(errors.ContextInvalid, match="never synced"):
        by_hand.run()
    by_hand.sync(frame, "to_device")
    other = by_hand.import_mem(out.fd, out.size)
    by_hand.bind(attr, other)
    by_hand.run()
    assert not out.ndarray.any()
    by_hand.sync(out, "from_device")
    assert np.array_equal(plain(attr, other, expected[0].data.shape), expected[0].data)


@pytest.mark.parametrize("flush_inputs", [True, False])
def test_one_context_reads_what_another_wrote_without_a_sync(by_hand: Context, flush_inputs: bool) -> None:
    """Both runs are the NPU's; the caches of the CPU lie beside its way."""
    size = 4096
    with open_memfd(size) as fd, open_cpu(genuine(IMAGE), extra={"flush_inputs": flush_inputs}) as second:
        result, frame = by_hand.import_mem(fd, size), second.import_mem(fd, size)
        writer, reader = by_hand._bindings._coherence, second._bindings._coherence  # type: ignore[attr-defined]
        writer.write(result, np.full(100, 7, np.uint8))
        assert not frame.ndarray.any()  # the CPU has not fetched it
        assert (reader.read(frame, "input 0")[:100] == 7).all()
        frame.ndarray[:10] = 3  # the CPU writes ten bytes, and flushes them
        second.sync(frame, "to_device")
        assert reader.read(frame, "input 0")[:100].tolist() == [3] * 10 + [7] * 90
        by_hand.sync(result, "from_device")
        assert frame.ndarray[:100].tolist() == [3] * 10 + [7] * 90


def test_contexts_that_flush_are_not_slowed_by_others(context: Context, expected: list[Any]) -> None:
    """Memory that no other context leaves unsynced has one side only."""
    (_, frame), *results = bind_all(context)
    with open_cpu(genuine(IMAGE), extra={"flush_inputs": False}) as other:
        other.create_mem(64)
        context.run()
        assert frame.side is None  # type: ignore[attr-defined]
        imported = other.import_mem(results[0][1].fd, results[0][1].size)
        context.run()  # its results reach both sides
        assert np.array_equal(plain(results[0][0], imported, expected[0].data.shape), expected[0].data)
        reader = other._bindings._coherence  # type: ignore[attr-defined]
        assert np.array_equal(reader.read(imported, "input 0"), imported.ndarray)


def test_memory_that_is_written_during_a_run(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a board the NPU may read either content; with RKNNLITE_DEBUG=1 the run says so."""
    (_, frame), *_ = bind_all(context)
    compute = type(context)._compute  # type: ignore[attr-defined]

    def disturbed(self: Any, *args: Any) -> Any:
        frame.ndarray[0] ^= 1
        return compute(self, *args)

    monkeypatch.setattr(type(context), "_compute", disturbed)
    context.run()
    monkeypatch.setenv("RKNNLITE_DEBUG", "1")
    with pytest.raises(errors.InputInvalid, match="input 0 was changed while"):
        context.run()
    monkeypatch.setattr(type(context), "_compute", compute)
    context.run()


# -- weights and internal tensors outside ------------------------------------------------------------------------


def test_memory_outside_comes_before_the_run() -> None:
    image = golden_of(DEEP).inputs[0]
    with open_cpu(genuine(DEEP)) as plain_context:
        expected = plain_context.infer(image, raw=True)
    with open_cpu(genuine(DEEP), extra={"outside": "all"}) as context:
        with pytest.raises(errors.RknnError, match=r"weights and internal tensors is missing.*outside='all'"):
            context.infer(image)
        need = context.memory()
        with pytest.raises(errors.ParamInvalid, match=rf"weights need {need.weight}"):
            context.set_weight_mem(context.create_mem(need.weight - 1))
        context.set_weight_mem(context.create_mem(need.weight))
        with pytest.raises(errors.RknnError, match="memory for internal tensors is missing"):
            context.infer(image)
        context.set_internal_mem(context.create_mem(need.internal))
        assert np.array_equal(context.infer(image, raw=True)[0].data, expected[0].data)
    with open_cpu(genuine(DEEP), extra={"outside": "internal"}) as context:
        context.set_internal_mem(context.create_mem(context.memory().internal))
        context.infer(image)


def test_models_that_run_in_turn_share_internal_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    image = golden_of(DEEP).inputs[0]
    options = {"extra": {"outside": "internal"}}
    with open_cpu(genuine(DEEP), **options) as first, open_cpu(genuine(DEEP), **options) as second:
        need = max(first.memory().internal, second.memory().internal)
        mem = first.create_mem(need)
        for context in (first, second):
            context.set_internal_mem(context.import_mem(mem.fd, need))
        assert np.array_equal(first.infer(image)[0], second.infer(image)[0])
        inside, leave = threading.Event(), threading.Event()
        compute = type(first)._compute

        def wait(self: Any, *args: Any) -> Any:
            inside.set()
            leave.wait(60)
            return compute(self, *args)

        monkeypatch.setattr(type(first), "_compute", wait)
        future = first.infer_async(image)
        assert inside.wait(60)
        with pytest.raises(errors.ContextInvalid, match="same internal memory"):
            second.infer(image)
        leave.set()
        assert future.result(60) is not None
        second.infer(image)


# -- shared weights -------------------------------------------------------------------------------------------


def test_a_model_without_weights_takes_them_from_its_master() -> None:
    golden = golden_of("kept.rk3588.i8")
    with open_cpu(genuine("kept.rk3588.i8")) as master:
        expected = master.infer(*golden.inputs)
        slave = open_cpu(genuine("removed.rk3588.i8"), extra={"master": master})
        assert all(np.array_equal(a, b) for a, b in zip(slave.infer(*golden.inputs), expected))
        with slave.dup() as twin:
            assert np.array_equal(twin.infer(*golden.inputs)[0], expected[0])
    assert np.array_equal(slave.infer(*golden.inputs)[0], expected[0])
    slave.close()


def test_who_cannot_be_a_master() -> None:
    closed = open_cpu(genuine("kept.rk3588.i8"))
    closed.close()
    for master in (closed, "kept.rknn", 7):
        with pytest.raises(errors.ParamInvalid, match="an open context of backend cpu"):
            open_cpu(genuine("removed.rk3588.i8"), extra={"master": master})
    with open_cpu(genuine(IMAGE)) as other:
        with pytest.raises(errors.ModelUnsupported, match="the weights were removed"):
            open_cpu(genuine("removed.rk3588.i8"), extra={"master": other})
        with pytest.raises(errors.ParamInvalid, match="dynamic shapes"):
            open_cpu(genuine("dynamic_three.rk3588.i8"), extra={"master": other})
    with pytest.raises(errors.ModelUnsupported, match="the weights were removed"):
        open_cpu(genuine("removed.rk3588.i8"))


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("dtype", [DType.INT8, DType.FLOAT32])
def test_a_layout_says_nothing_below_rank_four(layout: Layout, dtype: DType) -> None:
    """Programs for boards set NCHW on every output, whatever its rank."""
    name = "wake_word_like.rk3588.i8"
    (data,) = golden_of(name).inputs
    with open_cpu(genuine(name)) as context:
        (expected,) = context.infer(data, raw=True)
        (real,) = context.infer(data)
    with open_cpu(genuine(name)) as context:
        (attr,) = context.native_inputs
        attr, mem = bound(context, attr, layout=layout, dtype=DType.FLOAT32)
        fill(dataclasses.replace(attr, layout=Layout.UNDEFINED), mem, data)
        (out,) = context.native_outputs
        assert (len(attr.dims), len(out.dims)) == (3, 2)
        out, result = bound(context, out, layout=layout, dtype=dtype)
        context.run()
        found = result.ndarray.view(dtype.numpy)[: out.n_elems].reshape(out.dims)
        assert np.array_equal(found, expected.data if dtype is DType.INT8 else real)
