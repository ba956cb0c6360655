"""librknnmrt.so: programs for RV1103 and RV1106, and what stands for the devices and libraries that they use besides."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rknnlite_librknnrt import recipe

from tests.librknnrt.clients import environment, errors, library, program, run
from tests.librknnrt.goldens import inferred, pixels, write
from tests.support.corpus import ROOT, genuine

ABI = ROOT.parent / "shared" / "reference" / "rknnrt-abi.json"
LIBRARIES = (recipe.MINI_LIBRARY, *(name for name in recipe.BOARD_LIBRARIES if "libmpimmz" not in name))
MODELS = (
    "conv_uneven.rv1106.i8",
    "unet_like.rv1106.i8",
    "mobilenetv2_like.rv1106.i8",
    "conv_uneven.rv1106b.i8",
)
HEAP = {"open", "open64", "ioctl"}
"""What programs find before the C library's: the device node of the heap is played there."""


def exported(file: Path) -> set[str]:
    done = subprocess.run(["nm", "-D", "--defined-only", file], capture_output=True, text=True, check=True)
    return {line.split()[2] for line in done.stdout.splitlines()}


def prepared(model: Path, folder: Path) -> list[np.ndarray]:
    """Writes a picture, and its outputs: real, and stored with the channels last. Returns the stored ones."""
    name = re.sub(r"\..*", "", model.name)
    shapes = {"conv_uneven": (14, 12, 4), "unet_like": (16, 16, 3), "mobilenetv2_like": (40, 40, 3)}
    floats, stored = inferred(model, [write(folder, "in0", pixels(3, 1, *shapes[name]))])
    for i, (real, whole) in enumerate(zip(floats, stored)):
        write(folder, f"out{i}", real)
        write(folder, f"out{i}", whole.transpose(0, 2, 3, 1) if whole.ndim == 4 else whole)
    return stored


@pytest.mark.parametrize(
    "name",
    ["conv_uneven.rv1106.i8", "unet_like.rv1106.i8", "mobilenetv2_like.rv1106.i8", "conv_uneven.rv1106b.i8"],
)
def test_a_program_in_the_order_of_the_vendors_demos(name: str, tmp_path: Path) -> None:
    model = genuine(name)
    prepared(model, tmp_path)
    made = program("mini.c", libraries=(recipe.MINI_LIBRARY,))
    lines = run(
        [made, model, tmp_path, genuine("conv_relu.rk3588.i8")],
        env=environment(library(name=recipe.MINI_LIBRARY)),
    ).stderr
    told = re.findall(r"^E librknnmrt \(rknnlite\): (\w+): (.+) \(error (-\d+)\)$", lines, re.MULTILINE)
    assert [(function, code) for function, _, code in told] == [
        *[("rknn_mem_sync", "-7")] * 2, ("rknn_inputs_set", "-5"), ("rknn_outputs_get", "-5"), ("rknn_outputs_release", "-5"),
        ("rknn_dup_context", "-1"), ("rknn_query", "-1"), ("rknn_init", "-13"),
    ], lines  # fmt: skip
    assert "command 4" in told[-2][1], "the range (13) is refused without a word"
    assert "the model is for rk3588; librknnmrt runs those for RV1103 and RV1106" in told[-1][1]
    assert "by rknn_set_io_mem" in told[2][1]


def test_heap_media_memory_and_pictures(tmp_path: Path) -> None:
    model = genuine("unet_like.rv1106.i8")
    prepared(model, tmp_path)
    libraries = [library(name=name) for name in LIBRARIES]
    run(
        [program("mini_memory.c", libraries=LIBRARIES), model, tmp_path],
        env=environment(*libraries),
        cwd=tmp_path,
    )


def test_it_has_the_functions_of_the_vendors_and_no_others() -> None:
    """All but those of matmul, of custom operators, of cores and of dynamic shapes, as librknnmrt 2.3.2 was seen to be."""
    file = library(name=recipe.MINI_LIBRARY)
    found = exported(file) - HEAP - {"rknnlite_librknnrt_marker"}
    assert len(found) == 19
    if ABI.is_file():
        known = json.loads(ABI.read_text())["functions"]
        lacking = ("matmul", "custom_op", "core", "native_layout", "input_shape")
        assert found == {name for name in known if not any(word in name for word in lacking)}
    for name in (recipe.MINI_LIBRARY, *recipe.BOARD_LIBRARIES):
        read = subprocess.run(
            ["readelf", "-d", library(name=name)], capture_output=True, text=True, check=True
        )
        assert f"[{Path(name).name}]" in read.stdout, "its own soname"


def test_both_media_libraries_have_the_same() -> None:
    rockit, mmz, _ = (exported(library(name=name)) for name in recipe.BOARD_LIBRARIES)
    assert rockit == mmz and all(name.startswith("RK_MPI_") for name in rockit)


def test_a_question_that_every_program_asks_is_no_error() -> None:
    """Command 13 of static shapes: the code is the vendor's, and nothing is said, whatever lies in the structure."""
    script = (
        "import ctypes, sys; dll = ctypes.CDLL('librknnrt.so'); context = ctypes.c_size_t(); "
        "assert dll.rknn_init(ctypes.byref(context), sys.argv[1].encode(), 0, 0, None) == 0; "
        "room = (ctypes.c_uint32 * 10000)(); "
        "assert dll.rknn_query(context, 13, room, ctypes.sizeof(room)) == -6; "
        "room[0] = 9; assert dll.rknn_query(context, 1, room, ctypes.sizeof(room)) == -5"
    )
    done = run([sys.executable, "-c", script, genuine("conv_relu.rk3588.i8")])
    assert len(errors(done.stderr)) == 1 and "there is no input 9" in done.stderr
