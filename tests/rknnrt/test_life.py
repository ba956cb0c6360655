"""Handles and lifetimes: every native object goes exactly once, in order, whatever happens."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite.errors import ContextInvalid
from rknnlite.spi import Input
from tests.doubles.double import Double, model
from tests.support.corpus import ROOT

from .models import AFFINE, picture, scores

Start = Callable[..., Any]


def test_close_may_be_repeated(start: Start, double: Double) -> None:
    context = start(*AFFINE)
    context.close()
    context.close()
    assert context.closed and double.count("rknn_destroy") == 1


def test_nothing_reaches_c_after_close(start: Start, double: Double) -> None:
    """The genuine library dies of a stale handle; the double aborts."""
    context = start(*AFFINE)
    attr = context.native_inputs[0]
    context.create_mem(16)
    context.close()
    asked = double.count("rknn_query")
    for use in (
        lambda: context.infer(picture()),
        lambda: context.set_inputs([Input(0, picture())]),
        context.run,
        context.get_outputs,
        lambda: context.get_outputs_into([np.empty((1, 10), np.float32)]),
        context.start,
        lambda: context.wait(0),
        lambda: context.set_core_mask(1),
        lambda: context.set_batch_core_num(1),
        lambda: context.set_shapes([(1,)]),
        lambda: context.register_ops([]),
        lambda: context.create_mem(16),
        lambda: context.import_phys(1, 1),
        lambda: context.import_mem(0, 1),
        lambda: context.bind(attr, None),
        lambda: context.sync(None, "both"),
        lambda: context.set_weight_mem(None),
        context.memory,
        context.perf_table,
        context.dup,
        lambda: context.versions,
        lambda: context.custom_string,
        lambda: context.last_run_us,
        lambda: context.native_inputs,
        lambda: context.handle,
    ):
        with pytest.raises(ContextInvalid, match=r"this context is closed; open the model again"):
            use()
    assert double.count("rknn_query") == asked and double.count("rknn_run") == 0


def test_dropped_contexts_are_destroyed_at_once(double: Double) -> None:
    gc.disable()
    try:
        context = rknnlite.open(model(*AFFINE))
        memory = context.create_mem(16)
        context.infer(picture())
        del context
        assert double.live() == {"contexts": 1, "mems": 1}  # the memory keeps its context
        del memory
        assert double.live() == {}
    finally:
        gc.enable()


def test_with_and_an_exception(double: Double) -> None:
    with pytest.raises(KeyError), rknnlite.open(model(*AFFINE)) as context:
        context.create_mem(16)
        raise KeyError
    assert double.live() == {}


def test_a_kept_traceback_keeps_no_native_object(double: Double) -> None:
    context = rknnlite.open(model(*AFFINE))
    try:
        context.get_outputs()
    except ContextInvalid as error:
        kept = error
    context.close()
    assert double.live() == {}
    del kept


def test_originals_outlive_duplicates(start: Start, double: Double) -> None:
    context = start(*AFFINE, core_mask=2)
    twin = context.dup()
    context.close()
    assert double.live() == {"contexts": 2}
    assert np.array_equal(twin.infer(picture())[0], scores(picture()))
    twin.close()
    assert double.live() == {}


# -- threads -----------------------------------------------------------------------------------------------


def in_thread(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def wait_for(double: Double, function: str) -> None:
    """Until a call has entered the library."""
    while not double.count(function):
        os.sched_yield()


def test_close_waits_for_a_run(start: Start, double: Double) -> None:
    context = start(*AFFINE, "latency 50000")
    results: list[Any] = []
    thread = in_thread(lambda: results.append(context.infer(picture())))
    wait_for(double, "rknn_run")
    context.close()
    thread.join()
    assert double.live() == {}  # and "misordered", destroyed while it ran, would be in there
    assert np.array_equal(results[0][0], scores(picture()))


CALLS: dict[str, Callable[[Any], Any]] = {
    "rknn_query": lambda context: context.versions,
    "rknn_inputs_set": lambda context: context.set_inputs([Input(0, picture())]),
    "rknn_outputs_get": lambda context: context.get_outputs(),
    "rknn_outputs_release": lambda context: context.get_outputs(),
    "rknn_set_core_mask": lambda context: context.set_core_mask(1),
    "rknn_create_mem": lambda context: context.create_mem(64),
    "rknn_dup_context": lambda context: context.dup().close(),
}


@pytest.mark.parametrize("function", sorted(CALLS))
def test_close_waits_for_any_call(start: Start, double: Double, function: str) -> None:
    """The double dies, as the genuine library does, when a context goes while a call is on its way into it."""
    context = start(*AFFINE)
    context.infer(picture())
    double.reset()
    double.delay(function, 30_000)
    failed: list[Exception] = []

    def call() -> None:
        try:
            CALLS[function](context)
        except Exception as error:
            failed.append(error)

    thread = in_thread(call)
    wait_for(double, function)
    context.close()
    thread.join()
    assert not failed and double.live() == {}


def test_memory_waits_for_a_run(start: Start, double: Double) -> None:
    context = start(*AFFINE, "latency 50000")
    memories = [context.create_mem(4096) for _ in range(2)]
    context.bind(context.native_inputs[0], memories[0])
    context.bind(context.native_outputs[0], memories[1])
    thread = in_thread(context.run)
    wait_for(double, "rknn_run")
    memories[1].close()
    assert context.last_run_us >= 50000  # the run was over before the memory went
    thread.join()


def test_a_second_thread_is_refused(start: Start, double: Double) -> None:
    context = start(*AFFINE, "latency 300000")
    thread = in_thread(lambda: context.infer(picture()))
    wait_for(double, "rknn_run")
    with pytest.raises(ContextInvalid, match=r"in use by another thread; open one context per thread"):
        context.infer(picture())
    thread.join()


def test_contexts_run_in_parallel(start: Start, double: Double) -> None:
    """A run leaves Python to others: four runs of 300 ms in four threads overlap."""
    contexts = [start(*AFFINE, "latency 300000") for _ in range(4)]
    for context in contexts:
        context.set_inputs([Input(0, picture())])
    threads = [in_thread(context.run) for context in contexts]
    wait_for(double, "rknn_run")
    while double.count("rknn_run") < 4:
        os.sched_yield()
    assert any(thread.is_alive() for thread in threads)  # all are inside, none had to wait for another
    for thread in threads:
        thread.join()


# -- processes ---------------------------------------------------------------------------------------------


def test_fork(start: Start, double: Double) -> None:
    """The child owns nothing of the parent's, and may open its own."""
    context = start(*AFFINE)
    memory = context.create_mem(16)
    child = os.fork()
    if not child:
        status = 1
        try:
            for use in (lambda: context.infer(picture()), lambda: memory.ndarray):
                with pytest.raises(ContextInvalid):
                    use()
            assert "made before a fork and belongs to the parent process" in closed_reason(context)
            context.close()
            destroyed = double.count("rknn_destroy") + double.count("rknn_destroy_mem")
            with rknnlite.open(model(*AFFINE)) as own:
                assert np.array_equal(own.infer(picture())[0], scores(picture()))
            status = 0 if destroyed == 0 else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(context.infer(picture())[0], scores(picture()))
    memory.ndarray[:] = 1


def closed_reason(context: Any) -> str:
    with pytest.raises(ContextInvalid) as caught:
        context.run()
    return str(caught.value)


def program(library: Path, tmp_path: Path, text: str) -> tuple[str, str]:
    """Run a program to its end; what is still alive in the library then, and its stderr."""
    report = tmp_path / "alive"
    path = tmp_path / "model.rknn"
    path.write_bytes(model(*AFFINE, "latency 300000" if "Thread" in text else "latency 0"))
    given = {
        "RKNNLITE_LIBRARY": str(library),
        "RKNNLITE_BACKEND": "rknnrt",
        "RKNNLITE_DISABLE": "cpu,cplugin,opencl,riscv,rknn3rt",
        "RKNN_DOUBLE_REPORT": str(report),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins")]),
    }
    head = f"import rknnlite, numpy as np\nfrom rknnlite.api import RKNNLite\nPATH = {str(path)!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(text)],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    alive = [line for line in report.read_text().splitlines() if not line.endswith(" 0")]
    return ", ".join(alive), done.stderr


ENDINGS = {
    "nothing released": "context = rknnlite.open(PATH); mem = context.create_mem(64); view = mem.ndarray",
    "duplicates and masters": """
        context = rknnlite.open(PATH); twin = context.dup(); slave = rknnlite.open(PATH, master=context)
        memories = [c.create_mem(64).ndarray for c in (twin, slave, context)]
    """,
    "a model in NPU memory": "context = rknnlite.open(PATH, model_in_npu_memory=True)",
    "an exception": "context = rknnlite.open(PATH); context.infer(np.zeros((1, 4, 6, 3), np.uint8)); 1 / 0",
    "sys.exit in a face": """
        import sys
        rknn = RKNNLite(); rknn.load_rknn(PATH); rknn.init_runtime()
        rknn.inference(inputs=[np.zeros((1, 4, 6, 3), np.uint8)])
        sys.exit(3)
    """,
}


@pytest.mark.parametrize("text", ENDINGS.values(), ids=ENDINGS)
def test_the_end_of_the_interpreter(library: Path, tmp_path: Path, text: str) -> None:
    alive, stderr = program(library, tmp_path, text)
    assert alive == ""
    assert "double:" not in stderr and "Exception ignored" not in stderr


def test_the_end_while_a_daemon_thread_runs(library: Path, tmp_path: Path) -> None:
    """The context is left to the system rather than destroyed under the run."""
    alive, stderr = program(
        library,
        tmp_path,
        """
        import threading
        from rknnlite_backend import native_objects as objects
        objects._PATIENCE = 0.01
        context = rknnlite.open(PATH, verbose=True)
        work = lambda: context.infer(np.zeros((1, 4, 6, 3), np.uint8))
        threading.Thread(target=work, daemon=True).start()
        while not context._running: pass
        """,
    )
    assert alive == "contexts 1"
    assert "still running in another thread and is not released" in stderr
