"""Vision: what lies before a network that looks at pictures, and behind it. numpy alone; OpenCV or Pillow where they are there.

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

if TYPE_CHECKING:
    from rknnlite.spi.command import Command

__all__ = ["rknnlite_register_commands"]


@hookimpl
def rknnlite_register_commands(register: Callable[[Command], None]) -> None:
    """Offer the commands."""
    from rknnlite.libraries import commands_of

    for command in commands_of("vision"):
        register(command)
