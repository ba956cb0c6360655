"""Arguments that the commands of vision share."""

from __future__ import annotations

import argparse
from pathlib import Path

from rknnlite.commandline.options import add_isolation, between

from ..before.preparation import Way
from ..heads.head import Limits

__all__ = ["COMMON", "add_boxes", "add_seeing", "limits_of"]

COMMON = ("--out", "--show", "--labels", "--backend", "--device")
"""What ``--help`` lists."""
UNSURE = 0.1
"""Score of detections that keep tracks alive."""
_MOST = 100_000
_USUAL = Limits()
_LABELS = (
    "names of the classes, one per line, or YAML with names:; or coco; by default what the model file says"
)


def add_seeing(parser: argparse.ArgumentParser, labels: str = _LABELS) -> None:
    """What is looked at and how, and what becomes of it; ``labels`` says what a file of them holds."""
    parser.add_argument(
        "sources",
        metavar="SOURCE",
        nargs="+",
        help="pictures, folders of them; or one film, camera (0, /dev/video0) or address (http, rtsp)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="PATH",
        help="marked pictures: a folder, or a file for one picture or film",
    )
    parser.add_argument(
        "--show", action="store_true", help="in a window, or without a display on a page of this machine"
    )
    parser.add_argument(
        "--port", type=between(int, 0, 65535), metavar="N", help="of the page of --show; any by default"
    )
    parser.add_argument("--labels", metavar="FILE", help=labels)
    parser.add_argument(
        "--score",
        type=between(float, 0.0, 1.0),
        default=_USUAL.score,
        metavar="S",
        help=f"least score (default: {_USUAL.score})",
    )
    parser.add_argument(
        "--fit",
        choices=[way.value for way in Way],
        help="how pictures go into the input; by default as is usual for the task",
    )
    parser.add_argument("--bgr", action="store_true", help="the model wants BGR (default: RGB)")
    parser.add_argument(
        "--hint",
        metavar="NAME",
        default="",
        help="what the head is, where names and shapes leave a choice: yolov5, ...",
    )
    parser.add_argument(
        "--workers",
        type=between(int, 1, 64),
        metavar="N",
        help="pictures at once (default: one per NPU core)",
    )
    add_isolation(parser)


def add_boxes(parser: argparse.ArgumentParser) -> None:
    """Which of the boxes are kept."""
    parser.add_argument(
        "--overlap",
        type=between(float, 0.0, 1.0),
        default=_USUAL.overlap,
        metavar="IOU",
        help=f"of boxes that overlap more the best is kept (default: {_USUAL.overlap})",
    )
    parser.add_argument(
        "--most",
        type=between(int, 1, _MOST),
        default=_USUAL.most,
        metavar="N",
        help=f"boxes of a picture (default: {_USUAL.most})",
    )
    parser.add_argument("--track", action="store_true", help="number things from frame to frame of a film")


def limits_of(args: argparse.Namespace) -> Limits:
    """The thresholds that were given; a tracker wants unsure detections, too."""
    score = min(args.score, UNSURE) if getattr(args, "track", False) else args.score
    return Limits(score, getattr(args, "overlap", _USUAL.overlap), getattr(args, "most", _USUAL.most))
