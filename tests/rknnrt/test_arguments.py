"""Wrong types on librknnrt: errors of ours in every public method, and the library has nothing left over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rknnlite.spi import Input
from tests.spi.public_calls import methods, untyped


def test_every_method(start: Callable[..., Any]) -> None:
    context = start("input image int8 4 1 4 4 3 0.5 0", "output scores int8 2 1 10 0.1 5", "op idle")
    image = np.zeros((1, 4, 4, 3), np.uint8)
    right = {"*arrays": (image,), "inputs": [Input(0, image)]}
    for name in methods(type(context)):
        assert not untyped(name, getattr(context, name), right)[1]
