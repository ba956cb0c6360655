"""A network over a dataset: its numbers, and what could not be measured."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, RknnError

from .. import pictures
from ..heads.head import Task
from ..labels import COCO
from ..model import VisionModel
from ..results import Classes, Detections, Result, Words
from .coco_score import BOXES, KEYPOINTS, MASKS, CocoScore
from .simple_scores import TopScore, WordScore
from .truth import Labelled, Truth

__all__ = ["Looking", "Measured", "answers_as_classes", "kinds_of", "measure"]

Array = NDArray[Any]


class Looking(Protocol):
    """What is measured: a network that looks at pictures."""

    @property
    def model(self) -> VisionModel:
        """Its head and its labels."""

    def results(
        self, items: Iterable[tuple[int, Union[Array, RknnError]]]
    ) -> Iterator[tuple[int, Union[Result, RknnError]]]:
        """What is found in each picture, in their order, or why it cannot be looked at."""


@dataclass
class Measured:
    """What was measured of one network.

    Attributes:
        numbers: by name.
        classes: each class and its AP and AP50; empty where there are no boxes.
        left_out: pictures that could not be looked at, and why.
        odd: detections without a score or a place.
        strange: names of the dataset that no class of the network has.
    """

    numbers: dict[str, float] = field(default_factory=dict)
    classes: list[tuple[str, tuple[float, float]]] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    odd: int = 0
    strange: list[str] = field(default_factory=list)
    seconds: float = 0.0


def measure(
    looking: Looking, dataset: Union[Truth, Labelled], step: Callable[[], None], ignore_case: bool = False
) -> Measured:
    """Look at all pictures of a dataset; ``step`` is called after each.

    Raises InputInvalid where classes and names do not go together, or no picture can be looked at.
    """
    found = Measured()
    begun = time.perf_counter()
    if isinstance(dataset, Truth):
        _boxes(looking, dataset, step, found)
    elif looking.model.head.task is Task.READ:
        words = WordScore(ignore_case)
        for n, result in _results(looking, dataset, step, found):
            assert isinstance(result, Words)
            words.add(dataset.answers[n], result)
        found.numbers = words.numbers
    else:
        classes, found.strange = answers_as_classes(looking.model, dataset.answers)
        top = TopScore()
        for n, result in _results(looking, dataset, step, found):
            assert isinstance(result, Classes)
            top.add(classes[n], result)
        found.numbers = top.numbers
    if len(found.left_out) == len(dataset.pictures):
        name, why = next(iter(found.left_out.items()))
        raise InputInvalid(f"none of the {len(dataset.pictures)} pictures can be looked at; {name}: {why}")
    found.seconds = time.perf_counter() - begun
    return found


def _boxes(looking: Looking, truth: Truth, step: Callable[[], None], found: Measured) -> None:
    kinds, found.strange = kinds_of(looking.model, truth.names)
    task = looking.model.head.task
    with_points = task is Task.POSE and any(one.keypoints is not None for one in truth.things)
    with_masks = task is Task.INSTANCE and any(
        outline is not None for one in truth.things for outline in one.outlines
    )
    score = CocoScore(truth, KEYPOINTS if with_points else BOXES)
    masks = CocoScore(truth, MASKS) if with_masks else None
    for n, result in _results(looking, truth, step, found):
        assert isinstance(result, Detections)
        places = np.append(kinds, -1)[np.minimum(result.classes, len(kinds))]
        rows = places >= 0
        known = dataclasses.replace(result[rows], classes=places[rows])
        score.add(n, known)
        if masks is not None:
            try:
                masks.add(n, known)
            except ValueError as error:
                raise InputInvalid(
                    f"{truth.pictures[n]}: its annotations have a segmentation that is none: {error}"
                ) from None
    numbers = score.result()
    found.numbers, found.odd = numbers.numbers, numbers.odd
    found.classes = list(zip(truth.names, zip(numbers.ap, numbers.ap50)))
    if masks is not None:
        found.numbers = {
            **numbers.numbers,
            **{f"mask {name}": n for name, n in masks.result().numbers.items()},
        }


def _results(
    looking: Looking, dataset: Union[Truth, Labelled], step: Callable[[], None], found: Measured
) -> Iterator[tuple[int, Any]]:
    """What is found in each picture that can be looked at."""

    def items() -> Iterator[tuple[int, Union[Array, RknnError]]]:
        for n, path in enumerate(dataset.pictures):
            picture = _read(path)
            if isinstance(dataset, Truth) and not isinstance(picture, RknnError):
                dataset.sized(n, picture.shape[1], picture.shape[0])
            yield n, picture

    for n, result in looking.results(items()):
        step()
        if isinstance(result, RknnError):
            found.left_out[str(dataset.pictures[n])] = str(result)
        else:
            yield n, result


def _read(path: Path) -> Union[Array, RknnError]:
    try:
        return pictures.read(path)
    except InputInvalid as error:
        return error


def kinds_of(model: VisionModel, names: Sequence[str]) -> tuple[Array, list[str]]:
    """For each class of the network its place in ``names``, -1 for none; and the names that no class has.

    Classes go by their names; where the network has none, in order, if there are as many. So 80 classes become COCO's
    numbers 1 to 90 as everywhere.
    """
    count = model.head.classes
    own: Sequence[str] = model.labels
    if not own and count == len(names):
        return np.arange(count), []
    if not own and count == len(COCO):
        own = COCO
    places = {_plain(name): n for n, name in enumerate(names)}
    kinds = np.array([places.get(_plain(name), -1) for name in own], np.int64)
    if not (kinds >= 0).any():
        classes = f"called {', '.join(own[:5])}, ..." if own else f"{count} classes without names"
        raise InputInvalid(
            f"classes and dataset do not go together: the model has {classes}, the dataset {len(names)}: "
            f"{', '.join(names[:5])}, ...; name the model's with --labels FILE"
        )
    return kinds, [name for n, name in enumerate(names) if n not in kinds]


def answers_as_classes(model: VisionModel, answers: Sequence[str]) -> tuple[list[int], list[str]]:
    """The number of the class of each answer, -1 for none; and the answers that no class is called.

    Answers are names, of labels such as ``n01440764 tench`` also the first word; or numbers; or, of a model without labels
    and as many classes, the sorted names in order.
    """
    kinds = sorted(set(answers))
    places: dict[str, int] = {}
    for n, label in enumerate(model.labels):
        for name in (label, *label.replace(",", " ").split()[:1]):
            places.setdefault(_plain(name), n)
    count = model.head.classes
    if not any(_plain(kind) in places for kind in kinds):
        if all(kind.isdigit() and int(kind) < count for kind in kinds):
            places = {kind: int(kind) for kind in kinds}
        elif len(kinds) == count and not model.labels:
            places = {_plain(kind): n for n, kind in enumerate(kinds)}
        else:
            raise InputInvalid(
                f"classes and dataset do not go together: the model has {count} ({', '.join(model.labels[:5]) or 'without names'}"
                f"), the dataset {len(kinds)}: {', '.join(kinds[:5])}, ...; name the model's with --labels FILE"
            )
    return [places.get(_plain(a), -1) for a in answers], [k for k in kinds if _plain(k) not in places]


def _plain(name: str) -> str:
    return " ".join(name.lower().replace("_", " ").split())
