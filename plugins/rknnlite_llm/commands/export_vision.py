"""The options of ``rknnlite export-llm`` for the vision tower of a model."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.socs import get
from rknnlite.spi.command import Console

from ..towers import FORMS, Vision, export_vision, has_tower

__all__ = ["add_vision", "check_vision", "written_vision"]

_NONE = "none"
_TOOLKIT = "RKNNLITE_TOOLKIT_PYTHON"
_SIZE = re.compile(r"(\d{1,5})x(\d{1,5})", re.ASCII)


def add_vision(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    group = parser.add_argument_group("vision tower, written as PREFIX.vision.onnx where the model has one")
    group.add_argument(
        "--image-size",
        type=_size,
        metavar="HxW",
        help="pictures in pixels (default: as in the vendor's examples, or the model's)",
    )
    group.add_argument(
        "--vision",
        choices=(*FORMS, _NONE),
        help="its input: rows of patches, or a picture; none: no tower (default: patches where the model takes them)",
    )
    group.add_argument(
        "--toolkit-python",
        type=Path,
        metavar="PYTHON",
        help=f"Python that has the vendor's toolkit, which writes PREFIX.vision.rknn (default: {_TOOLKIT})",
    )
    group.add_argument(
        "--vision-soc", default="rk3588", metavar="SOC", help="what that is for (default: rk3588)"
    )


def _size(text: str) -> tuple[int, int]:
    found = _SIZE.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 392x392, height and width in pixels")
    return int(found[1]), int(found[2])


def check_vision(args: argparse.Namespace) -> None:
    """Raise ParamInvalid, before anything is written, where options for a tower meet a model that has none."""
    args.vision_soc = get(args.vision_soc).name
    asked = args.image_size is not None or args.vision not in (None, _NONE) or args.toolkit_python is not None
    if asked and args.vision == _NONE:
        raise ParamInvalid("--vision none writes no tower; leave out --image-size and --toolkit-python")
    if asked and not has_tower(args.source):
        raise ParamInvalid(
            f"{args.source} has no vision tower that is known; leave out --image-size and --vision"
        )


def written_vision(args: argparse.Namespace, console: Console) -> list[Path]:
    """Write the tower, if there is one; its files. Without the package onnx a note says so, unless one was asked for."""
    if args.vision == _NONE or not has_tower(args.source):
        return []
    toolkit = args.toolkit_python or (Path(os.environ[_TOOLKIT]) if os.environ.get(_TOOLKIT) else None)
    vision = Vision(args.image_size, args.vision, toolkit, args.vision_soc)
    try:
        return export_vision(args.source, args.prefix, vision)
    except BackendUnavailable as error:
        if args.image_size or args.vision or toolkit:
            raise
        console.note(f"no vision tower is written: {error}")
        return []
