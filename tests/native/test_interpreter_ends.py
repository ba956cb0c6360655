"""Inference while the interpreter ends: in ``atexit``, in a daemon thread, in a finalizer; where no thread begins."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite.errors import ContextInvalid
from rknnlite.matmul import Matmul
from rknnlite.native.processors import HelperThreads
from tests.support.corpus import genuine

MODEL = genuine("conv_relu.rk3588.i8")

# Four processors, so that there is something to divide; sizes from which threads are used.
PROGRAM = """
import atexit, os, sys, threading
import numpy as np
import rknnlite
from rknnlite.matmul import Matmul, layout
from rknnlite_cpu.kernels import parallel, threads

layout.processors = parallel.cores = lambda: 4
threads._CORES, layout._MANY = 4, 0
what, when, model = sys.argv[1:]
context = rknnlite.open(model, backend="cpu")
zeros = [np.zeros(attr.dims, np.uint8) for attr in context.inputs]

def matmul():
    with Matmul(16, 1024, 2048, backend="cpu", soc="rk3588", b_layout="native") as product:
        return [product(np.ones((16, 1024), np.int8), np.ones((1024, 2048), np.int8))]

def blocks():
    done = np.zeros(8, int)
    def work(part):
        done[part] += 1
    parallel.run_blocks(work, [slice(i, i + 1) for i in range(8)], 1 << 20)
    assert (done == 1).all()
    return parallel.run_items(lambda i: done, 4, 4)

def pool():
    with rknnlite.Pool(model, backend="cpu", workers=2) as several:
        return several.submit(*zeros).result()

calls = {
    "infer": lambda: context.infer(*zeros), "async": lambda: context.infer_async(*zeros).result(),
    "matmul": matmul, "blocks": blocks, "pool": pool,
}

def go():
    try:
        os.write(1, b"computed %d\\n" % len(calls[what]()))
    except rknnlite.ContextInvalid as error:
        os.write(1, f"refused {error}\\n".encode())

if when == "daemon":
    done = threading.Event()
    def later():
        threading.main_thread().join()
        go()
        done.set()
    threading.Thread(target=later, daemon=True).start()
    atexit.register(done.wait, 20)
else:
    atexit.register(go)
"""


@pytest.mark.parametrize("what", ["infer", "async", "matmul", "blocks", "pool"])
@pytest.mark.parametrize("when", ["atexit", "daemon"])
def test_calls_while_the_interpreter_ends(what: str, when: str) -> None:
    done = run(what, when)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    may_refuse = what in ("async", "pool") and sys.version_info >= (3, 12)  # no thread begins there any more
    assert done.stdout.startswith(("computed", "refused no thread for") if may_refuse else "computed")


def run(what: str, when: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), what, when, str(MODEL)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python 3.12 and later answer once the interpreter ends."""

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", start)


def test_without_threads_the_caller_does_it_all(no_threads: None) -> None:
    done: list[int] = []
    HelperThreads("test").run(done.append, [[0, 1], [2], [3, 4]])
    assert sorted(done) == [0, 1, 2, 3, 4]


def test_a_finalizer_waits_for_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the interpreter goes down, helpers that there are stand still: they would never answer."""
    helpers = HelperThreads("test")
    monkeypatch.setattr(helpers, "_tasks", SimpleQueue())  # nobody takes anything from it
    monkeypatch.setattr(sys, "is_finalizing", lambda: True)
    done: list[int] = []
    helpers.run(done.append, [[0], [1], [2]])
    assert done == [0, 1, 2]


def test_an_error_of_the_caller_who_does_it_all(no_threads: None) -> None:
    def work(number: int) -> None:
        raise ValueError(number)

    with pytest.raises(ValueError, match="0"):
        HelperThreads("test").run(work, [[0], [1]])


def test_a_matrix_product_without_threads(monkeypatch: pytest.MonkeyPatch, no_threads: None) -> None:
    from rknnlite.matmul import layout

    monkeypatch.setattr(layout, "processors", lambda: 4)
    monkeypatch.setattr(layout, "_MANY", 0)
    monkeypatch.setattr(layout, "_helpers", HelperThreads("test"))
    with Matmul(16, 1024, 2048, backend="cpu", soc="rk3588", b_layout="native") as product:
        assert (product(np.ones((16, 1024), np.int8), np.ones((1024, 2048), np.int8)) == 1024).all()


def test_what_needs_a_thread_says_so(no_threads: None) -> None:
    with rknnlite.open(MODEL, backend="cpu") as context:
        zeros: list[Any] = [np.zeros(attr.dims, np.uint8) for attr in context.inputs]
        with pytest.raises(ContextInvalid, match=r"no thread for infer_async .*call infer"):
            context.infer_async(*zeros)
        assert len(context.infer(*zeros)) == len(context.outputs)
    with pytest.raises(ContextInvalid, match="no thread for worker 0 of the pool"):
        rknnlite.Pool(MODEL, backend="cpu", workers=2)
