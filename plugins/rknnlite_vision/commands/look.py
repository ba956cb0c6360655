"""What the commands of vision have in common: look at each picture or frame, tell what is found, write and show it."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Optional, Union

from numpy.typing import NDArray

from rknnlite.commandline.options import add_model
from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.spi.command import Column, Command, Console, Exit

from ..drawing import draw
from ..heads.head import Task
from ..pictures import targets, write
from ..show import Viewer
from .film import look_at_film
from .looker import Looker, open_looker
from .options import COMMON, add_seeing, limits_of
from .sources import PictureSource, StreamSource, sources_of
from .telling import Telling, viewing

__all__ = ["Look"]

Array = NDArray[Any]


class Look(Command):
    """A command over pictures; subclasses say which heads it takes, and what stands in its table."""

    common: tuple[str, ...] = COMMON
    tasks: frozenset[Task]
    columns: Sequence[Column] = (Column("label"), Column("score", right=True))

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add_model(parser)
        add_seeing(parser)

    def cells(self, found: dict[str, Any]) -> list[str]:
        """A row of the table: one thing that was found."""
        return [str(found["label"]), f"{found['score']:.3f}"]

    def open(self, args: argparse.Namespace, count: Optional[int]) -> Looker:
        """The network, for so many pictures; None: of an unknown number."""
        return open_looker(args, limits_of(args), self.tasks, count)

    def run(self, args: argparse.Namespace, console: Console) -> int:
        sources = sources_of(args.sources)
        with ExitStack() as opened:
            if isinstance(sources, StreamSource):
                return look_at_film(self, args, sources, console, opened)
            if getattr(args, "track", False):
                raise ParamInvalid("--track numbers things from frame to frame: name a film or a camera")
            files = (
                targets([source.path or source.name for source in sources], args.out) if args.out else None
            )
            # what is wrong with the only picture is told before a model is loaded
            first = [sources[0].pixels()] if len(sources) == 1 else []
            looker = opened.enter_context(contextlib.closing(self.open(args, len(sources))))
            viewer = viewing(args, console, opened)
            if files:
                files[0].parent.mkdir(parents=True, exist_ok=True)
            telling = Telling(self, args, looker, console)
            code = self._look(sources, first, files, telling, viewer)
            if viewer is not None:
                viewer.wait()
        return code

    def _look(
        self,
        sources: Sequence[PictureSource],
        first: list[Array],
        files: Optional[Sequence[Path]],
        telling: Telling,
        viewer: Optional[Viewer],
    ) -> int:
        """All pictures; those that cannot be looked at are told of, and make the exit code."""
        wrong = 0
        begun = time.perf_counter()
        with telling.console.progress(self.name, len(sources)) as bar:
            items = (
                (n, first.pop() if first else _pixels_or_error(source)) for n, source in enumerate(sources)
            )
            with contextlib.closing(telling.looker.look_all(items)) as looked:
                for n, seen in looked:
                    bar.step(1, sources[n].name)
                    if isinstance(seen, RknnError):
                        if len(sources) == 1:
                            raise seen
                        wrong += 1
                        telling.problem(sources[n].name, seen)
                        continue
                    file = files[n] if files else None
                    marked = draw(seen.picture, seen.result, seen.name_of) if file or viewer else seen.picture
                    if file:
                        write(file, marked)
                    telling.picture(sources[n].name, seen, file)
                    if viewer and not viewer.show(marked):
                        break
        if len(sources) > 1:
            seconds = time.perf_counter() - begun
            telling.console.note(
                f"{len(sources)} pictures in {seconds:.1f} s, {len(sources) / seconds:.1f} per second"
            )
        return Exit.DATA if wrong else Exit.OK


def _pixels_or_error(source: PictureSource) -> Union[Array, RknnError]:
    try:
        return source.pixels()
    except RknnError as error:
        return error
