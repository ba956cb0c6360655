"""Heads of the whole picture: classes, the class of each pixel, text; which outputs they are recognised by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_vision.heads.head import Head, Limits, Task
from rknnlite_vision.heads.recognise import recognise
from rknnlite_vision.results import Classes, Segments, Words

from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr
from tools.vision.face_goldens import LINES

ALL = Limits(score=0, most=100)
RANDOM = np.random.default_rng(5)


def head(dims: tuple[int, ...], size: tuple[int, int] = (64, 64), quant: Any = None, hint: str = "") -> Head:
    width, height = size
    image = TensorAttr(0, "image", (1, height, width, 3), DType.UINT8, Layout.NHWC)
    kind = DType.INT8 if quant else DType.FLOAT32
    return recognise([image], [TensorAttr(0, "output", dims, kind, Layout.UNDEFINED, quant)], hint)


def decoded(one: Head, array: Any, limits: Limits = ALL) -> Any:
    (result,) = one.decode([np.asarray(array, np.int8 if one.outputs[0].quant else np.float32)], limits)
    return result


@pytest.mark.parametrize("dims", [(1, 10), (1, 10, 1, 1), (1, 1, 1, 10)])
def test_classes(dims: tuple[int, ...]) -> None:
    one = head(dims)
    assert one.task is Task.CLASSIFY and one.classes == 10 and "10 classes" in one.family
    numbers = RANDOM.normal(size=10).astype(np.float32) * 3
    found = decoded(one, numbers.reshape(dims))
    wanted = np.exp(numbers) / np.exp(numbers).sum()
    assert isinstance(found, Classes) and found.classes.tolist() == np.argsort(-wanted).tolist()
    assert np.allclose(found.scores, np.sort(wanted)[::-1], atol=1e-6)
    assert len(decoded(one, numbers.reshape(dims), Limits(score=0, most=3)).classes) == 3
    assert decoded(one, numbers.reshape(dims), Limits(score=0.99)).classes.size == 0


def test_probabilities_stay_as_they_are() -> None:
    shares = np.array([[0.7, 0.2, 0.1]])
    assert np.allclose(decoded(head((1, 3), hint="classify-probabilities"), shares).scores, [0.7, 0.2, 0.1])
    stored = head((1, 3), quant=QuantParams(1 / 256, -128))
    assert np.allclose(decoded(stored, np.rint(shares * 256 - 128)).scores, [0.7, 0.2, 0.1], atol=1 / 256)
    logits = head((1, 3), quant=QuantParams(0.1, 0))
    assert decoded(logits, [[100, 0, -100]]).scores[0] > 0.9999, "10, 0, -10"


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("dims", [(1, 4), (1, 5, 64, 64), (1, 8, 9)])
def test_numbers_that_are_none_are_refused(dims: tuple[int, ...], wrong: float) -> None:
    numbers = np.zeros(dims)
    numbers[..., :2] = wrong
    one = head(dims, (128, 64) if len(dims) == 3 else (64, 64))
    count = np.count_nonzero(~np.isfinite(numbers))
    with pytest.raises(
        InputInvalid, match=f"output output: {count} of {numbers.size} numbers are NaN or infinite"
    ):
        decoded(one, numbers)


def test_the_file_says_what_is_logits() -> None:
    """Never one frame: the same numbers mean the same in each."""
    shares = np.array([[0.7, 0.2, 0.1]])
    soft = np.exp(shares[0]) / np.exp(shares[0]).sum()
    assert np.allclose(decoded(head((1, 3)), shares).scores, soft), "floats without a name for it"
    wide = head((1, 3), quant=QuantParams(0.1, 0))
    assert "softmax to come" in wide.family
    assert np.allclose(decoded(wide, [[7, 2, 1]]).scores, soft)
    narrow = head((1, 3), quant=QuantParams(1 / 256, -128))
    assert "probabilities" in narrow.family
    assert decoded(narrow, [[0, -128, -128]]).scores[0] == 0.5


@pytest.mark.parametrize("part", [1, 2, 4])
@pytest.mark.parametrize("last", [False, True])
def test_regions(part: int, last: bool) -> None:
    grid = (32 // part, 64 // part)
    scores = RANDOM.normal(size=(5, *grid))
    one = head((1, *grid, 5) if last else (1, 5, *grid), (64, 32))
    assert one.task is Task.SEMANTIC and one.classes == 5
    found = decoded(one, (np.moveaxis(scores, 0, 2) if last else scores)[None])
    assert isinstance(found, Segments) and (found.classes == scores.argmax(0)).all()


def steps(text: str, characters: str, count: int = 12) -> Any:
    """Scores [steps, classes] that spell a text, the blank being class 0; blanks between and behind."""
    scores = np.full((count, len(characters) + 1), -9.0)
    row = 0
    for before, char in zip(" " + text, text):
        row += before == char  # a blank between two that are the same
        scores[row : row + 1, characters.index(char) + 1] = 9
        row += 1
    silent = scores.max(axis=1) < 0
    scores[silent, 0] = 9
    return scores


@pytest.mark.parametrize("written", ["HELLO", "A", "", "AAB", "LL"])
def test_text(written: str) -> None:
    letters = "ABEHLOXY"
    one = head((1, 12, 9), (96, 24))
    one.labels = list(letters)
    found = decoded(one, steps(written, letters)[None])
    assert isinstance(found, Words) and found.text == written and (found.score > 0.99) is bool(written)


def test_repeated_steps_are_one_letter() -> None:
    one = head((1, 12, 9), (96, 24))
    one.labels = list("ABEHLOXY")
    assert decoded(one, steps("HELLO", "ABEHLOXY", 6).repeat(2, axis=0)[None]).text == "HELLO"


def test_characters_and_classes() -> None:
    """One class is the blank, which the labels may have; a last one may be the space."""
    scores = steps("A", "ABEHLOXY")[None]
    one = head((1, 12, 9), (96, 24))
    for labels in (list("ABEHLOXY"), ["-", *"ABEHLOXY"], list("ABEHLOX")):
        one.labels = labels
        assert decoded(one, scores).text == "A"
    assert decoded(one, steps("Y", "ABEHLOXY")[None]).text == " "
    one.labels = list("ABC")
    with pytest.raises(ParamInvalid, match="3 characters, the model has 9 classes"):
        decoded(one, scores)
    one.labels = ()
    assert decoded(one, scores).text == "<0>"


def test_plates_have_the_blank_last() -> None:
    one = head((1, 9, 12), (96, 24), hint="lprnet")
    one.labels = list("ABEHLOXY")
    scores = np.roll(steps("HELL", "ABEHLOXY"), -1, axis=1)
    assert decoded(one, scores.T[None]).text == "HELL"


def test_too_sure_a_limit_leaves_no_text() -> None:
    one = head((1, 12, 9), (96, 24))
    one.labels = list("ABEHLOXY")
    unsure = steps("A", "ABEHLOXY")[None] / 9
    found = decoded(one, unsure, Limits(score=0.9))
    assert found.text == "" and 0 < found.score < 0.9


@pytest.mark.parametrize("line", LINES)
def test_lines_are_read_as_rapidocr_reads_them(line: str) -> None:
    """The trained network of PP-OCR on a rendered line: tools/vision/face_goldens.py."""
    goldens = np.load(Path(__file__).parent / "data" / "text.npz")
    scores = goldens[f"{line}.scores"]
    one = head((1, *scores.shape), (320, 48), hint="ppocr")
    one.labels = goldens[f"{line}.few"].tolist()
    found = decoded(one, scores[None])
    assert found.text == goldens[f"{line}.read"] == line
    assert found.score == pytest.approx(float(goldens[f"{line}.score"]), abs=1e-5)
