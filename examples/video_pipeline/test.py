#!/usr/bin/env python3
"""Shapes in a film or a camera's pictures: python test.py film.avi found.avi, or python test.py 0 found.avi until Ctrl-C."""

import contextlib
import signal
import sys
from pathlib import Path

from rknnlite_vision import FilmSink, FilmSource, Pipeline, draw, open_vision

import rknnlite

sys.path.append(str(Path(__file__).resolve().parent.parent / "yolo_postprocess"))
from decode import ANCHORS, LABELS, LIMITS, MODEL

signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
name, out = sys.argv[1:] if len(sys.argv) == 3 else sys.exit(__doc__)
try:
    with open_vision(MODEL, labels=LABELS, anchors=ANCHORS) as net, rknnlite.Pool(MODEL) as pool:
        film = FilmSource(name)
        with FilmSink(out, film.rate, lambda frame, found: draw(frame, found, net.name_of)) as sink:
            pipeline = Pipeline(film, pool, lambda seen, _: net.decode(seen, LIMITS), sink, run=net.run)
            with contextlib.suppress(KeyboardInterrupt):  # the film so far is kept
                pipeline.run()
    print(f"{out}: {pipeline.report}")
except rknnlite.RknnError as error:
    sys.exit(str(error))
