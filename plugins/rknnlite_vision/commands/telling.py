"""What the commands of vision print of each picture, and where they show it."""

from __future__ import annotations

import argparse
import contextlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Optional

from rknnlite.errors import RknnError
from rknnlite.spi.command import Console, Line, Table, Tone

from ..show import Viewer, shown_pictures
from .looker import Looker, Looking, Seen

__all__ = ["Telling", "viewing"]


class Telling:
    """What a command prints of each picture."""

    def __init__(self, command: Looking, args: argparse.Namespace, looker: Looker, console: Console) -> None:
        self.looker, self.console = looker, console
        self._command = command
        head = looker.model.head
        self.same: dict[str, Any] = {
            "model": str(args.model),
            "device": args.device,
            "backend": looker.pool.backend_name,
            "soc": looker.pool.soc.name,
            "task": head.task.value,
            "head": head.family,
        }
        if not looker.model.labels and head.classes:
            console.note(
                f"the file names none of its {head.classes} classes: they are numbered; give --labels FILE"
            )

    def document(self, source: str, seen: Seen, index: Optional[int] = None) -> dict[str, Any]:
        """One picture for ``--json``; ``index`` is the number of a frame."""
        height, width = seen.picture.shape[:2]
        place = {"source": source, "index": index, "width": width, "height": height, "run_us": seen.run_us}
        return {**self.same, **place, "found": seen.found}

    def picture(self, source: str, seen: Seen, file: Optional[Path]) -> None:
        """A picture: its name and a table."""
        document = {**self.document(source, seen), "file": file}
        head = f"{source}, {document['width']} x {document['height']}"
        written = f", written to {file}" if file else ""
        found = document["found"]
        if not found:
            self.console.report(document, Line(f"{head}: nothing found{written}", Tone.HEAD))
            return
        table = Table(self._command.columns, [self._command.cells(one) for one in found], empty="")
        self.console.report(document, Line(f"{head}{written}", Tone.HEAD), table)

    def problem(self, source: str, error: RknnError) -> None:
        """A picture that cannot be looked at: a remark; with ``--json`` a document, too."""
        self.console.note(str(error))
        if self.console.json:
            self.console.report({**self.same, "source": source, "error": str(error), "found": []})


def viewing(args: argparse.Namespace, console: Console, opened: ExitStack) -> Optional[Viewer]:
    """Where pictures are shown, if they are."""
    if not args.show:
        return None
    viewer = opened.enter_context(contextlib.closing(shown_pictures(args.port)))
    console.note(f"look at {viewer.place}; Ctrl-C ends it")
    return viewer
