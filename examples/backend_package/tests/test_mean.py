"""The backend on a genuine model, through the package's own classes and as an installed plugin."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from rknnlite_mean.backend import MeanBackend

import rknnlite
from rknnlite.errors import ContextInvalid, ModelInvalid, ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi import OpenOptions

MODEL = Path(__file__).with_name("picture_for_RK3588.rknn")
PICTURE = np.full((1, 24, 24, 3), 3, np.uint8)


@pytest.fixture
def context() -> Iterator[rknnlite.Context]:
    with MeanBackend().open(ModelFile(MODEL), OpenOptions()) as opened:
        yield opened


def test_the_attributes_are_those_of_the_model(context: rknnlite.Context) -> None:
    (picture,), (result,) = context.inputs, context.outputs
    assert (picture.name, picture.dims) == ("in0", (1, 24, 24, 3))
    assert (result.name, result.dims) == ("out0", (1, 16, 12, 12))
    assert (context.soc.name, context.backend_name) == ("rk3588", "mean")


def test_every_output_is_the_mean(context: rknnlite.Context) -> None:
    (result,) = context.infer(PICTURE)
    assert result.shape == (1, 16, 12, 12) and result.dtype == np.float32 and (result == 3).all()


def test_stored_elements_stand_for_the_same_numbers(context: rknnlite.Context) -> None:
    (result,) = context.infer(PICTURE, raw=True)
    assert result.data.dtype == np.int8
    assert abs((int(result.data.flat[0]) - result.zero_point) * result.scale - 3) <= result.scale / 2


def test_the_steps_have_an_order(context: rknnlite.Context) -> None:
    with pytest.raises(ContextInvalid, match="set inputs"):
        context.run()
    with pytest.raises(ContextInvalid, match="run the model"):
        context.get_outputs()
    context.close()
    with pytest.raises(ContextInvalid, match="closed"):
        context.infer(PICTURE)


def test_what_the_soc_does_not_have_is_an_error(context: rknnlite.Context) -> None:
    context.set_core_mask(rknnlite.CoreMask.CORE_0_1)
    with pytest.raises(ParamInvalid, match="core mask"):
        context.set_core_mask(8)
    with pytest.raises(ParamInvalid, match="static shapes"):
        context.set_shapes([(1, 48, 48, 3)])


def test_a_file_that_is_no_model_is_refused() -> None:
    with pytest.raises(ModelInvalid, match="not an RKNN model"):
        MeanBackend().open(ModelFile(b"any bytes"), OpenOptions())


def test_the_installed_package_is_found() -> None:
    entries = metadata.entry_points()
    named = entries.select(group="rknnlite") if hasattr(entries, "select") else entries.get("rknnlite", [])
    if "rknnlite_mean" not in {entry.value for entry in named}:
        pytest.skip("install the package first: pip install -e .")
    with rknnlite.open(MODEL, backend="mean") as context:
        assert context.infer(PICTURE)[0].mean() == 3
