"""Programs in C for toolkits 1.x, in the form of the demos of that time, on librknn_api.so; all numbers are those of rknnlite."""

from __future__ import annotations

import ctypes as ct
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rknnlite_librknnrt import recipe
from rknnlite_librknnrt.headers import rknn1_include_dir
from rknnlite_rknn1rt import abi

import rknnlite
from tests.librknnrt.clients import PROGRAMS, WATCHED, environment, library, made, run
from tests.librknnrt.goldens import inferred, pixels, write
from tests.support.corpus import EXAMPLES, ROOT
from tests.support.needs import needs
from tests.support.rknn1_files import File, dfp, u8

DIGITS = EXAMPLES / "rknn1" / "digits.rknn"
PROGRAMS1 = Path(__file__).parent / "programs1"


def program(name: str) -> Path:
    """A program of ``programs1``, compiled with the header of that time and linked with librknn_api.so."""
    needs("gcc")
    lib = library(name=recipe.RKNN1_LIBRARY)
    command = [
        "gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", *WATCHED, f"-I{rknn1_include_dir()}", f"-I{PROGRAMS}", "-o", "{out}",
        str(PROGRAMS1 / name), f"-L{lib.parent}", "-lrknn_api",
    ]  # fmt: skip
    inputs = [PROGRAMS1 / name, lib, PROGRAMS / "check.h", *rknn1_include_dir().glob("*.h")]
    return made(Path(name).stem, command, inputs)


def start(name: str, *words: object) -> str:
    done = run([program(name), *words], env=environment(library(name=recipe.RKNN1_LIBRARY)))
    return str(done.stdout)


def golden(folder: Path, model: Path, count: int = 1) -> None:
    """Frames in0, in1, ... and their first outputs."""
    with rknnlite.open(model, backend="cpu") as context:
        shape = context.inputs[0].dims
    for frame in range(count):
        write(
            folder, f"out{frame}", inferred(model, [write(folder, f"in{frame}", pixels(frame, *shape))])[0][0]
        )


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    """A picture to two outputs, int8 in fixed point and uint8."""
    file = File()
    picture = file.input((1, 3, 16, 16), u8(1 / 255))
    half = file.node("RELU", [picture], dfp("INT8", 6))
    same = file.node("RELU", [picture], u8(1 / 128, 3))
    for ref in (half, same):
        file.output(ref, (1, 3, 16, 16))
    path = tmp_path / "detector.rknn"
    path.write_bytes(file.data)
    return path


def test_classification(tmp_path: Path) -> None:
    golden(tmp_path, DIGITS)
    told = start("classification.c", DIGITS, tmp_path)
    assert "model input num: 1, output num: 1" in told
    with rknnlite.open(DIGITS, backend="cpu") as context:
        (attr,) = context.native_inputs
    dims = re.search(r"dims=\[(\d+) (\d+) (\d+) (\d+)\]", told)
    assert dims and tuple(map(int, dims.groups())) == attr.dims and f"type={int(attr.dtype)} " in told


def test_detection(tmp_path: Path, detector: Path) -> None:
    with rknnlite.open(detector, backend="cpu") as context:
        picture = write(tmp_path, "in0", pixels(0, *context.inputs[0].dims))
    for number, output in enumerate(inferred(detector, [picture])[0]):
        write(tmp_path, f"out{number}", output)
    told = start("detection.c", detector, tmp_path, 2)
    assert "qnt_type=1 fl=6" in told and "qnt_type=2 fl=0" in told


def test_asynchronous_mode(tmp_path: Path) -> None:
    golden(tmp_path, DIGITS, 2)
    start("asynchronous.c", DIGITS, tmp_path)


def test_memory(tmp_path: Path) -> None:
    file = File()
    picture = file.input((1, 3, 8, 16), u8(1 / 255))
    file.output(file.node("RELU", [picture], u8(1 / 128, 3)), (1, 3, 8, 16))
    model = tmp_path / "model.rknn"
    model.write_bytes(file.data)
    elements = write(tmp_path, "native", pixels(1, 1, 3, 8, 16))
    with rknnlite.open(model, backend="cpu") as context:
        (output,) = context.infer([elements], pass_through=True, raw=True)
    write(tmp_path, "stored", output.data)
    start("mapped.c", model, tmp_path)


def test_it_exports_what_the_library_of_a_board_does_and_no_more() -> None:
    found = subprocess.run(
        ["nm", "-D", "--defined-only", library(name=recipe.RKNN1_LIBRARY)],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.split()[-1] for line in found.stdout.splitlines()}
    assert names == {*abi.BASE_FUNCTIONS, *abi.BOARD_ONLY, "rknnlite_librknn1_marker"}


def test_the_header_has_the_measured_structures(tmp_path: Path) -> None:
    needs("gcc")
    lines = ["#include <stddef.h>", "#include <stdio.h>", '#include "rknn_api.h"', "int main(void) {"]
    expected = []
    for name, struct in abi.STRUCTURES.items():
        if name in ("rknn_devices_id", "rknn_init_extend"):  # of hosts
            continue
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        expected.append(ct.sizeof(struct))
        for field in struct._fields_:
            lines.append(f'printf("%zu\\n", offsetof({name}, {field[0]}));')
            expected.append(getattr(struct, field[0]).offset)
    (tmp_path / "sizes.c").write_text("\n".join([*lines, "return 0; }"]), "utf-8")
    subprocess.run(["gcc", f"-I{rknn1_include_dir()}", "sizes.c", "-o", "sizes"], cwd=tmp_path, check=True)
    needs("g++")
    command = [
        "g++",
        "-x",
        "c++",
        "-std=c++11",
        "-Wall",
        "-Werror",
        "-fsyntax-only",
        f"-I{rknn1_include_dir()}",
        "sizes.c",
    ]
    subprocess.run(command, cwd=tmp_path, check=True)
    told = subprocess.run([tmp_path / "sizes"], capture_output=True, text=True, check=True).stdout
    assert list(map(int, told.split())) == expected


def test_the_backend_for_boards_leaves_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from rknnlite_rknn1rt.backend import Rknn1Backend

    monkeypatch.setenv("RKNNLITE_RKNN1_LIBRARY", str(library(name=recipe.RKNN1_LIBRARY)))
    found = Rknn1Backend().probe()
    assert not found.available and "rknnlite's own library" in found.reason


SCRIPT = """
import sys
import numpy as np
from rknnlite.api import RKNNLite

rknn_lite = RKNNLite(verbose=False)
assert rknn_lite.load_rknn(sys.argv[1], load_model_in_npu=False) == 0
print(rknn_lite.list_devices())
ret = rknn_lite.init_runtime(
    target="rv1126", target_sub_class=None, device_id=None, perf_debug=True, eval_mem=True, async_mode=False, rknn2precompile=False
)
assert ret == 0, "Init runtime environment failed"
print(rknn_lite.get_sdk_version())
img = np.fromfile(sys.argv[2] + "/in0.u8", np.uint8).reshape(32, 32, 3)  # without a batch dimension
outputs = rknn_lite.inference(inputs=[img], data_type="uint8", data_format="nhwc", inputs_pass_through=None, get_frame_id=True)
assert outputs[-1] == 0
assert (outputs[0].reshape(-1) == np.fromfile(sys.argv[2] + "/out0.f32", np.float32)).all()
print("digit", outputs[0].reshape(-1).argmax())
rknn_lite.release()
"""


@pytest.mark.slow
def test_it_runs_under_exec_and_the_command_tells_how_to_compile(tmp_path: Path) -> None:
    needs("gcc")
    golden(tmp_path, DIGITS)
    variables = {
        **os.environ, "RKNNLITE_CACHE": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    }  # fmt: skip

    def command(*words: object) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "rknnlite", *map(str, words)],
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    told = command("librknnrt", "--rknn1", "--cflags", "--libs").split()
    assert told[-1] == "-lrknn_api"
    compile_ = [
        "gcc",
        str(PROGRAMS1 / "classification.c"),
        f"-I{PROGRAMS}",
        *told,
        "-o",
        str(tmp_path / "demo"),
    ]
    subprocess.run(compile_, check=True)
    assert "model input num: 1" in command("exec", "--", tmp_path / "demo", DIGITS, tmp_path)
    assert np.fromfile(tmp_path / "out0.f32", np.float32).size == 10
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, "utf-8")
    told = command(
        "exec", "--", sys.executable, script, DIGITS, tmp_path
    )  # which finds a librknn_api.so that is ours
    assert "None devices connected." in told and "API: rknnlite CPU reference" in told and "\ndigit " in told
