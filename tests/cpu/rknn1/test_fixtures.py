"""Files of the first toolkit, made by others, on the CPU reference: against the chip maker's simulator and paired networks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rknnlite.formats import ModelFile
from tests.support.corpus import FIXTURES
from tools.sweep1.answers import answer

FOLDER = FIXTURES.with_name(f"{FIXTURES.name}-rknn1")
NAMES = sorted(path.stem for path in FOLDER.glob("synthetic/*.rknn")) or ["none"]
STEPS = {
    "add_u8": 0.998, "clip_u8": 0.96, "leaky_u8": 0.997, "prelu_u8": 0.98, "relu6_u8": 0.99, "sigmoid_u8": 0.98,
    "resize_bilinear_legacy_u8": 0.99, "resize_bilinear_u8": 0.99, "swish_u8": 0.99,
}  # fmt: skip
"""Shares of equal elements of what is looked up or interpolated there; the rest is one step away."""
HALVES = ("conv_f16", "softmax_u8_f16")


def load(name: str) -> tuple[Path, dict[str, np.ndarray]]:
    """A file and its archive; the test is skipped where they are absent."""
    path = FOLDER / f"{name}.rknn"
    if not path.exists():
        pytest.skip(
            "no files of the first generation beside the folder of third-party files (RKNNLITE_FIXTURES)"
        )
    with np.load(path.with_suffix(".npz")) as stored:
        return path, {key: stored[key] for key in stored.files}


def ours(path: Path, stored: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Stored outputs for the stored inputs, which are of the graph's own shapes."""
    model = ModelFile(path).model
    inputs = [stored[key] for key in sorted(stored) if key[0] == "x"]
    turned = [
        x.transpose(0, 3, 1, 2) if x.shape != io.shape and x.ndim == 4 else x
        for x, io in zip(inputs, model.inputs)
    ]
    return answer(path.read_bytes(), [x.reshape(io.shape) for x, io in zip(turned, model.inputs)])


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def real(path: Path, outputs: list[np.ndarray]) -> list[np.ndarray]:
    """Dequantised outputs."""
    quants = [io.quant for io in ModelFile(path).model.outputs]
    return [
        y.astype(np.float64) if q is None else (y.astype(np.float64) - q.zero_point) * q.scale
        for y, q in zip(outputs, quants)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_one_operator(name: str) -> None:
    path, stored = load(f"synthetic/{name}")
    (found,), want = ours(path, stored), stored["y"]
    found = found.reshape(want.shape).astype(np.float64)
    apart = np.abs(found - want.astype(np.float64))
    if name in HALVES:
        assert apart.max() <= 0.01 and cosine(found, want) > 0.9999
    elif name in STEPS:
        assert apart.max() <= 1 and (apart == 0).mean() >= STEPS[name]
    else:
        assert apart.max() == 0


def test_equal_network() -> None:
    path, stored = load("field/mnist_rv1126")
    (found,) = ours(path, stored)
    want = stored.get("sim0", stored["interp"] if "interp" in stored else stored.get("interp0"))
    assert want is not None and np.array_equal(found.ravel(), want.ravel())


@pytest.mark.slow
def test_text_detector_of_toolkit_160() -> None:
    """Against an interpreter that computes limits, slopes and sums exactly, to which the reference was equal before it did as the
    simulator. The simulator itself cannot stand for it: it takes the (I, O) weights of the last two layers, 24 x 24 and 24 x 1,
    as (O, I), and is equal to neither (57.7 % to both). Where a sum or a limit differs by a step, a pixel of the mask may turn."""
    path, stored = load("field/ocrdet_rv1126_tk160")
    (found,), want = ours(path, stored), stored["interp"]
    assert cosine(found, want) > 0.99 and (found.ravel() == want.ravel()).mean() > 0.99


@pytest.mark.parametrize("name", ["lstm_rk1808_tk140", "lstm_rk1808_tk160"])
def test_lstm(name: str) -> None:
    path, stored = load(f"field/{name}")
    apart = np.abs(ours(path, stored)[0].astype(int).ravel() - stored["sim0"].astype(int).ravel())
    assert (apart == 0).mean() >= 0.85 and apart.max() <= 1


def test_plates() -> None:
    path, stored = load("field/plate_ssd_tk121")
    for number, found in enumerate(ours(path, stored)):
        assert cosine(found, stored[f"sim{number}"]) >= 0.99998
    path, stored = load("field/charrecog_tk121")
    assert cosine(ours(path, stored)[0], stored["sim0"]) >= 0.99998


@pytest.mark.slow
def test_text_detector_of_toolkit_173() -> None:
    """Against its ONNX: more of the text than the first interpreter found (32,261 of 33,415 pixels)."""
    path, stored = load("field/ocrdet_rv1126_tk173")
    (found,) = real(path, ours(path, stored))
    network = stored["onnx"].astype(np.float64)
    text = network.ravel() > 0.3
    assert cosine(found, network) > 0.985 and (found.ravel()[text] > 0.3).sum() > 33_000


@pytest.mark.slow
def test_yolov5_lite_against_its_network() -> None:
    """Cosines of box columns and of classes."""
    path, stored = load("field/yolov5lite_rv1126")
    outputs = real(path, ours(path, stored))
    network = stored["onnx"].astype(np.float64).reshape(-1, 6)
    found = (
        np.concatenate([y.reshape(-1, 6) for y in outputs]) if len(outputs) > 1 else outputs[0].reshape(-1, 6)
    )
    assert min(cosine(found[:, k], network[:, k]) for k in range(4)) >= 0.9995
    assert cosine(found[:, 5:], network[:, 5:]) >= 0.9999
