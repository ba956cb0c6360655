"""RGA by ctypes, on the library that stands in for librga where there is none; and frames that networks read where they lie."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_librknnrt import build
from rknnlite_vision.before import preparation as module
from rknnlite_vision.before.colours import Colours
from rknnlite_vision.before.frame import Frame
from rknnlite_vision.before.preparation import Preparation, Way
from rknnlite_vision.before.rga import Rga, Surface
from rknnlite_vision.placement import Placement

import rknnlite
from rknnlite.errors import BackendUnavailable, InputInvalid
from rknnlite.layout import nc1hwc2_to_nchw
from tests.support.needs import needs

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples/detect/detect_for_RK3588.rknn"


@pytest.fixture(scope="module")
def rga() -> Rga:
    needs("gcc")
    return Rga(str(build.beside(build.find(), "board/librga.so")))


@pytest.fixture
def by_rga(rga: Rga, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "shared_rga", lambda: rga)


@pytest.fixture
def memory() -> Iterator[int]:
    fd = os.memfd_create("frame")
    yield fd
    os.close(fd)


def smooth(height: int, width: int) -> Any:
    """A picture without edges, on which ways of scaling differ little."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / width * 5 + n) * np.cos(y / height * 4 - n) * 100 + 128 for n in range(3)]
    return np.stack(waves, -1).astype(np.uint8)


def test_what_it_is(rga: Rga) -> None:
    assert "RGA_api version" in rga.version and "rknnlite" in repr(rga)


def test_where_there_is_none() -> None:
    with pytest.raises(
        BackendUnavailable, match=r"RGA cannot be used: .*none\.so.*prepare by 'numpy' or 'opencv'"
    ):
        Rga("/nowhere/none.so")


def test_another_library_of_that_name() -> None:
    with pytest.raises(BackendUnavailable, match="improcess"):
        Rga(None)  # type: ignore[arg-type]  # Python itself


@pytest.mark.usefixtures("by_rga")
@pytest.mark.parametrize("way", list(Way))
@pytest.mark.parametrize("more", [{}, {"bgr": True}, {"channels": 1}, {"std": (255,)}, {"nchw": True}])
def test_prepared(way: Way, more: Any) -> None:
    """Near to what numpy gives, as scaling differs; bars are the same."""
    picture = smooth(96, 160)
    preparation = Preparation((64, 64), way, by="rga", **more)
    array, placement = preparation(picture)
    wanted, other = replace(preparation, by="numpy")(picture)
    assert preparation.by == "rga" and placement == other and array.dtype == wanted.dtype
    apart = np.abs(array.astype(float) - wanted) * (255 if "std" in more else 1)
    assert apart.max() <= 3
    if way is Way.LETTERBOX:
        bars = array[..., 0, :] if "nchw" in more else array[:, 0]
        assert np.allclose(bars, 114 / 255 if "std" in more else 114)


@pytest.mark.usefixtures("by_rga")
@pytest.mark.parametrize("name", ["NV12", "NV21", "RGB", "BGR", "RGBA", "BGRA"])
def test_frames(name: str) -> None:
    """Not scaled, every format gives the pixels that numpy gives, to the step that rounding makes."""
    raw = np.random.default_rng(0).integers(16, 236, 64 * 48 * 4, np.uint8)
    frame = Frame(name, 64, 48, raw)
    array, _ = Preparation((64, 48), by="rga")(frame)
    assert np.abs(array[0].astype(int) - frame.rgb()).max() <= 2 * name.startswith("NV")


@pytest.mark.usefixtures("by_rga")
def test_padding_and_descriptors(memory: int) -> None:
    raw = np.random.default_rng(0).integers(16, 236, 80 * (52 + 26), np.uint8)
    os.write(memory, raw)
    preparation = Preparation((64, 48), by="rga")
    lying = {"strides": 80, "offsets": (0, 80 * 52)}
    array, _ = preparation(Frame("NV12", 64, 48, raw, **lying))
    assert np.array_equal(preparation(Frame("NV12", 64, 48, fd=memory, **lying))[0], array)
    assert np.abs(array[0].astype(int) - Frame("NV12", 64, 48, raw, **lying).rgb()).max() <= 2


@pytest.mark.usefixtures("by_rga")
def test_a_part_of_a_picture() -> None:
    whole = smooth(96, 160)
    part = whole[10:58, 20:84]
    array, _ = Preparation((32, 32), by="rga")(part)
    assert np.array_equal(array, Preparation((32, 32), by="rga")(part.copy())[0])
    turned, _ = Preparation((32, 32), by="rga")(part[::-1, ::-1])
    assert np.array_equal(turned, Preparation((32, 32), by="rga")(part[::-1, ::-1].copy())[0])


def test_written_into_memory_of_the_network(rga: Rga) -> None:
    """Frame to input without the processor: RGA writes to the descriptor of bound memory."""
    picture = smooth(96, 160)
    with rknnlite.open(MODEL) as context:
        (native,) = context.native_inputs
        (height, width), placement = native.dims[1:3], Placement.letterbox((160, 96), (320, 320))
        memory = context.create_mem(native.size_with_stride)
        memory.ndarray[:] = 114
        rga.put(Frame.of(picture), Surface(memory.fd, (width, height), native.w_stride), placement)
        written = memory.ndarray.reshape(height, native.w_stride, 3)[:, :width]
        assert np.abs(written.astype(int) - Preparation((320, 320))(picture)[0][0]).max() <= 3


def test_refused(rga: Rga) -> None:
    place = Placement.stretch((64, 48), (32, 32))
    surface = Surface.of(np.zeros((32, 32, 3), np.uint8))
    raw = bytes(64 * 48 * 4)
    for frame, words in (
        (Frame("GREY", 64, 48, raw), "does not take <Frame GREY 64 x 48> here; it takes RGBA"),
        (Frame("NV12", 64, 48, raw, strides=(64, 80)), "strides 64 and 80"),
        (Frame("NV12", 64, 48, raw, offsets=(0, 64 * 48 + 3)), "offsets 0 and 3075"),
        (Frame("NV12", 64, 48, [raw, raw]), "in the same buffer"),
        (Frame("RGB", 64, 48, raw, strides=193), "rows be whole pixels"),
        (Frame("NV12", 64, 48, raw, colours=Colours("bt709")), "matrix='bt709'"),
        (
            Frame("YUYV", 64, 48, raw),
            r"refuses <Frame YUYV 64 x 48>, rows of 64 pixels.*not supported.*status -1",
        ),
    ):
        with pytest.raises(InputInvalid, match=words):
            rga.put(frame, surface, place)
    with pytest.raises(InputInvalid, match="RGA writes uint8"):
        Surface.of(np.zeros((4, 4, 4), np.uint8))


def test_a_program_that_asks_for_it() -> None:
    """The stand-in is found where ``rknnlite exec`` starts a program."""
    needs("gcc")
    script = (
        "import numpy as np; from rknnlite_vision.before.preparation import Preparation\n"
        "p = Preparation((8, 8), by='rga'); a, _ = p(np.full((4, 4, 3), 9, np.uint8)); print(p.by, a.min(), a.max())"
    )
    done = subprocess.run(
        [sys.executable, "-m", "rknnlite", "exec", "--", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "rga 9 9\n"), done.stderr


# -- read where it lies ----------------------------------------------------------------------------------------


def test_a_frame_that_is_an_input(memory: int) -> None:
    with rknnlite.open(MODEL) as context, rknnlite.open(MODEL) as other:
        preparation = Preparation.of(context)
        pictures = [smooth(320, 320), smooth(320, 320)[::-1]]
        os.write(memory, bytes(64) + pictures[0].tobytes())
        preparation.bind(context, Frame("RGB", 320, 320, fd=memory, offsets=(64,)))
        results = []
        for out in context.native_outputs:
            mem = context.create_mem(out.size_with_stride)
            context.bind(out, mem)
            results.append(mem.ndarray)
        seen = []
        for picture in pictures:
            os.pwrite(memory, picture.tobytes(), 64)
            context.run()
            seen.append(np.concatenate(results))
        assert not np.array_equal(*seen)
        array, _ = preparation(pictures[1])
        wanted = other.infer(array, raw=True)
        from_memory = context.native_outputs[0]
        first = results[0][: from_memory.size].view(from_memory.dtype.numpy).reshape(from_memory.dims)
        shape = wanted[0].data.shape
        plain = nc1hwc2_to_nchw(first, shape[1], shape[2:]) if len(from_memory.dims) == 5 else first
        assert np.array_equal(plain.reshape(shape), wanted[0].data)


@pytest.mark.parametrize(
    ("name", "size", "more", "words"),
    [
        ("NV12", (320, 320), {}, "format is NV12, must be RGB"),
        ("BGR", (320, 320), {}, "format is BGR, must be RGB"),
        ("RGB", (320, 240), {}, r"size is \(320, 240\), must be \(320, 320\)"),
        ("RGB", (320, 320), {"strides": 1024}, "stride is 1024, must be 960"),
    ],
)
def test_a_frame_that_is_none(memory: int, name: str, size: tuple[int, int], more: Any, words: str) -> None:
    os.ftruncate(memory, 1 << 20)
    with rknnlite.open(MODEL) as context, pytest.raises(InputInvalid, match=f"{words}.*; prepare it"):
        Preparation.of(context).bind(context, Frame(name, *size, fd=memory, **more))
