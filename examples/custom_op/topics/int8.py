"""An operator in whole numbers: scale and zero point of what the model stores are read when it is opened."""

from __future__ import annotations

import numpy as np

import rknnlite

SHIFT = 16


class Int8(rknnlite.CustomOp):
    """cstDualResidual on int8: a table of 256 entries per input and output, additions and a shift per element.

    The arrays are real numbers in every model, ``(stored - zero_point) * scale`` exactly where it stores int8.
    """

    op_type = "cstDualResidual"

    def init(self, ctx, inputs, outputs):
        quants = [attr.quant for attr in (*ctx.inputs, *ctx.outputs)]
        if None in quants:
            raise rknnlite.RknnError(f"{ctx.node.label()} is for models in int8")
        alpha, stored = ctx.attr("alpha"), np.arange(-128, 128)

        def table(source, target, factor):
            real = (stored - source.zero_point) * source.scale * factor
            return np.rint(real / target.scale * (1 << SHIFT)).astype(np.int64)

        x, y, first, second = quants
        tables = (
            (table(x, first, alpha), table(y, first, -1)),
            (table(x, second, -1), table(y, second, alpha)),
        )
        ctx.state = (x, y), (first, second), tables

    def compute(self, ctx, inputs, outputs):
        sources, targets, tables = ctx.state
        places = [np.rint(a / q.scale).astype(np.int64) + q.zero_point + 128 for a, q in zip(inputs, sources)]
        for output, target, (of_x, of_y) in zip(outputs, targets, tables):
            total = (of_x[places[0]] + of_y[places[1]] + (1 << SHIFT >> 1)) >> SHIFT
            stored = np.clip(total + target.zero_point, -128, 127)
            np.multiply(stored - target.zero_point, np.float32(target.scale), out=output, casting="unsafe")
