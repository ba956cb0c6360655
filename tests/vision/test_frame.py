"""Frames of cameras and decoders as RGB: every format, padding, planes apart, dma-bufs; the numbers are ffmpeg's and OpenCV's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_vision.before import colours as arithmetic
from rknnlite_vision.before import frame as module
from rknnlite_vision.before.colours import BT601, Colours
from rknnlite_vision.before.frame import Frame
from rknnlite_vision.before.preparation import Preparation

from rknnlite.errors import InputInvalid, ParamInvalid
from tests.support.needs import needs
from tools.vision.frame_goldens import FORMATS, MATRICES, by_ffmpeg, raw_frame

GOLDENS = Path(__file__).parent / "data" / "frames.npz"
YUV = ("nv12", "nv21", "yuv420p", "yuyv422", "yvyu422", "uyvy422")


def noise(size: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def most_apart(ours: Any, theirs: Any) -> int:
    return int(np.abs(ours.astype(int) - theirs).max())


# -- the numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_as_ffmpeg_once_converted(pixel_format: str) -> None:
    """At most one step of 255 apart; what is no luma and chroma the same."""
    goldens = np.load(GOLDENS)
    names = [name for name in goldens.files if name.startswith(f"{pixel_format} ") and name.count(" ") == 2]
    assert names
    for name in names:
        _, full, matrix = name.split()
        frame = Frame(
            pixel_format, 16, 8, goldens[f"{pixel_format} {full}"], colours=Colours(matrix, full == "True")
        )
        assert most_apart(frame.rgb(), goldens[name]) <= (pixel_format in YUV), name


@pytest.mark.parametrize("size", [(64, 48), (33, 17), (1, 1)])
@pytest.mark.parametrize("pixel_format", FORMATS)
def test_as_ffmpeg(pixel_format: str, size: tuple[int, int]) -> None:
    needs("ffmpeg")
    for full, matrix in ((True, "bt601"), (False, "bt709")):
        raw = raw_frame(pixel_format, size, full, 3)
        theirs = by_ffmpeg(raw, pixel_format, size, matrix, full)
        ours = Frame(pixel_format, *size, raw, colours=Colours(matrix, full)).rgb()
        assert most_apart(ours, theirs) <= (pixel_format in YUV), (full, matrix)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("NV12", "NV12"),
        ("NV21", "NV21"),
        ("I420", "I420"),
        ("YV12", "YV12"),
        ("YUYV", "YUY2"),
        ("YVYU", "YVYU"),
        ("UYVY", "UYVY"),
    ],
)
def test_as_opencv(name: str, code: str) -> None:
    """The same numbers, of all levels, computed by either."""
    cv2 = pytest.importorskip("cv2")
    packed = name in ("YUYV", "YVYU", "UYVY")
    raw = noise(480 * 640 * 2).reshape(480, 640, 2) if packed else noise(480 * 640 * 3 // 2).reshape(720, 640)
    theirs = cv2.cvtColor(raw, getattr(cv2, f"COLOR_YUV2RGB_{code}"))
    assert np.array_equal(Frame(name, 640, 480, raw).rgb(), theirs)
    assert np.array_equal(Frame(name, 640, 480, raw).rgb(opencv=True), theirs)
    assert arithmetic.opencv_agrees()


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("full", [False, True])
def test_every_colour_comes_near_the_formula(matrix: str, full: bool) -> None:
    """All of luma and chroma in steps of 5, at most 0.9 from the real number: half a step and what 1.164 leaves out."""
    levels = np.arange(0 if full else 16, 256, 5, np.uint8)
    luma, cb, cr = (axis.reshape(-1) for axis in np.meshgrid(levels, levels, levels))
    packed = np.stack([luma, cb, luma, cr], -1).reshape(1, -1)
    ours = Frame("YUYV", 2 * len(luma), 1, packed, colours=Colours(matrix, full)).rgb()[0, ::2]
    red, blue = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722), "bt2020": (0.2627, 0.0593)}[matrix]
    y = (luma - 0.0 if full else (luma - 16.0) / 219 * 255) / 255
    pb, pr = ((axis - 128.0) / (255 if full else 224) for axis in (cb, cr))
    r, b = y + 2 * (1 - red) * pr, y + 2 * (1 - blue) * pb
    g = (y - red * r - blue * b) / (1 - red - blue)
    wanted = np.clip(np.stack([r, g, b], -1) * 255, 0, 255)
    assert np.abs(ours - wanted).max() < (0.9 if (matrix, full) == ("bt601", False) else 0.501)


def test_black_and_white() -> None:
    for colours, black, white in (
        (BT601, 16, 235),
        (Colours("bt709"), 16, 235),
        (Colours("bt709", True), 0, 255),
    ):
        raw = bytes([black, white, 0, 255, 128, 128])
        rgb = Frame("NV12", 2, 2, raw, colours=colours).rgb()
        assert rgb[..., 0].tolist() == [[0, 255], [0, 255]], colours


def test_chroma_counts_for_its_block() -> None:
    raw = np.full((4 + 2, 4), 128, np.uint8)
    raw[4] = [128, 255, 128, 128]
    rgb = Frame("NV12", 4, 4, raw).rgb()
    assert (rgb[:2, :2] == rgb[0, 0]).all() and rgb[0, 0, 0] == 255
    assert (rgb[:2, 2:] == rgb[3, 3]).all() and rgb[3, 3, 0] == 130


def test_odd_sizes_are_a_part_of_even_ones() -> None:
    luma, chroma = noise(48 * 64).reshape(48, 64), noise(24 * 64, 1).reshape(24, 64)
    whole = Frame("NV12", 64, 48, [luma, chroma]).rgb()
    part = Frame("NV12", 63, 47, [luma, chroma], strides=(64, 64)).rgb()
    assert np.array_equal(part, whole[:47, :63])
    packed = noise(48 * 128)
    part = Frame("YUYV", 63, 48, packed).rgb()
    assert np.array_equal(part, Frame("YUYV", 64, 48, packed).rgb()[:, :63])


def test_large_frames_in_bands() -> None:
    """Bands of rows meet without a seam, also at odd heights."""
    raw = noise(301 * 10 + 151 * 10)
    small = [
        Frame("NV12", 10, 1, [raw[row * 10 : row * 10 + 10], raw[3010 + row // 2 * 10 :]]).rgb()
        for row in range(301)
    ]
    assert np.array_equal(Frame("NV12", 10, 301, raw).rgb(), np.concatenate(small))


# -- how frames lie --------------------------------------------------------------------------------------------


def padded(rows: Any, stride: int) -> Any:
    out = noise(len(rows) * stride, 9).reshape(len(rows), stride)
    out[:, : rows.shape[1]] = rows
    return out


def test_padding_and_offsets() -> None:
    """As V4L2 gives it: rows of 96 bytes, chroma behind 32 rows; and as GStreamer: strides and offsets of each plane."""
    luma, chroma = noise(30 * 40).reshape(30, 40), noise(15 * 40, 1).reshape(15, 40)
    wanted = Frame("NV12", 40, 30, np.concatenate([luma, chroma])).rgb()
    buffer = np.concatenate([padded(luma, 96), noise(2 * 96).reshape(2, 96), padded(chroma, 96)])
    assert np.array_equal(Frame("NV12", 40, 30, buffer, strides=96, offsets=(0, 32 * 96)).rgb(), wanted)
    buffer = np.concatenate([noise(5), padded(luma, 48).ravel(), padded(chroma, 56).ravel()])
    frame = Frame("NV12", 40, 30, buffer, strides=(48, 56), offsets=(5, 5 + 48 * 30))
    assert np.array_equal(frame.rgb(), wanted) and frame.planes[1].stride == 56
    assert np.array_equal(frame.rgb(opencv=has_opencv()), wanted)


def has_opencv() -> bool:
    from rknnlite_vision.before.resizing import opencv_agrees

    return opencv_agrees()


def test_the_last_row_may_lack_its_padding() -> None:
    rows = noise(3 * 4).reshape(3, 4)
    buffer = padded(rows, 16).ravel()[: 2 * 16 + 4]
    assert np.array_equal(Frame("GREY", 4, 3, buffer, strides=16).rgb()[..., 1], rows)


def test_planes_apart() -> None:
    planes = [noise(20 * 16), noise(10 * 8, 1), noise(10 * 8, 2)]
    together = Frame("I420", 16, 20, np.concatenate(planes))
    assert np.array_equal(Frame("YM12", 16, 20, planes).rgb(), together.rgb())
    assert np.array_equal(Frame("YV12", 16, 20, [planes[0], planes[2], planes[1]]).rgb(), together.rgb())
    pairs = np.stack(planes[1:], -1)
    assert np.array_equal(
        Frame("NM12", 16, 20, [planes[0].tobytes(), bytearray(pairs)]).rgb(), together.rgb()
    )


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        (0x3231564E, "NV12"),
        (0x56595559, "YUYV"),
        ("RGB3", "RGB"),
        ("RG24", "BGR"),
        ("bgr0", "BGRA"),
        ("AR24", "BGRA"),
        ("GRAY8", "GREY"),
    ],
)
def test_names(name: Any, ours: str) -> None:
    assert Frame(name, 2, 2, bytes(16)).format == ours


def test_full_range_by_name() -> None:
    assert Frame("yuvj420p", 2, 2, bytes(6)).colours == Colours("bt601", True)


def test_nothing_is_copied_of_rgb() -> None:
    raw = noise(10 * 8 * 4)
    for name, channels in (("RGBA", [0, 1, 2]), ("BGRA", [2, 1, 0])):
        with Frame(name, 8, 10, raw).pixels() as pixels:
            assert np.shares_memory(pixels, raw)
            assert np.array_equal(pixels, raw.reshape(10, 8, 4)[..., channels])


@pytest.fixture
def memory() -> Iterator[int]:
    if not hasattr(os, "memfd_create"):
        pytest.skip("needs Linux")
    fd = os.memfd_create("frame")
    yield fd
    os.close(fd)


def test_behind_a_descriptor(memory: int) -> None:
    raw = noise(24 * 32 * 3 // 2)
    os.write(memory, raw)
    frame = Frame("NV12", 32, 24, fd=memory)
    assert np.array_equal(frame.rgb(), Frame("NV12", 32, 24, raw).rgb())
    os.pwrite(memory, bytes(32 * 24), 0)
    assert frame.rgb().sum() < Frame("NV12", 32, 24, raw).rgb().sum(), "the next picture in the same buffer"
    assert frame.fds == (memory,)


def test_planes_behind_descriptors(memory: int) -> None:
    raw = noise(24 * 32 * 3 // 2)
    other = os.dup(memory)
    try:
        os.write(memory, raw)
        frame = Frame("NV12", 32, 24, fd=(memory, other), offsets=(0, 24 * 32))
        assert np.array_equal(frame.rgb(), Frame("NV12", 32, 24, raw).rgb())
    finally:
        os.close(other)


def test_caches_are_synced(memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin and end, whatever happens between."""
    os.write(memory, bytes(64))
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(module, "_sync", lambda fd, flags: told.append((fd, flags)))
    frame = Frame("GREY", 8, 8, fd=memory)
    frame.rgb()
    assert told == [(memory, 1), (memory, 5)]
    with pytest.raises(RuntimeError), frame.pixels():
        raise RuntimeError
    assert told[2:] == [(memory, 1), (memory, 5)]


def test_a_descriptor_that_was_closed(memory: int) -> None:
    os.write(memory, bytes(64))
    copy = os.dup(memory)
    frame = Frame("GREY", 8, 8, fd=copy)
    os.close(copy)
    with pytest.raises(InputInvalid, match=f"descriptor {copy} cannot be read"):
        frame.rgb()
    with pytest.raises(ParamInvalid, match=f"descriptor {copy} cannot be imported"):
        Frame("GREY", 8, 8, fd=copy)


def test_descriptors_and_memory_are_given_back(memory: int) -> None:
    os.write(memory, bytes(64))
    frame = Frame("GREY", 8, 8, fd=memory)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        frame.rgb()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


# -- into a network --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["NV12", "YUYV", "BGR", "RGBA", "GREY"])
@pytest.mark.parametrize("by", ["numpy", "opencv"])
def test_prepared(name: str, by: str) -> None:
    """A frame gives what its pixels give."""
    if by == "opencv":
        pytest.importorskip("cv2")
    frame = Frame(name, 64, 48, noise(64 * 48 * 4))
    for more in ({}, {"bgr": True}, {"channels": 1}, {"std": (255,)}):
        preparation = Preparation((32, 32), by=by, **more)  # type: ignore[arg-type]
        array, placement = preparation(frame)
        wanted, other = preparation(frame.rgb())
        assert placement == other
        if name != "GREY" or "channels" not in more:
            assert np.array_equal(array, wanted)
    array, placements = Preparation((32, 32), by=by).batch([frame, frame.rgb()])
    assert np.array_equal(array[0], array[1]) and placements[0] == placements[1]


# -- what is no frame ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "more", "words"),
    [
        (("P010", 4, 4, bytes(99)), {}, r"'P010' is not known; known are NV12.*8 bits"),
        ((-1, 4, 4, bytes(99)), {}, "'-1' is not known"),
        (("NV12", 0, 4, bytes(99)), {}, "width is 0, must be 1 or more"),
        (("NV12", 4, -2, bytes(99)), {}, "height is -2"),
        (("NV12", 4.0, 2, bytes(99)), {}, "width is 4.0"),
        (
            ("NV12", 4, 4, bytes(23)),
            {},
            r"plane 1 ends at byte 24 \(2 rows of 4 from byte 16\), its buffer has 23",
        ),
        (
            ("NV12", 5, 5, bytes(5 * 5 * 3 // 2)),
            {},
            r"plane 1 ends at byte 43 \(3 rows of 6 from byte 25\), its buffer has 37",
        ),
        (
            ("YUYV", 4, 4, bytes(99)),
            {"strides": 4},
            "plane 0 are 4 bytes apart and 8 long; strides are bytes",
        ),
        (("NV12", 4, 4, bytes(99)), {"strides": (4, 4, 4)}, "3 strides for 2 planes"),
        (("NV12", 4, 4, bytes(99)), {"offsets": (0,)}, "1 offsets for 2 planes"),
        (("NV12", 4, 4, bytes(99)), {"offsets": (-4, 16)}, "plane 0 ends.*from byte -4"),
        (("I420", 4, 4, [bytes(16), bytes(8)]), {}, "2 buffers for 3 planes"),
        (("NV12", 4, 4), {}, "give data or fd"),
        (("NV12", 4, 4, bytes(24)), {"fd": 3}, "give data or fd"),
        (("GREY", 4, 4, np.zeros((4, 4), np.uint16)), {}, r"data is uint16 \[4, 4\], must be uint8"),
        (("GREY", 4, 4, np.zeros((4, 8), np.uint8)[:, ::2]), {}, "with gaps, must be uint8 without gaps"),
        (("GREY", 4, 4, "pixels"), {}, "data is str, must be bytes"),
        (("GREY", 4, 4, bytes(16)), {"strides": 4.5}, "a frame's strides: 4.5 must be integers"),
        (("GREY", 4, 4, bytes(16)), {"offsets": (None,)}, "a frame's offsets: .*None.* must be integers"),
    ],
)
def test_no_frame(arguments: Any, more: Any, words: str) -> None:
    with pytest.raises(InputInvalid, match=words):
        Frame(*arguments, **more)


def test_unknown_colours() -> None:
    with pytest.raises(ParamInvalid, match="matrix is 'srgb', must be one of bt601, bt709, bt2020"):
        Frame("NV12", 4, 4, bytes(24), colours=Colours("srgb"))


@given(
    st.sampled_from(["NV12", "NV21", "I420", "YUYV", "UYVY", "RGB", "BGRA", "GREY"]),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 400),
    st.lists(st.integers(-2, 40), max_size=3),
    st.lists(st.integers(-2, 300), max_size=3),
)
def test_any_numbers(
    name: str, width: int, height: int, size: int, strides: list[int], offsets: list[int]
) -> None:
    """Inside the buffer or refused: nothing else is ever read."""
    raw = noise(size) if size else b""
    try:
        frame = Frame(name, width, height, raw, strides=strides, offsets=offsets)
    except InputInvalid:
        return
    assert all(plane.offset >= 0 and plane.end <= size for plane in frame.planes)
    assert frame.rgb().shape == (height, width, 3)
    if has_opencv():
        assert np.array_equal(frame.rgb(opencv=True), frame.rgb())
