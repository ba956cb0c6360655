#!/usr/bin/env python3
"""Frames of all formats, and what ffmpeg makes of them, for tests/vision/test_frame.py.

    python tools/vision/frame_goldens.py tests/vision/data/frames.npz

Chroma is repeated (``neighbor``), sums are exact (``accurate_rnd``), each pixel is computed (``full_chroma_int``).
"""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np

FORMATS = (
    "nv12",
    "nv21",
    "yuv420p",
    "yuyv422",
    "yvyu422",
    "uyvy422",
    "rgb24",
    "bgr24",
    "rgba",
    "bgra",
    "gray",
)
MATRICES = ("bt601", "bt709", "bt2020")
SIZE = (16, 8)
_BITS = {
    "yuyv422": 16,
    "yvyu422": 16,
    "uyvy422": 16,
    "rgb24": 24,
    "bgr24": 24,
    "rgba": 32,
    "bgra": 32,
    "gray": 8,
}


def raw_frame(pixel_format: str, size: tuple[int, int], full: bool, seed: int) -> np.ndarray:
    """A frame of noise, of legal levels; of odd sizes with chroma that is the same everywhere."""
    width, height = size
    across, down = (width + 1) // 2, (height + 1) // 2
    generator = np.random.default_rng(seed)
    limits = (0, 256) if full else (16, 236)
    if pixel_format in ("nv12", "nv21", "yuv420p"):
        frame = generator.integers(*limits, width * height + 2 * across * down, np.uint8)
        if (width | height) & 1:
            chroma = frame[width * height :]
            if pixel_format == "yuv420p":
                chroma[: len(chroma) // 2], chroma[len(chroma) // 2 :] = 90, 200
            else:
                chroma[0::2], chroma[1::2] = 90, 200
        return frame
    bits = _BITS[pixel_format]
    pixels = 2 * across if bits == 16 else width
    frame = generator.integers(*limits, pixels * height * bits // 8, np.uint8)
    if bits == 16 and width & 1:
        chroma = frame[0 if pixel_format == "uyvy422" else 1 :: 2]
        chroma[0::2], chroma[1::2] = 90, 200
    return frame


def by_ffmpeg(
    frame: np.ndarray, pixel_format: str, size: tuple[int, int], matrix: str, full: bool
) -> np.ndarray:
    """RGB [height, width, 3]."""
    width, height = size
    flags = "neighbor+accurate_rnd+full_chroma_int+full_chroma_inp"
    scale = f"scale=in_color_matrix={matrix}:in_range={'pc' if full else 'tv'}:out_range=pc:flags={flags}"
    command = f"ffmpeg -v error -f rawvideo -pix_fmt {pixel_format} -s {width}x{height} -i - -vf {scale} -pix_fmt rgb24 -f rawvideo -"
    done = subprocess.run(command.split(), input=frame.tobytes(), capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    return np.frombuffer(done.stdout, np.uint8).reshape(height, width, 3)


def main() -> None:
    goldens = {}
    for pixel_format in FORMATS:
        for full in (False, True):
            frame = raw_frame(pixel_format, SIZE, full, 7)
            goldens[f"{pixel_format} {full}"] = frame
            for matrix in MATRICES if "u" in pixel_format or "nv" in pixel_format else MATRICES[:1]:
                goldens[f"{pixel_format} {full} {matrix}"] = by_ffmpeg(
                    frame, pixel_format, SIZE, matrix, full
                )
    np.savez_compressed(sys.argv[1], **goldens)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
