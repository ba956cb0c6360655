"""Lines of text that are too long for a network: where they are cut, and how words of parts are put together."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_vision.lines import joined, parts_of_line
from rknnlite_vision.results import Words


def test_parts_of_a_line() -> None:
    """Cut where least is written; a wide gap is a blank."""
    line = np.full((20, 200, 3), 250, np.uint8)
    for left in (10, 40, 70, 104, 134, 164):
        line[4:16, left : left + 28] = 20
    parts = list(parts_of_line(line, 5.5))
    assert [part.shape[1] for part, _ in parts] == [101, 99] and [apart for _, apart in parts] == [
        False,
        True,
    ]
    narrow = list(parts_of_line(line, 3.4))
    assert sum(part.shape[1] for part, _ in narrow) == 200 and all(
        part.shape[1] <= 3.4 * 1.3 * 20 for part, _ in narrow
    )
    assert [part.shape for part, _ in parts_of_line(line, 8)] == [(20, 200, 3)], (
        "three tenths more are squeezed"
    )


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1), (2, 5)])
@pytest.mark.parametrize("longest", [0.1, 1.0, 6.7])
def test_parts_of_the_smallest_lines(shape: tuple[int, int], longest: float) -> None:
    parts = list(parts_of_line(np.zeros((*shape, 3), np.uint8), longest))
    assert sum(part.shape[1] for part, _ in parts) == shape[1] and all(part.size for part, _ in parts)


def test_words_of_parts() -> None:
    read = [
        (1, False, Words("ab", 0.5)),
        (1, True, Words("", 0.0)),
        (1, True, Words("cd", 1.0)),
        (2, True, Words("x", 1.0)),
    ]
    assert joined(3, read) == (Words("", 0.0), Words("ab cd", 0.75), Words("x", 1.0))


def test_parts_have_an_end() -> None:
    parts = list(parts_of_line(np.zeros((1, 100_000, 3), np.uint8), 4.0))
    assert 64 <= len(parts) <= 128
