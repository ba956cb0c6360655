"""Whether an output holds scores or what an activation is still to turn into scores: told once, by the file."""

from __future__ import annotations

import re

from rknnlite.tensor import TensorAttr

from .stored import Stored

__all__ = ["are_logits"]

_SCORES = re.compile("softmax|sigmoid|prob", re.IGNORECASE)
_LOGITS = re.compile("logit", re.IGNORECASE)


def are_logits(attr: TensorAttr, hint: str, usual: bool) -> bool:
    """Whether a sigmoid or softmax is still to come.

    A hint that ends in ``logits`` or ``probabilities`` says it. Of integers the range that they can mean does: scores need 0 to 1.
    Of floats the name of the output may: ``softmax``, ``sigmoid`` and ``prob`` are scores, ``logit`` is not.

    Args:
        attr: of the output.
        hint: as ``Seen.hint``.
        usual: what holds where nothing says it.

    Examples:
        >>> from rknnlite.tensor import DType, Layout, QuantParams
        >>> attr = TensorAttr(0, "score", (1, 8), DType.INT8, Layout.UNDEFINED, QuantParams(0.1, 0))
        >>> are_logits(attr, "", False), are_logits(attr, "scrfdprobabilities", False)
        (True, False)
    """
    if hint.endswith(("logits", "probabilities")):
        return hint.endswith("logits")
    if not attr.dtype.is_float and attr.quant:
        least, greatest = Stored(attr).range
        return least < -0.5 or greatest > 1.5
    if _LOGITS.search(attr.name):
        return True
    return usual and not _SCORES.search(attr.name)
