"""Pictures become the same pixels whichever library reads them."""

from __future__ import annotations

import io
import struct
import sys
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rknnlite.errors import BackendUnavailable, InputInvalid
from rknnlite.files.pictures import read_picture, resize
from tests.support.corpus import EXAMPLES

BY_EACH = pytest.mark.parametrize("library", ["PIL", "cv2"])
DOWN, ACROSS = 37, 53
PNG = sorted(EXAMPLES.rglob("*.png"))
TURNED = {
    1: lambda a: a, 2: np.fliplr, 3: lambda a: np.rot90(a, 2), 4: np.flipud,
    5: lambda a: a.transpose(1, 0, 2), 6: lambda a: np.rot90(a, -1),
    7: lambda a: np.rot90(a, 2).transpose(1, 0, 2), 8: np.rot90,
}  # fmt: skip
"""What each value of the EXIF tag 0x112 asks for."""


def only(library: str, patch: pytest.MonkeyPatch) -> None:
    """Read by this one of the two."""
    pytest.importorskip(library)
    for other in {"PIL", "cv2"} - {library}:
        patch.setitem(sys.modules, other, None)
    if library == "cv2":
        patch.setitem(sys.modules, "PIL.Image", None)


def scene() -> np.ndarray:
    """Colours that tell every corner from the others."""
    y, x = np.mgrid[:DOWN, :ACROSS]
    return np.stack([y * 6, x * 4, (y * x) % 256], -1).astype(np.uint8)


def stored(path: Path, image: Any, **options: Any) -> Path:
    data = io.BytesIO()
    image.save(data, "JPEG" if path.suffix == ".jpg" else path.suffix[1:], **options)
    path.write_bytes(data.getvalue())
    return path


def png16(pixels: np.ndarray) -> bytes:
    """A PNG of 16 bits per sample, grey (H, W) or RGB (H, W, 3)."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    head = struct.pack(
        ">IIBBBBB", pixels.shape[1], pixels.shape[0], 16, 2 if pixels.ndim == 3 else 0, 0, 0, 0
    )
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def test_the_pictures_of_the_examples_are_what_opencv_reads() -> None:
    pytest.importorskip("PIL")
    cv2 = pytest.importorskip("cv2")
    assert len(PNG) >= 3
    for path in PNG:
        theirs = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
        height, width = theirs.shape[:2]
        for size in ((width, height), (224, 224), (192, 160), (96, 96)):
            assert np.array_equal(read_picture(path, *size, 3), cv2.resize(theirs, size)), path


def test_resized_as_by_opencv() -> None:
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(3)
    sizes = [(448, 448, 224, 224), (1, 1, 5, 4), (7, 300, 300, 7), (112, 112, 224, 224)]
    for old_h, old_w, new_h, new_w in [*sizes, *rng.integers(1, 200, (60, 4)).tolist()]:
        for channels in ((), (3,)):
            pixels = rng.integers(0, 256, (old_h, old_w, *channels), np.uint8)
            assert np.array_equal(resize(pixels, new_w, new_h), cv2.resize(pixels, (new_w, new_h)))


def test_a_resized_edge() -> None:
    """Half a pixel beyond the edge is the edge."""
    assert resize(np.array([[0, 100]], np.uint8), 4, 1).tolist() == [[0, 25, 75, 100]]
    assert resize(np.array([[0, 100], [50, 150]], np.uint8), 1, 1).tolist() == [[75]]


def test_resizing_takes_little_memory() -> None:
    """It does not grow with rows of the result times columns of the picture."""
    wide = np.zeros((2, 100_000, 3), np.uint8)
    tracemalloc.start()
    resize(wide, 640, 640)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20


@BY_EACH
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "L", "LA", "1"])
def test_modes(library: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transparency is left out, palettes are looked up, grey is grey in all channels."""
    image = pytest.importorskip("PIL.Image").fromarray(scene())
    image = image.quantize(40) if mode == "P" else image.convert(mode.replace("A", ""))
    plain, luminance = (np.asarray(image.convert("RGB").convert(kind)) for kind in ("RGB", "L"))
    if mode in ("RGBA", "LA"):
        image.putalpha(77)
    path = stored(tmp_path / "x.png", image)
    only(library, monkeypatch)
    assert np.array_equal(read_picture(path, ACROSS, DOWN, 3), plain)
    grey = read_picture(path, ACROSS, DOWN, 1)
    assert grey.shape == (DOWN, ACROSS, 1)
    assert np.abs(grey[..., 0].astype(int) - luminance).max() <= 1


@pytest.mark.parametrize(
    ("library", "suffix"), [("PIL", "jpg"), ("PIL", "png"), ("PIL", "webp"), ("cv2", "jpg")]
)
@pytest.mark.parametrize("orientation", sorted(TURNED))
def test_orientation(
    library: str, suffix: str, orientation: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A camera held upright writes a picture that lies on its side, and a tag that says so."""
    pil = pytest.importorskip("PIL.Image")
    tags = pil.Exif()
    tags[0x112] = orientation
    path = stored(tmp_path / f"x.{suffix}", pil.fromarray(scene()), exif=tags, quality=95, lossless=True)
    with pil.open(path) as opened:
        as_stored = np.asarray(opened.convert("RGB"))
    only(library, monkeypatch)
    expected = TURNED[orientation](as_stored)
    found = read_picture(path, expected.shape[1], expected.shape[0], 3)
    assert np.abs(found.astype(int) - expected).max() <= 3  # decoders of JPEG may round as they like


@BY_EACH
def test_sixteen_bits(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    y, x = np.mgrid[:DOWN, :ACROSS]
    grey = (y * 1500 + x * 37).astype(np.uint16)
    colour = np.stack([grey, grey[::-1], grey // 2], -1)
    (tmp_path / "grey.png").write_bytes(png16(grey))
    (tmp_path / "colour.png").write_bytes(png16(colour))
    (tmp_path / "grey.pgm").write_bytes(b"P5 %d %d 65535\n" % (ACROSS, DOWN) + grey.astype(">u2").tobytes())
    only(library, monkeypatch)
    for name in ("grey.png", "grey.pgm"):
        assert np.array_equal(read_picture(tmp_path / name, ACROSS, DOWN, 1)[..., 0], grey >> 8)
        assert np.array_equal(
            read_picture(tmp_path / name, ACROSS, DOWN, 3), (grey >> 8)[..., None].repeat(3, 2)
        )
    assert np.array_equal(read_picture(tmp_path / "colour.png", ACROSS, DOWN, 3), colour >> 8)


@BY_EACH
@pytest.mark.parametrize("damage", ["empty", "text", "cut", "vast"])
def test_what_is_no_picture(
    library: str, damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    whole = png16(np.zeros((60, 50), np.uint16) + np.arange(50, dtype=np.uint16))
    head = struct.pack(">II", 60_000, 60_000)
    data = {"empty": b"", "text": b"hello", "cut": whole[:60], "vast": whole[:16] + head + whole[24:]}[damage]
    (tmp_path / "x.png").write_bytes(data)
    only(library, monkeypatch)
    with pytest.raises(InputInvalid, match=r"x\.png is no picture that (Pillow|OpenCV) can read"):
        read_picture(tmp_path / "x.png", 8, 8, 3)


def test_a_format_that_starts_programs_is_not_tried(tmp_path: Path) -> None:
    """Pillow hands PostScript to an interpreter; a name that ends in .png does not make it a picture."""
    pytest.importorskip("PIL")
    (tmp_path / "x.png").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"
    )
    with pytest.raises(InputInvalid, match="no picture"):
        read_picture(tmp_path / "x.png", 8, 8, 3)


def test_neither_library_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIL", "PIL.Image", "cv2"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(BackendUnavailable, match=r"x\.png needs Pillow.*\(extra pictures;.*python3-pil"):
        read_picture(tmp_path / "x.png", 8, 8, 3)
