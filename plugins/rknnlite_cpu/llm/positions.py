"""Positions of tokens for a rotary embedding of three axes (M-RoPE): texts in a line, images by row and column, videos by time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.architecture import Media
from rknnlite_llm.container.description import LlmModel

from rknnlite.errors import InputInvalid, ModelUnsupported
from rknnlite.spi.llm import AudioBlock, ImageBlock, MediaBlock, VideoBlock

__all__ = ["positions_of"]

Array = NDArray[Any]


def positions_of(
    model: LlmModel, count: int, media: Sequence[tuple[MediaBlock, Array]], start: int
) -> tuple[Array, Array]:
    """Positions int64 (3, count) of the tokens of an input, and those of a text behind each, int64 (count,).

    ``media``: blocks, and the places of their embeddings in the input. ``start``: position of the first token.
    Raises InputInvalid where sizes do not fit, ModelUnsupported where the model does not say what a token shows.
    """
    owner = np.full(count, -1)
    for number, (_, places) in enumerate(media):
        owner[places] = number
    grids = [_grid(model, block) for block, _ in media]
    placed = [0] * len(media)
    axes, first, position = np.empty((3, count), np.int64), 0, start
    for last in [*(np.flatnonzero(np.diff(owner)) + 1).tolist(), count]:
        number = owner[first]
        if number < 0 or isinstance(media[number][0], AudioBlock):
            axes[:, first:last] = position + np.arange(last - first)
            position += last - first
        else:
            block = media[number][0]
            for size in _pieces(block, placed[number], last - first):
                piece = axes[:, first : first + size]
                piece[...] = position + _numbered(model, block, size, grids[number])
                first, position = first + size, int(piece.max()) + 1
                placed[number] += size
        first = last
    behind = np.maximum(np.maximum.accumulate(axes.max(axis=0)) + 1, start)
    return axes, behind


def _pieces(block: MediaBlock, placed: int, run: int) -> Iterator[int]:
    """Tokens that stand together, cut where an image or a video ends."""
    while run:
        size = min(run, block.tokens_each - placed % block.tokens_each)
        yield size
        run, placed = run - size, placed + size


def _media(model: LlmModel) -> Media:
    found = model.arch.media
    if found is None or not found.cell:
        raise ModelUnsupported(
            f"model {model.name} does not say how many pixels a token shows, so images and videos have no places in it; export it "
            "from files whose config.json has vision_config"
        )
    return found


def _grid(model: LlmModel, block: MediaBlock) -> tuple[int, int]:
    """Rows and columns of tokens of an image, of a frame."""
    if isinstance(block, AudioBlock):
        return 1, 1
    cell, kind = _media(model).cell, "image" if isinstance(block, ImageBlock) else "frame"
    rows, columns = block.height // cell, block.width // cell
    tokens = block.n_image_tokens if isinstance(block, ImageBlock) else block.n_frame_tokens
    if rows * columns != tokens or block.height % cell or block.width % cell:
        raise InputInvalid(
            f"{block.tag}: {kind}_width {block.width} and {kind}_height {block.height} make {columns} x {rows} tokens of {cell} x "
            f"{cell} pixels, n_{kind}_tokens is {tokens}; model {model.name} counts rows and columns, so name the size in pixels "
            "that the encoder was given"
        )
    return rows, columns


def _numbered(model: LlmModel, block: MediaBlock, size: int, grid: tuple[int, int]) -> Array:
    """Time, row and column of ``size`` tokens, from 0: int64 (3, size)."""
    rows, columns = grid
    times = size // (rows * columns)
    if times * rows * columns != size:
        raise InputInvalid(
            f"{block.tag}: {size} content markers stand together, that is no whole number of pictures of {rows} x {columns} tokens"
        )
    found = np.indices((times, rows, columns)).reshape(3, size)
    step = _media(model).step * block.seconds if isinstance(block, VideoBlock) else 0.0
    return np.stack([(found[0] * (step or 1.0)).astype(np.int64), found[1], found[2]])
