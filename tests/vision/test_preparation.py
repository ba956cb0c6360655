"""What a network gets of a picture: size, bars, colours, numbers, layout; with OpenCV and with numpy the same."""

from __future__ import annotations

import importlib.util
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_vision.before import resizing
from rknnlite_vision.before.preparation import Preparation, Way
from rknnlite_vision.before.resizing import grey
from rknnlite_vision.placement import Placement

import rknnlite
from rknnlite.errors import InputInvalid, ModelInvalid, ParamInvalid
from rknnlite.formats import IoTensor, ModelFile
from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WITH = ["numpy"] + ["opencv"] * bool(importlib.util.find_spec("cv2"))


def picture(height: int, width: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


class Model:
    """A context as far as a preparation looks at it."""

    def __init__(
        self, *shapes: tuple[int, ...], layout: Layout = Layout.NHWC, platform: str = "rknn_rk3588"
    ) -> None:
        self.inputs = [TensorAttr(n, f"in{n}", shape, DType.INT8, layout) for n, shape in enumerate(shapes)]
        self.platform = platform


# -- where the picture lies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", WITH)
def test_letterbox(by: str) -> None:
    array, placement = Preparation((64, 64), fill=7, by=by)(np.full((32, 128, 3), 200, np.uint8))
    assert (array.shape, array.dtype, placement.scale_x, placement.top) == ((1, 64, 64, 3), np.uint8, 0.5, 24)
    assert (array[0, 24:40] == 200).all() and (array[0, :24] == 7).all() and (array[0, 40:] == 7).all()


@pytest.mark.parametrize("by", WITH)
def test_bars_on_the_left_and_right(by: str) -> None:
    array, placement = Preparation((65, 64), by=by)(np.full((128, 64, 3), 200, np.uint8))
    assert (placement.left, placement.inner) == (16, (32, 64))
    assert (
        (array[0, :, 16:48] == 200).all()
        and (array[0, :, :16] == 114).all()
        and (array[0, :, 48:] == 114).all()
    )


@pytest.mark.parametrize("by", WITH)
def test_stretched(by: str) -> None:
    array, placement = Preparation((32, 32), Way.STRETCH, by=by)(picture(16, 64))
    assert placement == Placement((64, 16), (32, 32), 0.5, 2.0)
    assert array[0].std() > 20


@pytest.mark.parametrize("by", WITH)
def test_the_middle_is_cut_out(by: str) -> None:
    pixels = np.zeros((40, 100, 3), np.uint8)
    pixels[:, 30:70] = 200
    array, placement = Preparation((20, 20), Way.CROP, by=by)(pixels)
    assert (placement.scale_x, placement.left, placement.top, placement.inner) == (0.5, -15, 0, (50, 20))
    assert (array == 200).all()
    assert placement.back(np.array([[10.0, 10.0]])).tolist() == [[50, 20]]


def test_crop_lies_where_torchvision_has_it() -> None:
    """Resize(256), CenterCrop(224): the long side int(256 * 500 / 375) = 341, the corner round((341 - 224) / 2) = 58."""
    placement = Placement.crop((500, 375), (224, 224), 256 / 224)
    assert (placement.inner, placement.left, placement.top) == ((341, 256), -58, -16)
    upright = Placement.crop((375, 500), (224, 224), 256 / 224)
    assert (upright.inner, upright.left, upright.top) == ((256, 341), -16, -58)


def test_a_long_picture_has_no_middle() -> None:
    preparation = Preparation((224, 224), "crop")  # type: ignore[arg-type]
    with pytest.raises(InputInvalid, match=r"10000 x 1 pixels is more than 16 times.*choose 'letterbox'"):
        preparation(picture(1, 10000))
    assert Preparation((224, 224))(picture(1, 10000))[1].inner == (224, 1)


@pytest.mark.parametrize("way", list(Way))
@pytest.mark.parametrize("by", WITH)
def test_one_pixel(way: Way, by: str) -> None:
    array, placement = Preparation((8, 8), way, by=by)(np.full((1, 1, 3), 9, np.uint8))
    assert (array == 9).all() and placement.inner == (8, 8)


@pytest.mark.parametrize("way", list(Way))
@pytest.mark.parametrize("size", [(720, 1280), (33, 57), (640, 480), (1, 7), (64, 64)])
def test_opencv_and_numpy_agree(way: Way, size: tuple[int, int]) -> None:
    pytest.importorskip("cv2")
    for more in (
        {},
        {"bgr": True},
        {"channels": 1},
        {"std": (58.4, 57.1, 57.4), "mean": (123.7, 116.3, 103.5)},
        {"nchw": True},
    ):
        (ours, one), (theirs, other) = (
            Preparation((64, 48), way, by=by, **more)(picture(*size)) for by in ("numpy", "opencv")
        )
        assert one == other and np.array_equal(ours, theirs), more


# -- numbers ---------------------------------------------------------------------------------------------------


def test_blue_first() -> None:
    pixels = picture(8, 8)
    assert np.array_equal(Preparation((8, 8), bgr=True)(pixels)[0][0], pixels[..., ::-1])


def test_floats() -> None:
    """mean and std of the first channel of the network, which is blue here."""
    pixels = picture(8, 8)
    array, _ = Preparation((8, 8), bgr=True, mean=(1, 2, 3), std=(10, 20, 40))(pixels)
    wanted = (pixels[..., ::-1].astype(np.float32) - [1, 2, 3]) / [10, 20, 40]
    assert array.dtype == np.float32
    np.testing.assert_allclose(array[0], wanted, rtol=1e-6)
    assert np.array_equal(Preparation((8, 8), std=(255,))(pixels)[0][0], pixels / np.float32(255))


def test_channels_first() -> None:
    pixels = picture(6, 8)
    array, _ = Preparation((8, 6), nchw=True)(pixels)
    assert array.shape == (1, 3, 6, 8) and array.flags.c_contiguous
    assert np.array_equal(array[0], pixels.transpose(2, 0, 1))


def test_grey() -> None:
    cv2 = pytest.importorskip("cv2")
    pixels = picture(60, 80)
    assert np.array_equal(grey(pixels)[..., 0], cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY))
    array, _ = Preparation((80, 60), channels=1)(pixels)
    assert np.array_equal(array[0], grey(pixels))


def test_a_grey_picture() -> None:
    pixels = picture(6, 8)[..., 0]
    array, _ = Preparation((8, 6))(pixels)
    assert all(np.array_equal(array[0, ..., n], pixels) for n in range(3))
    assert np.array_equal(Preparation((8, 6), channels=1)(pixels)[0][0, ..., 0], pixels)


def test_grey_levels_stay() -> None:
    levels = np.repeat(np.arange(256, dtype=np.uint8), 3).reshape(1, 256, 3)
    assert grey(levels)[0, :, 0].tolist() == list(range(256))


def test_a_batch_of_different_sizes() -> None:
    some = [picture(20, 30), picture(50, 10, 1)]
    preparation = Preparation((16, 16))
    array, placements = preparation.batch(some)
    for one, alone in zip(range(2), some):
        wanted, placement = preparation(alone)
        assert np.array_equal(array[one], wanted[0]) and placements[one] == placement
    with pytest.raises(InputInvalid, match="0 pictures"):
        preparation.batch([])


def test_an_array_is_used_again() -> None:
    preparation = Preparation((16, 16))
    array, _ = preparation(picture(20, 30))
    before = array.copy()
    assert preparation(picture(30, 20), array)[0] is array
    assert not np.array_equal(array, before)
    assert np.array_equal(preparation(picture(20, 30), array)[0], before), "bars of the frame before are gone"
    with pytest.raises(InputInvalid, match=r"out is uint8 \[1, 16, 16, 3\], must be uint8 \[2, 16, 16, 3\]"):
        preparation.batch([picture(2, 2)] * 2, array)


def test_views_of_larger_arrays() -> None:
    whole = picture(100, 100)
    for view in (whole[10:50, 20:90], whole[::-1, ::-1], whole[..., ::-1], whole.transpose(1, 0, 2)):
        for by in WITH:
            wanted, _ = Preparation((32, 32), by=by)(np.ascontiguousarray(view))
            assert np.array_equal(Preparation((32, 32), by=by)(view)[0], wanted)


# -- of a network ----------------------------------------------------------------------------------------------


def test_of_a_model() -> None:
    with rknnlite.open(EXAMPLES / "detect/detect_for_RK3588.rknn") as context:
        preparation = Preparation.of(context)
        array, placement = preparation(picture(48, 64))
        assert len(context.infer(array)) == len(context.outputs)
    assert (preparation.size, preparation.std, placement.top) == ((320, 320), (), 40)


def test_what_models_want() -> None:
    assert Preparation.of(Model((4, 32, 64, 3))).size == (64, 32)  # type: ignore[arg-type]
    first = Preparation.of(Model((1, 1, 32, 64), layout=Layout.NCHW), way=Way.STRETCH, by="numpy")  # type: ignore[arg-type]
    assert (first.size, first.channels, first.nchw, first.by) == ((64, 32), 1, True, "numpy")
    other = Preparation.of(Model((1, 32, 64, 3), platform="onnxruntime_onnx"))  # type: ignore[arg-type]
    assert other.std == (255.0, 255.0, 255.0)
    assert other(picture(9, 9))[0].max() <= 1


def stored(*quant: float, **more: Any) -> Any:
    kind = DType.INT8 if quant else DType.FLOAT16
    values = {
        "mean": (0.0,),
        "std": (1.0,),
        "quant": QuantParams(quant[0], int(quant[1])) if quant else None,
        **more,
    }
    return IoTensor("in0", (1, 3, 8, 8), kind, Layout.NHWC, **values)


def test_what_the_file_leaves_to_us() -> None:
    """A file without mean and deviation: the numbers that its quantisation reaches tell what the network takes."""
    model: Any = Model((1, 8, 8, 3))
    assert Preparation.of(model, stored=stored(0.02, -14, mean=(123.0,), std=(58.0,))).std == ()
    assert Preparation.of(model, stored=stored(1.0, -128)).std == ()
    assert Preparation.of(model, stored=stored(1 / 255, -128)).std == (255.0, 255.0, 255.0)
    with pytest.raises(
        ModelInvalid, match=r"no mean and deviation, and the network takes -2.28 to 2.82; give those"
    ):
        Preparation.of(model, stored=stored(0.02, -14))
    assert Preparation.of(model, stored=stored(0.02, -14), std=(58.0,)).std == (58.0, 58.0, 58.0)


def test_what_nobody_knows(caplog: pytest.LogCaptureFixture) -> None:
    assert Preparation.of(Model((1, 8, 8, 3)), stored=stored()).std == ()  # type: ignore[arg-type]
    assert (
        "input in0: the model file stores no mean and deviation: it gets pixels from 0 to 255" in caplog.text
    )


def test_a_genuine_file() -> None:
    path = EXAMPLES / "detect/detect_for_RK3588.rknn"
    with rknnlite.open(path) as context:
        assert Preparation.of(context, stored=ModelFile(path).model.inputs[0]) == Preparation.of(context)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ([(1, 8, 8, 3)] * 2, r"2 inputs \(in0, in1\)"),
        ([(1, 10)], r"in0 is \[1, 10\]"),
        ([(1, 8, 8, 4)], r"\[1, 8, 8, 4\].*3 channels or 1"),
        ([(1, 0, 8, 3)], r"\[1, 0, 8, 3\]"),
    ],
)
def test_no_pictures(shapes: Any, words: str) -> None:
    with pytest.raises(ModelInvalid, match=words):
        Preparation.of(Model(*shapes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros((8, 8, 4), np.uint8), r"\[8, 8, 4\].*alpha out: picture\[\.\.\., :3\]"),
        (np.zeros((8, 8, 3), np.uint16), r"uint16 \[8, 8, 3\].*>> 8"),
        (np.zeros((8, 8, 3)), r"float64.*\* 255"),
        (np.zeros((1, 8, 8, 3), np.uint8), r"\[1, 8, 8, 3\].*one picture"),
        (np.zeros((0, 8, 3), np.uint8), r"\[0, 8, 3\]: it has no pixels"),
        (np.zeros((8, 8, 2), np.uint8), r"\[8, 8, 2\]"),
        ("cat.jpg", "str, must be a numpy array"),
    ],
)
def test_no_picture(given: Any, words: str) -> None:
    with pytest.raises(InputInvalid, match=words):
        Preparation((8, 8))(given)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"by": "pillow"}, "by is 'pillow'"),
        ({"fill": 256}, "fill is 256"),
        ({"channels": 4}, "4 channels"),
        ({"zoom": 0.5}, "zoom is 0.5"),
        ({"std": (1, 2)}, "2 numbers of std for 3"),
        ({"std": (0,)}, "std not 0"),
        ({"mean": (float("nan"),)}, "mean is .nan"),
    ],
)
def test_wrong_numbers(wrong: Any, words: str) -> None:
    with pytest.raises(ParamInvalid, match=words):
        Preparation((8, 8), **wrong)


def test_a_hundred_megapixels() -> None:
    """What is allocated goes with the rows that are looked at, not with the picture."""
    large = np.zeros((10_000, 10_000, 3), np.uint8)
    tracemalloc.start()
    array, _ = Preparation((64, 64), by="numpy")(large)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not array.any()
    assert most < 8 << 20


def test_what_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenCV where it gives these numbers; where it is not there, or has arithmetic of its own, numpy."""
    cv2 = pytest.importorskip("cv2")
    assert Preparation((8, 8)).by == "opencv"
    resizing.opencv_agrees.cache_clear()
    try:
        genuine = cv2.resize
        monkeypatch.setattr(cv2, "resize", lambda *given, **more: genuine(*given, **more) ^ 1)
        assert Preparation((8, 8)).by == "numpy"
        resizing.opencv_agrees.cache_clear()
        monkeypatch.setitem(sys.modules, "cv2", None)
        assert Preparation((8, 8)).by == "numpy"
    finally:
        resizing.opencv_agrees.cache_clear()
