"""Which NPU core a worker takes: Ray counts cores but gives them no numbers."""

from __future__ import annotations

import errno
import os
import socket
from typing import Optional, Union

from rknnlite.errors import ParamInvalid
from rknnlite.log import logger
from rknnlite.pool.core_masks import core_masks
from rknnlite.spi import Context

__all__ = ["ClaimedCore", "WorkerCores", "take_cores"]

WorkerCores = Union[str, int]
"""``"spread"``, ``"auto"``, ``"all"`` or a mask, as for ``rknnlite.Pool``."""


class ClaimedCore:
    """A core that no other worker on this machine has; free again when the process ends, however it does."""

    def __init__(self, number: int, claim: socket.socket) -> None:
        self.number = number
        self._claim = claim

    def release(self) -> None:
        """Let others have it."""
        self._claim.close()


def claim(cores: int, node: str) -> Optional[ClaimedCore]:
    """The first core that is free; None when all are taken.

    The claim is the name of a socket, which the kernel gives to one process only and takes back from a dead one; no
    file is left. ``node`` keeps several nodes on one machine apart.
    """
    for number in range(cores):
        found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            found.bind(f"\0rknnlite-core-{os.getuid()}-{node}-{number}")
        except OSError as error:
            found.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return ClaimedCore(number, found)
    return None


def take_cores(context: Context, cores: WorkerCores, node: str) -> Optional[ClaimedCore]:
    """Set the context's core mask; with ``"spread"`` that of a core which no other worker of the node has.

    Raises:
        ParamInvalid, TargetPlatformUnmatch: a mask that the SoC does not have.
    """
    soc = context.soc
    if not isinstance(cores, (str, int)):
        raise ParamInvalid(f"cores={cores!r} is not 'spread', 'auto', 'all' or a mask")
    if cores != "spread":
        (mask,) = core_masks(soc, 1, cores)
        if mask is not None:
            context.set_core_mask(mask)
        return None
    if not soc.masks:
        return None
    claimed = claim(soc.cores, node)
    if claimed is None:
        logger.warning("all %d NPU cores of this node have a worker; the runtime chooses one", soc.cores)
    else:
        context.set_core_mask(1 << claimed.number)
    return claimed
