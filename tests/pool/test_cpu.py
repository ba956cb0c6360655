"""Batches, duplicates and pools on the CPU reference, with genuine files."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from rknnlite_cpu.kernels import threads

import rknnlite
from rknnlite import errors
from rknnlite.spi import Input
from tests.support.corpus import EXAMPLES, genuine, golden_of, open_cpu
from tests.support.needs import needs

STATIC = ["mean_std.rk3588.i8", "batch_four.rk3588.i8", "lstm_bidirectional.rk3562.i8", "vit_like.rk3588.i8"]


# -- batches --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["batch_four.rk3588.i8", "batch_three.rk3588.fp16"])
def test_items_side_by_side_give_what_they_give_alone(name: str) -> None:
    golden = golden_of(name)
    with open_cpu(genuine(name)) as context:
        together = context.infer(*golden.inputs)
        for count in (1, 2, 3):
            context.set_batch_core_num(count)
            for a, b in zip(together, context.infer(*golden.inputs)):
                assert np.array_equal(a, b)


def test_items_run_in_threads_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from rknnlite_cpu.kernels import parallel

    monkeypatch.setattr(threads, "_CORES", 4)
    seen: set[int] = set()
    gate = threading.Barrier(3, timeout=10)

    def work(item: int) -> int:
        if item < 3:
            gate.wait()  # three items are under way at once, or this fails
        seen.add(threading.get_ident())
        return item * item

    monkeypatch.setattr(parallel, "_items", parallel._Threads("test"))
    monkeypatch.setattr(parallel, "cores", lambda: 4)
    assert parallel.run_items(work, 5, 3) == [0, 1, 4, 9, 16]
    assert len(seen) == 3


def test_an_error_of_one_item_is_raised_when_all_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    from rknnlite_cpu.kernels import parallel

    monkeypatch.setattr(threads, "_CORES", 2)
    done = []

    def work(item: int) -> None:
        if item == 1:
            raise ValueError("item 1")
        done.append(item)

    with pytest.raises(ValueError, match="item 1"):
        parallel.run_items(work, 4, 2)
    assert done == [0, 2]


def test_batch_cores_by_the_chip() -> None:
    for name, most in (("batch_four.rk3588.i8", 3), ("batch_three.rk3576.i8", 2)):
        with open_cpu(genuine(name)) as context:
            context.set_batch_core_num(most)
            for count in (0, most + 1, -1):
                with pytest.raises(errors.ParamInvalid, match=f"has {most} NPU cores"):
                    context.set_batch_core_num(count)
    with open_cpu(genuine("batch_four.rk3562.i8")) as context:
        with pytest.raises(errors.TargetPlatformUnmatch, match="single NPU core") as caught:
            context.set_batch_core_num(1)
        assert caught.value.code == -13


def test_sizes_are_those_of_the_whole_batch() -> None:
    with open_cpu(genuine("batch_four.rk3588.i8")) as context:
        (native,) = context.native_inputs
        assert context.batch == native.dims[0] == 4 and native.size_with_stride % 4 == 0


# -- threads --------------------------------------------------------------------------------------------------


def test_a_share_holds_for_the_thread_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_CORES", 8)
    other: list[int] = []
    with threads.limited(3):
        assert threads.share() == 3
        thread = threading.Thread(target=lambda: other.append(threads.share()))
        thread.start()
        thread.join()
        with threads.limited(5):
            assert threads.share() == 3
        with threads.limited(1):
            assert threads.share() == 1
    assert threads.share() == 8 and other == [8]


def test_blas_computes_alone_meanwhile_and_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class Blas:
        now = 8
        get = staticmethod(lambda: Blas.now)

        @staticmethod
        def set(count: int) -> None:
            Blas.now = count

    monkeypatch.setattr(threads, "_blas", lambda: Blas)
    with threads.limited(4):
        assert Blas.now == 1
        with threads.limited(2):
            assert Blas.now == 1
        assert Blas.now == 1
    assert Blas.now == 8


@pytest.mark.parametrize("entering", [True, False])
def test_a_signal_handler_may_wait_for_a_thread_that_computes(
    entering: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it comes: here it interrupts the main thread, which tells BLAS its number."""
    numbers = [8]

    def compute() -> None:
        with threads.limited(2):
            pass

    class Blas:
        get = staticmethod(lambda: numbers[-1])

        @staticmethod
        def set(count: int) -> None:
            if (count == 1) is entering and len(numbers) < 4:
                numbers.append(count)
                other = threading.Thread(target=compute, daemon=True)
                other.start()
                other.join(60)
                assert not other.is_alive(), "it waits for the thread that waits for it"
            numbers.append(count)

    monkeypatch.setattr(threads, "_blas", lambda: Blas)
    compute()
    assert numbers[-1] == 8 and not threads._computing
    compute()
    assert numbers[-2:] == [1, 8]


def test_numpys_own_library_is_found() -> None:
    if "openblas" not in str(np.show_config(mode="dicts")).lower():  # type: ignore[call-overload]
        pytest.skip("numpy uses another BLAS here")
    blas = threads._blas()
    assert blas is not None and blas.get() >= 1


@pytest.mark.parametrize(
    ("file", "getter", "setter"),
    [
        ("libmkl_rt.so.2", "MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
        ("libblis.so.4", "bli_thread_get_num_threads", "bli_thread_set_num_threads"),
        ("libopenblasp-r0.3.21.so", "openblas_get_num_threads", "openblas_set_num_threads"),
    ],
)
def test_other_libraries_are_found(
    file: str, getter: str, setter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a stand-in that has the functions; whichever thread leaves last puts the number back."""
    needs("gcc")
    source = f"static int now = 6; int {getter}(void) {{ return now; }} void {setter}(int n) {{ now = n; }}"
    (tmp_path / "x.c").write_text(source)
    command = [
        "cc" if shutil.which("cc") else "gcc",
        "-shared",
        "-fPIC",
        "-o",
        tmp_path / file,
        tmp_path / "x.c",
    ]
    subprocess.run(command, check=True)
    maps = f"7f00-7f01 r-xp 0 08:01 5 /lib/x/libc.so.6\n7f02-7f03 r-xp 0 08:01 6 {tmp_path / file}\n"
    monkeypatch.setattr(threads, "Path", lambda _: SimpleNamespace(read_text=lambda **_: maps))
    blas = threads._blas.__wrapped__()
    assert blas is not None and blas.get() == 6
    monkeypatch.setattr(threads, "_blas", lambda: blas)
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with threads.limited(4):
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    with threads.limited(4):
        assert blas.get() == 1
        thread.start()
        assert inside.wait(60)
    assert blas.get() == 1
    leave.set()
    thread.join()
    assert blas.get() == 6


# -- duplicates -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STATIC)
def test_a_duplicate_gives_the_same_and_disturbs_nothing(name: str) -> None:
    golden = golden_of(name)
    with open_cpu(genuine(name)) as context:
        expected = context.infer(*golden.inputs)
        twin = context.dup()
        assert all(np.array_equal(a, b) for a, b in zip(twin.infer(*golden.inputs), expected))
        twin.infer(*(np.zeros_like(array) for array in golden.inputs))
        assert all(np.array_equal(a, b) for a, b in zip(context.get_outputs(), expected))
        context.close()
        assert all(np.array_equal(a, b) for a, b in zip(twin.infer(*golden.inputs), expected))
        again = twin.dup()
        twin.close()
        assert all(np.array_equal(a, b) for a, b in zip(again.infer(*golden.inputs), expected))
        again.close()


def test_weights_are_shared() -> None:
    with open_cpu(genuine("mean_std.rk3588.i8")) as context, context.dup() as twin:
        ours, theirs = context._shapes.current.plan, twin._shapes.current.plan  # type: ignore[attr-defined]
        assert ours is not theirs
        assert all(a.kernel is b.kernel for a, b in zip(ours.steps, theirs.steps))


@pytest.mark.parametrize(
    "name", ["vit_like.rk3588.i8", "depthwise_s2.rk3588.i8", "lstm_bidirectional.rk3562.i8"]
)
def test_duplicates_run_in_parallel(name: str) -> None:
    golden = golden_of(name)
    with open_cpu(genuine(name)) as context:
        expected = context.infer(*golden.inputs)
        twins = [context.dup() for _ in range(4)]
        wrong: list[int] = []

        def run(number: int) -> None:
            for _ in range(20):
                found = twins[number].infer(*golden.inputs)
                if not all(np.array_equal(a, b) for a, b in zip(found, expected)):
                    wrong.append(number)

        runners = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for runner in runners:
            runner.start()
        for runner in runners:
            runner.join()
        assert not wrong
        for twin in twins:
            twin.close()


def test_dynamic_shapes_cannot_be_duplicated() -> None:
    with (
        open_cpu(genuine("dynamic_three.rk3588.i8")) as context,
        pytest.raises(errors.ParamInvalid, match="dynamic shapes: such contexts cannot be duplicated"),
    ):
        context.dup()


def test_settings_go_over_to_a_duplicate() -> None:
    with open_cpu(genuine("batch_four.rk3588.i8"), core_mask=3) as context:
        context.set_batch_core_num(2)
        with context.dup() as twin:
            assert (twin._settings.core_mask, twin._settings.lanes) == (3, 2)  # type: ignore[attr-defined]
        context.close()
        with pytest.raises(errors.ContextInvalid):
            context.dup()


class Counting:
    """The example's operator, with a life that can be counted."""

    op_type = "cstDualResidual"
    alive = 0

    def init(self, ctx: Any, inputs: Any, outputs: Any) -> None:
        Counting.alive += 1

    def compute(self, ctx: Any, inputs: Any, outputs: Any) -> None:
        raise NotImplementedError

    def destroy(self, ctx: Any) -> None:
        Counting.alive -= 1


def test_custom_operators_get_nodes_of_their_own() -> None:
    with open_cpu(EXAMPLES / "custom_op" / "dual_for_RK3588.rknn") as context:
        context.register_ops([Counting()])  # type: ignore[list-item]
        before = Counting.alive
        assert before > 0
        with context.dup():
            assert Counting.alive == 2 * before
        assert Counting.alive == before
    assert Counting.alive == 0


# -- pools ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*STATIC, "dynamic_three.rk3588.i8"])
def test_a_pool_gives_what_a_context_gives(name: str) -> None:
    golden = golden_of(name)
    with rknnlite.open(genuine(name), backend="cpu") as context:
        expected = context.infer(*golden.inputs)
    with rknnlite.Pool(genuine(name), 2, backend="cpu") as pool:
        for outputs in pool.map([golden.inputs] * 8):
            assert all(np.array_equal(a, b) for a, b in zip(outputs, expected))
        assert pool.stats().calls == 8


def test_workers_divide_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    import rknnlite.pool

    monkeypatch.setattr(rknnlite.pool.pool, "processors", lambda: 6)
    limits: list[int] = []
    from rknnlite_cpu.context import CpuContext

    monkeypatch.setattr(CpuContext, "limit_threads", lambda self, count: limits.append(count) or True)
    with rknnlite.Pool(genuine("mean_std.rk3588.i8"), backend="cpu") as pool:
        assert pool.workers == 3
    assert limits[-3:] == [2, 2, 2]


def test_bytes_will_do() -> None:
    golden = golden_of("mean_std.rk3588.i8")
    with rknnlite.Pool(genuine("mean_std.rk3588.i8").read_bytes(), 2, backend="cpu") as pool:
        assert pool.submit(*golden.inputs).result()[0].shape == golden.outputs[0].shape
        raw = pool.submit(*golden.inputs, raw=True).result()
        assert raw[0].data.dtype == np.int8


def test_memory_is_counted_as_the_reference_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """float32, four times what the NPU needs; the weights of a duplicate cost nothing."""
    with rknnlite.open(genuine("mean_std.rk3588.i8"), backend="cpu") as context:
        need = context.memory()
    each = 4 * (need.total - need.weight)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=2 * each + 1))
    with pytest.raises(errors.OutOfMemory, match="3 fit; use workers=3"):
        rknnlite.Pool(genuine("mean_std.rk3588.i8"), 4, backend="cpu")
    rknnlite.Pool(genuine("mean_std.rk3588.i8"), 3, backend="cpu").close()


def test_the_file_does_not_stay_in_memory() -> None:
    """It is mapped, and its pages are given back when the weights are unpacked."""
    path = EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn"
    others = resident_parts(path)  # of contexts that belong to somebody else in this process
    with rknnlite.Pool(path, 2, backend="cpu"):
        mine = [size for place, size in resident_parts(path).items() if place not in others]
        assert mine and sum(mine) <= 64  # KiB, of 1.8 MB


def resident_parts(path: Path) -> dict[str, int]:
    """KiB in memory of a file's mappings in this process, by their addresses."""
    areas = re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text())
    return {area.split()[0]: int(re.findall(r"Rss: +(\d+)", area)[0]) for area in areas if path.name in area}


def test_a_bad_model_raises_at_once() -> None:
    with pytest.raises(errors.ModelInvalid):
        rknnlite.Pool(b"nothing of the kind", 2, backend="cpu")


def test_masks_of_a_pool() -> None:
    with rknnlite.Pool(genuine("batch_three.rk3576.i8"), 3, backend="cpu") as pool:
        assert [worker.core_mask for worker in pool.stats().workers] == [1, 2, 1]
    with pytest.raises(errors.ParamInvalid, match="rk3576") as caught:
        rknnlite.Pool(genuine("batch_three.rk3576.i8"), 2, cores=4, backend="cpu")
    assert caught.value.code == -1


# -- asynchronous calls ---------------------------------------------------------------------------------------


def test_infer_async() -> None:
    golden = golden_of("mean_std.rk3588.i8")
    with open_cpu(genuine("mean_std.rk3588.i8")) as context:
        expected = context.infer(*golden.inputs)
        futures = [context.infer_async(*golden.inputs) for _ in range(5)]
        assert all(np.array_equal(future.result(60)[0], expected[0]) for future in futures)
        assert context.infer_async(*golden.inputs, raw=True).result(60)[0].data.dtype == np.int8
        with pytest.raises(errors.InputInvalid):
            context.infer_async(np.zeros((1, 2))).result(60)
    with pytest.raises(errors.ContextInvalid):
        context.infer_async(*golden.inputs)


def test_an_async_call_waits_for_whoever_holds_the_context() -> None:
    golden = golden_of("mean_std.rk3588.i8")
    with open_cpu(genuine("mean_std.rk3588.i8")) as context:
        with context.exclusive():
            future = context.infer_async(*golden.inputs)
            context.infer(*golden.inputs)
            assert not future.done()
        assert future.result(60)


def test_closing_waits_for_the_call_under_way_and_cancels_the_others() -> None:
    golden = golden_of("mean_std.rk3588.i8")
    context = open_cpu(genuine("mean_std.rk3588.i8"))
    futures = [context.infer_async(*golden.inputs) for _ in range(50)]
    context.close()
    assert all(future.done() for future in futures)
    for future in futures:
        assert future.cancelled() or future.result() is not None


def test_a_callback_may_close_the_context() -> None:
    golden = golden_of("mean_std.rk3588.i8")
    context = open_cpu(genuine("mean_std.rk3588.i8"))
    closed = threading.Event()

    def close(_: Any) -> None:
        context.close()
        closed.set()

    context.infer_async(*golden.inputs).add_done_callback(close)
    assert closed.wait(60) and context.closed


def test_async_inputs_are_watched_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_DEBUG", "1")
    golden = golden_of("mean_std.rk3588.i8")
    image = golden.inputs[0].copy()
    with open_cpu(genuine("mean_std.rk3588.i8")) as context:
        assert context.infer_async(image).result(60)
        with context.exclusive():
            future = context.infer_async(image)
            image[0, 0, 0, 0] ^= 1
        with pytest.raises(errors.InputInvalid, match="input 0 was changed"):
            future.result(60)


def test_async_mode_answers_with_the_frame_before() -> None:
    golden = golden_of("mean_std.rk3588.i8")
    image = golden.inputs[0]
    with open_cpu(genuine("mean_std.rk3588.i8")) as plain:
        ours, black = plain.infer(image), plain.infer(np.zeros_like(image))
        assert plain.frame_id is None
    with open_cpu(genuine("mean_std.rk3588.i8"), async_mode=True) as context:
        answers = []
        for frame in (image, np.zeros_like(image), image):
            context.set_inputs([Input(0, frame)])
            context.run()
            answers.append((context.get_outputs()[0], context.frame_id))
    assert [number for _, number in answers] == [0, 0, 1]
    assert np.array_equal(answers[1][0], ours[0]) and np.array_equal(answers[2][0], black[0])
