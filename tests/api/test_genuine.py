"""The face on genuine model files: every habit of a caller gives the numbers of the vendor's simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rknnlite.api import RKNNLite

from .corpus import genuine

pytestmark = pytest.mark.usefixtures("cpu")


def open_model(path: Path) -> RKNNLite:
    rknn = RKNNLite()
    assert rknn.load_rknn(str(path)) == 0
    assert rknn.init_runtime() == 0
    return rknn


def samples(path: Path, kind: str) -> list[np.ndarray]:
    with np.load(path.with_suffix(".npz")) as archive:
        return [archive[name] for name in sorted(archive.files) if name.startswith(kind)]


def test_nhwc_nchw_and_mapping_agree(capfd: pytest.CaptureFixture[str]) -> None:
    path = genuine("conv_1x1.rk3588.i8")
    (image,), (expected,) = samples(path, "in"), samples(path, "out")
    rknn = open_model(path)
    name = rknn.rknn_runtime.get_tensor_attr(0).name.decode()
    planes = np.ascontiguousarray(image.transpose(0, 3, 1, 2))
    answers = (
        rknn.inference(inputs=[image]),
        rknn.inference(image[0]),
        rknn.inference({name: image}),
        rknn.inference([planes], data_format=["nchw"]),
        rknn.inference([planes]),
        rknn.inference([image.astype(np.float32)], data_type="float32"),
        rknn.inference([image.astype(np.float64)], data_type="uint8"),
        rknn.inference([image], reuse_outputs=True),
    )
    step = rknn.rknn_runtime.get_tensor_attr(0, is_output=True).scale
    for (scores,) in answers:
        assert scores.dtype == np.float32
        assert np.abs(scores - expected).max() <= step * 1.01
        assert np.array_equal(scores, answers[0][0])
    rknn.release()


def test_several_inputs() -> None:
    path = genuine("two_images.rk3588.i8")
    rknn = open_model(path)
    outputs = rknn.inference(samples(path, "in"))
    for got, expected in zip(outputs, samples(path, "out")):
        assert got.shape == expected.shape
        assert np.abs(got - expected).max() <= rknn.rknn_runtime.get_tensor_attr(0, True).scale * 1.01


def test_integer_tokens() -> None:
    path = genuine("embedding.rk3588.fp16")
    rknn = open_model(path)
    outputs = rknn.inference(samples(path, "in"))
    assert [o.shape for o in outputs] == [o.shape for o in samples(path, "out")]


def test_attributes_describe_what_comes_back() -> None:
    path = genuine("three_outputs.rk3588.i8")
    rknn = open_model(path)
    outputs = rknn.inference(samples(path, "in"))
    assert rknn.rknn_runtime.get_in_out_num() == (1, len(outputs))
    for index, array in enumerate(outputs):
        attr = rknn.rknn_runtime.get_tensor_attr(index, is_output=True)
        assert tuple(attr.dims[: attr.n_dims]) == array.shape
        assert attr.n_elems == array.size
    assert rknn.rknn_runtime.get_run_perf().run_duration > 0


def test_dynamic_shapes(capfd: pytest.CaptureFixture[str]) -> None:
    from .corpus import DATA

    paths = sorted(DATA.glob("*dynamic*.rknn"))
    if not paths:
        pytest.skip("no dynamic model in the corpus")
    rknn = open_model(paths[0])
    runtime = rknn.rknn_runtime
    assert runtime.is_dynamic_shape
    for shapes in runtime._shapes:
        arrays = [np.ones(shape, np.uint8) for shape in shapes]
        assert rknn.inference(arrays) is not None
        assert [tuple(attr.dims) for attr in runtime.get_inputs()] == [tuple(shape) for shape in shapes]
    capfd.readouterr()
    assert rknn.inference([np.ones([7 + d for d in shape], np.uint8) for shape in shapes]) is None
    assert "Set input shape failed. error code: RKNN_ERR_FAIL" in capfd.readouterr().err


def test_sdk_version_says_that_it_is_the_reference() -> None:
    banner = open_model(genuine("conv_1x1.rk3588.i8")).get_sdk_version()
    assert "RKNN VERSION:" in banner and "CPU reference" in banner
