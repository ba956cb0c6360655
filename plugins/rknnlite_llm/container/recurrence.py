"""The form of layers with a running state."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Recurrence"]


@dataclass(frozen=True)
class Recurrence:
    """Layers whose past is a running state: ``heads`` matrices of ``key`` times ``value`` channels, and the last inputs of a
    convolution of ``taps`` taps that queries, keys and values go through.

    A matrix ``S`` shrinks by ``exp(g)`` with every token; then a delta net adds ``key (x) beta (value - key S)``, a Mamba2
    ``key (x) dt value``; what comes out is ``query S``. Queries and keys are of ``groups`` heads, each of them for as many that lie
    next to each other. In the words of Mamba2 queries are C, keys B, values x.

    Attributes:
        conv_bias: the convolution has a bias.
        biased: the matrices have biases.
    """

    heads: int
    groups: int
    key: int
    value: int
    taps: int
    conv_bias: bool = False
    biased: bool = False

    @property
    def inner(self) -> int:
        """Channels of all values, and of what gates them."""
        return self.heads * self.value

    @property
    def channels(self) -> int:
        """Of queries, keys and values side by side."""
        return 2 * self.groups * self.key + self.inner

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of the state of one layer, float32: the last inputs of the convolution, the matrices."""
        return (self.taps - 1, self.channels), (self.heads, self.key, self.value)
