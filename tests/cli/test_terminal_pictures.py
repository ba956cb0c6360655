"""The pictures of the terminal in the documentation are what the commands print."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

pytest.importorskip("rich")

from tools import terminal_pictures

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "images"


def words(picture: Path) -> list[str]:
    """The texts of a picture; how fast an answer came is another each time."""
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", picture.read_text(encoding="utf-8"))
    found = [text.strip() for text in map(html.unescape, texts) if text.strip()]
    return [re.sub(r"[\d.]+(/s|\s+s\))", r"N\1", text) for text in found]


@pytest.mark.slow
def test_pictures_are_what_is_printed(tmp_path: Path) -> None:
    terminal_pictures.main(tmp_path)
    for name in ("top.svg", "chat.svg"):
        assert words(PICTURES / name) == words(tmp_path / name), (
            "python tools/terminal_pictures.py makes them anew"
        )


@pytest.mark.parametrize("name", ["top.svg", "chat.svg", "logo.svg", "logo-white.svg"])
def test_pictures_are_small_and_fetch_nothing(name: str) -> None:
    text = (PICTURES / name).read_text(encoding="utf-8")
    assert len(text) < 60_000
    assert set(re.findall(r"https?://[^\"\s]+", text)) == {"http://www.w3.org/2000/svg"}
