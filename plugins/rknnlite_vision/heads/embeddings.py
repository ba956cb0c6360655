"""Vectors that are near to those of pictures of the same: faces, persons, whole pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid

from ..results import Embedding
from .head import Head, Limits, Task
from .seen import Seen
from .stored import Stored

__all__ = ["Vector", "embedding"]


class Vector(Head):
    """One output is the vector, as the network gives it: its length is kept.

    Examples:
        >>> import numpy as np
        >>> from rknnlite.tensor import DType, Layout, TensorAttr
        >>> from rknnlite_vision.heads.recognise import recognise
        >>> image = TensorAttr(0, "image", (1, 112, 112, 3), DType.UINT8, Layout.NHWC)
        >>> vector = TensorAttr(0, "output", (1, 4), DType.FLOAT32, Layout.UNDEFINED)
        >>> head = recognise([image], [vector], hint="arcface")
        >>> one, other = (head.decode([np.array([v], np.float32)])[0] for v in ([1, 0, 0, 2], [2, 0, 0, 4]))
        >>> head.family, round(one.cosine(other), 6)
        ('embedding, 4 numbers', 1.0)
    """

    task, classes = Task.EMBED, 0

    def __init__(self, seen: Seen, length: int) -> None:
        super().__init__(seen.inputs, seen.outputs)
        self.size, self.family = seen.size, f"embedding, {length} numbers"
        self._stored = Stored(self.outputs[0])

    def _picture(self, outputs: Sequence[NDArray[Any]], limits: Limits) -> Embedding:
        vector = self._stored.real(outputs[0].ravel())
        wrong = int(np.count_nonzero(~np.isfinite(vector)))
        if wrong:
            raise InputInvalid(f"{self.family}: {wrong} of them are NaN or infinite; no distance can be told")
        return Embedding(vector)


def embedding(seen: Seen) -> Optional[Head]:
    """One row of numbers, which only a hint tells from classes."""
    if not seen.hint or len(seen.outputs) != 1 or 0 in seen.size or seen.outputs[0].dims[0] != seen.batch:
        return None
    sizes = [size for size in seen.outputs[0].dims[1:] if size != 1]
    return Vector(seen, sizes[0]) if len(sizes) == 1 else None
