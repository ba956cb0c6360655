#!/usr/bin/env python3
"""Lines of text that rapidocr's trained detector sees in rendered pictures, and where rapidocr says they are: tests/vision/data.

    python tools/vision/text_goldens.py tests/vision/data     # needs rapidocr-onnxruntime, pillow

Maps are kept in 8 bits, and boxes are found in what is kept. They are counted in eighths of a pixel, as rapidocr gives integers.
Before a box grows rapidocr rounds its corners down to whole pixels, as pyclipper takes integers; ``fine`` has finer ones.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

PICTURES: dict[str, tuple[tuple[int, int], list[tuple[str, float, float, int, float]]]] = {
    "lines": (
        (448, 320),
        [
            ("Reading lines of text", 20, 20, 28, 0),
            ("two words", 20, 80, 40, 0),
            ("7", 330, 80, 44, 0),
            ("small print, which is hard to see", 20, 160, 14, 0),
            ("At the edge 12345", 250, 270, 26, 0),
        ],
    ),
    "turned": (
        (544, 480),
        [
            ("Turned by ten degrees", 20, 10, 30, 10),
            ("Turned back by fifteen", 60, 110, 30, -15),
            ("Steep by forty", 300, 180, 36, 40),
            ("Standing up", 40, 230, 36, 90),
            ("flat again", 110, 400, 44, 0),
        ],
    ),
}
"""Size of each picture; of its lines the text, left, top, size and degrees clockwise."""
EIGHTHS = 8
_FINE = 1024
SETTINGS: dict[str, dict[str, Any]] = {
    "usual": {"box_thresh": 0.5, "unclip_ratio": 1.6, "use_dilation": True},
    "wide": {"box_thresh": 0.7, "unclip_ratio": 2.0, "use_dilation": True},
}


def rendered(name: str) -> Any:
    """RGB uint8 [height, width, 3]."""
    from PIL import Image, ImageDraw, ImageFont

    size, lines = PICTURES[name]
    picture = Image.new("RGB", size, (250, 248, 240))
    for text, left, top, height, degrees in lines:
        font = ImageFont.load_default(height)
        box = font.getbbox(text)
        line = Image.new("L", (int(box[2]) + 4, int(box[3]) + 4))
        ImageDraw.Draw(line).text((2, 2), text, fill=255, font=font)
        line = line.rotate(-degrees, Image.Resampling.BICUBIC, expand=True)
        picture.paste((20, 20, 40), (int(left), int(top)), line)
    return np.asarray(picture)


def detector() -> Any:
    import onnxruntime
    import rapidocr_onnxruntime

    models = Path(rapidocr_onnxruntime.__file__).parent / "models"
    return onnxruntime.InferenceSession(str(next(models.glob("*det*.onnx"))))


def fine(usual: Any) -> Any:
    """rapidocr's code, which grows boxes in integers that are parts of a pixel."""
    from types import SimpleNamespace

    import pyclipper
    from rapidocr_onnxruntime.ch_ppocr_det import utils

    class Offset(pyclipper.PyclipperOffset):  # type: ignore[misc]
        def AddPath(self, path: Any, *kinds: Any) -> None:
            super().AddPath(np.rint(path * _FINE).astype(np.int64).tolist(), *kinds)

        def Execute(self, distance: float) -> Any:
            return (np.array(super().Execute(distance * _FINE)) / _FINE).astype(np.float32)

    class Fine(usual):  # type: ignore[misc]
        def unclip(self, box: Any) -> Any:
            kept, utils.pyclipper = (
                utils.pyclipper,
                SimpleNamespace(**{**vars(pyclipper), "PyclipperOffset": Offset}),
            )
            try:
                return super().unclip(box)
            finally:
                utils.pyclipper = kept

    return Fine


def main() -> None:
    from rapidocr_onnxruntime.ch_ppocr_det.utils import DBPostProcess

    network, made = detector(), {}
    for name in PICTURES:
        values = rendered(name)[..., ::-1].transpose(2, 0, 1)[None].astype(np.float32) / 127.5 - 1
        (likely,) = network.run(None, {network.get_inputs()[0].name: values})
        stored = np.rint(likely[0, 0] * 255).astype(np.uint8)
        height, width = stored.shape
        made[f"{name}.map"] = stored
        for setting, options in SETTINGS.items():
            for kind, found_by in (("", DBPostProcess), (".fine", fine(DBPostProcess))):
                found = found_by(**options)(
                    (stored / np.float32(255))[None, None], (EIGHTHS * height, EIGHTHS * width)
                )
                made[f"{name}.{setting}{kind}.boxes"] = found[0]
                made[f"{name}.{setting}{kind}.scores"] = np.array(found[1], np.float32)
            print(name, setting, len(found[1]), "lines")
    np.savez_compressed(Path(sys.argv[1]) / "text_boxes.npz", **made)


if __name__ == "__main__":
    main()
