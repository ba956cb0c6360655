"""Pictures: odd files in, every form out, with and without libraries; addresses; names that clash."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_vision import pictures

from rknnlite.errors import BackendUnavailable, InputInvalid, ParamInvalid
from tests.support.file_server import serving
from tests.support.needs import needs

Image = pytest.importorskip("PIL.Image")
RANDOM = np.random.default_rng(3).integers(0, 256, (13, 17, 3), np.uint8)


def saved(path: Path, pixels: Any, **options: Any) -> Path:
    Image.fromarray(pixels).save(path, **options)
    return path


@pytest.fixture(params=["Pillow", "OpenCV"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What reads pictures here: the one, or the other where that is not installed."""
    if request.param == "OpenCV":
        needs("cv2")
        monkeypatch.setitem(sys.modules, "PIL.Image", None)
    return str(request.param)


@pytest.mark.usefixtures("reader")
def test_the_pixels_of_a_file(tmp_path: Path) -> None:
    assert (pictures.read(saved(tmp_path / "a.png", RANDOM)) == RANDOM).all()
    one = pictures.read(saved(tmp_path / "one.png", RANDOM[:1, :1]))
    assert one.shape == (1, 1, 3) and one.dtype == np.uint8


@pytest.mark.usefixtures("reader")
def test_16_bits_grey_alpha(tmp_path: Path) -> None:
    deep = (RANDOM[..., 0].astype(np.uint16) << 8) + 77
    assert (pictures.read(saved(tmp_path / "deep.png", deep)) == RANDOM[..., :1]).all()
    assert (pictures.read(saved(tmp_path / "grey.png", RANDOM[..., 0])) == RANDOM[..., :1]).all()
    alpha = np.dstack([RANDOM, np.arange(17, dtype=np.uint8)[None].repeat(13, 0)])
    assert (pictures.read(saved(tmp_path / "alpha.png", alpha)) == RANDOM).all()


@pytest.mark.usefixtures("reader")
def test_turned_as_its_exif_says(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # a camera held upright
    path = saved(tmp_path / "upright.png", RANDOM, exif=exif)
    assert (pictures.read(path) == np.rot90(RANDOM, -1)).all()


@pytest.mark.usefixtures("reader")
def test_what_is_no_picture(tmp_path: Path) -> None:
    whole = io.BytesIO()
    Image.fromarray(RANDOM.repeat(9, 0)).save(whole, "jpeg")
    broken = {
        "text.jpg": b"text",
        "empty.png": b"",
        "cut.jpg": whole.getvalue()[:300],
        "head.png": b"\x89PNG\r\n\x1a\n",
    }
    for name, data in broken.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputInvalid, match=name):
            pictures.read(tmp_path / name)
    with pytest.raises(InputInvalid, match=r"no\.png cannot be read: .*check its name"):
        pictures.read(tmp_path / "no.png")
    with pytest.raises(InputInvalid, match="give a file"):
        pictures.read(tmp_path)


@pytest.mark.parametrize("size", [(10_000, 10_000), (12_000, 12_000), (20_000, 10_000), (60_000, 60_000)])
def test_too_many_pixels_to_unpack(tmp_path: Path, size: tuple[int, int], reader: str) -> None:
    """A file of a few bytes that claims to have them: it is refused by its head."""
    head = struct.pack(">IIBBBBB", *size, 1, 0, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n"
    for kind, part in ((b"IHDR", head), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")):
        data += struct.pack(">I", len(part)) + kind + part + struct.pack(">I", zlib.crc32(kind + part))
    (tmp_path / "large.png").write_bytes(data)
    with pytest.raises(InputInvalid, match=r"large\.png"):
        pictures.read(tmp_path / "large.png")


@pytest.mark.parametrize(("width", "height"), [(20_000, 10_000), (12_000, 12_000)])
def test_too_many_pixels(tmp_path: Path, width: int, height: int) -> None:
    path = tmp_path / "large.png"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Image, "MAX_IMAGE_PIXELS", None)
        Image.new("1", (width, height)).save(path)
    with pytest.raises(InputInvalid, match=r"large\.png: .*too large"):
        pictures.read(path)


def test_no_memory_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*args: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(pictures, "decode_whole", none)
    with pytest.raises(InputInvalid, match=r"a\.png: there is no memory"):
        pictures.read(saved(tmp_path / "a.png", RANDOM))


@pytest.mark.parametrize("without", [(), ("cv2",), ("cv2", "PIL")])
@pytest.mark.parametrize("suffix", pictures.WRITTEN)
def test_forms(suffix: str, without: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in without:
        monkeypatch.setitem(sys.modules, module, None)
    if "PIL" in without and suffix not in (".png", ".ppm"):
        with pytest.raises(BackendUnavailable, match=f"writing {suffix} needs Pillow"):
            pictures.encode(RANDOM, suffix)
        return
    lossy = suffix in (".jpg", ".jpeg")
    source = np.full_like(RANDOM, (200, 40, 90)) if lossy else RANDOM
    data = pictures.encode(source, suffix)
    monkeypatch.undo()
    back = np.array(Image.open(io.BytesIO(data))).astype(int)
    assert np.abs(back - source).max() <= (6 if lossy else 0)


def test_a_form_that_is_none() -> None:
    with pytest.raises(ParamInvalid, match=r"no picture can be written as '\.gif'; give \.png"):
        pictures.encode(RANDOM, ".gif")


@pytest.mark.parametrize("suffix", [".jpg", ".webp"])
def test_a_form_that_is_too_small_for_it(suffix: str) -> None:
    wide = np.zeros((1, 70_000, 3), np.uint8)
    with pytest.raises(InputInvalid, match=rf"70000 x 1 cannot be written as \{suffix}, .*choose \.png"):
        pictures.encode(wide, suffix)
    assert pictures.encode(wide, ".png")


def test_writing_is_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "a.png"
    pictures.write(target, RANDOM)
    assert (pictures.read(target) == RANDOM).all() and [p.name for p in tmp_path.iterdir()] == ["a.png"]
    with pytest.raises(OSError, match="there is no folder"):
        pictures.write(tmp_path / "no" / "a.png", RANDOM)


def test_the_pictures_of_a_folder(tmp_path: Path) -> None:
    for name in ("b.png", "a.JPG", "c.txt"):
        (tmp_path / name).touch()
    (tmp_path / "d.png").mkdir()
    assert [p.name for p in pictures.pictures_in(tmp_path)] == ["a.JPG", "b.png"]
    with pytest.raises(InputInvalid, match=r"d\.png has no pictures \(\.jpg"):
        pictures.pictures_in(tmp_path / "d.png")


def test_where_marked_pictures_go(tmp_path: Path) -> None:
    sources = [
        tmp_path / "in" / "a.jpg",
        tmp_path / "in" / "b.pgm",
        "http://x/pictures/c.webp?size=3",
        "http://x/",
    ]
    assert [p.name for p in pictures.targets(sources, tmp_path / "out")] == [
        "a.jpg",
        "b.png",
        "c.webp",
        "x.png",
    ]
    assert pictures.targets(sources[:1], tmp_path / "one.png") == [tmp_path / "one.png"]


def test_names_that_clash(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    with pytest.raises(ParamInvalid, match="is one picture, there are 2"):
        pictures.targets([tmp_path / "a.png", tmp_path / "b.png"], tmp_path / "one.png")
    with pytest.raises(ParamInvalid, match=r"1/a\.png and .*2/a\.png would both become"):
        pictures.targets([tmp_path / "1/a.png", tmp_path / "2/a.png"], tmp_path / "out")
    for out in (tmp_path, tmp_path / "a.png"):
        with pytest.raises(ParamInvalid, match=r"a\.png would replace the picture that is read"):
            pictures.targets([tmp_path / "a.png"], out)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ParamInvalid, match="would replace"):
        pictures.targets([tmp_path / "a.png"], tmp_path / "link")


def test_addresses(tmp_path: Path) -> None:
    saved(tmp_path / "a.png", RANDOM)

    def typed(kind: str) -> Any:
        def answer(request: Any) -> None:
            request.send_response(200)
            request.send_header("Content-Type", kind)
            request.end_headers()
            request.wfile.write((tmp_path / "a.png").read_bytes())

        return answer

    with serving(tmp_path) as server:
        server.own.update(
            {"picture": typed("image/png"), "film": typed("multipart/x-mixed-replace; boundary=a")}
        )
        found = pictures.fetch(f"{server.url}/picture")
        assert found is not None and (found == RANDOM).all()
        assert pictures.fetch(f"{server.url}/film") is None
        with pytest.raises(InputInvalid, match="/none cannot be read: Not Found"):
            pictures.fetch(f"{server.url}/none")
        url = server.url
    for address in (f"{url}/picture", "http://[::bad", "http://127.0.0.1:99999/x"):
        with pytest.raises(InputInvalid, match="cannot be read"):
            pictures.fetch(address)
