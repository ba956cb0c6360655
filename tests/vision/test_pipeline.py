"""Pipelines: order, drops, back-pressure, and every way to end, after which nothing is left."""

from __future__ import annotations

import functools
import itertools
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import numpy as np
import pytest
from rknnlite_vision.heads.head import Limits
from rknnlite_vision.model import open_vision
from rknnlite_vision.pictures import read
from rknnlite_vision.streams.figures import STAGES
from rknnlite_vision.streams.pipeline import Pipeline
from rknnlite_vision.streams.sinks import FilmSink, FolderSink, nowhere
from rknnlite_vision.streams.sources import FilmSource, FolderSource
from rknnlite_vision.streams.stages import PipelineFailed

import rknnlite
from rknnlite.errors import InputInvalid, ParamInvalid, RunTimeout
from tests.support.needs import needs

MODEL = "examples/resnet18/resnet18_for_RK3588.rknn"


@pytest.fixture(scope="module")
def pool() -> Iterator[rknnlite.Pool]:
    with rknnlite.Pool(MODEL, workers=2, backend="cpu") as made:
        yield made


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    left = [t for t in threading.enumerate() if t.name.startswith("rknnlite-pipeline")]
    for thread in left:  # of a source that stalled: ends when it answers
        thread.join(10)
    assert not [t for t in left if t.is_alive()]


def through(
    pool: rknnlite.Pool, source: object, sink=nowhere, run=lambda context, picture: picture, **options
):
    """A pipeline whose network is a function, and whose decoder doubles."""
    return Pipeline(source, pool, lambda outputs, picture: outputs * 2, sink, run=run, **options)


class Closing:
    """A source that tells whether it was closed."""

    live = False

    def __init__(self, pictures) -> None:
        self._pictures, self.closed = pictures, False

    def __iter__(self):
        return iter(self._pictures)

    def close(self) -> None:
        self.closed = True


def test_results_come_in_the_order_of_the_pictures_whatever_each_takes(pool):
    pauses, got = np.random.default_rng(1).uniform(0, 0.004, 60), []

    def run(context, n):
        time.sleep(pauses[n])
        return n

    report = through(pool, range(60), lambda picture, result: got.append((picture, result)), run).run()
    assert got == [(n, 2 * n) for n in range(60)]
    assert (report.pictures, report.dropped) == (60, 0)


def test_the_network_runs_without_a_run_of_ones_own(pool):
    best = []
    frames = [np.full((1, 224, 224, 3), value, np.uint8) for value in (0, 255)]
    Pipeline(frames, pool, lambda outputs, _: outputs[0].shape, lambda _, shape: best.append(shape)).run()
    assert best == [tuple(pool.outputs[0].dims)] * 2


def test_a_source_that_can_wait_is_read_only_as_far_as_there_is_room(pool):
    read, done, most_ahead = [], [], []

    def source():
        for number in range(40):
            read.append(number)
            yield number

    def sink(picture, result):
        time.sleep(0.002)
        done.append(picture)
        most_ahead.append(len(read) - len(done))

    through(pool, source(), sink, queue=3).run()
    assert done == list(range(40))
    # 3 wait, 4 are with the workers, 1 is offered, 1 between the two
    assert max(most_ahead) <= 3 + 2 * pool.workers + 2


def test_of_a_camera_the_oldest_are_dropped_and_counted(pool):
    source = Closing(range(200))
    source.live = True
    begun, got = threading.Event(), []

    def sink(picture, result):
        if not begun.is_set():
            begun.set()
            time.sleep(0.2)  # the camera goes on
        got.append(picture)

    report = through(pool, source, sink, queue=2).run()
    assert got == sorted(got)
    assert got[-1] == 199, "the newest is there"
    assert report.dropped == 200 - len(got) > 0


def test_the_report_has_the_times_of_all_stages(pool):
    def run(context, n):
        time.sleep(0.01)
        return n

    report = through(pool, range(5), run=run).run()
    times = {stage.stage: stage for stage in report.stages}
    assert tuple(times) == STAGES
    assert times["model"].p50 >= 0.01 > times["decode"].p50
    assert times["total"].most >= times["model"].p50
    assert "5 pictures" in str(report)
    assert "p95" in str(report)


def test_no_pictures_are_no_error(pool):
    assert through(pool, []).run().pictures == 0


@pytest.mark.parametrize("stage", ["source", "model", "decode", "sink"])
@pytest.mark.parametrize("error", [ValueError("odd"), InputInvalid("odd")])
def test_an_exception_of_any_stage_ends_all_and_names_the_stage(pool, stage, error):
    def fail(name, n):
        if name == stage and n == 3:
            raise error
        return n

    source = Closing(fail("source", n) for n in range(100))
    got = []
    pipeline = Pipeline(
        source,
        pool,
        lambda outputs, _: fail("decode", outputs),
        lambda picture, _: got.append(fail("sink", picture)),
        run=lambda context, n: fail("model", n),
    )
    kind = InputInvalid if isinstance(error, InputInvalid) else PipelineFailed
    with pytest.raises(kind, match=rf"^{stage}, picture 4: .*odd") as caught:
        pipeline.run()
    assert caught.value.stage == stage
    assert caught.value.__cause__ is error
    assert got == [0, 1, 2], "those before are done"
    assert source.closed


def test_a_pool_that_is_closed_is_named(pool):
    with rknnlite.Pool(MODEL, workers=1, backend="cpu") as other:
        other.close()
        with pytest.raises(rknnlite.errors.ContextInvalid, match="model, picture 1: this pool is closed"):
            through(other, range(3)).run()


def test_a_source_that_stalls_is_told_and_its_thread_ends_with_it(pool):
    answer = threading.Event()

    def source():
        yield 0
        answer.wait(20)

    try:
        with pytest.raises(RunTimeout, match=r"source, picture 2: it stalls: nothing came for 0\.2 s"):
            through(pool, source(), stall=0.2).run()
    finally:
        answer.set()


def test_a_slow_network_is_no_stall_of_the_source(pool):
    def run(context, n):
        time.sleep(0.15)
        return n

    assert through(pool, range(6), run=run, stall=0.1, queue=1).run().pictures == 6


def test_stop_from_the_sink_ends_an_endless_source(pool):
    source = Closing(itertools.count())
    pipeline = through(pool, source, lambda n, _: pipeline.stop() if n == 10 else None)
    assert pipeline.run().pictures == 11
    assert source.closed


def test_ctrl_c_ends_it_and_the_report_is_there(pool):
    source = Closing(itertools.count())

    def sink(n, _):
        if n == 5:
            signal.raise_signal(signal.SIGINT)

    pipeline = through(pool, source, sink)
    with pytest.raises(KeyboardInterrupt):
        pipeline.run()
    assert pipeline.report.pictures == 5
    assert source.closed


def test_calls_that_the_pool_gives_up_are_named(pool):
    with rknnlite.Pool(MODEL, workers=1, backend="cpu") as other:
        begun, on = threading.Event(), threading.Event()

        def run(context, n):
            begun.set()
            on.wait(10)
            return n

        def close():
            begun.wait(10)
            threading.Timer(0.1, on.set).start()
            other.close(cancel=True)

        closer = threading.Thread(target=close)
        closer.start()
        with pytest.raises(rknnlite.RknnError, match="model, picture") as caught:
            through(other, range(10), run=run).run()
        closer.join()
    assert isinstance(caught.value.__cause__, (CancelledError, rknnlite.RknnError))


@pytest.mark.parametrize("options", [{"queue": 0}, {"stall": 0}, {"stall": float("nan")}])
def test_options_without_sense_are_refused(pool, options):
    with pytest.raises(ParamInvalid, match="queue must be at least 1 and stall above 0"):
        through(pool, [], **options)


def test_a_network_for_pictures_sees_the_same_in_a_pipeline():
    scene = "examples/detect/scene.jpg"
    pytest.importorskip("PIL")
    frames = [read(Path(scene)), np.zeros((30, 50, 3), np.uint8), read(Path(scene))[:, ::-1].copy()]
    detector = "examples/detect/detect_for_RK3588.rknn"
    got = []
    with (
        open_vision(detector, backend="cpu") as model,
        rknnlite.Pool(detector, 2, backend="cpu") as detectors,
    ):
        decode = functools.partial(model.decode, limits=Limits(score=0.5))
        Pipeline(
            frames, detectors, lambda seen, _: decode(seen), lambda _, found: got.append(found), run=model.run
        ).run()
        expected = [model.see(frame, Limits(score=0.5)) for frame in frames]
    assert [len(found) for found in got] == [len(found) for found in expected]
    assert len(got[0]) > 5 > 0 == len(got[1])
    for found, wanted in zip(got, expected):
        np.testing.assert_array_equal(found.boxes, wanted.boxes)


# -- sources and sinks ------------------------------------------------------------------------------------


def pictures(count: int, size: tuple[int, int] = (64, 48)) -> list[np.ndarray]:
    """Plain ones, each brighter than the one before."""
    return [np.full((size[1], size[0], 3), 10 * n, np.uint8) for n in range(1, count + 1)]


def test_a_film_is_written_and_read_again(pool, tmp_path):
    pytest.importorskip("cv2")
    film = tmp_path / "shades.avi"
    with FilmSink(film, 30) as sink:
        through(pool, pictures(8), sink, run=lambda context, picture: 1).run()
    assert [p.name for p in tmp_path.iterdir()] == ["shades.avi"]
    source, got = FilmSource(str(film)), []
    assert (source.total, source.rate, source.live) == (8, 30, False)
    through(pool, source, lambda picture, _: got.append(picture), run=lambda context, picture: 1).run()
    assert [round(picture.mean() / 10) for picture in got] == list(range(1, 9))


def test_a_film_keeps_red_red(tmp_path):
    pytest.importorskip("cv2")
    red = np.zeros((48, 64, 3), np.uint8)
    red[..., 0] = 200
    with FilmSink(tmp_path / "red.avi") as sink:
        sink(red)
    with FilmSource(str(tmp_path / "red.avi")) as source:
        found = next(iter(source))
    assert found[..., 0].mean() > 150 > 60 > found[..., 2].mean()


def test_a_film_is_not_there_after_an_error_but_after_ctrl_c(tmp_path):
    pytest.importorskip("cv2")
    for kind, left in ((ValueError, []), (KeyboardInterrupt, ["a.avi"])):
        with pytest.raises(kind), FilmSink(tmp_path / "a.avi") as sink:
            sink(pictures(1)[0])
            raise kind
        assert [p.name for p in tmp_path.iterdir()] == left


def test_a_picture_of_another_size_does_not_fit_into_a_film(pool, tmp_path):
    pytest.importorskip("cv2")
    source = [*pictures(2), *pictures(1, (32, 48))]
    with (
        pytest.raises(InputInvalid, match=r"sink, picture 3: .*the picture is 32 x 48, those before 64 x 48"),
        FilmSink(tmp_path / "a.avi") as sink,
    ):
        through(pool, source, sink, run=lambda context, picture: 1).run()
    assert not list(tmp_path.iterdir())


def test_a_folder_of_pictures_into_another(pool, tmp_path):
    needs("PIL")
    with_three = tmp_path / "from"
    sink = FolderSink(with_three)
    for picture in pictures(3):
        sink(picture)
    source = FolderSource(with_three)
    names = [path.name for path in source.paths]
    to = FolderSink(tmp_path / "to", draw=lambda picture, result: picture * 0 + result, names=names)
    Pipeline(source, pool, lambda outputs, _: 77, to, run=lambda context, picture: picture).run()
    assert [p.name for p in FolderSource(tmp_path / "to").paths] == names
    assert all((picture == 77).all() for picture in FolderSource(tmp_path / "to"))


@pytest.mark.parametrize("name", ["no_such.avi", "77", "/dev/video77"])
def test_what_cannot_be_opened_is_told(name):
    pytest.importorskip("cv2")
    with pytest.raises(InputInvalid, match=name):
        FilmSource(name)


def test_a_file_that_is_no_film_is_told(tmp_path):
    pytest.importorskip("cv2")
    (tmp_path / "text.avi").write_text("no film")
    with pytest.raises(InputInvalid, match=r"text.avi cannot be opened as a film or camera"):
        FilmSource(str(tmp_path / "text.avi"))
