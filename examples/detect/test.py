#!/usr/bin/env python3
"""Find things in a picture or a video: on the board's NPU, or on a PC.

python test.py                               # scene.jpg; writes found.png
python test.py picture.jpg marked.png
python test.py --video film.avi marked.avi
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from rknnlite_vision import FilmSink, FilmSource, Limits, VisionModel, draw, open_vision
from rknnlite_vision.pictures import read, write

import rknnlite

HERE = Path(__file__).resolve().parent
MODELS = {"rk3588": "RK3588", "rk3566": "RK3566_RK3568", "rk3568": "RK3566_RK3568"}
LIMITS = Limits(score=0.4, overlap=0.5)


def model() -> Path:
    """The file for this board; on a PC the one for RK3588."""
    try:
        names = Path("/proc/device-tree/compatible").read_text(errors="replace")
    except OSError:
        names = ""
    chip = next((chip for soc, chip in MODELS.items() if soc in names), "")
    if "rockchip," in names and not chip:
        sys.exit(f"No model for this board, only for {', '.join(MODELS)}: convert.py makes others")
    return HERE / f"detect_for_{chip or 'RK3588'}.rknn"


def mark_picture(net: VisionModel, source: str, target: str) -> None:
    picture = read(Path(source))
    found = net.see(picture, LIMITS)
    for kind, score, corners in zip(found.classes, found.scores, found.boxes):
        print(f"{net.name_of(kind):13}{score:.3f}", *(f"{c:6.1f}" for c in corners))
    write(Path(target), draw(picture, found, net.name_of))


def mark_video(net: VisionModel, source: str, target: str) -> None:
    counts = []
    with FilmSource(source) as film, FilmSink(target, film.rate) as sink:
        for picture in film:
            found = net.see(picture, LIMITS)
            sink(draw(picture, found, net.name_of))
            counts.append(len(found))
    print(f"{target}: {sum(counts)} boxes in {len(counts)} frames")


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--video"] or [str(HERE / "scene.jpg"), "found.png"]
    if len(words) != 2:
        sys.exit(__doc__)
    mark = mark_video if "--video" in sys.argv else mark_picture
    try:
        with open_vision(model(), labels=HERE / "labels.txt") as net:
            mark(net, *words)
    except (rknnlite.RknnError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
