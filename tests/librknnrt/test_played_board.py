"""``rknnlite exec --soc``: programs that look for a board find one, their children too; rknnlite itself is not deceived."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Callable

import pytest
from rknnlite_librknnrt import played_board

from rknnlite import socs
from rknnlite.errors import ParamInvalid
from rknnlite.native import board as board_module
from rknnlite.native.processors import machine
from tests.support.corpus import genuine
from tests.support.needs import needs

from .test_exec import environment  # noqa: F401

HERE = Path(__file__).parent
MACHINE = platform.machine()
OTHER = "aarch64" if MACHINE != "aarch64" else "armv7l"
pytestmark = pytest.mark.slow
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(environment: dict[str, str]) -> Run:  # noqa: F811
    """Run a program on a played board; its stdout is what it printed."""

    def play(soc: str, *words: Any, code: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rknnlite", "exec", "--soc", soc, "--", *map(str, words)]
        done = subprocess.run(
            command, env={**environment, **more}, capture_output=True, text=True, check=False, timeout=240
        )
        assert done.returncode == code, done.stderr
        return done

    return play


def python(text: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(text)]


def test_a_shell_and_its_children(run: Run) -> None:
    """Also a child's child, one that was left in the background, and one that a program of another name has started."""
    script = """
        uname -m; tr '\\0' ' ' < /proc/device-tree/compatible; echo
        sh -c 'exec env sh -c "uname -m"'
        cat /sys/kernel/debug/rknpu/version /sys/kernel/debug/rknpu/load; ls /dev/dri/renderD129
        (cat /sys/class/devfreq/*npu/cur_freq &) | cat
        grep -c ^processor /proc/cpuinfo; tail -n 1 /proc/cpuinfo
    """
    done = run("rk3588", "sh", "-c", script)
    assert done.stdout.splitlines() == [
        "aarch64", "rknnlite,played-board rockchip,rk3588 ", "aarch64", "RKNPU driver: v0.9.8",
        "NPU load:  Core0:  0%, Core1:  0%, Core2:  0%,", "/dev/dri/renderD129", "1000000000", str(os.cpu_count()),
        "Hardware\t: Rockchip RK3588",
    ]  # fmt: skip
    (line,) = done.stderr.splitlines()
    assert line.startswith("rknnlite: exec: this program and its children see an RK3588 board: device tree, ")


@pytest.mark.parametrize(("soc", "name"), [("RK3588S", "rk3588"), ("rk3566", "rk3566"), ("rv1106", "rv1106")])
def test_programs_in_python_that_look_first(run: Run, soc: str, name: str) -> None:
    """As detectors of cameras and trainers of YOLO do: the SoC behind the last comma, an ARM machine, clocks by a pattern."""
    script = """
        import glob, os, pathlib, platform
        with open("/proc/device-tree/compatible") as file:
            print(file.read().split(",")[-1].strip("\\0"))
        text = pathlib.Path("/proc/device-tree/compatible").read_bytes()
        *_, last = text.decode().split(",")
        print(last.replace("\\0", "").split("-", 1)[0], os.path.exists("/sys/firmware/devicetree/base/model"))
        print(platform.machine(), os.uname().machine, platform.uname().machine)
        print(glob.glob("/sys/class/devfreq/*npu*") == [f"/sys/class/devfreq/{x}" for x in os.listdir("/sys/class/devfreq")])
    """
    arm = socs.get(name).machine
    assert run(soc, *python(script)).stdout.splitlines() == [
        name,
        f"{name} True",
        f"{arm} {arm} {arm}",
        "True",
    ]


def test_a_program_in_cpp(run: Run, tmp_path: Path) -> None:
    needs("g++")
    subprocess.run(["g++", "-O2", "-o", tmp_path / "look", HERE / "programs_board/look.cc"], check=True)
    assert run("rk3568", tmp_path / "look").stdout.splitlines() == [
        "uname aarch64", "ifstream rknnlite,played-board", "open 38", "openat 1", "fopen RK3568", "stat 000000", "node 1",
        "readlink ../sys/firmware/devicetree/base", "realpath /sys/firmware/devicetree/base/compatible",
        "opendir fde40000.npu", "glob /sys/class/devfreq/fde40000.npu/load", "chdir /sys/firmware/devicetree/base 1", "others 0-1",
    ]  # fmt: skip


def test_a_program_of_another_c_library(tmp_path: Path) -> None:
    """musl has one name where glibc has two; the library compiles for it and plays there, too."""
    needs("musl-tools")
    from rknnlite_librknnrt import recipe

    library, program, source = tmp_path / "played_board.so", tmp_path / "look", tmp_path / "look.c"
    command = recipe.command(["musl-gcc"], library, "1.0", recipe.PLAYED_LIBRARY)
    subprocess.run([word for word in command if word != "-ldl"], check=True)
    source.write_text(
        "#include <stdio.h>\n#include <sys/utsname.h>\nint main(void) { struct utsname u; char text[9] = {0}; uname(&u);"
        'FILE *f = fopen("/proc/device-tree/compatible", "r"); fread(text, 1, 8, f); puts(u.machine); puts(text); }\n'
    )
    subprocess.run(["musl-gcc", source, "-o", program], check=True)
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/compatible").write_text("rockchip")
    played = {"LD_PRELOAD": str(library), played_board.VARIABLE: f"armv9:{tmp_path}"}
    done = subprocess.run([program], env=played, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["armv9", "rockchip"]


def test_rknnlite_takes_the_machine_for_what_it_is(run: Run) -> None:
    """Libraries are those for the machine that there is, pip's wheels too; models run on the CPU reference as the SoC's."""
    script = f"""
        import sysconfig
        import numpy as np
        from rknnlite.api import RKNNLite
        from rknnlite.native.board import Board
        from rknnlite.native.processors import machine
        print(machine(), sysconfig.get_platform(), Board().soc())
        rknn = RKNNLite()
        print(rknn.load_rknn({str(genuine("conv_relu.rk3588.i8"))!r}), rknn.init_runtime(core_mask=RKNNLite.NPU_CORE_0_1_2))
        print(len(rknn.inference(inputs=[np.zeros((1, 24, 24, 3), np.uint8)])))
    """
    done = run("rk3588", *python(script))
    assert done.stdout.splitlines() == [f"{MACHINE} linux-{MACHINE} None", "0 0", "1"]
    assert "running on the CPU reference" in done.stderr


def test_c_programs_compute_on_it(run: Run) -> None:
    """The library starts this machine's Python from inside of the played board."""
    script = f"""
        import ctypes
        dll, context = ctypes.CDLL("librknnrt.so"), ctypes.c_size_t()
        print(dll.rknn_init(ctypes.byref(context), {str(genuine("conv_relu.rk3588.i8"))!r}.encode(), 0, 0, None))
    """
    assert run("rk3588", *python(script)).stdout == "0\n"


def test_the_option_counts_more_than_the_variable(run: Run) -> None:
    """What programs see and what rknnlite plays are the same SoC."""
    done = run(
        "rk3588",
        "sh",
        "-c",
        'echo "$RKNNLITE_SOC $LD_PRELOAD"',
        RKNNLITE_SOC="rk3566",
        LD_PRELOAD="libm.so.6",
    )
    soc, preloaded = done.stdout.split()
    assert soc == "rk3588" and preloaded.split(":")[1:] == ["libm.so.6"], "what was preloaded before stays"


def test_another_board_inside(run: Run) -> None:
    """The inner one counts; the preloaded library is named once."""
    words = [
        sys.executable,
        "-m",
        "rknnlite",
        "exec",
        "--soc",
        "rk3576",
        "--",
        "sh",
        "-c",
        'cat /proc/device-tree/model; echo; echo "$LD_PRELOAD"',
    ]
    model, preloaded = run("rk3588", *words).stdout.splitlines()
    assert model.startswith("RK3576 board") and preloaded.count("played_board.so") == 1


def test_limits_that_the_page_names(run: Run, tmp_path: Path) -> None:
    """A child without the environment, and a program that is linked statically, see this machine."""
    assert (
        run("rv1106" if OTHER == "armv7l" else "rk3588", "env", "-i", "uname", "-m").stdout == f"{MACHINE}\n"
    )
    needs("gcc")
    source = tmp_path / "static.c"
    source.write_text(
        "#include <stdio.h>\n#include <sys/utsname.h>\nint main(void) { struct utsname u; uname(&u); puts(u.machine); }\n"
    )
    subprocess.run(["gcc", "-static", source, "-o", tmp_path / "static"], check=True)
    assert run("rv1106", tmp_path / "static").stdout == f"{MACHINE}\n"


def test_what_is_no_board(run: Run) -> None:
    assert "rk1820 is a coprocessor: name the SoC of a board" in run("rk1820", "true", code=2).stderr
    assert "unknown SoC 'rk9999'" in run("rk9999", "true", code=2).stderr


@pytest.mark.parametrize("tree", ["radxa,rock-5b\0rockchip,rk3588\0", "pine64,rockpro64\0rockchip,rk3399\0"])
def test_a_real_board_is_never_covered(tree: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/compatible").write_text(tree)
    monkeypatch.setattr(played_board, "Board", lambda: board_module.Board(tmp_path))
    with pytest.raises(
        ParamInvalid,
        match=r"this machine is a board itself .*its device tree is never covered; leave --soc out",
    ):
        played_board.playable("rk3566")


def test_all_boards_have_files() -> None:
    for soc in socs.table().values():
        if soc.compatible:
            texts = dict(played_board.files(soc))
            assert texts["sys/firmware/devicetree/base/compatible"].split(",")[-1] == f"{soc.name}\0"
            assert texts["proc/cpuinfo"].endswith(f"Hardware\t: Rockchip {soc.names[0]}\n")


def test_the_machine_is_that_of_this_program() -> None:
    assert machine() == MACHINE, "outside of a played board both say the same"
