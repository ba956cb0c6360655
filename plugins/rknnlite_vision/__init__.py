"""Vision: what lies before a network that looks at pictures, and behind it. numpy alone; OpenCV or Pillow where they are there.

>>> from rknnlite_vision import draw, open_vision

* What is found: ``results``, and as names and numbers ``described``. Where a picture lies in a network's input, and back:
  ``placement``.
* A network with what lies around it: ``model``; names of its classes: ``labels``.
* Text: ``reading`` (a network finds lines, another reads them), ``lines`` (long ones).
* Pictures: ``pictures`` (files, folders, addresses), ``crops``, ``rectangles``; ``drawing`` (what was found), ``canvas``, ``font``,
  ``system_fonts``; ``show``.
* ``before``: pictures and frames of cameras to what a network takes.
* ``heads``: outputs to what is found: which head a network has, and its decoder.
* ``evaluation``: accuracy on datasets. ``streams``: pipelines from a source to a sink, tracks.
* ``commands``: ``detect``, ``classify``, ``segment``, ``pose``, ``read``, ``eval``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rknnlite import hookimpl
from rknnlite.spi.public_name import late_names

if TYPE_CHECKING:
    from rknnlite.spi.command import Command

    from .before.frame import Frame
    from .before.preparation import Preparation
    from .drawing import draw
    from .heads.head import Limits
    from .heads.recognise import recognise
    from .model import VisionModel, open_vision
    from .placement import Placement
    from .results import Classes, Detections, Embedding, Segments, Words
    from .streams.byte_track import ByteTrack
    from .streams.pipeline import Pipeline
    from .streams.sinks import FilmSink, FolderSink
    from .streams.sources import FilmSource, FolderSource

__all__ = [
    "ByteTrack",
    "Classes",
    "Detections",
    "Embedding",
    "FilmSink",
    "FilmSource",
    "FolderSink",
    "FolderSource",
    "Frame",
    "Limits",
    "Pipeline",
    "Placement",
    "Preparation",
    "Segments",
    "VisionModel",
    "Words",
    "draw",
    "open_vision",
    "recognise",
    "rknnlite_register_commands",
]

_MODULES = {
    "before.frame": ("Frame",),
    "before.preparation": ("Preparation",),
    "drawing": ("draw",),
    "heads.head": ("Limits",),
    "heads.recognise": ("recognise",),
    "model": ("VisionModel", "open_vision"),
    "placement": ("Placement",),
    "results": ("Classes", "Detections", "Embedding", "Segments", "Words"),
    "streams.byte_track": ("ByteTrack",),
    "streams.pipeline": ("Pipeline",),
    "streams.sinks": ("FilmSink", "FolderSink"),
    "streams.sources": ("FilmSource", "FolderSource"),
}

__getattr__ = late_names(__name__, _MODULES)


@hookimpl
def rknnlite_register_commands(register: Callable[[Command], None]) -> None:
    """Offer the commands."""
    from rknnlite.libraries import commands_of

    for command in commands_of("vision"):
        register(command)
