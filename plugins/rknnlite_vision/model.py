"""A network with what lies around it: pictures in, what is found in them out."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

import rknnlite
from rknnlite.errors import ModelInvalid
from rknnlite.log import logger
from rknnlite.spi import Context

from .before.frame import Frame
from .before.preparation import Preparation, Way, checked
from .heads.head import Head, Limits, Task
from .heads.recognise import recognise
from .labels import labels_for
from .lines import joined, parts_of_line
from .placement import Placement
from .results import Detections, Result, Words

__all__ = ["VisionModel", "open_vision", "way_of"]

Array = NDArray[Any]
Picture = Union[Array, Frame]
_USUAL = Limits()
_WAYS = {
    Task.CLASSIFY: Way.CROP,
    Task.READ: Way.STRETCH,
    Task.SEMANTIC: Way.STRETCH,
    Task.EMBED: Way.STRETCH,
}
"""How a picture is put into the input, where networks of a task mostly learnt it so; others keep all of it and its proportions."""


class VisionModel:
    """A network that looks at pictures: prepares them, runs it, decodes what comes out.

    Args:
        context: the network, which has one picture as its input. ``close`` closes it.
        head: decodes its outputs; None: the one that names and shapes tell.
        preparation: makes inputs of pictures; None: one that puts them there as networks of that task mostly learnt it.
        labels: names of classes: a list, a file, ``"coco"``; None: what the model file says. Characters, of a head that reads.
        hint: a word for ``recognise`` where names and shapes leave a choice.

    Raises:
        UnknownHead: a ModelInvalid; no decoder knows these outputs. ModelInvalid: several inputs.
        ParamInvalid: the labels are not as many as there are classes.

    Examples:
        >>> with open_vision("examples/detect/detect_for_RK3588.rknn") as model:
        ...     found = model.see(np.zeros((48, 64, 3), np.uint8))
        ...     model.head.classes, len(found)
        (7, 0)
    """

    def __init__(
        self,
        context: Context,
        head: Optional[Head] = None,
        preparation: Optional[Preparation] = None,
        labels: Optional[Sequence[str] | str | os.PathLike[str]] = None,
        hint: str = "",
    ) -> None:
        if len(context.inputs) != 1:
            names = ", ".join(attr.name for attr in context.inputs)
            raise ModelInvalid(
                f"the model has {len(context.inputs)} inputs ({names}); a picture goes into one"
            )
        self.context = context
        self.head = head or recognise(context.inputs, context.outputs, hint)
        self.preparation = preparation or Preparation.of(context, way=way_of(self.head))
        self.labels: list[str] = labels_for(self.head, labels, context.custom_string)
        """Names of the classes in their order; empty where neither the caller nor the file gives them."""
        self.head.labels = self.labels
        self._told = False

    def see(self, picture: Picture, limits: Limits = _USUAL) -> Result:
        """What is found in a picture, RGB uint8 [height, width, 3], or a frame; places are pixels of it."""
        return self.see_all([picture], limits)[0]

    def see_all(self, pictures: Sequence[Picture], limits: Limits = _USUAL) -> list[Result]:
        """What is found in each of them, with as few runs as the network's batch allows."""
        return self.see_on(self.context, pictures, limits)

    def see_on(
        self,
        context: Context,
        pictures: Sequence[Picture],
        limits: Limits = _USUAL,
        ran: Optional[Callable[[], None]] = None,
    ) -> list[Result]:
        """``see_all`` on another context of the same network: ``pool.map(batches, call=model.see_on)``.

        Lines of text that are too long for the network are read in parts. ``ran`` is called behind each run.
        """
        if not self.head.lines or self.preparation.way is not Way.LINE:
            return self._seen(context, pictures, limits, ran)
        parts = [(row, *part) for row, picture in enumerate(pictures) for part in self._parts(picture)]
        found = self._seen(context, [part for _, part, _ in parts], Limits(score=0.0), ran)
        words = joined(len(pictures), [(row, apart, one) for (row, _, apart), one in zip(parts, found)])
        return [one if one.score >= limits.score else Words("", one.score) for one in words]

    def _parts(self, line: Picture) -> Iterable[tuple[Picture, bool]]:
        width, height = self.preparation.size
        return [(line, False)] if isinstance(line, Frame) else parts_of_line(checked(line), width / height)

    def _seen(
        self,
        context: Context,
        pictures: Sequence[Picture],
        limits: Limits,
        ran: Optional[Callable[[], None]],
    ) -> list[Result]:
        size = context.inputs[0].dims[0]
        results: list[Result] = []
        for start in range(0, len(pictures), size):
            some = pictures[start : start + size]
            outputs, placements = self._outputs(context, some)
            if ran:
                ran()
            found = self._decoded(outputs, limits)
            results += [one.placed(where) for one, where in zip(found, placements)]
        return results

    def _outputs(self, context: Context, pictures: Sequence[Picture]) -> tuple[list[Array], list[Placement]]:
        """Of one run: outputs, and where each picture lies in the input; the last one fills what is left of the batch."""
        filled = [*pictures, *[pictures[-1]] * (context.inputs[0].dims[0] - len(pictures))]
        array, placements = self.preparation.batch(filled)
        return [output.data for output in context.infer(array, raw=True)], placements[: len(pictures)]

    def run(self, context: Context, picture: Picture) -> tuple[list[Array], Placement]:
        """Outputs for one picture, and where it lies in the input: the first step of ``see``, on a context of the same network.

        ``Pipeline(source, pool, lambda outputs, picture: model.decode(outputs), sink, run=model.run)`` takes both steps apart.
        """
        outputs, (placement,) = self._outputs(context, [picture])
        return outputs, placement

    def decode(self, outputs: tuple[Sequence[Array], Placement], limits: Limits = _USUAL) -> Result:
        """What is found, of what ``run`` gave: the second step."""
        arrays, placement = outputs
        return self._decoded(arrays, limits)[0].placed(placement)

    def _decoded(self, outputs: Sequence[Array], limits: Limits) -> list[Result]:
        """What the head finds. Detectors leave out cells that are no numbers: where nothing is left, that is told, once."""
        found = self.head.decode(outputs, limits)
        if not self._told and any(isinstance(one, Detections) and not len(one) for one in found):
            pairs = zip(self.head.outputs, outputs)
            odd = [attr.name for attr, array in pairs if array.dtype.kind == "f" and np.isnan(array).any()]
            if odd:
                self._told = True
                logger.warning(
                    "output %s holds NaN, where nothing is found; rknnlite compare tells in which layer they begin",
                    ", ".join(odd),
                )
        return found

    def name_of(self, number: int) -> str:
        """What a class is called: its label, or ``class 7``."""
        return self.labels[number] if 0 <= number < len(self.labels) else f"class {number}"

    def close(self) -> None:
        """Close the context; may be called again."""
        self.context.close()

    def __enter__(self) -> VisionModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<VisionModel {self.head.family}>"


def way_of(head: Head) -> Way:
    """How a picture is put into the input of a network without a word from the caller."""
    if head.lines:
        return Way.LINE
    return _WAYS.get(head.task, Way.LETTERBOX)


def open_vision(
    source: str | os.PathLike[str] | bytes | bytearray | memoryview,
    *,
    labels: Optional[Sequence[str] | str | os.PathLike[str]] = None,
    backend: Optional[str] = None,
    hint: str = "",
    tasks: Collection[Task] = (),
    anchors: Any = None,
    **options: Any,
) -> VisionModel:
    """Open a network for pictures: a path or the bytes of a ``.rknn`` file.

    Args:
        labels: see ``VisionModel``.
        hint: likewise; without one the name of the file is it, where names and shapes leave a choice.
        tasks: what is asked for, where they still do; see ``recognise``.
        anchors: see ``recognise``.
        backend, options: as for ``rknnlite.open``.

    Raises what ``rknnlite.open`` and ``VisionModel`` raise; then nothing stays open.
    """
    context = rknnlite.open(source, backend, **options)
    try:
        name = Path(source).name if isinstance(source, (str, os.PathLike)) else ""
        head = recognise(context.inputs, context.outputs, hint, anchors, name, tasks)
        return VisionModel(context, head, labels=labels)
    except BaseException:
        context.close()
        raise
