"""The network of a command on all cores: pictures in, in their order what is found in them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Protocol, Union

from numpy.typing import NDArray

from rknnlite.commandline.options import isolation, model_file, opening
from rknnlite.errors import InputInvalid, ModelInvalid, RknnError
from rknnlite.pool import Pool
from rknnlite.spi import Context
from rknnlite.spi.command import Column

from ..before.preparation import Preparation, Way
from ..described import described
from ..heads.head import Limits, Task
from ..heads.recognise import recognise
from ..model import VisionModel, way_of
from ..results import Result

__all__ = ["Looker", "Looking", "Seen", "open_looker", "open_pool"]

Array = NDArray[Any]
COMMANDS = {
    Task.DETECT: "detect",
    Task.ROTATED: "detect",
    Task.LINES: "detect",
    Task.POSE: "pose",
    Task.INSTANCE: "segment",
    Task.SEMANTIC: "segment",
    Task.CLASSIFY: "classify",
    Task.READ: "read",
}
"""Which command shows all that a head tells."""


@dataclass(frozen=True)
class Seen:
    """What was found in a picture, and how its classes are called; ``run_us`` are microseconds of the network."""

    picture: Array
    result: Result
    name_of: Callable[[int], str]
    run_us: int

    @property
    def found(self) -> list[dict[str, Any]]:
        """For ``--json`` and tables."""
        return described(self.result, self.name_of)


class Looking(Protocol):
    """What the parts of a command know of it."""

    name: str
    columns: Sequence[Column]

    def cells(self, found: dict[str, Any]) -> list[str]:
        """A row of the table."""

    def open(self, args: argparse.Namespace, count: Optional[int]) -> Looker:
        """The network, for so many pictures."""


Item = tuple[Any, Union[Array, RknnError]]
Looked = tuple[Any, Union[Seen, RknnError]]


class Looker:
    """A network in a pool; what is found in pictures comes in their order, a few of which are under way.

    Args:
        pool: its contexts run the network; ``close`` closes it.
        model: decodes, on any of these contexts.
    """

    def __init__(self, pool: Pool, model: VisionModel, limits: Limits) -> None:
        self.pool, self.model, self.limits = pool, model, limits

    def look(self, context: Context, picture: Array) -> Seen:
        """One picture on one context."""
        runs: list[int] = []
        seen = self.model.see_on(
            context, [picture], self.limits, ran=lambda: runs.append(context.last_run_us)
        )
        return Seen(picture, seen[0], self.model.name_of, sum(runs))

    def look_all(self, items: Iterable[Item]) -> Generator[Looked, None, None]:
        """For each (key, picture) the key, and what was seen or why not; an error in the place of a picture is handed on."""
        yield from self.pool.map(items, call=self._item)

    def _item(self, context: Context, item: Item) -> Looked:
        key, picture = item
        try:
            return key, picture if isinstance(picture, RknnError) else self.look(context, picture)
        except InputInvalid as error:
            return key, error

    def close(self) -> None:
        """Close the pool; may be called again."""
        self.pool.close(cancel=True)


def open_looker(
    args: argparse.Namespace,
    limits: Limits,
    tasks: frozenset[Task],
    count: Optional[int],
    remedy: str = "",
) -> Looker:
    """MODEL as the arguments say, for ``count`` pictures (None: an unknown number).

    Args:
        remedy: what to do about a head of another task; empty: the command for it.

    Raises:
        ModelInvalid: its head does something else than ``tasks``; the text names the command for that.
    """
    pool = open_pool(args, count)
    try:
        model = pool.call(_model, args, tasks).result()
        if isinstance(model, RknnError):
            raise model
        check_task(model, tasks, args.model, remedy)
        return Looker(pool, model, limits)
    except BaseException:
        pool.close(cancel=True)
        raise


def open_pool(args: argparse.Namespace, count: Optional[int], model: Any = None) -> Pool:
    """A pool of no more workers than there are pictures."""
    options = opening(args)
    mask = options.pop("core_mask")
    workers = args.workers
    if workers is None and count == 1:
        workers = 1
    with isolation(args):
        return Pool(
            model_file(model or args.model), workers, "spread" if mask is None else mask or "auto", **options
        )


def _model(
    context: Context, args: argparse.Namespace, tasks: frozenset[Task]
) -> Union[VisionModel, RknnError]:
    """The model on a context of the pool; an error is handed over, as raising it would have the pool open the file again."""
    try:
        head = recognise(context.inputs, context.outputs, args.hint, name=args.model.name, tasks=tasks)
        way = Way(args.fit) if args.fit else way_of(head)
        return VisionModel(context, head, Preparation.of(context, way=way, bgr=args.bgr), args.labels)
    except RknnError as error:
        return error


def check_task(model: VisionModel, tasks: frozenset[Task], name: Any, remedy: str = "") -> None:
    """Refuse a head of another task."""
    task = model.head.task
    if task not in tasks:
        command = COMMANDS.get(task)
        remedy = remedy or (f"use rknnlite {command}" if command else "")
        hint = f"; {remedy}" if remedy else ""
        raise ModelInvalid(f"{name} is for another task: {task.value} ({model.head.family}){hint}")
