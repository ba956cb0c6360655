"""Numpy first, then the fastest engine: found out while frames run, in another thread.

A program of a few frames never pays. Once frames have taken ``_PATIENCE`` seconds, the installed engines are proven, compiled and
loaded one after the other in a thread of their own. One that is ready is held against the numpy kernels on the next frames,
real ones: it takes over when the edges of all its islands have had the same bytes and it has taken less time. Only networks whose
results are integers throughout begin so (see ``fastest.same_on_all``): numbers of a context never change in mid-life.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Optional

import numpy as np

from rknnlite.log import logger
from rknnlite.native.forks import after_fork

from ..kernels.buffers import trim
from ..kernels.threads import limited, share
from ..plan import ExecutionPlan, Step, Watch
from ..values import Array
from . import choice
from .accelerator import Accelerator, Island
from .engine import Engine, Kernels, Stopped
from .fastest import NUMPY, Fastest, Subject, keep_choice

__all__ = ["Tiers"]

_PATIENCE = 1.0
"""Seconds of frames before anything is tried: about what that costs, so that it is never more than twice what was needed."""
_FRAMES = 3
"""Real ones, on which an engine is compared with the numpy kernels."""
_WAIT = 0.05
"""Seconds between two looks at whether to go on."""
_BREATH = 2e-4
"""Seconds in which frames get the interpreter, after each step of a proof."""


class Tiers:
    """What computes a graph now, and what is tried. Plans of several contexts share it; each of them joins and leaves.

    Args:
        names: engines to try, in this order.
    """

    def __init__(self, subject: Subject, names: Sequence[str]) -> None:
        self._subject, self._names = subject, list(names)
        self._left = list(names)
        self._spent = 0.0
        self._best: Optional[Accelerator] = None
        self._fastest = Fastest(NUMPY)
        self._seconds = float("inf")
        """Of a frame on the best so far."""
        self._trial: Optional[_Trial] = None
        self._users = 1
        self._forget()
        _living.add(self)

    def _forget(self) -> None:
        """At first, and in a forked child: no thread is at work."""
        self._lock, self._thread = threading.Lock(), None

    @property
    def settled(self) -> bool:
        """Whether everything was tried."""
        return not self._left

    @property
    def check(self) -> Callable[[], None]:
        """See ``Subject``."""
        return self._subject.check

    def join(self) -> None:
        """One more plan."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """A plan is closed; without any left the thread ends at its next step."""
        with self._lock:
            self._users -= 1

    def without(self, op_type: str) -> Tiers:
        """For a graph in which a custom operator has taken a type of nodes."""
        return Tiers(replace(self._subject, taken=self._subject.taken | {op_type}), self._names)

    def run(self, plan: ExecutionPlan, inputs: Mapping[int, Array]) -> dict[int, Array]:
        """One frame, on what computes now; on the numpy kernels, looked at, where an engine is to be compared."""
        with self._turn() as trial:
            if trial is not None:
                edges = _Edges(trial.edges)
                outputs = plan.run(inputs, edges)
                if not trial.compare(edges):
                    self._decide(trial)
                return outputs
        started = time.perf_counter()
        outputs = plan.run_on(self._best, inputs)
        self._spent += time.perf_counter() - started
        if self._spent >= _PATIENCE and self._thread is None:
            self._start({step.node.index: step.kernel for step in plan.steps})
        return outputs

    @contextlib.contextmanager
    def _turn(self) -> Iterator[Optional[_Trial]]:
        """What is to be compared, for one frame at a time."""
        trial = self._trial
        if trial is None or not trial.lock.acquire(False):
            yield None
            return
        try:
            yield trial if trial is self._trial else None
        finally:
            trial.lock.release()

    def _decide(self, trial: _Trial) -> None:
        """Take over, or not, after the last frame that was compared."""
        name, label = trial.name, self._subject.label
        if trial.differs:
            logger.info(
                "%s: the engine %s is not used: %s has other bytes on a real frame",
                label,
                name,
                trial.differs,
            )
        elif trial.seconds < min(self._seconds, trial.numpy_seconds):
            self._best, self._seconds = trial.accelerator, trial.seconds
            self._fastest = Fastest(name, trial.nodes)
            logger.info(
                "%s: %d of %d nodes are computed by the engine %s from now on (%.2f ms a frame, numpy %.2f)",
                label, trial.nodes, len(self._subject.graph.nodes), name, 1e3 * trial.seconds, 1e3 * trial.numpy_seconds,
            )  # fmt: skip
        else:
            logger.info(
                "%s: the engine %s is not used: %.2f ms a frame are no gain", label, name, 1e3 * trial.seconds
            )
        self._tried(name)

    def _tried(self, name: str) -> None:
        with self._lock:
            self._left.remove(name)
            self._trial = self._thread = None
        if not self._left:
            keep_choice(self._subject, self._names, self._fastest)
            trim()

    # -- the other thread ---------------------------------------------------------------------------------

    def _start(self, kernels: Kernels) -> None:
        with self._lock:
            if self._thread is not None or not self._left:
                return
            # Waited for when the program ends, also where a pool's daemon is what starts it: a daemon that is in an engine's
            # C++ by then would abort the program.
            thread = threading.Thread(
                target=self._work,
                args=(self._left[0], kernels, share()),
                name="rknnlite-engines",
                daemon=False,
            )
            with contextlib.suppress(RuntimeError):  # the interpreter ends: nothing is to be gained
                thread.start()
                self._thread = thread

    def _work(self, name: str, kernels: Kernels, threads: int) -> None:
        """Prove and compile an engine with one thread, and make it ready for ``threads``."""
        try:
            with self._alone():
                accelerator = self._ready(name, kernels, threads)
        except Stopped:
            return
        except (
            Exception
        ) as error:  # also a file that has changed, which the next frame tells, or the next process
            logger.info("%s: the engine %s is not used: %.300s", self._subject.label, name, error)
            accelerator = None
        if accelerator is None:
            self._tried(name)
        else:
            self._trial = _Trial(accelerator, name)

    def _ready(self, name: str, kernels: Kernels, threads: int) -> Optional[Accelerator]:
        engines = self._loaded(name)
        with limited(1):
            accelerator = self._subject.accelerator(engines)
            islands = accelerator.islands(kernels, threads, self._go_on)
            for island in islands:
                self._go_on()
                island.program(threads)
        return accelerator if islands else None

    def _loaded(self, name: str) -> tuple[Engine, ...]:
        """Engines of a candidate. A compiler takes seconds: it is waited for in a thread that may be left behind."""
        if "native" in name.split("+"):
            building = threading.Thread(
                target=choice.engines, args=("native",), name="rknnlite-build", daemon=True
            )
            building.start()
            while building.is_alive():
                self._go_on()
                building.join(_WAIT)
        return choice.engines(name)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One network is proven at a time: a second copy of it finds the first one's verdict."""
        turn = _turn
        while not turn.acquire(timeout=_WAIT):
            self._go_on()
        try:
            yield
        finally:
            turn.release()

    def _go_on(self) -> None:
        """Let frames have the interpreter; raises Stopped when nobody waits for the answer, or the program ends."""
        if self._users <= 0 or not threading.main_thread().is_alive():
            raise Stopped
        time.sleep(_BREATH)


class _Edges(Watch):
    """Values that enter and leave islands in one frame, and how long every node took."""

    def __init__(self, wanted: frozenset[int]) -> None:
        self._wanted = wanted
        self.values: dict[int, Array] = {}
        self.seconds: dict[int, float] = {}

    def before(self, step: Step, values: dict[int, Array]) -> None:
        self._note(step.sources, values)

    def after(self, step: Step, seconds: float, values: Mapping[int, Array]) -> None:
        self._note(step.targets, values)
        self.seconds[step.node.index] = seconds

    def _note(self, indices: Sequence[int], values: Mapping[int, Array]) -> None:
        for index in self._wanted.intersection(indices):
            self.values.setdefault(index, values[index])


class _Trial:
    """An engine that is ready, compared with the numpy kernels on a few frames."""

    def __init__(self, accelerator: Accelerator, name: str) -> None:
        self.accelerator, self.name, self.lock = accelerator, name, threading.Lock()
        self._islands = accelerator.islands({})
        segments = [island.segment for island in self._islands]
        self.edges = frozenset(i for segment in segments for i in (*segment.inputs, *segment.outputs))
        self._inside = {node.index for segment in segments for node in segment.nodes}
        self._left = _FRAMES
        self.seconds = self.numpy_seconds = float("inf")
        self.differs = ""
        """The island that has given other bytes."""

    @property
    def nodes(self) -> int:
        """That the engine computes."""
        return len(self._inside)

    def compare(self, edges: _Edges) -> bool:
        """Run the islands on the values of a frame; False when all is known."""
        outside = sum(seconds for index, seconds in edges.seconds.items() if index not in self._inside)
        started = time.perf_counter()
        for island in self._islands:
            if not self._same(island, edges.values):
                self.differs = island.label
                return False
        self.seconds = min(self.seconds, outside + time.perf_counter() - started)
        self.numpy_seconds = min(self.numpy_seconds, sum(edges.seconds.values()))
        self._left -= 1
        return self._left > 0

    def _same(self, island: Island, values: Mapping[int, Array]) -> bool:
        try:
            results = island.run([values[i] for i in island.segment.inputs])
        except Exception as error:  # whatever an engine may do
            logger.info("the engine %s fails on a real frame: %.300s", self.name, error)
            return False
        expected = (values[i] for i in island.segment.outputs)
        return all(
            a.size == b.size and np.array_equal(a.ravel(), b.ravel()) for a, b in zip(results, expected)
        )


_living: weakref.WeakSet[Tiers] = weakref.WeakSet()
_turn = threading.Lock()


def _forget_all() -> None:
    global _turn
    _turn = threading.Lock()
    for tiers in list(_living):
        tiers._forget()
        tiers._trial = None


after_fork(_forget_all)
