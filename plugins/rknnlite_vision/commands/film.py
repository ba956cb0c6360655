"""Films, cameras and streams."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import TYPE_CHECKING

from rknnlite.errors import ParamInvalid
from rknnlite.spi.command import Console

from .sources import StreamSource

if TYPE_CHECKING:
    from .look import Look

__all__ = ["look_at_film"]


def look_at_film(
    command: Look, args: argparse.Namespace, source: StreamSource, console: Console, opened: ExitStack
) -> int:
    """Not yet."""
    raise ParamInvalid(f"{source.address} is a film or a camera: rknnlite {command.name} takes pictures")
