"""A model opened on a node of Ray: from a path or from the object store, on an NPU core of its own."""

from __future__ import annotations

import os
import sys
from typing import Any, NamedTuple, Optional

from rknnlite.runtime import open_model
from rknnlite.spi import Context

from .cores import ClaimedCore, WorkerCores, take_cores

__all__ = ["Opened", "open_on_node"]


class Opened(NamedTuple):
    """A context, and the core that nobody else on the node takes."""

    context: Context
    core: Optional[ClaimedCore]

    def close(self) -> None:
        """Give both back; may be called again."""
        self.context.close()
        if self.core is not None:
            self.core.release()


def open_on_node(model: Any, backend: Optional[str], cores: WorkerCores, **options: Any) -> Opened:
    """Open a path, bytes, or a reference to bytes in Ray's object store. Raises what ``rknnlite.open`` raises."""
    context = open_model(_source(model), backend, **options)
    try:
        return Opened(context, take_cores(context, cores, _node()))
    except BaseException:
        context.close()
        raise


def _source(model: Any) -> Any:
    """What ``open_model`` takes: bytes of the object store stay where they are, shared by all workers of the node."""
    if isinstance(model, (str, os.PathLike, bytes, bytearray, memoryview)):
        return model
    import ray

    held: Any = ray.get(model)
    return memoryview(held)


def _node() -> str:
    """The name of this node of Ray; outside of a cluster none."""
    ray = sys.modules.get("ray")
    return str(ray.get_runtime_context().get_node_id()) if ray is not None and ray.is_initialized() else ""
