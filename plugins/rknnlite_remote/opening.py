"""A model opened on the board that is meant."""

from __future__ import annotations

from rknnlite import socs
from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.log import logger
from rknnlite.spi import OpenOptions

from .boards import meant
from .context import RemoteContext
from .model_on_boards import ModelOnBoards
from .options import check

__all__ = ["open_remote"]


def open_remote(model: ModelFile, options: OpenOptions) -> RemoteContext:
    """See ``RemoteBackend.open``."""
    board = meant(options.device_id)
    if board is None:
        raise BackendUnavailable(f"{options.device_id!r} names no board; give HOST:PORT, or one of remotes")
    check("remote", model, options)
    hosted = ModelOnBoards(board, model)
    description = hosted.distribute()
    try:
        soc = socs.get(description.soc)
    except ParamInvalid:
        raise ParamInvalid(
            f"board {board.label}: it says that it is an {description.soc!r}, which is no SoC known here; update rknnlite"
        ) from None
    wanted = socs.get(options.soc) if options.soc else None
    if wanted is not None and wanted.name not in (soc.name, *soc.accepts):
        logger.warning(
            "%s was asked for, but board %s is an %s: that runs the model", wanted.name, board.label, soc.name
        )
    if options.core_mask:
        soc.check_core_mask(options.core_mask)
    return RemoteContext(hosted, description, soc, options)
