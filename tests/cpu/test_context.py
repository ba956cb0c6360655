"""One model on the CPU reference: what a caller may do, in which order, and what comes of mistakes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite.errors import ContextInvalid, InputInvalid, ParamInvalid, TargetPlatformUnmatch
from rknnlite.layout import nchw_to_nc1hwc2, nhwc_to_nchw
from rknnlite.quant import dequantise, quantise
from rknnlite.spi import Context, Input, RawOutput
from rknnlite.tensor import DType, Layout, QuantParams
from tests.support.corpus import genuine, golden_of, goldens, open_cpu
from tests.support.interrupts import alarmed, check_interrupts

IMAGE = "mean_std.rk3588.i8"
TWO = "two_images.rk3588.i8"
DYNAMIC = "dynamic_three.rk3588.i8"


def image_of(name: str = IMAGE) -> np.ndarray:
    return golden_of(name).inputs[0]


def same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b))


@pytest.fixture
def context() -> Context:
    return open_cpu(genuine(IMAGE))


# -- inputs ---------------------------------------------------------------------------------------------------


def test_every_way_of_giving_one_input(context: Context) -> None:
    image, expected = image_of(), context.infer(image_of())
    name = context.inputs[0].name
    planes = np.ascontiguousarray(nhwc_to_nchw(image))
    assert same(context.infer([image]), expected)
    assert same(context.infer((image,)), expected)
    assert same(context.infer({name: image}), expected)
    assert same(context.infer(image[0]), expected)
    assert same(context.infer(planes, layout="nchw"), expected)
    assert same(context.infer([planes], layout=["NCHW"]), expected)
    assert same(context.infer(nhwc_to_nchw(image), layout="nchw"), expected), "a view that is not contiguous"


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int16", "int32", "int64", "uint16"])
def test_the_element_type_of_pixels_does_not_matter(context: Context, dtype: str) -> None:
    assert same(context.infer(image_of().astype(dtype)), context.infer(image_of()))


def test_inputs_are_not_changed(context: Context) -> None:
    image = image_of().astype(np.float32)
    before = image.copy()
    context.infer(image)
    context.infer(image, pass_through=False, layout="nhwc")
    assert np.array_equal(image, before)


def test_several_inputs_by_order_and_name() -> None:
    first, second = golden_of(TWO).inputs
    with open_cpu(genuine(TWO)) as context:
        expected = context.infer([first, second])
        assert same(context.infer(first, second), expected)
        names = [attr.name for attr in context.inputs]
        assert same(context.infer({names[1]: second, names[0]: first}), expected)
        swapped = [np.ascontiguousarray(nhwc_to_nchw(first)), second]
        assert same(context.infer(swapped, layout=["nchw", "nhwc"]), expected)


def stored_by_hand(context: Context, image: np.ndarray) -> np.ndarray:
    """Mean, deviation, quantisation: what the input tensor holds."""
    (io,) = context._opened.model.inputs  # type: ignore[attr-defined]
    real = (image.astype(np.float32) - np.float32(io.mean)) / np.float32(io.std)
    return quantise(real, io.quant) if io.quant else real.astype(np.float16)


def test_pass_through_takes_what_quantisation_would_give(context: Context) -> None:
    image = image_of()
    stored = stored_by_hand(context, image)
    expected = context.infer(image)
    assert same(context.infer(stored, pass_through=True), expected)
    assert same(context.infer(stored.view(np.uint8), pass_through=[True]), expected), "bytes are bytes"
    assert same(context.infer(stored.reshape(-1), pass_through=True), expected)
    with pytest.raises(InputInvalid, match=r"\d+ bytes given to be passed through .*, \d+ bytes needed"):
        context.infer(stored[:, :-1], pass_through=True)
    for kind in (
        np.int16,
        np.float32,
        np.int64,
    ):  # a board takes bytes: what is wider is not what the tensor stores
        if np.dtype(kind).itemsize != stored.itemsize and (kind, stored.dtype) != (np.float32, np.float16):
            with pytest.raises(InputInvalid, match=f"{stored.nbytes} bytes needed"):
                context.infer(stored.astype(kind), pass_through=True)


def test_float32_passes_through_to_float16(caplog: pytest.LogCaptureFixture) -> None:
    """As a program for faces calls it: librknnrt takes four bytes per element then. It is said once."""
    (array,) = golden_of("depthwise_3x3.rk3588.fp16").inputs
    with open_cpu(genuine("depthwise_3x3.rk3588.fp16")) as context:
        stored = stored_by_hand(context, array)
        expected = context.infer(stored, pass_through=True)
        for _ in range(2):
            assert same(context.infer(stored.astype(np.float32), pass_through=True), expected)
        assert [
            record.message.count("float32 passed through to a FLOAT16 tensor") for record in caplog.records
        ] == [1]
        with pytest.raises(InputInvalid, match=r"NaN or infinite .*float16 \(65504\)"):
            context.infer(np.full(stored.shape, 7e4, np.float32), pass_through=True)
        with pytest.raises(InputInvalid, match=f"{stored.nbytes} bytes needed"):
            context.infer(stored.astype(np.float64), pass_through=True)


@pytest.mark.parametrize("name", ["conv_1x1.rk3588.i8", "depthwise_3x3.rk3588.fp16", "conv_wide.rk3566.i8"])
def test_pass_through_in_the_native_layout(name: str) -> None:
    """Inputs with many channels go to the NPU in NC1HWC2, padding lanes and all."""
    (array,) = golden_of(name).inputs
    with open_cpu(genuine(name)) as context:
        (native,) = context.native_inputs
        assert native.layout is Layout.NC1HWC2
        packed = nchw_to_nc1hwc2(nhwc_to_nchw(stored_by_hand(context, array)), native.dims[-1], fill=77)
        assert packed.shape == native.dims
        assert same(context.infer(packed, pass_through=True), context.infer(array))


def test_zero_point_and_scale_of_pass_through(context: Context) -> None:
    attr = context.inputs[0]
    assert attr.quant is not None
    nothing = np.full(attr.dims, attr.quant.zero_point, np.int8)
    (io,) = context._opened.model.inputs  # type: ignore[attr-defined]
    grey = np.broadcast_to(np.float32(io.mean), attr.dims)
    assert same(context.infer(nothing, pass_through=True), context.infer(grey))


# -- outputs --------------------------------------------------------------------------------------------------


def test_raw_outputs(context: Context) -> None:
    image = image_of()
    (real,) = context.infer(image)
    (raw,) = context.infer(image, raw=True)
    attr = context.outputs[0]
    assert isinstance(raw, RawOutput) and raw.data.dtype == np.int8 and attr.quant is not None
    assert (raw.scale, raw.zero_point) == (attr.quant.scale, attr.quant.zero_point)
    assert raw.data.shape == attr.dims
    assert np.allclose(dequantise(raw.data, QuantParams(raw.scale, raw.zero_point)), real, rtol=1e-6)


def test_raw_outputs_of_a_float_model() -> None:
    name = "mean_std.rk3568.fp16"
    with open_cpu(genuine(name)) as context:
        (raw,) = context.infer(image_of(name), raw=True)
        (real,) = context.infer(image_of(name))
    assert raw.data.dtype == np.float16 and (raw.scale, raw.zero_point) == (1.0, 0)
    assert np.array_equal(raw.data.astype(np.float32), real)


def test_results_belong_to_the_caller(context: Context) -> None:
    (first,) = context.infer(image_of())
    kept = first.copy()
    first[...] = 0
    (second,) = context.infer(image_of())
    assert np.array_equal(second, kept) and not np.shares_memory(first, second)
    assert first.flags.c_contiguous and first.flags.writeable


def test_attributes_describe_what_comes_back() -> None:
    with open_cpu(genuine("three_outputs.rk3588.i8")) as context:
        outputs = context.infer(image_of("three_outputs.rk3588.i8"))
        assert [o.shape for o in outputs] == [attr.dims for attr in context.outputs]
        assert [attr.index for attr in context.outputs] == [0, 1, 2]
        assert all(attr.layout in (Layout.NCHW, Layout.UNDEFINED) for attr in context.outputs)
        assert context.inputs[0].layout is Layout.NHWC and context.inputs[0].dtype is DType.INT8


def test_what_a_context_says_about_itself(context: Context) -> None:
    assert context.backend_name == "cpu" and context.soc.name == "rk3588"
    assert "CPU reference" in context.versions.api
    assert context.last_run_us == 0
    context.infer(image_of())
    assert context.last_run_us > 0
    assert "1 inputs, 1 outputs" in repr(context)


def test_native_inputs_are_padded_as_the_soc_wants() -> None:
    with open_cpu(genuine(IMAGE)) as context:
        (attr,) = context.native_inputs
        n, h, w, c = attr.dims
        assert attr.w_stride == -(-w // 16) * 16 and attr.size_with_stride == n * h * attr.w_stride * c


# -- batch and dynamic shapes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "batch"), [("batch_three.rk3576.i8", 3), ("batch_four.rk3588.i8", 4)])
def test_batch_is_the_first_axis(name: str, batch: int) -> None:
    golden = golden_of(name)
    with open_cpu(genuine(name)) as context:
        assert context.batch == batch and context.inputs[0].dims[0] == context.outputs[0].dims[0] == batch
        (all_at_once,) = context.infer(golden.inputs)
        for item in range(batch):
            alike = np.repeat(golden.inputs[0][item : item + 1], batch, axis=0)
            assert np.array_equal(
                context.infer(alike)[0], np.repeat(all_at_once[item : item + 1], batch, axis=0)
            )
        with pytest.raises(InputInvalid, match=rf"expected shape \[{batch}, "):
            context.infer(golden.inputs[0][:1])
        with pytest.raises(InputInvalid, match=r"expected 4 dimensions .* got 3"):
            context.infer(golden.inputs[0][0])


def test_dynamic_shapes_follow_the_inputs() -> None:
    path = genuine(DYNAMIC)
    stored = goldens(path.with_suffix(".npz"))
    with open_cpu(path) as context:
        assert [golden.inputs[0].shape for golden in stored] == [s[0] for s in context.shapes] or len(
            stored
        ) == 3
        for golden in [*stored, *reversed(stored)]:
            (got,) = context.infer(golden.inputs)
            assert got.shape == golden.outputs[0].shape
            assert context.inputs[0].dims == golden.inputs[0].shape and context.outputs[0].dims == got.shape


def test_choosing_a_shape() -> None:
    with open_cpu(genuine(DYNAMIC)) as context:
        for shapes in context.shapes:
            context.set_shapes(shapes)
            assert [attr.dims for attr in context.inputs] == list(shapes)
            assert context.infer([np.zeros(shape, np.uint8) for shape in shapes])


def test_a_shape_that_the_model_lacks() -> None:
    with open_cpu(genuine(DYNAMIC)) as context:
        legal = context.shapes
        wrong = tuple(d + 1 for d in legal[0][0])
        for attempt, kind in ((lambda: context.set_shapes([wrong]), ParamInvalid),
                              (lambda: context.infer(np.zeros(wrong, np.uint8)), InputInvalid)):  # fmt: skip
            with pytest.raises(kind) as caught:
                attempt()
            text = str(caught.value)
            assert str(list(wrong)) in text
            assert all(str(list(shapes[0])) in text for shapes in legal), "the message lists the legal shapes"
        assert context.infer(np.zeros(legal[1][0], np.uint8)), "the context is still usable"


def test_a_static_model_has_no_shapes_to_choose(context: Context) -> None:
    assert context.shapes == []
    with pytest.raises(ParamInvalid, match="has static shapes"):
        context.set_shapes([context.inputs[0].dims])


def test_pass_through_needs_a_chosen_shape() -> None:
    with open_cpu(genuine(DYNAMIC)) as context:
        data = np.zeros(context.shapes[1][0], np.int8)
        with pytest.raises(InputInvalid, match="choose the shape of a dynamic model"):
            context.infer(data, pass_through=True)
        context.set_shapes(context.shapes[1])
        assert context.infer(data, pass_through=True)


# -- wrong use ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity(context: Context, bad: float) -> None:
    image = image_of().astype(np.float32)
    image[0, 1, 2, 1] = bad
    with pytest.raises(
        InputInvalid, match=r"1 of \d+ values are NaN or infinite \(first at \[0, 1, 1, 2\]\)"
    ):
        context.infer(image)
    assert context.infer(image_of())


def test_beyond_float32(context: Context) -> None:
    """The faces widen arrays themselves; the native API hands over what it was given."""
    image = image_of().astype(np.float64)
    expected = context.infer(image)
    image[0, 1, 2, 1] = 1e300
    with pytest.raises(InputInvalid, match="NaN or infinite"):  # in other words where a board says it
        context.infer(image)
    assert same(expected, context.infer(image_of()))


def test_huge_floats_saturate(context: Context) -> None:
    image = np.full(context.inputs[0].dims, 3e38, np.float32)
    assert np.isfinite(context.infer(image)[0]).all()
    assert same(context.infer(image), context.infer(np.full(image.shape, 1e6, np.float32)))


WRONG: dict[str, tuple[Any, dict[str, Any], str]] = {
    "number": (lambda x: [x, x], {}, "has 1 inputs .* but 2 were given"),
    "rank": (lambda x: x[None], {}, r"expected 4 dimensions .* got 5"),
    "shape": (lambda x: x[:, 1:], {}, "expected shape"),
    "name": (lambda x: {"pciture": x}, {}, "inputs are named"),
    "layout": (lambda x: x, {"layout": "chw"}, "unknown layout 'chw'"),
    "dtype": (lambda x: x.astype(np.complex64), {}, "element type complex64"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_inputs_leave_the_context_usable(context: Context, case: str) -> None:
    make, options, message = WRONG[case]
    expected = context.infer(image_of())
    with pytest.raises(InputInvalid, match=message):
        context.infer(make(image_of()), **options)
    assert same(context.infer(image_of()), expected)


def test_calls_in_the_wrong_order(context: Context) -> None:
    with pytest.raises(ContextInvalid, match="set inputs before running"):
        context.run()
    with pytest.raises(ContextInvalid, match="run the model before asking for outputs"):
        context.get_outputs()
    context.set_inputs([Input(0, image_of())])
    with pytest.raises(ContextInvalid, match="run the model before asking for outputs"):
        context.get_outputs()
    context.run()
    first = context.get_outputs()
    assert same(context.get_outputs(), first), "outputs may be read twice"
    context.run()
    assert same(context.get_outputs(), first), "inputs stay set"


def test_set_inputs_wants_all_of_them() -> None:
    first, second = golden_of(TWO).inputs
    with open_cpu(genuine(TWO)) as context:
        with pytest.raises(InputInvalid, match=r"needs inputs .*, 1 were given; \['.*'\] are missing"):
            context.set_inputs([Input(0, first)])
        with pytest.raises(InputInvalid, match="3 were given"):
            context.set_inputs([Input(0, first), Input(1, second), Input(2, second)])
        with pytest.raises(InputInvalid, match="expected"):
            context.set_inputs([Input(0, second), Input(1, first)])


def test_after_closing(context: Context) -> None:
    image = image_of()
    context.infer(image)
    context.close()
    context.close()
    assert context.closed and "closed" in repr(context)
    for attempt in (
        lambda: context.infer(image),
        lambda: context.run(),
        lambda: context.get_outputs(),
        lambda: context.set_inputs([Input(0, image)]),
        lambda: context.set_core_mask(0),
        lambda: context.set_shapes([(1,)]),
    ):
        with pytest.raises(ContextInvalid, match="this context is closed") as caught:
            attempt()
        assert caught.value.code == -7


def test_context_manager_closes_also_on_errors() -> None:
    with pytest.raises(ZeroDivisionError), open_cpu(genuine(IMAGE)) as context:
        raise ZeroDivisionError
    assert context.closed


def test_core_masks(context: Context) -> None:
    for mask in (0, 1, 2, 4, 3, 7, 0xFFFF):
        context.set_core_mask(mask)
    for mask in (5, 6, 8, -1):
        with pytest.raises(ParamInvalid, match="not legal on rk3588"):
            context.set_core_mask(mask)
    with open_cpu(genuine("mean_std.rk3568.fp16")) as single, pytest.raises(TargetPlatformUnmatch):
        single.set_core_mask(0)


# -- threads --------------------------------------------------------------------------------------------------


def test_a_second_thread_is_refused(context: Context) -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with context.exclusive():
            inside.set()
            leave.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    assert inside.wait(20)
    with pytest.raises(
        ContextInvalid, match="in use by another thread; open one context per thread"
    ) as caught:
        context.infer(image_of())
    assert caught.value.code == -7
    leave.set()
    holder.join()
    assert context.infer(image_of())


def test_threads_on_one_context_get_their_own_result_or_a_refusal(context: Context) -> None:
    images = [np.full(context.inputs[0].dims, 40 * i, np.uint8) for i in range(4)]
    expected = [context.infer(image)[0] for image in images]
    wrong: list[int] = []
    served: list[int] = []

    def work(i: int) -> None:
        for _ in range(60):
            try:
                (got,) = context.infer(images[i])
            except ContextInvalid:
                continue
            served.append(i)
            if not np.array_equal(got, expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert served and not wrong


def test_one_context_per_thread() -> None:
    path = genuine(IMAGE)
    (expected,) = open_cpu(path).infer(image_of())
    results: list[bool] = []

    def work() -> None:
        with open_cpu(path) as mine:
            results.extend(np.array_equal(mine.infer(image_of())[0], expected) for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 40


def test_closing_waits_for_a_run_under_way(context: Context) -> None:
    inside = threading.Event()
    finished: list[str] = []

    def work() -> None:
        with context.exclusive():
            inside.set()
            context.infer(image_of())
            finished.append("run")

    worker = threading.Thread(target=work)
    worker.start()
    assert inside.wait(20)
    context.close()
    finished.append("closed")
    worker.join()
    assert finished == ["run", "closed"]


# -- files ----------------------------------------------------------------------------------------------------


def test_same_file_opened_twice(tmp_path: Path) -> None:
    path = tmp_path / "copy.rknn"
    path.write_bytes(genuine(IMAGE).read_bytes())
    with open_cpu(path) as one, open_cpu(path) as two:
        path.unlink()
        assert same(one.infer(image_of()), two.infer(image_of()))


def test_a_signal_handler_in_the_middle_of_a_frame_is_refused(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_interrupts(context, [image_of()], monkeypatch)


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime", "openvino"])
def test_an_alarm_that_computes_neither_hangs_nor_changes_results(engine: str) -> None:
    """Every few milliseconds a handler asks the same context for another frame: wherever that comes, it is refused or right."""
    if engine != "numpy":
        pytest.importorskip(engine)
    with (
        rknnlite.open(str(genuine(IMAGE)), backend="cpu", engine=engine) as context,
        rknnlite.open(str(genuine(IMAGE)), backend="cpu", engine=engine) as own,
    ):
        image, dark = image_of(), np.zeros_like(image_of())
        bright, black = context.infer(image), context.infer(dark)

        def ask() -> None:
            assert same(own.infer(dark), black), "a context of its own computes"
            assert same(context.infer(dark), black)

        def work() -> None:
            assert same(context.infer(image), bright)

        assert alarmed(work, ask) >= 10
