"""A network for pictures as the steps of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import rknnlite
from rknnlite.spi import Context

from ..heads.head import Limits
from .pipeline import Pipeline

if TYPE_CHECKING:
    from ..model import VisionModel

__all__ = ["looking"]


def looking(
    source: Iterable[Any],
    pool: rknnlite.Pool,
    model: VisionModel,
    sink: Callable[[Any, Any], object],
    limits: Limits = Limits(),
    **options: Any,
) -> Pipeline:
    """A pipeline that prepares each picture, runs it on a context of the pool, and decodes as ``model.see`` does.

    Args:
        pool: of the file that ``model`` was opened from.
        options: ``queue`` and ``stall`` of ``Pipeline``.
    """
    batch = pool.inputs[0].dims[0]

    def run(context: Context, picture: Any) -> tuple[Any, Any]:
        array, placements = model.preparation.batch([picture] * batch)
        return [output.data for output in context.infer(array, raw=True)], placements[0]

    def decode(outputs: tuple[Any, Any], _: Any) -> Any:
        arrays, placement = outputs
        return model.head.decode(arrays, limits)[0].placed(placement)

    return Pipeline(source, pool, decode, sink, run=run, **options)
