"""The host flavour: devices behind USB, named when a model is opened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rknnlite_backend.library import FunctionMissing
from rknnlite_rknn1rt.backend import Rknn1Backend

import rknnlite
from rknnlite.choosing import devices
from rknnlite.errors import DeviceUnavailable, ParamInvalid
from tests.doubles.rknn1.double1 import Double1, model

from .conftest import picture, scores


def test_devices(host: Double1) -> None:
    assert [(device.id, device.soc) for device in Rknn1Backend().devices()] == [
        ("usb-0", "rk1808"),
        ("usb-1", "rk1808"),
    ]
    assert [device.id for device in devices()["rknn1rt"]] == ["usb-0", "usb-1"]
    assert Rknn1Backend().probe().devices == ("usb-0", "usb-1")
    assert Rknn1Backend().boards("usb-1") == ["usb-1"]
    host.fault("rknn_find_devices", -1)
    assert Rknn1Backend().devices() == []


def test_a_device_by_its_name(host: Double1) -> None:
    with rknnlite.open(model(), device_id="usb-1") as context:
        assert host.device == "usb-1" and host.count("rknn_init2") == 1
        np.testing.assert_array_equal(context.infer(picture())[0], scores(picture()))
    with rknnlite.open(model()):
        assert host.device == "", "rknn_init with four arguments leaves the choice to the library"
    with pytest.raises(DeviceUnavailable, match="device 'usb-7' is not there"):
        rknnlite.open(model(), device_id="usb-7")


def test_a_board_has_no_names(double: Double1) -> None:
    with pytest.raises(
        ParamInvalid, match="device_id 'usb-0' was given, but this librknn_api drives the board's own"
    ):
        rknnlite.open(model(), device_id="usb-0")


def test_nothing_plugged_in(host: Double1, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RKNNLITE_RKNN1_LIBRARY")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(host.path.parent))
    assert Rknn1Backend().probe().available
    host.devices(0)
    probe = Rknn1Backend().probe()
    assert not probe.available and "plugged in" in probe.reason


def test_no_shared_memory_and_no_precompiling(host: Double1) -> None:
    with rknnlite.open(model()) as context:
        with pytest.raises(FunctionMissing, match=r"rknn_inputs_map.*host flavour"):
            context.map_inputs()
        with pytest.raises(FunctionMissing, match=r"rknn_create_mem.*host flavour"):
            context.create_mem(72)
    with pytest.raises(ParamInvalid, match="precompile is of the board flavour"):
        rknnlite.open(model(), precompile=True)


def test_a_model_on_the_device(host: Double1, tmp_path: Path) -> None:
    """Its path goes to the library, which alone can read it."""
    path = tmp_path / "on_device.rknn"
    path.write_bytes(model())
    with rknnlite.open(path, load_model_in_npu=True) as context:
        assert host.flags() == 16 and host.size == len(str(path))
        np.testing.assert_array_equal(context.infer(picture())[0], scores(picture()))
    with pytest.raises(ParamInvalid, match="takes the path"):
        rknnlite.open(model(), load_model_in_npu=True)
