"""What goes through the decoder in one piece: embeddings, their positions, what joins them on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Union

from numpy.typing import NDArray

__all__ = ["DecoderInput"]

Array = NDArray[Any]


@dataclass(frozen=True)
class DecoderInput:
    """``embeds`` float32 (n, row_size), see ``Architecture``, of n tokens that follow each other.

    Without more they stand at the next positions. Else ``positions`` int64 (3, n): time, height and width of each; ``behind``
    int64 (n,): the position of a text that follows on each. ``extra`` float32 (layers, n, hidden) is added behind the first layers.
    """

    embeds: Array
    positions: Optional[Array] = None
    behind: Optional[Array] = None
    extra: Optional[Array] = None

    @staticmethod
    def of(given: Union[Array, DecoderInput]) -> DecoderInput:
        """Rows as they are, embeddings alone as rows."""
        return given if isinstance(given, DecoderInput) else DecoderInput(given)

    def __len__(self) -> int:
        return len(self.embeds)

    def __getitem__(self, part: slice) -> DecoderInput:
        positions = None if self.positions is None else self.positions[:, part]
        behind = None if self.behind is None else self.behind[part]
        extra = None if self.extra is None else self.extra[:, part]
        return DecoderInput(self.embeds[part], positions, behind, extra)
