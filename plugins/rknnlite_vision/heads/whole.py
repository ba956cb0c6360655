"""Heads that tell of the whole picture: its class, the class of each pixel, the text that is written in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.tensor import Layout

from ..results import Classes, Segments, Words
from .head import Head, Limits, Task
from .logits import are_logits
from .seen import Seen
from .stored import Stored

__all__ = [
    "Classification",
    "OneMask",
    "Regions",
    "Text",
    "classification",
    "one_map",
    "one_mask",
    "regions",
    "text",
]

Array = NDArray[Any]

_LONG = 4


def softmax(values: Array) -> Array:
    """Real numbers [..., classes] as probabilities."""
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    result: Array = powers / powers.sum(axis=-1, keepdims=True)
    return result


def finite(values: Array, name: str) -> Array:
    """The numbers; raise InputInvalid where some are none: what is said of the whole picture would rest on them."""
    if values.dtype.kind == "f":
        wrong = int(np.count_nonzero(~np.isfinite(values)))
        if wrong:
            raise InputInvalid(f"output {name}: {wrong} of {values.size} numbers are NaN or infinite")
    return values


class _Shares(Head):
    """Numbers for each class: probabilities, or what a softmax makes them of, as ``are_logits`` tells from the file."""

    def __init__(self, seen: Seen, classes: int, usual: bool) -> None:
        super().__init__(seen.inputs, seen.outputs)
        self.classes, self.size = classes, seen.size
        self._stored = Stored(self.outputs[0])
        self._logits = are_logits(self.outputs[0], seen.activation, usual)

    def _shares(self, values: Array) -> Array:
        """[..., classes] that have the sum 1."""
        real = finite(self._stored.real(values), self.outputs[0].name)
        return softmax(real) if self._logits else real

    def _said(self) -> str:
        return "softmax to come" if self._logits else "probabilities"


class Classification(_Shares):
    """One number for each class.

    Floats are logits unless the output's name or the hint ``classify-probabilities`` says otherwise (``are_logits``).

    Examples:
        >>> from rknnlite.tensor import DType, Layout, TensorAttr
        >>> from rknnlite_vision.heads.recognise import recognise
        >>> image = TensorAttr(0, "image", (1, 64, 64, 3), DType.UINT8, Layout.NHWC)
        >>> scores = TensorAttr(0, "output", (1, 3), DType.FLOAT32, Layout.UNDEFINED)
        >>> head = recognise([image], [scores])
        >>> head.family, head.decode([np.array([[0, 9, 0]], np.float32)])[0].classes
        ('classification, 3 classes, softmax to come', array([1]))
    """

    task = Task.CLASSIFY

    def __init__(self, seen: Seen, classes: int) -> None:
        super().__init__(seen, classes, usual=True)
        self.family = f"classification, {classes} classes, {self._said()}"

    def _picture(self, outputs: Sequence[Array], limits: Limits) -> Classes:
        scores = self._shares(outputs[0].reshape(-1))
        order = np.argsort(-scores, kind="stable")[: limits.most]
        order = order[scores[order] >= limits.score]
        return Classes(order.astype(np.int64), scores[order].astype(np.float32))


def classification(seen: Seen) -> Optional[Classification]:
    """A picture, and one output that has no place in it: [batch, classes], or with dimensions of 1 behind or between."""
    if len(seen.outputs) != 1 or 0 in seen.size or seen.outputs[0].dims[0] != seen.batch:
        return None
    sizes = [size for size in seen.outputs[0].dims[1:] if size != 1]
    return Classification(seen, sizes[0]) if len(sizes) == 1 and len(seen.outputs[0].dims) in (2, 4) else None


class Regions(Head):
    """Scores of all classes for each pixel, or for each cell of a coarser grid: the largest is its class.

    Examples:
        >>> from rknnlite.tensor import DType, Layout, TensorAttr
        >>> from rknnlite_vision.heads.recognise import recognise
        >>> image = TensorAttr(0, "image", (1, 64, 64, 3), DType.UINT8, Layout.NHWC)
        >>> scores = TensorAttr(0, "output", (1, 5, 64, 64), DType.FLOAT32, Layout.UNDEFINED)
        >>> recognise([image], [scores]).family
        'semantic masks, 5 classes'
    """

    task = Task.SEMANTIC

    def __init__(self, seen: Seen, classes: int, last: bool) -> None:
        super().__init__(seen.inputs, seen.outputs)
        self.classes, self.size, self._axis = classes, seen.size, 2 if last else 0
        self.family = f"semantic masks, {classes} classes"

    def _picture(self, outputs: Sequence[Array], limits: Limits) -> Segments:
        values = finite(Stored(self.outputs[0]).ordered(outputs[0][0]), self.outputs[0].name)
        return Segments(values.argmax(axis=self._axis).astype(np.uint16))


def regions(seen: Seen) -> Optional[Regions]:
    """One output of four dimensions over the picture, with as much detail as a fourth of its sides or more."""
    found = (Regions(seen, channels, last) for _, _, channels, last in _over_picture(seen) if channels > 1)
    return next(found, None)


def _over_picture(seen: Seen) -> Iterator[tuple[int, int, int, bool]]:
    """Height, width, channels of the only output, and whether they come last, as often as it can be read so.

    It has a cell for each pixel of the picture, or for each 2 x 2 or 4 x 4 of them.
    """
    if len(seen.outputs) != 1 or len(seen.outputs[0].dims) != 4:
        return
    width, height = seen.size
    _, one, two, three = seen.outputs[0].dims
    orders = [(two, three, one, False), (one, two, three, True)]
    for h, w, channels, last in orders[:: -1 if seen.outputs[0].layout == Layout.NHWC else 1]:
        if any((w * part, h * part) == (width, height) for part in (1, 2, 4)):
            yield h, w, channels, last


class OneMask(Head):
    """Of each pixel how likely it is inside: what is at least as likely inside is class 1, else 0.

    Examples:
        >>> from rknnlite.tensor import DType, Layout, TensorAttr
        >>> from rknnlite_vision.heads.recognise import recognise
        >>> image = TensorAttr(0, "image", (1, 64, 64, 3), DType.UINT8, Layout.NHWC)
        >>> scores = TensorAttr(0, "sigmoid", (1, 1, 64, 64), DType.FLOAT32, Layout.UNDEFINED)
        >>> recognise([image], [scores], hint="binary-mask").family
        'mask of one channel, probabilities'
    """

    task, classes = Task.SEMANTIC, 2

    def __init__(self, seen: Seen, height: int, width: int) -> None:
        super().__init__(seen.inputs, seen.outputs)
        (attr,) = self.outputs
        self.size, self._grid = seen.size, (height, width)
        logits = are_logits(attr, seen.activation, usual=True)
        self._stored = Stored(attr, logits)
        self.family = f"mask of one channel, {'sigmoid to come' if logits else 'probabilities'}"

    def _picture(self, outputs: Sequence[Array], limits: Limits) -> Segments:
        values = finite(self._stored.ordered(outputs[0].reshape(self._grid)), self.outputs[0].name)
        return Segments((values >= self._stored.least(0.5, values.dtype)).astype(np.uint16))


def one_mask(seen: Seen) -> Optional[OneMask]:
    """See ``one_map``."""
    grid = one_map(seen)
    return OneMask(seen, *grid) if grid else None


def one_map(seen: Seen) -> Optional[tuple[int, int]]:
    """Height and width of the only output, one number for each pixel, or for each 2 x 2 or 4 x 4 of them."""
    return next(((h, w) for h, w, channels, _ in _over_picture(seen) if channels == 1), None)


class Text(_Shares):
    """Steps from left to right, each with a score for every character and for none (CTC): the best of each step is taken,
    repeated ones are one.

    ``labels`` are the characters. The blank is the first class, or the last one where ``blank_last``; of a network with two more
    classes than characters the last is a blank between words, as PaddleOCR adds it. Floats of its networks (hint ``ppocr``) are
    probabilities; others are logits unless the output's name or the hint ``ctc-probabilities`` says otherwise (``are_logits``).
    Inputs of more than four times their height are for lines with their proportions kept, and so are those of PaddleOCR.

    Examples:
        >>> from rknnlite.tensor import DType, Layout, TensorAttr
        >>> from rknnlite_vision.heads.recognise import recognise
        >>> image = TensorAttr(0, "image", (1, 48, 320, 3), DType.UINT8, Layout.NHWC)
        >>> steps = TensorAttr(0, "output", (1, 4, 3), DType.FLOAT32, Layout.UNDEFINED)
        >>> head = recognise([image], [steps], hint="ppocr")
        >>> head.labels = ["a", "b"]
        >>> head.decode([np.eye(3, dtype=np.float32)[[[1, 0, 1, 2]]]])[0].text
        'aab'
    """

    task = Task.READ

    def __init__(self, seen: Seen, steps: int, classes: int, across: bool) -> None:
        super().__init__(seen, classes, usual=seen.hint != "ppocr")
        self._across, self._blank_last = across, across
        width, height = seen.size
        self.lines = seen.hint == "ppocr" or (not across and width > _LONG * height)
        self.family = f"CTC text, {steps} steps, {classes} classes, {self._said()}"

    def _characters(self) -> list[str]:
        """One for each class; the blank is empty."""
        labels = list(self.labels) or [f"<{n}>" for n in range(self.classes - 1)]
        if self.classes - len(labels) == 2:
            labels.append(" ")
        if len(labels) == self.classes:
            labels[-1 if self._blank_last else 0] = ""
            return labels
        if len(labels) != self.classes - 1:
            raise ParamInvalid(
                f"labels have {len(self.labels)} characters, the model has {self.classes} classes ({self.family}), one of which is "
                f"the blank: give {self.classes - 1}, or {self.classes - 2} and the last one is the space"
            )
        return [*labels, ""] if self._blank_last else ["", *labels]

    def _picture(self, outputs: Sequence[Array], limits: Limits) -> Words:
        values = outputs[0].reshape(outputs[0].shape[-2:])
        scores = self._shares(values.T if self._across else values)
        characters = self._characters()
        best = scores.argmax(axis=1)
        fresh = np.concatenate([[True], best[1:] != best[:-1]])
        kept = [step for step in np.flatnonzero(fresh).tolist() if characters[best[step]]]
        if not kept:
            return Words("", 0.0)
        score = float(scores[kept, best[kept]].mean())
        found = "".join(characters[best[step]] for step in kept)
        return Words(found, score) if score >= limits.score else Words("", score)


def text(seen: Seen) -> Optional[Text]:
    """A picture at least twice as wide as high, and [batch, steps, classes].

    With the hint ``lprnet`` [batch, classes, steps], its blank last.
    """
    dims = seen.outputs[0].dims if len(seen.outputs) == 1 else ()
    width, height = seen.size
    if len(dims) != 3 or width < 2 * height:
        return None
    across = seen.hint == "lprnet"
    steps, classes = dims[:0:-1] if across else dims[1:]
    if not seen.hint and classes in seen.cells():  # a table of boxes, which only a hint makes a text
        return None
    return Text(seen, steps, classes, across) if 1 < steps <= width // 2 and classes > 1 else None
