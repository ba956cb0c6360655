"""Fused operators: types of nodes that compute several things in one pass, told apart in this one place.

The compiler names such a node after its parts, in order: ``ConvLeakyReluAdd`` is a convolution, then a LeakyRelu, then a
sum with a further operand.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Optional

from ..graph import Accumulator, Activation, FusedOp, Join

__all__ = ["fused_op"]

_ACTIVATION = "|".join(word.value for word in Activation if word is not Activation.TABLE)
_JOIN = "|".join(word.value for word in Join)
_STAGE = re.compile(
    rf"(Conv(?:Transpose)?|BatchNormalization|)(?:({_ACTIVATION})?({_JOIN}))?({_ACTIVATION})?"
)
_TABLE = re.compile(r"(ConvTranspose|Conv)(.+)")


@lru_cache(maxsize=256)
def fused_op(op: str) -> Optional[FusedOp]:
    """What a node of type ``op`` does around its accumulator; None for types that are none of these.

    Whatever else follows a convolution is the name of a function that is looked up in a table.
    """
    found = _STAGE.fullmatch(op)
    if found is not None:
        base, before, join, after = found.groups()
        return FusedOp(
            Accumulator(base),
            before=Activation(before) if before else None,
            join=Join(join) if join else None,
            after=Activation(after) if after else None,
        )
    found = _TABLE.fullmatch(op)
    if found is None:
        return None
    base, word = found.groups()
    return FusedOp(Accumulator(base), after=Activation.TABLE, function=word[0].upper() + word[1:])
