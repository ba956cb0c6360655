#!/usr/bin/env python3
"""The pictures of docs/images: pages of the command, photographed by Chromium without a window.

    python tools/screenshots.py                  all of them, into docs/images
    python tools/screenshots.py --all-looks DIR  narrow and wide, light and dark, to be looked at

Needs chromium (Debian: apt install chromium), Pillow, and the extras ``html`` and ``fast``.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "resnet18"
MODEL, DIGIT = EXAMPLE / "resnet18_for_RK3588.rknn", EXAMPLE / "digit_224.png"
MOST_BYTES = 150_000
_WIDE, _NARROW = 1280, 400
_LEAST_WIDTH = 500  # of a window of Chromium
_MARGIN = 200  # the last lines of a window are not always painted


@dataclass(frozen=True)
class Picture:
    """A page: the words of the command that writes it (``HTML`` is its file), and how much of it is shown, in pixels."""

    name: str
    words: tuple[object, ...]
    height: int


def pictures(folder: Path) -> list[Picture]:
    """What is photographed."""
    network, noise = folder / "resnet18.onnx", folder / "noise.npy"
    _call("export-onnx", MODEL, network)
    np.save(noise, np.random.default_rng(0).integers(0, 256, (1, 224, 224, 3), dtype=np.uint8))
    return [
        Picture("perf-html", ("perf", MODEL, DIGIT, "--backend", "cpu", "--html", "HTML"), 1120),
        Picture(
            "compare-html",
            ("compare", MODEL, network, noise, "--mode", "single", "--backend", "cpu", "--html", "HTML"),
            1120,
        ),
    ]


def _call(*words: object) -> None:
    command = [sys.executable, "-m", "rknnlite", *map(str, words)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)


def write_page(picture: Picture, folder: Path) -> Path:
    """Run the command; the file of the page."""
    page = folder / f"{picture.name}.html"
    _call(*(page if word == "HTML" else word for word in picture.words))
    return page


def photograph(page: Path, target: Path, width: int, height: int, dark: bool = False) -> None:
    """The page in a window of that size as a PNG of few colours."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("screenshots need chromium (Debian: apt install chromium)")
    with tempfile.TemporaryDirectory() as folder:
        # A window is at least 500 pixels wide: a narrow page is photographed in a frame.
        shown = page if width >= _LEAST_WIDTH else _framed(page, Path(folder) / "frame.html", width, height)
        raw = Path(folder) / "raw.png"
        command = [
            browser, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu", f"--user-data-dir={folder}/profile",
            f"--window-size={width},{height + _MARGIN}", f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            f"--screenshot={raw}", shown.as_uri(),
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        with Image.open(raw) as image:
            small = (
                image.convert("RGB")
                .crop((0, 0, width, height))
                .quantize(96, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
            )
            small.save(target, optimize=True)


def _framed(page: Path, frame: Path, width: int, height: int) -> Path:
    frame.write_text(
        f'<body style="margin:0"><iframe src="{page.as_uri()}" style="border:0;width:{width}px;height:{height}px"></iframe>'
    )
    return frame


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--all-looks", type=Path, metavar="DIR")
    looks: Path | None = parser.parse_args().all_looks
    images = looks or ROOT / "docs" / "images"
    images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for picture in pictures(Path(folder)):
            page = write_page(picture, Path(folder))
            if looks is None:
                target = images / f"{picture.name}.png"
                photograph(page, target, _WIDE, picture.height)
                size = target.stat().st_size
                assert size < MOST_BYTES, f"{target}: {size} bytes"
                print(target, size)
                continue
            for width in (_WIDE, _NARROW):
                for dark in (False, True):
                    name = f"{picture.name}-{width}-{'dark' if dark else 'light'}.png"
                    photograph(page, images / name, width, 3000, dark)


if __name__ == "__main__":
    main()
