"""A model on a board from afar beside the same model here: whatever is asked, the answers are the same to the bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite import errors
from rknnlite.api import RKNNLite
from rknnlite.spi import AttrKind, Context, Input, Step
from tests.support.corpus import genuine, golden_of

from .conftest import RESNET, served

DYNAMIC = "dynamic_three.rk3588.i8"


def image_for(context: Context, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 255, context.inputs[0].dims).astype(np.uint8)


def same(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(a, b))


def test_what_it_is(there: Context, here: Context, board: str) -> None:
    assert there.backend_name == "remote"
    assert board in there.board and there.board_backend == "cpu"  # type: ignore[attr-defined]
    for kind in AttrKind:
        assert there.attrs(kind) == here.attrs(kind)
    for name in (
        "inputs",
        "outputs",
        "native_inputs",
        "native_outputs",
        "versions",
        "soc",
        "batch",
        "shapes",
    ):
        assert getattr(there, name) == getattr(here, name), name
    assert (there.custom_string, there.core_num) == (here.custom_string, here.core_num)
    assert there.memory() == here.memory()


def test_floats_and_stored_integers(there: Context, here: Context) -> None:
    image = image_for(here)
    assert same(there.infer(image), here.infer(image))
    assert there.last_run_us > 0
    for got, wanted in zip(there.infer(image, raw=True), here.infer(image, raw=True)):
        assert got.data.dtype == wanted.data.dtype and np.array_equal(got.data, wanted.data)
        assert got[1:] == wanted[1:]
    for context in (there, here):
        context.set_inputs([Input(0, image)])
        context.run()
    for want_float in (True, False, True, False):  # in any order, after one run
        assert same(there.get_outputs(want_float), here.get_outputs(want_float))
    there.get_outputs()[0][...] = 0  # they are the caller's
    assert same(there.get_outputs(), here.get_outputs())
    into = [np.empty(attr.dims, np.float32) for attr in there.outputs]
    there.get_outputs_into(into)
    assert same(into, here.get_outputs())


def test_passed_through(there: Context, here: Context) -> None:
    stored = np.random.default_rng(1).integers(-128, 127, here.inputs[0].dims).astype(np.int8)
    assert same(there.infer(stored, pass_through=True), here.infer(stored, pass_through=True))


def test_core_masks_are_checked_here_and_go_with_every_request(there: Context, here: Context) -> None:
    image = image_for(here)
    there.set_core_mask(2)
    assert same(there.infer(image), here.infer(image))
    with pytest.raises(errors.ParamInvalid, match="legal masks"):
        there.set_core_mask(9)
    there.set_batch_core_num(2)
    with pytest.raises(errors.ParamInvalid):
        there.set_batch_core_num(7)


def test_dynamic_shapes_and_what_is_passed_through(board: str) -> None:
    path = genuine(DYNAMIC)
    with rknnlite.open(path, device_id=board) as there, rknnlite.open(path, backend="cpu") as here:
        assert there.shapes == here.shapes
        for shapes in here.shapes:
            for context in (there, here):
                context.set_shapes(shapes)
            assert there.attrs(AttrKind.NATIVE_INPUT) == here.attrs(AttrKind.NATIVE_INPUT)
            assert there.outputs == here.outputs and there.memory() == here.memory()
            stored = [np.full(attr.dims, 7, attr.dtype.numpy) for attr in here.inputs]
            assert same(there.infer(stored, pass_through=True), here.infer(stored, pass_through=True))


@pytest.mark.slow
def test_figures_and_dumps(there: Context, here: Context, tmp_path: Path) -> None:
    for context in (there, here):
        with pytest.raises(errors.ContextInvalid, match="needs data to run on"):
            context.perf_table()
        context.infer(image_for(here))
    one, other = there.perf_table(), here.perf_table()
    assert one.columns == other.columns
    assert [(row.id, row.op, row.name) for row in one] == [(row.id, row.op, row.name) for row in other]
    assert one.total_us > 0
    dumps = [there.dump(tmp_path / "there"), here.dump(tmp_path / "here")]
    assert dumps[0].names == dumps[1].names
    assert all(np.array_equal(dumps[0].value(name), dumps[1].value(name)) for name in dumps[0].names)
    golden = here.dump(tmp_path / "golden_here", dumps[1])
    found = there.dump(tmp_path / "golden_there", dumps[1])
    assert all(np.array_equal(found.value(name), golden.value(name)) for name in golden.names)


def test_a_duplicate(there: Context, here: Context) -> None:
    image = image_for(here)
    there.set_core_mask(1)
    with there.dup() as twin:
        there.close()
        assert same(twin.infer(image), here.infer(image))


def test_frames_over_one_stream(there: Context, here: Context) -> None:
    wanted, numbers = [], []
    for seed in range(4):
        image = image_for(here, seed)
        wanted.append(here.infer(image))
        there.set_inputs([Input(0, image)])
        image[...] = 0  # it was taken
        numbers.append(there.start())
    assert numbers == [0, 1, 2, 3]
    for number in (1, 3, 0, 2, 2):
        there.wait(number, timeout_ms=20_000)
    assert same(there.get_outputs(), wanted[3])
    there.run()
    assert there.start() == 5
    assert same(there.get_outputs(), wanted[3])
    with pytest.raises(errors.ParamInvalid, match="frame 6 is not under way"):
        there.wait(6)


def test_a_frame_that_fails_tells_its_wait_once(there: Context) -> None:
    good = np.zeros(there.inputs[0].dims, np.float32)
    there.set_inputs([Input(0, np.full_like(good, np.nan))])
    bad = there.start()
    there.set_inputs([Input(0, good)])
    number = there.start()
    there.wait(number)
    with pytest.raises(errors.InputInvalid, match="NaN"):
        there.wait(bad)
    there.wait(bad)


def test_asynchronous_mode_answers_the_frame_before(board: str, here: Context) -> None:
    images = [image_for(here, seed) for seed in range(4)]
    wanted = [here.infer(image) for image in images]
    with rknnlite.open(RESNET, device_id=board, async_mode=True) as there:
        for number, image in enumerate(images):
            assert same(there.infer(image), wanted[max(0, number - 1)])
            assert there.frame_id == max(0, number - 1)


def test_calls_from_a_thread_of_its_own(there: Context, here: Context) -> None:
    images = [image_for(here, seed) for seed in range(3)]
    futures = [there.infer_async(image) for image in images]
    assert all(same(future.result(20), here.infer(image)) for future, image in zip(futures, images))


def test_what_is_wrong_comes_back_as_what_the_board_raised(there: Context) -> None:
    bad = np.full(there.inputs[0].dims, np.inf, np.float32)
    with pytest.raises(errors.InputInvalid, match="NaN or infinite") as caught:
        there.infer(bad)
    assert Step.of(caught.value) is Step.SET_INPUTS
    with pytest.raises(errors.InputInvalid, match="elements"):
        there.infer(np.zeros(7, np.int8), pass_through=True)
    there.infer(np.zeros_like(bad))


def test_the_vendors_class(board: str, here: Context, capfd: pytest.CaptureFixture[str]) -> None:
    image = image_for(here)
    rknn = RKNNLite()
    assert rknn.load_rknn(str(RESNET)) == 0
    assert rknn.init_runtime(target="rk3588", device_id=board, core_mask=RKNNLite.NPU_CORE_0_1) == 0
    assert rknn.rknn_runtime._ctx.backend_name == "remote"  # type: ignore[union-attr]
    assert same(rknn.inference(inputs=[image]), here.infer(image))
    assert rknn.inference(inputs=[image[:, :3]]) is None
    assert rknn.get_sdk_version() is not None
    rknn.release()
    for serial in ("a1b2c3d4", "192.168.1.20:5555"):  # of adb: ignored
        assert rknn.init_runtime(device_id=serial) == 0
        assert rknn.rknn_runtime._ctx.backend_name == "cpu"  # type: ignore[union-attr]
        rknn.release()


def test_a_model_travels_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "rknnlite")
    path = genuine("dense.rk3588.i8")
    golden = golden_of("dense.rk3588.i8")
    with served(tmp_path / "up") as address:
        for source in (path, path.read_bytes()):
            with rknnlite.open(source, device_id=address) as context:
                context.infer(*golden.inputs)
            assert sum("goes to board" in message for message in caplog.messages) == 1
        stored = list((tmp_path / "up").glob("*.rknn"))
        assert len(stored) == 1 and stored[0].read_bytes() == path.read_bytes()


def test_after_a_fork_the_child_opens_its_own(board: str) -> None:
    program = (
        "import os, numpy as np, rknnlite\n"
        "from rknnlite.errors import ContextInvalid\n"
        f"context = rknnlite.open({str(RESNET)!r}, backend='remote', device_id={board!r})\n"
        "image = np.zeros(context.inputs[0].dims, np.uint8)\n"
        "context.infer(image)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    try:\n"
        "        context.infer(image)\n"
        "    except ContextInvalid as error:\n"
        "        os._exit(0 if 'before a fork' in str(error) else 2)\n"
        "    os._exit(3)\n"
        "status = os.waitpid(child, 0)[1]\n"
        "assert status == 0, status\n"
        "context.infer(image)\n"
        "context.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr
