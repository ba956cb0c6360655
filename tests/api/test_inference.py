"""inference: every form of inputs, formats, types, frame ids, reused outputs."""

from __future__ import annotations

import numpy as np
import pytest

from rknnlite.api import RKNNLite
from rknnlite.tensor import DType, Layout

from .fake_backend import Bench, image_input, output, plain_input

NCHW_LINE = (
    "W The input[0] need NHWC data format, but NCHW set, "
    "the data format and data buffer will be changed to NHWC.\n"
)


def face(bench: Bench, capfd: pytest.CaptureFixture[str]) -> RKNNLite:
    """A face on a model that the test set up."""
    rknn = RKNNLite()
    rknn.rknn_data = b"model"
    assert rknn.init_runtime() == 0
    capfd.readouterr()
    return rknn


def test_before_init(capfd: pytest.CaptureFixture[str]) -> None:
    rknn = RKNNLite()
    capfd.readouterr()
    assert rknn.inference(inputs=[np.zeros((1, 4, 6, 3))]) is None
    assert capfd.readouterr().err == (
        "E Runtime environment is not inited, please call init_runtime to init it first!\n"
    )


def test_after_release(rknn: RKNNLite, image: np.ndarray) -> None:
    rknn.release()
    assert rknn.inference([image]) is None


def test_result_is_a_list_of_float_arrays(
    rknn: RKNNLite, image: np.ndarray, capfd: pytest.CaptureFixture[str]
) -> None:
    outputs = rknn.inference(inputs=[image])
    assert isinstance(outputs, list)
    assert outputs[0].dtype == np.float32 and outputs[0].shape == (1, 2)
    assert outputs[0][0, 0] == image.sum()
    assert capfd.readouterr() == ("", "")


def test_list_tuple_bare_array_and_mapping_are_the_same(rknn: RKNNLite, image: np.ndarray) -> None:
    forms = [[image], (image,), image, {"image": image}, {b"image": image}, [image.tolist()]]
    results = [rknn.inference(form) for form in forms]
    assert all(np.array_equal(result[0], results[0][0]) for result in results)
    assert np.array_equal(rknn.inference(inputs=image)[0], results[0][0])


def test_array_reaches_the_context_as_it_is(rknn: RKNNLite, bench: Bench, image: np.ndarray) -> None:
    rknn.inference([image])
    assert bench.given[0].data is image
    assert bench.given[0].layout is Layout.NHWC and not bench.given[0].pass_through


def test_attributes_are_asked_once_not_per_call(rknn: RKNNLite, bench: Bench, image: np.ndarray) -> None:
    before = bench.queries
    for _ in range(3):
        rknn.inference([image])
    assert bench.queries == before
    assert bench.names()[1:] == ["set_inputs", "run", "get_outputs"] * 3


def test_image_without_batch_dimension_is_one_warning(
    rknn: RKNNLite, image: np.ndarray, capfd: pytest.CaptureFixture[str]
) -> None:
    batched = rknn.inference([image])
    for _ in range(3):
        assert np.array_equal(rknn.inference([image[0]])[0], batched[0])
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("W ") and "4 dimensions" in line


@pytest.mark.parametrize("word", ["nchw", "NCHW", ["nchw"], ["NCHW"], ("nchw",)])
def test_nchw(
    rknn: RKNNLite, bench: Bench, image: np.ndarray, capfd: pytest.CaptureFixture[str], word: object
) -> None:
    assert rknn.inference([image.transpose(0, 3, 1, 2)], data_format=word) is not None
    assert bench.given[0].layout is Layout.NCHW and bench.given[0].data.shape == (1, 3, 4, 6)
    assert capfd.readouterr().err == NCHW_LINE


@pytest.mark.parametrize("word", [None, "nhwc", "NHWC", ["nhwc"], [None]])
def test_nhwc(
    rknn: RKNNLite, bench: Bench, image: np.ndarray, capfd: pytest.CaptureFixture[str], word: object
) -> None:
    assert rknn.inference([image], None, word) is not None
    assert bench.given[0].layout is Layout.NHWC
    assert capfd.readouterr().err == ""


def test_nchw_shape_without_data_format_is_taken_as_nchw(
    rknn: RKNNLite, bench: Bench, image: np.ndarray, capfd: pytest.CaptureFixture[str]
) -> None:
    planes = image.transpose(0, 3, 1, 2).astype(np.float32)
    for array in (planes, planes, planes[0]):
        assert rknn.inference([array]) is not None
        assert bench.given[0].layout is Layout.NCHW
    lines = capfd.readouterr().err.splitlines()
    assert "data_format='nchw'" in lines[0]
    assert len([line for line in lines if "[1, 3, 4, 6]" in line]) == 1


def test_ambiguous_shape_without_data_format_is_nhwc(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    bench.inputs = [image_input(dims=(1, 3, 3, 3))]
    rknn = face(bench, capfd)
    assert rknn.inference([np.zeros((1, 3, 3, 3), np.uint8)]) is not None
    assert bench.given[0].layout is Layout.NHWC


def test_data_format_of_other_ranks_does_not_matter(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    bench.inputs = [plain_input(0, "sequence", (1, 8, 5))]
    rknn = face(bench, capfd)
    assert rknn.inference([np.zeros((1, 8, 5), np.float32)], data_format=["nchw"]) is not None
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("inputs", "options", "words"),
    [
        ([], {}, ["1 inputs", "0 were given"]),
        (None, {}, ["image"]),
        ([np.zeros((1, 4, 6, 3))] * 2, {}, ["1 inputs", "2 were given"]),
        ([np.zeros((4, 6))], {}, ["The input[0] need 4dims input, but 2dims input buffer feed."]),
        ([np.zeros((1, 9, 9, 3))], {}, ["expected shape [1, 4, 6, 3], got [1, 9, 9, 3]"]),
        ([np.zeros((1, 4, 6, 3))], {"data_format": "nchw"}, ["NHWC data"]),
        ([np.zeros((1, 4, 6, 3))], {"data_format": "chwn"}, ["'chwn'", "nchw"]),
        ([np.zeros((1, 4, 6, 3))], {"data_format": ["nhwc", "nhwc"]}, ["2 layouts"]),
        ([np.zeros((1, 4, 6, 3))], {"data_format": 7}, ["7"]),
        ([np.zeros((1, 4, 6, 3))], {"data_type": "int3"}, ["'int3'", "uint8"]),
        ([np.zeros((1, 4, 6, 3))], {"data_type": ["uint8", "int8"]}, ["2 data types"]),
        ([np.zeros((1, 4, 6, 3))], {"inputs_pass_through": [0, 1]}, ["2 pass_through"]),
        (["cat.jpg"], {}, ["image"]),
        ([[[1, 2], [3]]], {}, ["image"]),
        ([np.zeros((1, 4, 6, 3), complex)], {}, ["complex128"]),
        ({"picture": np.zeros((1, 4, 6, 3))}, {}, ["'image'", "'picture'"]),
    ],
)
def test_inputs_that_do_not_fit(
    rknn: RKNNLite,
    image: np.ndarray,
    capfd: pytest.CaptureFixture[str],
    inputs: object,
    options: dict[str, object],
    words: list[str],
) -> None:
    assert rknn.inference(inputs, **options) is None  # type: ignore[arg-type]
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("E Catch exception when setting inputs. ")
    assert line.endswith("(error code: RKNN_ERR_INPUT_INVALID)")
    assert all(word in line for word in words), line
    assert rknn.inference([image]) is not None


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("uint8", "uint8"), ("int8", "int8"), ("int16", "int16"), ("float16", "float16"),
        ("float32", "float32"), ("float64", "float32"), ("int64", "int64"), ("uint64", "int64"),
        ("bool", "bool"), (">f4", "float32"), (">i2", "int16"),
    ],
)  # fmt: skip
def test_element_types(rknn: RKNNLite, bench: Bench, given: str, taken: str) -> None:
    array = np.ones((1, 4, 6, 3), given)
    assert rknn.inference([array])[0][0, 0] == 72
    assert bench.given[0].data.dtype == np.dtype(taken)


@pytest.mark.parametrize("wanted", ["uint8", "int16", "float16", "float32", np.float32, ["float32"]])
def test_data_type_converts(
    rknn: RKNNLite, bench: Bench, image: np.ndarray, capfd: pytest.CaptureFixture[str], wanted: object
) -> None:
    for array in (image, image.astype(np.float32), image.astype(np.float64)):
        assert rknn.inference([array], data_type=wanted)[0][0, 0] == image.sum()
        expected = wanted[0] if isinstance(wanted, list) else wanted
        assert bench.given[0].data.dtype == np.dtype(expected)
    assert capfd.readouterr().err == ""


def test_data_type_that_would_ruin_the_values_is_not_used(
    rknn: RKNNLite, bench: Bench, image: np.ndarray, capfd: pytest.CaptureFixture[str]
) -> None:
    normalised = image.astype(np.float32) / 255
    for _ in range(2):
        assert rknn.inference([normalised], data_type="uint8") is not None
        assert bench.given[0].data is normalised
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("W The input[0] holds float32 values that data_type uint8 cannot hold")


@pytest.mark.parametrize("flag", [[1], [True], 1, True])
def test_pass_through_leaves_the_elements_alone(rknn: RKNNLite, bench: Bench, flag: object) -> None:
    raw = np.ones(64, np.float64)
    assert rknn.inference([raw], "uint8", None, flag) is not None
    assert bench.given[0].data is raw and bench.given[0].pass_through


def test_several_inputs_in_order_and_by_name(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    bench.inputs = [
        image_input(0, "picture"),
        plain_input(1, "tokens", (1, 5), DType.INT64),
        plain_input(2, "cache", (1, 2, 8)),
    ]
    rknn = face(bench, capfd)
    picture, tokens = np.ones((1, 3, 4, 6), np.uint8), np.arange(5, dtype=np.int64)[None]
    cache = np.zeros((1, 2, 8), np.float16)
    rknn.inference([picture, tokens, cache], data_format=["nchw", None, None], inputs_pass_through=[0, 0, 1])
    assert [item.data.shape for item in bench.given] == [(1, 3, 4, 6), (1, 5), (1, 2, 8)]
    assert [item.pass_through for item in bench.given] == [False, False, True]
    assert bench.given[1].data.dtype == np.int64
    named = rknn.inference({"cache": cache, "tokens": tokens, "picture": picture}, data_format="nchw")
    assert named[0][0, 0] == 72 + 10


@pytest.mark.parametrize(("dtype", "largest"), [(DType.INT64, (1 << 53) - 1), (DType.INT32, (1 << 31) - 1)])
def test_tokens_given_as_float64_keep_every_digit(
    bench: Bench, capfd: pytest.CaptureFixture[str], dtype: DType, largest: int
) -> None:
    bench.inputs = [plain_input(0, "tokens", (1, 3), dtype)]
    rknn = face(bench, capfd)
    tokens = [[-1, (1 << 24) + 1, largest]]
    assert rknn.inference([np.array(tokens, np.float64)]) is not None
    assert bench.given[0].data.dtype == dtype.numpy
    assert bench.given[0].data.tolist() == tokens
    assert rknn.inference([np.array([[0.5, 1, 2]])]) is not None
    assert bench.given[0].data.dtype == np.float32, "no whole numbers"


def test_thirty_five_inputs(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    bench.inputs = [plain_input(i, f"cache{i}", (1, 4), DType.INT64) for i in range(35)]
    rknn = face(bench, capfd)
    outputs = rknn.inference([np.full((1, 4), i) for i in range(35)])
    assert outputs[0][0, 0] == 4 * sum(range(35))


def test_numbers_of_a_vector(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    bench.inputs = [plain_input(0, "vector", (4,))]
    assert face(bench, capfd).inference([1, 2, 3, 4])[0][0, 0] == 10


# -- outputs ------------------------------------------------------------------------------------------------


def test_frame_id_is_the_last_element(rknn: RKNNLite, image: np.ndarray) -> None:
    ids = [rknn.inference([image], get_frame_id=True)[-1] for _ in range(3)]
    assert ids == [0, 1, 2]
    assert len(rknn.inference([image], get_frame_id=True)) == 2
    assert len(rknn.inference([image])) == 1


def test_outputs_are_fresh_by_default(rknn: RKNNLite, image: np.ndarray) -> None:
    first = rknn.inference([image])
    kept = first[0].copy()
    second = rknn.inference([np.zeros_like(image)])
    assert not np.shares_memory(first[0], second[0])
    assert np.array_equal(first[0], kept)


def test_reused_outputs_are_overwritten(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    bench.outputs = [output(0, "a", (1, 2)), output(1, "b", (1, 3, 4))]
    rknn = face(bench, capfd)
    ones = np.ones((1, 4, 6, 3), np.uint8)
    fresh = rknn.inference([ones])
    first = rknn.inference([ones], reuse_outputs=True)
    assert [a[0].flat[0] for a in first] == [72, 73]
    second = rknn.inference([ones * 2], reuse_outputs=True)
    assert all(a is b for a, b in zip(first, second))
    assert [a[0].flat[0] for a in first] == [144, 145]
    assert [a[0].flat[0] for a in fresh] == [72, 73]


def test_reused_outputs_do_not_outlive_their_runtime(rknn: RKNNLite, image: np.ndarray) -> None:
    before = rknn.inference([image], reuse_outputs=True)
    rknn.init_runtime()
    after = rknn.inference([image * 0], reuse_outputs=True)
    assert not np.shares_memory(before[0], after[0])


def test_reused_outputs_with_a_frame_id(rknn: RKNNLite, image: np.ndarray) -> None:
    assert rknn.inference([image], get_frame_id=True, reuse_outputs=True)[1] == 0
    assert len(rknn.inference([image], reuse_outputs=True)) == 1
