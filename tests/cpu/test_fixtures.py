"""Files made by others; skipped where the folder of third-party files is absent."""

from __future__ import annotations

import numpy as np
import pytest

from rknnlite.errors import ModelUnsupported
from rknnlite.formats import ModelFile
from tests.support.corpus import FIXTURES, fixture_file, open_cpu

from .test_corpus import cosine

FAMILIES = ["RK3588", "RK3566_RK3568", "RK3562", "RK3576", "RV1126B"]
OLD = ["v1_RK356X", "v1_RK3588", "v2_RK3562", "v2_RK3566_RK3568", "v2_RK3588"]
NEARLY_NOTHING = 1e-6  # outputs of this magnitude are noise of float16


def onnx_outputs(model: str, *inputs: np.ndarray) -> list[np.ndarray]:
    """What onnxruntime makes of a source network."""
    runtime = pytest.importorskip("onnxruntime", reason="pip install onnxruntime")
    session = runtime.InferenceSession(str(fixture_file(model)), providers=["CPUExecutionProvider"])
    feeds = {}
    for spec, array in zip(session.get_inputs(), inputs):
        feeds[spec.name] = array.astype(np.int64 if "int64" in spec.type else np.float32)
    return session.run(None, feeds)


def two_pictures() -> tuple[np.ndarray, np.ndarray]:
    grey = np.fromfile(fixture_file("vendor/multiple_input/input1.bin"), np.uint8).reshape(1, 128, 128, 1)
    colour = np.fromfile(fixture_file("vendor/multiple_input/input2.bin"), np.uint8).reshape(1, 128, 128, 3)
    return grey, colour


def check_multiple_input(path: str) -> None:
    pictures = two_pictures()
    with open_cpu(fixture_file(path)) as context:
        by_channels = {picture.shape[-1]: picture for picture in pictures}
        (got,) = context.infer([by_channels[attr.dims[-1]] for attr in context.inputs])
    assert got.shape == (1, 8, 128, 128)
    (expected,) = onnx_outputs(
        "vendor/multiple_input/model.onnx", *(picture.transpose(0, 3, 1, 2) for picture in pictures)
    )
    assert cosine(got, expected) >= 0.999


@pytest.mark.parametrize("family", FAMILIES)
def test_multiple_input(family: str) -> None:
    check_multiple_input(f"vendor/multiple_input/{family}.rknn")


@pytest.mark.parametrize("name", OLD)
def test_older_containers_run_or_say_why_not(name: str) -> None:
    path = f"vendor/multiple_input_old/{name}.rknn"
    try:
        open_cpu(fixture_file(path)).close()
    except ModelUnsupported as error:
        assert "container version" in str(error) or "compressed" in str(error)
        return
    check_multiple_input(path)


@pytest.mark.parametrize("family", FAMILIES)
def test_dual_residual_needs_its_custom_operator(family: str) -> None:
    path = fixture_file(f"vendor/dual_residual/{family}.rknn")
    assert ModelFile(path).model.custom_ops == ("cstDualResidual",)
    inputs = [fixture_file(f"vendor/dual_residual/dual_residual_input_{i}_nhwc.npy") for i in range(2)]
    with pytest.raises(ModelUnsupported, match=r"cstDualResidual.* nobody registered") as caught:
        open_cpu(path).infer([np.load(file) for file in inputs])
    assert caught.value.code == -1, "what librknnrt 1.6.0 answers to the run"


@pytest.mark.parametrize("family", ["RK3588", "RK3566_RK3568"])
def test_human_segmentation_finds_the_child_on_the_bicycle(family: str) -> None:
    cv2 = pytest.importorskip("cv2", reason="pip install opencv-python-headless")
    picture = cv2.imread(str(fixture_file("vendor/human_seg/test_image.jpg")))
    with open_cpu(fixture_file(f"vendor/human_seg/{family}.rknn")) as context:
        (mask,) = context.infer(cv2.resize(picture, (192, 192))[None])
    assert mask.shape == (1, 192, 192) and set(np.unique(mask)) == {0, 1}
    rows, columns = np.nonzero(mask[0])
    assert 0.04 < mask.mean() < 0.09
    assert rows.min() > 15 and rows.max() < 125 and columns.min() > 95 and columns.max() < 160


def wake_words() -> list[str]:
    return sorted(path.stem for path in (FIXTURES / "wakeword").glob("*.rknn")) or ["sub2_after_sigmoid"]


@pytest.mark.parametrize("name", wake_words())
def test_wake_word(name: str) -> None:
    with open_cpu(fixture_file(f"wakeword/{name}.rknn")) as context:
        rng = np.random.default_rng(7)
        logical = [d if len(d) != 4 else (d[0], d[3], d[1], d[2]) for d in (a.dims for a in context.inputs)]
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in logical]
        outputs = context.infer(arrays, layout="nchw")
    for got, expected in zip(outputs, onnx_outputs(f"wakeword/{name}.onnx", *arrays)):
        assert got.size == expected.size
        if np.abs(expected).max() > NEARLY_NOTHING:
            assert cosine(got, expected) >= 0.9999


def test_mini_format_runs_or_says_why_not() -> None:
    path = fixture_file("mini/retinaface.rknn")
    try:
        context = open_cpu(path)
    except ModelUnsupported as error:
        assert "mini format" in str(error)
        return
    rng = np.random.default_rng(3)
    (dims,) = (attr.dims for attr in context.inputs)
    picture = np.clip(rng.normal(125, 60, dims), 0, 255).astype(np.uint8)
    outputs = context.infer(picture)
    expected = onnx_outputs("mini/retinaface.onnx", picture.transpose(0, 3, 1, 2))
    assert sorted(o.size for o in outputs) == sorted(e.size for e in expected)
