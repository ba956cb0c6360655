"""Films, cameras and streams: a document for each frame, marked frames, and at the end how fast it was."""

from __future__ import annotations

import argparse
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Optional

from numpy.typing import NDArray

from rknnlite.commandline.options import output_file
from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.spi.command import Column, Console, Exit, Line, Progress, Table, Tone

from ..drawing import Trails, draw
from ..pictures import WRITTEN
from ..results import Detections
from ..show import Viewer
from ..streams.byte_track import ByteTrack
from ..streams.figures import Report
from ..streams.pipeline import Pipeline
from ..streams.sinks import FilmSink, FolderSink
from ..streams.sources import FilmSource
from ..streams.stages import PipelineFailed
from .looker import Looking, Seen
from .options import UNSURE
from .sources import FILMS, StreamSource
from .telling import Telling, viewing

__all__ = ["look_at_film"]

Array = NDArray[Any]
_WHOLE = 0.9
"""Share of the frames that a film says it has which it must give: of some forms the number is a guess."""


def look_at_film(
    command: Looking, args: argparse.Namespace, source: StreamSource, console: Console, opened: ExitStack
) -> int:
    """Look at all frames of a stream, or until Ctrl-C; what is opened is closed by ``opened``."""
    _check_out(args, source)
    film = opened.enter_context(FilmSource(source.address))
    film.live = film.live or source.live
    looker = command.open(args, None)
    opened.callback(looker.close)
    viewer = viewing(args, console, opened)
    sink = _sink(args, film, opened)
    telling = Telling(command, args, looker, console)
    with console.progress(command.name, film.total) as bar:
        tracks = Tracks(args.score) if getattr(args, "track", False) else None
        frames = Frames(str(source.address), telling, sink, viewer, bar, tracks)
        pipeline = Pipeline(film, looker.pool, lambda seen, _: seen, frames, run=looker.look)
        frames.stop = pipeline.stop
        interrupted = False
        try:
            pipeline.run()
        except KeyboardInterrupt:
            interrupted = True
        except PipelineFailed as error:
            if isinstance(error.__cause__, BrokenPipeError):  # whoever reads our documents has had enough
                raise error.__cause__ from None
            raise
    report = pipeline.report
    if not report.pictures and not interrupted:
        raise InputInvalid(f"{source.address} gives no picture")
    frames.summary(report, args.out)
    if film.live and not interrupted and frames.open:
        console.note(f"{source.address} gives no more pictures")
    elif not interrupted and frames.open and report.pictures < _WHOLE * film.total:
        console.note(
            f"{source.address} ends after {report.pictures} of {film.total} frames: it is cut or broken"
        )
    return Exit.INTERRUPTED if interrupted and not (film.live or viewer) else Exit.OK


class Tracks:
    """Numbers of things from frame to frame, and where they were."""

    def __init__(self, score: float) -> None:
        self._track = ByteTrack(high=score, low=min(UNSURE, score), new=score)
        self.trails = Trails()

    def number(self, found: Detections) -> Detections:
        """Those that belong to tracks."""
        tracked = self._track(found)
        self.trails.add(tracked)
        return tracked


class Frames:
    """What becomes of each frame: the sink of a pipeline."""

    def __init__(
        self,
        source: str,
        telling: Telling,
        sink: Any,
        viewer: Optional[Viewer],
        bar: Progress,
        tracks: Optional[Tracks],
    ) -> None:
        self._source, self._telling = source, telling
        self._sink, self._viewer, self._bar = sink, viewer, bar
        self._counts: Counter[str] = Counter()
        self._tracks = tracks
        self._index = 0
        self.open = True
        """Whether the window is still open."""
        self.stop: Any = None
        """Ends the pipeline."""

    def __call__(self, picture: Array, seen: Seen) -> None:
        trails = None
        if self._tracks is not None and isinstance(seen.result, Detections):
            seen = replace(seen, result=self._tracks.number(seen.result))
            trails = self._tracks.trails
        document = self._telling.document(self._source, seen, self._index)
        found = document["found"]
        self._counts.update({str(one.get("label", one.get("text"))) for one in found})
        if self._sink or self._viewer:
            marked = draw(picture, seen.result, seen.name_of, trails)
            if self._sink:
                self._sink(marked)
            if self._viewer and not self._viewer.show(marked):
                self.open = False
                self.stop()
        if self._telling.console.json:
            self._telling.console.report({**document, "file": None})
        self._index += 1
        self._bar.step()

    def summary(self, report: Report, file: Any) -> None:
        """How many frames, how fast, and in how many of them each was found."""
        data = {
            **self._telling.same,
            "source": self._source,
            "frames": report.pictures,
            "dropped": report.dropped,
            "fps": float(report.rate),
            "file": file,
        }
        dropped = f", {report.dropped} dropped" if report.dropped else ""
        written = f", written to {file}" if file else ""
        head = (
            f"{self._source}: {report.pictures} frames in {report.seconds:.1f} s, {report.rate:.1f} per second"
            f"{dropped}{written}"
        )
        rows = [[name, str(count)] for name, count in self._counts.most_common()]
        table = [Table([Column("found", least=6), Column("frames", right=True)], rows)] if rows else []
        self._telling.console.report(data, Line(head, Tone.HEAD), *table)


def _check_out(args: argparse.Namespace, source: StreamSource) -> None:
    """What is wrong with ``--out`` for a film, before anything is opened."""
    out = args.out
    if out is None:
        return
    if out.suffix.lower() in WRITTEN and not out.is_dir():
        raise ParamInvalid(f"--out {out} is one picture, {source.address} has many; name a film or a folder")
    if out.suffix.lower() in FILMS:
        output_file(out)
        if not source.live and out.exists() and out.samefile(str(source.address)):
            raise ParamInvalid(f"{out} would replace the film that is read; give another --out")


def _sink(args: argparse.Namespace, film: FilmSource, opened: ExitStack) -> Any:
    """What takes marked frames; None where they are not wanted."""
    if args.out is None:
        return None
    if args.out.suffix.lower() in FILMS:
        return opened.enter_context(FilmSink(args.out, film.rate))
    return FolderSink(args.out)
