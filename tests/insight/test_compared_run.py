"""What a network in float gets for the inputs of a file."""

from __future__ import annotations

import numpy as np
from rknnlite_insight.compared_run import normalised

from rknnlite import Layout
from rknnlite.formats import IoTensor
from rknnlite.quant import QuantParams
from rknnlite.spi import Input
from rknnlite.tensor import DType

RED, GREEN, BLUE = 30.0, 20.0, 10.0


def test_channels_are_put_in_order_before_the_mean_is_taken_off() -> None:
    """A network of BGR, whose mean is in its own order: what files of the first generation hold."""
    io = IoTensor(
        "x", (1, 3, 1, 1), DType.UINT8, Layout.NHWC, QuantParams(1.0, 0),
        mean=(BLUE, GREEN, RED), std=(2.0, 2.0, 2.0), reorder=(2, 1, 0),
    )  # fmt: skip
    picture = np.array([RED + 6, GREEN + 4, BLUE + 2], np.uint8).reshape(1, 1, 1, 3)
    nchw = np.moveaxis(picture, -1, 1)
    for item in (Input(0, picture), Input(0, nchw, Layout.NCHW)):
        assert normalised(item, io).tolist() == np.array([1, 2, 3], np.float32).reshape(1, 3, 1, 1).tolist()
    as_it_is = normalised(Input(0, picture), io._replace(reorder=(), mean=(RED, GREEN, BLUE)))
    assert as_it_is.ravel().tolist() == [3, 2, 1]
