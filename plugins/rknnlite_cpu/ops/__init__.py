"""Operators, grouped by family; importing this package fills the registry."""

from . import (
    activation,
    conv,
    elementwise,
    gather,
    matmul,
    move,
    norm,
    pool,
    rare,
    reduce,
    regions,
    resize,
    rnn,
)

__all__ = [
    "activation", "conv", "elementwise", "gather", "matmul", "move", "norm", "pool", "rare", "reduce", "regions", "resize", "rnn",
]  # fmt: skip
