"""The vendor's sentences for errors that the core words in its own way: programs and people search for these."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputInvalid, RknnError
from ..spi.inputs import RankMismatch

__all__ = ["shapes_refused", "wrong_rank"]

Shapes = Sequence[Sequence[int]]


def wrong_rank(error: RankMismatch) -> InputInvalid:
    """What both faces say to an array with too many or too few dimensions."""
    attr, shape = error.attr, error.shape
    return InputInvalid(
        f"The input[{attr.index}] need {len(attr.dims)}dims input, but {len(shape)}dims input buffer feed. "
        f"({attr.name}: expected {list(attr.dims)}, got {list(shape)})"
    )


def shapes_refused(error: RknnError, given: Shapes, legal: Sequence[Shapes]) -> RknnError:
    """What ``RKNNLite`` says to arrays whose shapes are none of the ``legal`` ones of a dynamic model."""
    return RknnError(
        f"Set input shape failed. error code: RKNN_ERR_FAIL. Got {_listed(given)}, legal are "
        f"{'; '.join(map(_listed, legal))}. {error}"
    )


def _listed(shapes: Shapes) -> str:
    return ", ".join(str(list(shape)) for shape in shapes)
