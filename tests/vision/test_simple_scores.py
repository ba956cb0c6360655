"""Top-1 and words: counted as one counts them by hand."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rknnlite_vision.evaluation.simple_scores import TopScore, WordScore, edits
from rknnlite_vision.results import Classes, Words


def classes(*best: int) -> Classes:
    return Classes(np.array(best, int), np.linspace(1, 0, len(best)))


def test_a_class_counts_as_the_best_or_among_five():
    score = TopScore()
    for answer, found in (
        (3, classes(3, 1)),
        (1, classes(3, 1)),
        (9, classes(1, 2, 3, 4, 5, 9)),
        (-1, classes()),
    ):
        score.add(answer, found)
    assert score.numbers == {"top-1": 0.25, "top-5": 0.5}


def test_no_pictures_are_no_division_by_zero():
    assert TopScore().numbers["top-1"] == 0
    assert WordScore().numbers == {"words": 0, "character errors": 0}


def test_characters_are_those_of_all_words_together():
    score = WordScore()
    for answer, read in (("ab", "ab"), ("abcdefgh", "abXdefg"), ("", "x")):
        score.add(answer, Words(read, 1.0))
    assert score.numbers == {"words": pytest.approx(1 / 3), "character errors": pytest.approx(3 / 10)}


@functools.cache
def by_definition(a: str, b: str) -> int:
    if not a or not b:
        return len(a or b)
    changed = by_definition(a[1:], b[1:]) + (a[0] != b[0])
    return min(changed, 1 + by_definition(a[1:], b), 1 + by_definition(a, b[1:]))


@settings(deadline=None)
@given(st.text("abc", max_size=7), st.text("abc", max_size=7))
def test_edits_are_the_least_that_there_are(a, b):
    assert edits(a, b) == by_definition(a, b)
