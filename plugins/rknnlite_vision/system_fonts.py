"""A font for a text, by Pillow: its own, else one of the system that has all of the letters."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

__all__ = ["font_with"]

_ENDINGS = (".ttf", ".ttc", ".otf")
_MOST_FILES = 4000
_MOST_TRIED = 24
"""Fonts that are opened for a text that Pillow's own cannot write."""
_BROAD = (
    "cjk",
    "fallback",
    "wqy",
    "unifont",
    "hansans",
    "msyh",
    "simsun",
    "pingfang",
    "hiragino",
    "unicode",
    "dejavusans.",
    "sans",
)
"""Parts of names of fonts with many letters, the broadest first."""
_SLANTED = ("bold", "italic", "oblique", "mono", "black", "thin", "light")
_PROBED = 24  # pixels
_NOWHERE = "\uffff"  # no letter, so that every font shows what it shows for those it lacks


def font_with(text: str, height: int) -> tuple[Optional[Any], bool]:
    """A font of that size with the letters of a text, and whether it has all of them; None without Pillow, or with an old one."""
    size = max(6, round(height * 0.8))
    for source in _sources():
        if all(_has(source, char) for char in text):
            return _opened(source, size), True
    return _opened("", size), False


def _sources() -> Iterator[str]:
    """Pillow's own font, then files: the system's folders are walked for a letter that it lacks, and for no other."""
    yield ""
    yield from _broadest()


@functools.lru_cache(maxsize=1 << 14)
def _has(source: str, char: str) -> bool:
    font = _opened(source, _PROBED)
    return font is not None and (char.isspace() or _shape(font, char) != _shape(font, _NOWHERE))


def _shape(font: Any, char: str) -> tuple[Any, bytes]:
    mask = font.getmask(char)
    return mask.size, bytes(mask)


@functools.lru_cache(maxsize=64)
def _opened(source: str, size: int) -> Optional[Any]:
    """Pillow's own font where there is no file; None for what it cannot open."""
    try:
        from PIL import ImageFont

        font = ImageFont.truetype(source, size) if source else ImageFont.load_default(size)
    except (ImportError, TypeError, OSError, ValueError):  # 10.1 was the first that takes a size
        return None
    return font if hasattr(font, "getmetrics") else None  # it has curves


@functools.lru_cache(maxsize=1)
def _broadest() -> tuple[str, ...]:
    """Files of fonts that have many letters, the likeliest first."""
    files = [path for _, path in zip(range(_MOST_FILES), _files())]
    ranked = sorted((_rank(path.name.lower()), str(path)) for path in files)
    return tuple(path for _, path in ranked[:_MOST_TRIED])


def _rank(name: str) -> tuple[int, bool]:
    plain = name.replace("-", "").replace("_", "").replace(" ", "")
    broad = next((n for n, part in enumerate(_BROAD) if part in plain), len(_BROAD))
    return broad, any(part in plain for part in _SLANTED)


def _files() -> Iterator[Path]:
    for folder in _folders():
        for place, _, names in os.walk(folder):
            yield from (Path(place, name) for name in names if name.lower().endswith(_ENDINGS))


def _folders() -> list[Path]:
    home = Path.home()
    if sys.platform == "win32":
        return [Path(os.environ.get("WINDIR", r"C:\Windows"), "Fonts")]
    if sys.platform == "darwin":
        return [Path("/System/Library/Fonts"), Path("/Library/Fonts"), home / "Library/Fonts"]
    return [
        Path("/usr/share/fonts"),
        Path("/usr/local/share/fonts"),
        home / ".local/share/fonts",
        home / ".fonts",
    ]
