"""Letters for pictures: fonts of the system for those that Pillow's own lacks, and numbers where no font has them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_vision import font, system_fonts
from rknnlite_vision.drawing import draw
from rknnlite_vision.results import Lines, Words

from .standins import boxes
from .test_drawing import GREY, changed, forget

CHINESE = "\u5b57\u5178"  # two characters
pytest.importorskip("PIL")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only folder of fonts."""
    monkeypatch.setattr(system_fonts, "_folders", lambda: [tmp_path])
    forget()
    yield tmp_path
    forget()


def font_file(path: Path, characters: str) -> None:
    """A font whose letters are bars, each as high as its place in ``characters`` says."""
    builder = pytest.importorskip("fontTools.fontBuilder").FontBuilder(1000, isTTF=True)
    pen_of = pytest.importorskip("fontTools.pens.ttGlyphPen").TTGlyphPen
    names = [".notdef", *(f"bar{n}" for n in range(len(characters)))]
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(char): f"bar{n}" for n, char in enumerate(characters)})
    glyphs = {}
    for n, name in enumerate(names):
        pen = pen_of(None)
        corners = [(100, 0), (100, 200 + 300 * n), (900, 200 + 300 * n), (900, 0)]
        pen.moveTo(corners[0])
        for corner in corners[1:]:
            pen.lineTo(corner)
        pen.closePath()
        glyphs[name] = pen.glyph()
    builder.setupGlyf(glyphs)
    builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 0)))
    builder.setupHorizontalHeader(ascent=1000, descent=-200)
    builder.setupNameTable({"familyName": "Bars", "styleName": "Regular"})
    builder.setupOS2(sTypoAscender=1000)
    builder.setupPost()
    builder.save(str(path))


def written(*texts: str) -> Any:
    """A picture with lines of text, one below the other."""
    places = boxes(*((20, 30 + 40 * n, 60, 50 + 40 * n) for n in range(len(texts))))
    return draw(GREY, Lines(places, tuple(Words(text, 0.9) for text in texts)), str)


def test_a_font_that_has_the_letters_is_taken(folder: Path) -> None:
    (folder / "deep").mkdir()
    font_file(folder / "NotoSansCJK.ttf", CHINESE[:1])
    font_file(folder / "deep" / "other.ttf", CHINESE)
    (folder / "broken-cjk.ttf").write_bytes(b"no font")
    assert font.can_write(CHINESE) and font.can_write("cup")
    opened, whole = system_fonts.font_with(CHINESE, 20)
    assert whole and opened is not None and opened.path.endswith("other.ttf")
    shape = font.letters(CHINESE, 20)
    assert shape.shape == (20, 33) and shape.max() == 255
    assert (written(CHINESE) != written("#1")).any()


def test_a_text_that_no_font_has_is_numbered(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    font_file(folder / "one.ttf", CHINESE[:1])
    with caplog.at_level(logging.WARNING):
        assert (written("cup", CHINESE, CHINESE) == written("cup", "#2", "#3")).all()
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "no font here has all letters of what is written into pictures"
    ], "once"
    assert font.letters(CHINESE, 20).any(), "names of classes have frames"


def test_without_pillow_letters_are_those_of_ascii(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    assert font.can_write("cup 7") and not font.can_write("\u00e97")
    assert (written("\u00e97") == written("#1")).all()


def test_nothing_is_written_for_an_empty_text(folder: Path) -> None:
    rows = np.flatnonzero(changed(written("")).any(axis=1))
    assert rows.min() >= 29


def test_the_broadest_are_tried_first(folder: Path) -> None:
    for name in (
        "abc.ttf",
        "DejaVuSans-Bold.ttf",
        "NotoSansCJK-Bold.ttc",
        "NotoSansCJK-Regular.ttc",
        "x.pcf",
    ):
        (folder / name).touch()
    names = [Path(path).name for path in system_fonts._broadest()]
    assert names == ["NotoSansCJK-Regular.ttc", "NotoSansCJK-Bold.ttc", "DejaVuSans-Bold.ttf", "abc.ttf"]


def test_where_fonts_lie() -> None:
    assert all(isinstance(place, Path) for place in system_fonts._folders())
