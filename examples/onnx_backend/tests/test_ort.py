"""The backend on an ONNX file of two inputs and free shapes, through the package's own classes and as an installed plugin."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from rknnlite_ort.backend import OrtBackend

import rknnlite
from rknnlite.errors import InputInvalid, ModelInvalid, ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi import OpenOptions

MODEL = Path(__file__).with_name("weighted.onnx")
WEIGHTS = np.array([[1, 2, 3]], np.float32)


def picture(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height).integers(0, 255, (1, height, width, 3)).astype(np.uint8)


@pytest.fixture
def context() -> Iterator[rknnlite.Context]:
    with OrtBackend().open(ModelFile(MODEL), OpenOptions()) as opened:
        yield opened


def test_free_dimensions_are_announced_by_two_examples(context: rknnlite.Context) -> None:
    assert context.shapes == [[(1, 64, 64, 3), (1, 3)], [(2, 128, 128, 3), (2, 3)]]
    assert [attr.dims for attr in context.inputs] == context.shapes[0]
    assert [attr.dims for attr in context.outputs] == [(1, 3), (1, 3, 64, 64)]


@pytest.mark.parametrize("size", [(24, 40), (7, 5), (24, 40)])
def test_any_shape_runs(context: rknnlite.Context, size: tuple[int, int]) -> None:
    given = picture(*size)
    scores, doubled = context.infer(given, WEIGHTS)
    assert np.allclose(scores, given.mean((1, 2)) * WEIGHTS, rtol=1e-5)
    assert np.array_equal(doubled, 2.0 * given.transpose(0, 3, 1, 2))
    assert context.outputs[1].dims == (1, 3, *size)
    planes = context.infer({"weights": WEIGHTS, "picture": given.transpose(0, 3, 1, 2)}, layout="nchw")
    assert np.array_equal(planes[0], scores)


def test_what_the_network_does_not_take_is_an_error(context: rknnlite.Context) -> None:
    with pytest.raises(InputInvalid, match="like"):
        context.infer(np.zeros((1, 8, 8, 4), np.uint8), WEIGHTS)
    with pytest.raises(ParamInvalid, match="like"):
        context.set_shapes([(1, 8, 8, 3)])
    with pytest.raises(ParamInvalid, match="core mask"):
        context.set_core_mask(8)


def test_other_files_are_left_to_other_backends() -> None:
    backend = OrtBackend()
    assert backend.refuses(ModelFile(MODEL)) is None
    assert "no ONNX file" in str(backend.refuses(ModelFile(b"RKNN and more")))
    for data in (b"any bytes", b"\x08\x08\x12", MODEL.read_bytes()[:-20]):
        with pytest.raises(ModelInvalid):
            backend.open(ModelFile(data), OpenOptions())


def test_the_installed_package_is_found() -> None:
    entries = metadata.entry_points()
    named = entries.select(group="rknnlite") if hasattr(entries, "select") else entries.get("rknnlite", [])
    if "rknnlite_ort" not in {entry.value for entry in named}:
        pytest.skip("install the package first: pip install -e .")
    with rknnlite.open(MODEL) as context:  # no other backend reads the file
        assert context.backend_name == "ort"
