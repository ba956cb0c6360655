"""Random shapes for the native engine's tests, of integers and of floats."""

from __future__ import annotations

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

CHANNELS = st.sampled_from([1, 2, 3, 4, 5, 15, 16, 17, 24, 32, 33, 48, 64, 70, 130])
SIDE, SMALL = st.integers(1, 19), st.integers(1, 4)


@st.composite
def convolutions(draw: st.DrawFn, **others: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Arguments of ``native.convolution`` and ``native_floats.convolution``, and ``others`` that one of them has."""
    depthwise, channels = draw(st.booleans()), draw(CHANNELS)
    pads = tuple(draw(st.integers(-1, 3)) for _ in range(4))
    shape = (draw(st.integers(1, 2)), channels if depthwise else draw(CHANNELS), draw(SIDE), draw(SIDE))
    kernel, dilations = (draw(SMALL), draw(SMALL)), (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    for i in range(2):
        assume(shape[2 + i] + pads[i] + pads[2 + i] > dilations[i] * (kernel[i] - 1))
        assume(shape[2 + i] + min(pads[i], 0) + min(pads[2 + i], 0) > 0)
    return {
        "shape": shape,
        "channels": channels,
        "kernel": kernel,
        "strides": (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        "dilations": dilations,
        "pads": pads,
        "depthwise": depthwise,
        **{name: draw(strategy) for name, strategy in others.items()},
    }
