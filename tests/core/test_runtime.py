"""``rknnlite.open``: options, custom operators and errors on the CPU reference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite import plugins
from rknnlite.errors import (
    ModelInvalid,
    ModelUnsupported,
    ParamInvalid,
    TargetPlatformUnmatch,
)
from rknnlite.formats import ModelFile
from tests.support.corpus import genuine

from .test_plugins import EntryPoint, Offer, clear


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Installs backends instead of the real plugins."""

    def install(*backends: Any, **broken: Exception) -> None:
        clear()
        found = [EntryPoint("toys", Offer(*backends)), *(EntryPoint(n, e) for n, e in broken.items())]
        monkeypatch.setattr(plugins, "_entry_points", lambda: found)

    yield install
    clear()


# -- rknnlite.open on the CPU reference -----------------------------------------------------------------------


@pytest.fixture
def cpu(offer: Any) -> None:
    """The CPU reference alone, installed or not."""
    from rknnlite_cpu.backend import CpuBackend

    offer(CpuBackend())


CONV = "conv_1x1.rk3588.i8"


@pytest.mark.usefixtures("cpu")
def test_open_takes_paths_and_bytes() -> None:
    path = genuine(CONV)
    data = path.read_bytes()
    for source in (path, str(path), data, bytearray(data), memoryview(data), ModelFile(path)):
        with rknnlite.open(source) as context:
            (scores,) = context.infer(np.zeros(context.inputs[0].dims, np.uint8))
            assert scores.shape == context.outputs[0].dims and context.backend_name == "cpu"


@pytest.mark.usefixtures("cpu")
def test_open_plays_the_soc_of_the_model_or_the_one_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = genuine("conv_relu.rk3566.i8")
    assert rknnlite.open(shared).soc.name == "rk3566"
    assert rknnlite.open(shared, soc="RK3568").soc.name == "rk3568"
    monkeypatch.setenv("RKNNLITE_SOC", "rk3568")
    assert rknnlite.open(shared).soc.name == "rk3568"
    with pytest.raises(TargetPlatformUnmatch, match=r"was built for rk3566.*, not for rk3588") as caught:
        rknnlite.open(shared, soc="rk3588")
    assert caught.value.code == -13
    with pytest.raises(ParamInvalid, match="unknown SoC 'z80'"):
        rknnlite.open(shared, soc="z80")


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("conv_1x1.rk3588.i8", [0, 1, 2, 4, 3, 7, 0xFFFF]),
        ("conv_1x1.rk3576.i8", [0, 1, 2, 3, 0xFFFF]),
        ("conv_relu.rk3566.i8", []),
        ("conv_relu.rk3562.i8", []),
        ("conv_relu.rv1126b.i8", []),
    ],
)
def test_core_masks_follow_the_soc(name: str, legal: list[int]) -> None:
    context = rknnlite.open(genuine(name))
    for mask in [0, 1, 2, 3, 4, 5, 6, 7, 8, 0xFFFF, -1]:
        if mask in legal:
            context.set_core_mask(mask)
            rknnlite.open(genuine(name), core_mask=mask).close()
        else:
            with pytest.raises((ParamInvalid, TargetPlatformUnmatch), match=r"core mask"):
                context.set_core_mask(mask)
            if mask:
                with pytest.raises((ParamInvalid, TargetPlatformUnmatch)):
                    rknnlite.open(genuine(name), core_mask=mask)
    assert context.infer(np.zeros(context.inputs[0].dims, np.uint8)), (
        "a refused mask leaves the context usable"
    )


@pytest.mark.usefixtures("cpu")
def test_what_is_wrong_with_the_model_keeps_its_type(tmp_path: Path) -> None:
    with pytest.raises(ModelInvalid, match=r"nowhere.rknn: cannot be read: No such file"):
        rknnlite.open(tmp_path / "nowhere.rknn")
    with pytest.raises(ModelUnsupported, match="encrypted"):
        rknnlite.open(b"CYPTRKNN" + bytes(64))
