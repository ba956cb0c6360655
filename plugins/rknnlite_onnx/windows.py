"""Geometry of windows that convolutions and poolings share."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["far_padding"]


def far_padding(
    sizes: Sequence[int],
    counts: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    near: Sequence[int],
) -> tuple[int, int]:
    """(bottom, right) padding behind ``sizes`` (y, x) so that there are ``counts`` windows, with ``near`` (top, left) before.

    Negative numbers crop. Files store the padding before only.
    """
    bottom, right = (
        (count - 1) * stride + dilation * (size - 1) + 1 - length - before
        for length, count, size, stride, dilation, before in zip(
            sizes, counts, kernel, strides, dilations, near
        )
    )
    return bottom, right
