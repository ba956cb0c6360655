"""The vendor's kernels: a DRM device and ``/dev/rknpu``, their revisions, and what memory is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from rknnlite_npu.rknpu_abi import REVISIONS, MemFlag, revision_of

from tools.npu_rig.kernel import Kernel
from tools.npu_rig.rknpu import RknpuDriver
from tools.npu_rig.rknpu_node import RknpuNodeDriver

from .rigs import CHIP, Rig, rig
from .test_kernels import BESIDE_THE_MACHINE, IMAGE, SMALL

NODE = "/dev/rknpu"

MEMORY = """
import dataclasses, sys
import numpy as np
import rknnlite
from rknnlite.tensor import DType
from rknnlite_npu.kernel.self_test import random_inputs
with rknnlite.open(sys.argv[1], backend="npu") as npu, rknnlite.open(sys.argv[1], backend="npu") as other:
    (image,) = random_inputs(npu.inputs, 3)
    wanted = npu.infer(image, raw=True)
    flags = int(sys.argv[2])
    attr = dataclasses.replace(other.native_inputs[0], dtype=DType.UINT8, pass_through=False)
    frame = npu.create_mem(attr.size_with_stride, flags)
    twice = [other.import_mem(frame.fd, frame.size) for _ in range(2)]
    results = [other.create_mem(out.size_with_stride, flags) for out in other.native_outputs]
    for out, memory in zip(other.native_outputs, results):
        other.bind(out, memory)
    stride = attr.w_stride or attr.dims[2]
    rows = frame.ndarray[: attr.dims[1] * stride * attr.dims[3]].reshape(attr.dims[1], stride, -1)
    rows[:, : attr.dims[2]] = image[0]
    for memory in twice:
        other.bind(attr, memory)
        for result in results:
            result.ndarray[:] = 0x55
        other.run()
        print(hash(b"".join(bytes(result.ndarray) for result in results)))
        memory.close()
    other.bind(attr, other.import_mem(frame.fd, frame.size))
    other.run()
    print(hash(b"".join(bytes(result.ndarray) for result in results)))
"""


def on_node(driver: RknpuNodeDriver, folder: Path) -> Rig:
    """A kernel of RV110x's with our machine."""
    folder.mkdir(mode=0o700)
    return Rig(Kernel({NODE: driver}, CHIP), driver, folder)


@pytest.mark.slow
@pytest.mark.parametrize("version", [(0, 8, 2), (0, 9, 8)])
def test_a_device_without_drm(version: tuple[int, int, int], tmp_path: Path) -> None:
    """Old drivers do nothing for a request that has not exactly their size, and say that it went well."""
    found = on_node(RknpuNodeDriver(version=version), tmp_path / "cache")
    with found.kernel:
        assert found.python(BESIDE_THE_MACHINE, IMAGE, SMALL).split() == ["True", "True"]
        hashes = found.python(MEMORY, IMAGE, 0).split()
        found.kernel.idle()
        assert len(set(hashes)) == 1 and len(hashes) == 3
        assert found.kernel.errors == [] and found.driver.held == 0 and found.driver.refusals == []


@pytest.mark.parametrize("version", [(0, 8, 2), (0, 9, 6), (0, 9, 8)])
def test_memory_is_asked_for_as_the_driver_knows_it(version: tuple[int, int, int], tmp_path: Path) -> None:
    """It refuses flags that came later."""
    driver = RknpuDriver(version=version)
    with rig("rknpu", tmp_path / "cache", driver) as found:
        assert found.python(BESIDE_THE_MACHINE, IMAGE).split() == ["True"]
    newer = version >= (0, 9, 7)
    assert any(MemFlag.LIMIT_IOVA_ALIGNMENT in flags for flags in driver.flags) == newer
    assert any(MemFlag.KERNEL_MAPPING in flags for flags in driver.flags)


def test_revisions() -> None:
    assert [revision_of(version) for version in ((0, 9, 8), (0, 9, 7))] == [REVISIONS[0]] * 2
    assert revision_of((0, 9, 6)) is revision_of((0, 4, 2)) is REVISIONS[-1]
    assert not revision_of((0, 9, 6)).tells_time


@pytest.mark.parametrize(("flags", "sram"), [(0, 0), (2, 0), (4, 0), (4, 1 << 20), (6, 1 << 20)])
def test_memory_of_the_programs(flags: int, sram: int, tmp_path: Path) -> None:
    """Imported twice, and closed once; without caches there is nothing to sync; SRAM where the driver has some."""
    driver = RknpuDriver()
    driver.sram = sram
    with rig("rknpu", tmp_path / "cache", driver) as found:
        hashes = found.python(MEMORY, IMAGE, flags).split()
        found.kernel.idle()
    assert len(set(hashes)) == 1 and len(hashes) == 3 and driver.held == 0
    assert any(MemFlag.TRY_SRAM in asked for asked in driver.flags) == bool(sram and flags & 4)
    own = [asked for asked in driver.flags if MemFlag.LIMIT_IOVA_ALIGNMENT in asked]
    assert any(MemFlag.CACHEABLE not in asked for asked in own) == bool(flags & 2)


@pytest.mark.parametrize("asked", [False, True])
def test_activations_in_sram(asked: bool, tmp_path: Path) -> None:
    """As far as it reaches: ``sram=True`` at open."""
    code = "import sys, rknnlite\nrknnlite.open(sys.argv[1], backend='npu', sram=bool(int(sys.argv[2]))).dup().close()"
    driver = RknpuDriver()
    driver.sram = 1 << 20
    with rig("rknpu", tmp_path / "cache", driver) as found:
        found.python(BESIDE_THE_MACHINE, IMAGE)
        driver.flags.clear()
        found.python(code, IMAGE, int(asked))
    assert sum(MemFlag.TRY_SRAM in flags for flags in driver.flags) == (2 if asked else 0)
