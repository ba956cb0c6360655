"""Where a picture lies in a network's input, and the way back: scale and offset, no rotation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Placement"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Placement:
    """``x of the input = x of the picture * scale_x + left``, and y likewise.

    Attributes:
        picture: its width and height in pixels.
        network: the input's.
        scale_x: pixels of the input for one of the picture.
        scale_y: likewise.
        left: where the picture begins in the input; below zero where it is cut.
        top: likewise.

    Examples:
        >>> placement = Placement.letterbox((1280, 720), (640, 640))
        >>> placement.scale_x, placement.left, placement.top
        (0.5, 0, 140)
        >>> placement.back(np.array([[320.0, 320.0]]))
        array([[640., 360.]])
    """

    picture: tuple[int, int]
    network: tuple[int, int]
    scale_x: float
    scale_y: float
    left: float = 0
    top: float = 0

    @classmethod
    def letterbox(cls, picture: tuple[int, int], network: tuple[int, int]) -> Placement:
        """The whole picture in the middle of the input, its proportions kept; a bar of odd size is smaller on the left and top.

        The scaled size is rounded to whole pixels, and places are mapped with the scale before that, as ultralytics and
        Rockchip's model zoo do.
        """
        scale = min(n / p for n, p in zip(network, picture))
        left, top = ((n - max(1, round(p * scale))) // 2 for n, p in zip(network, picture))
        return cls(picture, network, scale, scale, left, top)

    @classmethod
    def stretch(cls, picture: tuple[int, int], network: tuple[int, int]) -> Placement:
        """The whole picture on the whole input; its proportions are lost."""
        return cls(picture, network, network[0] / picture[0], network[1] / picture[1])

    @classmethod
    def crop(cls, picture: tuple[int, int], network: tuple[int, int], zoom: float = 1.0) -> Placement:
        """The middle of the picture on the whole input, its proportions kept; what juts out is cut, as classifiers want it.

        Args:
            zoom: the short side is scaled to so many of the input's: 256 / 224 where a network of 224 pixels learnt so.

        The long side is rounded down and half of a pixel to the even one, as torchvision's ``Resize`` and ``CenterCrop`` do.
        """
        width, height = (max(1, round(n * zoom)) for n in network)
        if picture[0] * height > picture[1] * width:  # wider than the input
            width = picture[0] * height // picture[1]
        else:
            height = picture[1] * width // picture[0]
        left, top = round((network[0] - width) / 2), round((network[1] - height) / 2)
        return cls(picture, network, width / picture[0], height / picture[1], left, top)

    @classmethod
    def line(cls, picture: tuple[int, int], network: tuple[int, int]) -> Placement:
        """A line of text from the left edge of the input, as high as it, its proportions kept; one that is too long is squeezed.

        Its width is rounded up to whole pixels, as PaddleOCR does.
        """
        scale = network[1] / picture[1]
        width = min(network[0], math.ceil(picture[0] * network[1] / picture[1]))
        return cls(picture, network, width / picture[0], scale)

    @property
    def inner(self) -> tuple[int, int]:
        """Width and height of the scaled picture in whole pixels, at least 1."""
        (w, h) = self.picture
        return max(1, round(w * self.scale_x)), max(1, round(h * self.scale_y))

    def back(self, points: Array) -> Array:
        """Points [..., 2] (x, y) of the input in pixels of the picture."""
        start = np.array([self.left, self.top], points.dtype)
        scale = np.array([self.scale_x, self.scale_y], points.dtype)
        moved: Array = (points - start) / scale
        return moved

    def boxes_back(self, boxes: Array) -> Array:
        """Boxes [n, 4] in pixels of the picture, cut at its edges."""
        corners = self.back(boxes.reshape(-1, 2, 2))
        return np.clip(corners, 0, np.array(self.picture, boxes.dtype)).reshape(-1, 4)

    def rotated_back(self, boxes: Array) -> Array:
        """Turned boxes [n, 5] in pixels of the picture.

        Where the scales of x and y differ a rectangle is none there: the longer side is mapped, and the area.
        """
        moved = boxes.copy()
        moved[:, :2] = self.back(boxes[:, :2])
        if self.scale_x == self.scale_y:
            moved[:, 2:4] = boxes[:, 2:4] / np.float32(self.scale_x)
            return moved
        width, height, angle = boxes[:, 2:].T
        stands = height > width
        way = angle + np.where(stands, np.pi / 2, 0)
        x, y = np.cos(way) / self.scale_x, np.sin(way) / self.scale_y
        longer = np.hypot(x, y)
        shorter = 1 / (longer * self.scale_x * self.scale_y)
        moved[:, 2] = width * np.where(stands, shorter, longer)
        moved[:, 3] = height * np.where(stands, longer, shorter)
        moved[:, 4] = angle + (np.arctan2(y, x) - way + np.pi) % (2 * np.pi) - np.pi
        return moved

    def pixels_back(self, pixels: Array) -> Array:
        """Of maps or masks [..., height, width] of the whole input the nearest value for each pixel of the picture."""
        height, width = pixels.shape[-2:]
        rows = self._source(self.picture[1], self.scale_y, self.top, height / self.network[1], height)
        columns = self._source(self.picture[0], self.scale_x, self.left, width / self.network[0], width)
        return pixels[..., rows[:, None], columns]

    @staticmethod
    def _source(count: int, scale: float, start: float, share: float, size: int) -> NDArray[np.intp]:
        at = ((np.arange(count) + 0.5) * scale + start) * share
        source: NDArray[np.intp] = np.clip(np.floor(at), 0, size - 1).astype(np.intp)
        return source
