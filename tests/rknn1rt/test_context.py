"""The common path on librknn_api: attributes, inputs, runs, outputs, queries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite.errors import (
    ContextInvalid,
    InputInvalid,
    ModelInvalid,
    OutputInvalid,
    ParamInvalid,
    RknnError,
    TargetPlatformUnmatch,
)
from rknnlite.spi import AttrKind, Input
from rknnlite.tensor import DType, Layout, QuantParams
from tests.doubles.rknn1.double1 import Double1, model
from tests.support.interrupts import check_interrupts
from tests.support.rknn1_files import F16, F32, dfp, u8

from .conftest import picture, scores

Start = Callable[..., Any]

IMAGE = ((1, 3, 4, 6), u8(0.5, 128))


def test_attributes_are_turned_round(start: Start) -> None:
    """The C API says [6, 4, 3, 1]."""
    context = start()
    (attr,) = context.inputs
    assert attr.dims == (1, 4, 6, 3) and attr.layout is Layout.NHWC and attr.dtype is DType.UINT8
    assert attr.quant == QuantParams(0.5, 128)
    (native,) = context.native_inputs
    assert native.dims == (1, 3, 4, 6) and native.layout is Layout.NCHW
    assert context.outputs[0].dims == (1, 72) and context.outputs[0].layout is Layout.UNDEFINED
    assert context.attrs(AttrKind.INPUT) == context.inputs
    assert context.batch == 1 and context.custom_string == "" and context.shapes == []


def test_channels_last(start: Start) -> None:
    image = picture()
    context = start(nhwc=True)
    assert context.inputs[0].dims == context.native_inputs[0].dims == (1, 3, 4, 6)
    (out,) = context.infer(image.reshape(1, 3, 4, 6))
    np.testing.assert_array_equal(out.reshape(-1), image.reshape(-1))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.float16, np.float32, np.float64, np.bool_])
def test_elements_of_many_types(start: Start, dtype: Any) -> None:
    image = picture().astype(dtype)
    (out,) = start(affine=(2, 3)).infer(image)
    np.testing.assert_array_equal(out, scores(image.astype(np.uint8), 2, 3))
    assert out.dtype == np.float32


def test_nchw_strides_and_read_only(start: Start) -> None:
    image, context = picture(), start()
    expected = scores(image)
    np.testing.assert_array_equal(context.infer(image.transpose(0, 3, 1, 2), layout="nchw")[0], expected)
    wide = np.zeros((1, 4, 12, 3), np.uint8)
    wide[:, :, ::2] = image
    np.testing.assert_array_equal(context.infer(wide[:, :, ::2])[0], expected)
    image.setflags(write=False)
    np.testing.assert_array_equal(context.infer(image)[0], expected)


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [
        (u8(0.25, 7), np.uint8),
        (dfp("INT8", 3), np.int8),
        (dfp("INT16", 5), np.int16),
        (F16, np.float16),
        (F32, np.float32),
    ],
)
def test_kinds_of_tensors(start: Start, dtype: Any, stored: Any) -> None:
    """Stored elements as they are, real numbers by the parameters; a fractional length is a power of two."""
    context = start(inputs=(((1, 8), dtype),), outputs=(((1, 8), dtype),))
    given = np.arange(8, dtype=np.float32)[None]
    (out,) = context.infer(given)
    np.testing.assert_array_equal(out, given)
    (raw,) = context.infer(given, raw=True)
    assert raw.data.dtype == stored
    np.testing.assert_array_equal((raw.data.astype(np.float64) - raw.zero_point) * raw.scale, given)
    quant = {"DFP": QuantParams(2.0 ** -dtype.get("fl", 0), 0), "NONE": None}.get(
        dtype["qnt_type"].rpartition("_")[2], QuantParams(0.25, 7)
    )
    assert context.inputs[0].quant == quant


def test_pass_through_takes_the_elements_as_they_are(start: Start) -> None:
    context = start()
    stored = np.arange(72, dtype=np.uint8).reshape(1, 3, 4, 6)
    (out,) = context.infer(stored, pass_through=True)
    np.testing.assert_array_equal(out.reshape(-1), (np.maximum(np.arange(72) - 28, 0) - 100) * 0.5)
    with pytest.raises(InputInvalid, match=r"71 bytes passed through.*UINT8 \[1, 3, 4, 6\]\) takes 72"):
        context.set_inputs([Input(0, np.zeros(71, np.uint8), pass_through=True)])


def test_several_inputs_and_outputs(start: Start) -> None:
    context = start(inputs=(IMAGE, ((1, 2), F32)), outputs=(((1, 72), u8(0.5, 100)), ((1, 4, 3, 6), F32)))
    image = picture()
    first, second = context.infer([image, np.zeros((1, 2), np.float32)])
    np.testing.assert_array_equal(first, scores(image))
    np.testing.assert_array_equal(second, scores(image).reshape(1, 4, 3, 6) + 1)
    with pytest.raises(InputInvalid, match="\\['in1'\\] are missing"):
        context.set_inputs([Input(0, image)])
    context.set_inputs([Input(1, np.zeros((1, 2), np.float32)), Input(0, image)])  # in any order
    context.run()
    np.testing.assert_array_equal(context.get_outputs()[0], scores(image))


def test_batch(start: Start) -> None:
    images = picture(3, (4, 4, 6, 3))
    context = start(inputs=(((4, 3, 4, 6), u8(0.5, 128)),), outputs=(((4, 72), u8(0.5, 100)),))
    (out,) = context.infer(images)
    np.testing.assert_array_equal(out, np.concatenate([scores(images[i : i + 1]) for i in range(4)]))


def test_inputs_that_do_not_fit(start: Start, double: Double1) -> None:
    context = start()
    with pytest.raises(InputInvalid, match=r"in0: expected shape \[1, 4, 6, 3\], got \[1, 4, 6, 4\]"):
        context.set_inputs([Input(0, np.zeros((1, 4, 6, 4), np.uint8))])
    with pytest.raises(InputInvalid, match="takes no int64 data; give uint8"):
        context.set_inputs([Input(0, np.zeros((1, 4, 6, 3), np.int64))])
    assert double.count("rknn_inputs_set") == 0


def test_outputs_into_arrays(start: Start) -> None:
    context, image = start(), picture()
    mine = np.empty((1, 72), np.float32)
    context.set_inputs([Input(0, image)])
    context.run()
    with pytest.raises(OutputInvalid, match=r"float32 \[1, 72\]"):
        context.get_outputs_into([np.empty((1, 71), np.float32)])
    context.get_outputs_into([mine])
    np.testing.assert_array_equal(mine, scores(image))


def test_each_run_is_fetched_once(start: Start) -> None:
    context = start()
    with pytest.raises(ContextInvalid, match="set inputs"):
        context.run()
    context.infer(picture())
    with pytest.raises(ContextInvalid, match="given out once"):
        context.get_outputs()


def test_runs_that_nobody_fetches_do_not_stop_the_library(start: Start) -> None:
    """It waits for ever in the fourth; the double ends the process there."""
    context, image = start(), picture()
    context.set_inputs([Input(0, image)])
    for _ in range(10):
        context.run()
    np.testing.assert_array_equal(context.get_outputs()[0], scores(image))
    assert context.frame_id == 10


def test_library_that_fills_too_little(start: Start, double: Double1) -> None:
    context = start()
    double.short("rknn_outputs_get")
    with pytest.raises(OutputInvalid, match="filled 287 of 288 bytes of output out0"):
        context.infer(picture())


def test_library_that_contradicts_itself(double: Double1) -> None:
    double.short("rknn_query")
    with pytest.raises(RknnError, match=r"dims \[1, 3, 4, 6\] and 71 elements for tensor 'in0'"):
        rknnlite.open(model())


def test_versions_and_figures(start: Start) -> None:
    context = start(us=2000, options={"collect_perf": True})
    assert context.versions == ("1.7.3 (abcdef0 build: 2022-07-07 10:00:00)", "double 1.7.3", "librknn_api")
    assert context.last_run_us == 0
    with pytest.raises(ContextInvalid, match="fetch its outputs"):
        context.perf_table()
    context.infer(picture())
    assert context.last_run_us == 2001
    table = context.perf_table()
    assert [(row.id, row.op, row.name, row.time_us) for row in table] == [
        ("0", "TRANSPOSE", "tensor.transpose_3", 72.0),
        ("44", "CONVOLUTION", "convolution.relu.pooling.layer2_2", 363.0),
    ]
    assert table.total_us == 435 and "Total Time(us): 435" in context.perf_text()


def test_figures_on_request_and_memory_never(start: Start) -> None:
    context = start()
    with pytest.raises(RknnError, match="collect_perf=True"):
        context.perf_table()
    with pytest.raises(RknnError, match="answers no memory sizes"):
        context.memory()


def test_flags(start: Start, double: Double1) -> None:
    start(options={"priority": "low", "async_mode": True, "verbose": True, "precompile": True})
    assert double.flags() == 2 | 4 | 8 | 32
    with pytest.raises(ParamInvalid, match="load_model_in_npu is of the host flavour"):
        start(options={"load_model_in_npu": True})
    with pytest.raises(ParamInvalid, match="priority"):
        start(options={"priority": 3})


def test_the_precompiled_model(start: Start) -> None:
    """Query 6, which is another one in librknnrt."""
    assert start(options={"precompile": True}).precompiled() == b"NBG of the double"
    with pytest.raises(RknnError, match="precompile=True"):
        start().precompiled()


def test_a_precompiled_file_runs(start: Start) -> None:
    image = picture()
    with start(pre_compile=1) as context:
        np.testing.assert_array_equal(context.infer(image)[0], scores(image))


def test_opened_from_a_path(double: Double1, tmp_path: Path) -> None:
    """The library gets the bytes: it takes no path."""
    path = tmp_path / "model.rknn"
    path.write_bytes(model())
    with rknnlite.open(path) as context:
        assert double.size == path.stat().st_size
        np.testing.assert_array_equal(context.infer(picture())[0], scores(picture()))


def test_core_masks_and_the_like_are_refused(start: Start) -> None:
    context = start()
    with pytest.raises(TargetPlatformUnmatch, match="single NPU core"):
        context.set_core_mask(1)
    with pytest.raises(ParamInvalid):
        context.set_shapes([(1, 2)])
    with pytest.raises(TargetPlatformUnmatch):
        start(options={"core_mask": 1})


def test_duplicates_are_contexts_of_their_own(start: Start, double: Double1) -> None:
    context, image = start(), picture()
    with context.dup() as twin:
        assert double.live()["contexts"] == 2
        np.testing.assert_array_equal(twin.infer(image)[0], context.infer(image)[0])


def test_damaged_and_foreign_files_never_reach_the_library(double: Double1) -> None:
    asked = double.count("rknn_init")
    whole = model()
    for data, error in (
        (whole[:-10], ModelInvalid),
        (b"RKNX" + bytes(60), ModelInvalid),
        (b"junk" * 20, ModelInvalid),
        (b"", ModelInvalid),
    ):
        with pytest.raises(error):
            rknnlite.open(data)
    assert double.count("rknn_init") == asked


def test_a_signal_handler_in_the_middle_of_a_frame_is_refused(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_interrupts(start(), [picture()], monkeypatch)
