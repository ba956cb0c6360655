"""``rknnlite doctor --try-npu``: on both kernels, on ones that misbehave, and without any."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import zipfile
from pathlib import Path

import pytest
import rknnlite_npu.kernel.trial as trial

from rknnlite.formats import ModelFile
from rknnlite.socs import SOCS
from tests.cli.conftest import Call, call
from tests.support.corpus import genuine
from tools.npu_rig.driver import Fault
from tools.npu_rig.rocket import RocketDriver

from .rigs import CHIP, KERNELS, rig
from .test_first_meeting import WrongChip

__all__ = ["call"]  # the fixture

TRY = ("-m", "rknnlite", "doctor", "--try-npu")
NAMES = ["convolution", "pixels", "depthwise", "add", "pool", "table", "float16", "small ResNet"]
FILES = sorted((Path(trial.__file__).parent / "trials").glob("*.rknn"))
MOST = 150_000
"""Bytes that the files add to a wheel."""


@pytest.mark.parametrize("kernel", KERNELS)
def test_all_are_equal(kernel: str, tmp_path: Path) -> None:
    with rig(kernel, tmp_path / "cache") as found:
        done = found.run(*TRY)
    assert done.returncode == 0, done.stderr
    rows = re.findall(
        r"^([a-zA-Z0-9 ]+?) +equal +[\d.]+  \d+ layers, \d+ to the last bit$", done.stdout, re.M
    )
    assert rows == NAMES
    assert f"{len(NAMES)} of {len(NAMES)} models are equal" in done.stdout
    report = [line for line in done.stdout.splitlines() if line.startswith("    ")]
    pools = ", the CPU pools" if kernel == "rocket" else ""
    assert report[1].strip() == "unnamed board, RK3588"
    assert (
        report[2].strip()
        == f"{KERNELS[kernel][0]}, driver {found.driver.driver} {_version(found.driver.version)}{pools}"
    )
    assert len(report) == 3 + len(NAMES)
    assert "pool ...\n" in done.stderr, "who stands before a machine that stopped knows where"


def _version(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def test_a_chip_that_computes_wrongly(tmp_path: Path) -> None:
    with rig("rocket", tmp_path / "cache", WrongChip()) as found:
        done = found.run(*TRY, str(genuine("conv_1x1.rk3588.i8")), "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 4 and not told["equal"]
    assert [one["name"] for one in told["trials"]] == [*NAMES, "conv_1x1.rk3588.i8.rknn"]
    assert told["trials"][0]["result"] == "DIFFERENT"
    assert re.search(
        r"layer \S+ differs: \d+ of \d+ values, the first \(\d+\) is", told["trials"][0]["detail"]
    )


@pytest.mark.slow
def test_a_task_that_does_not_end(tmp_path: Path) -> None:
    driver = RocketDriver()
    driver.faults.add(Fault("TASK", error=errno.ETIMEDOUT, times=-1))
    with rig("rocket", tmp_path / "cache", driver) as found:
        done = found.run(*TRY)
    assert done.returncode == 4
    assert len(re.findall(r"DIFFERENT +a run fails: .* wrote nothing", done.stdout)) == len(NAMES)


@pytest.mark.slow
def test_a_device_that_goes(tmp_path: Path) -> None:
    driver = RocketDriver()
    driver.faults.add(Fault("SUBMIT", error=errno.ENODEV, after=8, times=-1))
    with rig("rocket", tmp_path / "cache", driver) as found:
        done = found.run(*TRY, "--json")
    told = json.loads(done.stdout)["trials"]
    results = [one["result"] for one in told]
    assert done.returncode == 4 and results[0] == "equal" and results[-1] == "not run"
    first = results.index("not run")
    assert "the device has gone" in told[first]["detail"]
    assert set(results[first:]) == {"not run"} and told[-1]["detail"].startswith(
        f"after {told[first]['name']}: "
    )


@pytest.mark.slow
def test_a_chip_without_evidence_is_tried_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CHIP, "/proc/device-tree/compatible", b"radxa,zero-3\0rockchip,rk3568\0")
    with rig("rocket", tmp_path / "cache", RocketDriver("RKNPU lite")) as found:
        done = found.run(*TRY)
    assert re.findall(r"^    (\S.*?): equal", done.stdout, re.M) == [
        "convolution",
        "depthwise",
        "add",
        "small ResNet",
    ]
    assert done.returncode == 0


@pytest.mark.slow
def test_without_a_device_it_is_said(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import rknnlite_npu.backend as backend

    monkeypatch.setattr(backend, "_DEVICES", ("/nowhere",))
    monkeypatch.setattr("rknnlite_npu.kernel.device_nodes._PLACES", ())
    done = call("doctor", "--try-npu")
    assert done.code == 4 and "no device of an NPU with the driver rocket" in done.err


def test_files_are_those_of_the_corpus_and_few() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in FILES:
            wheel.write(file)
            assert file.read_bytes() == genuine(file.stem).read_bytes()
    assert len(FILES) >= 15 and len(packed.getvalue()) < MOST


def test_every_file_is_tried_on_a_chip_that_runs_it() -> None:
    tried: set[Path] = set()
    for soc in SOCS:
        for _, place in trial._files(soc):
            assert soc.name.upper() in ModelFile(place).model.runs_on
            tried.add(place)
    assert tried == set(FILES)
    assert [name for name, _ in trial._files(SOCS[0])] == NAMES


# -- doctor and info ----------------------------------------------------------------------------------------------

DOCTOR = ("-m", "rknnlite", "doctor")


@pytest.mark.slow
def test_doctor_tells_of_the_device_and_of_models(tmp_path: Path) -> None:
    with rig("rocket", tmp_path / "cache") as found:
        before = found.run(*DOCTOR).stdout
        found.python("import sys, rknnlite\nrknnlite.open(sys.argv[1])", genuine("mean_std.rk3588.i8"))
        after = found.run(*DOCTOR).stdout
    assert "ok    npu (chosen): /dev/accel/accel0, driver rocket 1.0.0, experimental" in before
    assert "ok    mainline Linux's way to an NPU, /dev/accel, is here" in before
    assert "no model has been compared with the CPU on this device" in before and "--try-npu" in before
    assert "models that agree with the CPU on this device: 1" in after


@pytest.mark.slow
def test_doctor_names_the_model_that_differs_and_who_runs_it(tmp_path: Path) -> None:
    model = genuine("mean_std.rk3588.i8")
    with rig("rocket", tmp_path / "cache", WrongChip()) as found:
        done = found.run(*DOCTOR, str(model))
        told = found.run(*DOCTOR).stdout
        info = json.loads(found.run("-m", "rknnlite", "info", str(model), "--json").stdout)
    assert re.search(r"info  backend npu leaves it to cpu: on Linux .* layer \S+ differs", done.stdout)
    assert re.search(r"warn  .*mean_std.rk3588.i8.rknn: layer \S+ differs: .*; left to other backends", told)
    assert info["npu_verdict"]["agrees"] is False and "differs" in info["npu_verdict"]["text"]


@pytest.mark.slow
@pytest.mark.parametrize("error", [errno.EACCES, errno.ENODEV])
def test_doctor_tells_who_may_use_a_device_that_is_closed(error: int, tmp_path: Path) -> None:
    code = (
        "import os, sys\nreal = os.open\n"
        "def opened(path, *rest, **more):\n"
        f"    if str(path).startswith('/dev/accel'): raise OSError({error}, os.strerror({error}))\n"
        "    return real(path, *rest, **more)\n"
        "os.open = opened\nfrom rknnlite.__main__ import main\nmain(['doctor'])"
    )
    with rig("rocket", tmp_path / "cache") as found:
        told = found.run("-c", code).stdout
    closed = error == errno.EACCES
    assert f"warn  /dev/accel/accel0: {os.strerror(error)}" in told
    assert ("udev" in told or "usermod -aG" in told) is closed, told


def test_info_says_nothing_of_it_on_a_machine_without(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rknnlite_npu.backend._DEVICES", ("/nowhere",))
    assert "backend npu" not in call("info", genuine("mean_std.rk3588.i8")).out


@pytest.mark.slow
def test_info_tells_what_was_found(tmp_path: Path) -> None:
    model = str(genuine("mean_std.rk3588.i8"))
    with rig("rknpu", tmp_path / "cache") as found:
        before = found.run("-m", "rknnlite", "info", model).stdout
        found.python("import sys, rknnlite\nrknnlite.open(sys.argv[1])", model)
        after = found.run("-m", "rknnlite", "info", model).stdout
        other = found.run("-m", "rknnlite", "info", str(genuine("conv_relu.rk3576.i8"))).stdout
    assert "backend npu:   experimental; not compared with the CPU on this device yet" in before
    assert "backend npu:   experimental; 1 layers agree" in after
    assert "backend npu" not in other
