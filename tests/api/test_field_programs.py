"""What public programs do with the vendor's package, on the CPU reference and on librknnrt (the test double)."""

from __future__ import annotations

import ctypes as ct
import logging
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rknnlite import plugins
from rknnlite.abi import rknn_op
from rknnlite.api import RKNNLite, rknn_runtime
from tests.custom_ops.models import DUAL, PlainDual
from tests.doubles.double import Double, build, compiler, model
from tests.rknnrt.models import AFFINE, DYNAMIC

from .corpus import genuine

GENUINE = "conv_1x1.rk3588.i8"
GENUINE_DYNAMIC = "dynamic_two.rk3588.fp16"


@dataclass
class Board:
    """Where a program runs: the backend, and model files to try it with."""

    backend: str
    image_model: Path
    dynamic_model: Path

    def start(self, path: Path | None = None, **options: Any) -> RKNNLite:
        """A face as programs make it."""
        rknn = RKNNLite()
        assert rknn.load_rknn(str(path or self.image_model)) == 0
        assert rknn.init_runtime(**options) == 0
        return rknn


@pytest.fixture(params=["cpu", "rknnrt"])
def board(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpu: None
) -> Iterator[Board]:
    monkeypatch.setenv("RKNNLITE_BACKEND", request.param)
    if request.param == "cpu":
        yield Board("cpu", genuine(GENUINE), genuine(GENUINE_DYNAMIC))
        return
    if compiler() is None:
        pytest.skip("no C compiler is installed")
    import rknnlite_rknnrt

    if not plugins.manager().has_plugin("rknnrt"):
        plugins.manager().register(rknnlite_rknnrt, name="rknnrt")
        plugins.backends.cache_clear()
    monkeypatch.setenv("RKNNLITE_LIBRARY", str(build()))
    steering = Double(build())
    steering.reset()
    files = {"image": model(*AFFINE, "string made by hand"), "dynamic": model(*DYNAMIC)}
    for name, content in files.items():
        (tmp_path / f"{name}.rknn").write_bytes(content)
    yield Board("rknnrt", tmp_path / "image.rknn", tmp_path / "dynamic.rknn")
    assert steering.live() == {}


@pytest.fixture
def rknn(board: Board) -> Iterator[RKNNLite]:
    face = board.start()
    yield face
    face.release()


def picture(rknn: RKNNLite) -> np.ndarray:
    """A uint8 NHWC image that the model takes."""
    attr = rknn.rknn_runtime.get_tensor_attr(0)
    shape = tuple(attr.dims[: attr.n_dims])
    return np.random.default_rng(1).integers(0, 60, shape, dtype=np.uint8)


# -- calls -------------------------------------------------------------------------------------------------

CALLS: dict[str, Callable[[RKNNLite, np.ndarray], Any]] = {
    "a tuple": lambda rknn, image: rknn.inference(inputs=(image,)),
    "a bare array": lambda rknn, image: rknn.inference(image),
    "by keyword, bare": lambda rknn, image: rknn.inference(inputs=image),
    "an image of rank 3": lambda rknn, image: rknn.inference(inputs=[image[0]]),
    "a bare image of rank 3": lambda rknn, image: rknn.inference(inputs=image[0]),
    "everything by position": lambda rknn, image: rknn.inference([image], "uint8", ["nhwc"], None, False),
    "float32 NHWC": lambda rknn, image: rknn.inference([np.float32(image)]),
    "float32 with data_type": lambda rknn, image: rknn.inference([np.float32(image)], data_type="float32"),
    "float32 NCHW, not said": lambda rknn, image: rknn.inference([np.float32(image).transpose(0, 3, 1, 2)]),
    "data_format of one word": lambda rknn, image: rknn.inference(
        [image.transpose(0, 3, 1, 2)], data_format="nchw"
    ),
    "data_format in a list": lambda rknn, image: rknn.inference(
        [image.transpose(0, 3, 1, 2)], data_format=["nchw"]
    ),
    "data_format in capitals": lambda rknn, image: rknn.inference(
        [image.transpose(0, 3, 1, 2)], data_format=["NCHW"]
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_forms_of_a_call(rknn: RKNNLite, call: Callable[[RKNNLite, np.ndarray], Any]) -> None:
    image = picture(rknn)
    expected = rknn.inference(inputs=[image])
    outputs = call(rknn, image)
    assert isinstance(outputs, list) and np.array_equal(outputs[0], expected[0])


@pytest.mark.parametrize("mask", [2**n - 1 for n in range(1, 4)])
def test_a_mask_that_is_computed(board: Board, mask: int) -> None:
    rknn = board.start(core_mask=mask)
    assert rknn.inference([picture(rknn)]) is not None
    rknn.release()


def test_a_constant_by_its_name() -> None:
    assert getattr(RKNNLite, "NPU_CORE_0_1_2") == 7  # noqa: B009


def test_target_is_tried_and_then_left_out(board: Board) -> None:
    rknn = RKNNLite()
    rknn.load_rknn(str(board.image_model))
    if rknn.init_runtime(target="rk3588", device_id=None):
        assert rknn.init_runtime() == 0
    assert rknn.inference([picture(rknn)]) is not None
    rknn.release()


def test_release_in_del_and_after_a_failed_init(board: Board, tmp_path: Path) -> None:
    class Detector:
        def __init__(self, path: Path) -> None:
            self.rknn = RKNNLite()
            self.rknn.load_rknn(str(path))
            self.code = self.rknn.init_runtime()

        def __del__(self) -> None:
            self.rknn.release()
            self.rknn.release()

    (tmp_path / "junk.rknn").write_bytes(b"no model at all")
    assert Detector(tmp_path / "junk.rknn").code == -1
    detector = Detector(board.image_model)
    assert detector.code == 0
    detector.rknn.release()
    assert detector.rknn.init_runtime() == 0
    assert detector.rknn.inference([picture(detector.rknn)]) is not None


# -- threads and processes ---------------------------------------------------------------------------------


def test_a_pool_with_one_object_per_thread(board: Board) -> None:
    faces = [board.start() for _ in range(3)]
    image = picture(faces[0])
    expected = faces[0].inference([image])[0]
    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(faces[n % 3].inference, [image]) for n in range(3)]
        assert all(np.array_equal(job.result()[0], expected) for job in jobs)
    for rknn in faces:
        rknn.release()


def test_an_object_inherited_over_a_fork(rknn: RKNNLite, capfd: pytest.CaptureFixture[str]) -> None:
    """The child opens a runtime of its own where the parent's cannot be used; the parent's stays as it was."""
    image = picture(rknn)
    expected = rknn.inference([image])[0]
    child = os.fork()
    if not child:
        status = 1
        try:
            outputs = rknn.inference([image]), rknn.inference([image])
            status = 0 if all(np.array_equal(o[0], expected) for o in outputs) else 2
            rknn.release()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(rknn.inference([image])[0], expected)
    assert "E " not in [line[:2] for line in capfd.readouterr().err.splitlines()]


def work(rknn: RKNNLite, image: np.ndarray, results: Any) -> None:
    results.send(rknn.inference([image]))


def test_multiprocessing_by_fork(rknn: RKNNLite) -> None:
    image = picture(rknn)
    processes = multiprocessing.get_context("fork")
    results, theirs = processes.Pipe(duplex=False)  # a queue needs /dev/shm, which a chroot may lack
    worker = processes.Process(target=work, args=(rknn, image, theirs))
    worker.start()
    theirs.close()
    assert np.array_equal(results.recv()[0], rknn.inference([image])[0])
    worker.join()


def test_release_while_another_thread_infers(rknn: RKNNLite) -> None:
    image, answers = picture(rknn), []
    expected = rknn.inference([image])[0]

    def loop() -> None:
        outputs = rknn.inference([image])
        while outputs is not None:
            answers.append(np.array_equal(outputs[0], expected))
            outputs = rknn.inference([image])

    thread = threading.Thread(target=loop)
    thread.start()
    while len(answers) < 3:
        os.sched_yield()
    rknn.release()
    thread.join(20)
    assert not thread.is_alive() and all(answers) and rknn.rknn_runtime is None


# -- private surface ---------------------------------------------------------------------------------------


def test_attributes_of_tensors(rknn: RKNNLite) -> None:
    runtime = rknn.rknn_runtime
    n_inputs, n_outputs = runtime.get_in_out_num()
    assert (n_inputs, n_outputs) == (1, 1) and len(runtime.get_inputs()) == 1
    attr = runtime.get_tensor_attr(0, is_output=False)
    assert attr.name.decode() and list(attr.dims)[: attr.n_dims] == [attr.dims[i] for i in range(attr.n_dims)]
    assert {attr.fmt, attr.type} <= {0, 1, 2, 3} and isinstance(attr.zp, int) and attr.scale > 0
    assert tuple(runtime.get_output_shape(0)) == rknn.inference([picture(rknn)])[0].shape
    assert not runtime.is_dynamic_shape


def test_the_three_steps_and_the_time(rknn: RKNNLite) -> None:
    runtime, image = rknn.rknn_runtime, picture(rknn)
    runtime.set_inputs([image], None, ["nhwc"], inputs_pass_through=None)
    runtime.run(False)
    outputs = runtime.get_outputs(False)
    assert np.array_equal(outputs[0], rknn.inference([image])[0])
    assert runtime.get_run_perf().run_duration / 1000.0 > 0
    assert runtime.set_core_mask(RKNNLite.NPU_CORE_0) == 0


def test_versions_by_line(rknn: RKNNLite) -> None:
    lines = rknn.get_sdk_version().split("\n")
    assert lines[2].split(":", 1)[1].strip() and lines[3].strip().startswith("DRV:")
    assert len(rknn.rknn_runtime.get_sdk_version()) == 3


def test_the_log_is_told_to_be_silent(board: Board, capfd: pytest.CaptureFixture[str]) -> None:
    rknn = board.start()
    capfd.readouterr()
    rknn.rknn_log.logger.setLevel(logging.CRITICAL)
    assert rknn.inference([np.zeros((1, 2))]) is None
    assert capfd.readouterr().err == ""
    rknn.release()


# -- C functions -------------------------------------------------------------------------------------------


class Attr(ct.Structure):
    """``rknn_tensor_attr`` as programs declare it."""

    _fields_ = (
        ("index", ct.c_uint32), ("n_dims", ct.c_uint32), ("dims", ct.c_uint32 * 16), ("name", ct.c_char * 256),
        ("n_elems", ct.c_uint32), ("size", ct.c_uint32), ("fmt", ct.c_int), ("type", ct.c_int),
        ("qnt_type", ct.c_int), ("fl", ct.c_int8), ("zp", ct.c_int32), ("scale", ct.c_float),
        ("w_stride", ct.c_uint32), ("size_with_stride", ct.c_uint32), ("pass_through", ct.c_uint8),
        ("h_stride", ct.c_uint32),
    )  # fmt: skip


class Text(ct.Structure):
    """``rknn_custom_string`` as programs declare it."""

    _fields_ = (("string", ct.c_char * 1024),)


def ask(runtime: Any, command: int, answer: Any) -> int:
    code: int = runtime.lib.rknn_query(runtime.context, command, ct.byref(answer), ct.sizeof(answer))
    return code


def stored_outputs(runtime: Any) -> list[np.ndarray]:
    """The outputs of the last run as the NPU stored them, fetched by C functions."""
    count = runtime.get_in_out_num()[1]
    buffers = (rknn_runtime.RKNNOutput * count)()
    for index, buffer in enumerate(buffers):
        buffer.index = index
    assert runtime.lib.rknn_outputs_get(runtime.context, count, buffers, None) == 0
    outputs = []
    for buffer in buffers:
        attr = Attr(index=buffer.index)
        assert ask(runtime, 15 if runtime.is_dynamic_shape else 2, attr) == 0
        data = ct.cast(buffer.buf, ct.POINTER(ct.c_char * buffer.size)).contents
        dtype = {0: np.float32, 1: np.float16, 2: np.int8}[attr.type]
        outputs.append(np.frombuffer(data, dtype).copy())
    assert runtime.lib.rknn_outputs_release(runtime.context, count, buffers) == 0
    return outputs


def test_the_context_is_a_plain_number(rknn: RKNNLite) -> None:
    context = rknn.rknn_runtime.context
    assert int(context) == ct.c_uint64(context).value == context != 0


def test_attributes_by_query(rknn: RKNNLite) -> None:
    runtime, attr = rknn.rknn_runtime, Attr(index=0)
    assert ask(runtime, 2, attr) == 0
    twin = runtime.get_tensor_attr(0, is_output=True)
    assert attr.dims[: attr.n_dims] == twin.dims and attr.name == twin.name.split(b"\0")[0]
    assert (attr.size, attr.type, attr.zp) == (twin.size, twin.type, twin.zp)
    assert attr.scale == pytest.approx(twin.scale)
    assert ask(runtime, 2, Attr(index=7)) == -5


def test_custom_string_by_query(rknn: RKNNLite, board: Board) -> None:
    text = Text()
    assert ask(rknn.rknn_runtime, 7, text) == 0
    assert text.string.decode() == ("made by hand" if board.backend == "rknnrt" else "")


def test_outputs_as_stored(rknn: RKNNLite) -> None:
    runtime, image = rknn.rknn_runtime, picture(rknn)
    floats = rknn.inference([image])[0]
    runtime.set_inputs([image])
    runtime.run(False)
    (stored,) = stored_outputs(runtime)
    attr = runtime.get_tensor_attr(0, is_output=True)
    assert stored.dtype == np.int8
    assert np.array_equal((np.float32(stored) - attr.zp) * np.float32(attr.scale), floats.ravel())


def test_outputs_of_a_dynamic_model(board: Board) -> None:
    rknn = board.start(board.dynamic_model)
    runtime = rknn.rknn_runtime
    assert runtime.is_dynamic_shape
    for shapes in runtime._shapes:
        runtime.set_inputs([np.ones(shape, np.float32) for shape in shapes])
        runtime.run(False)
        stored = stored_outputs(runtime)
        assert [array.size for array in stored] == [array.size for array in runtime.get_outputs(False)]
    rknn.release()


def test_floats_into_memory_of_the_program(rknn: RKNNLite) -> None:
    runtime, image = rknn.rknn_runtime, picture(rknn)
    expected = rknn.inference([image])[0]
    runtime.set_inputs([image])
    runtime.run(False)
    mine = np.zeros_like(expected)
    outputs = (rknn_runtime.RKNNOutput * 1)(
        rknn_runtime.RKNNOutput(want_float=1, is_prealloc=1, buf=mine.ctypes.data, size=mine.nbytes)
    )
    assert runtime.lib.rknn_outputs_get(runtime.context, 1, outputs, None) == 0
    assert runtime.lib.rknn_outputs_release(runtime.context, 1, outputs) == 0
    assert np.array_equal(mine, expected)


# -- operators ---------------------------------------------------------------------------------------------


class HandMade:
    """An operator as programs build it by ctypes: ``first * alpha - second`` per output, inputs in turn."""

    def __init__(self, lib: Any, op_type: str) -> None:
        self.lib, self.alpha = lib, 0.0
        self.calls: list[str] = []
        callbacks = {"init": self.init, "compute": self.compute}
        self.struct = rknn_op.CustomOpStruct(version=1, target=1, op_type=op_type.encode())
        for name, call in callbacks.items():
            setattr(self.struct, name, rknn_op.CALLBACK(call))
        self.struct.destroy = rknn_op.DESTROY_CALLBACK(self.destroy)

    def init(self, op_ctx: Any, ins: Any, n_in: int, outs: Any, n_out: int) -> int:
        self.calls.append("init")
        attr = rknn_op.CustomOpAttr()
        self.lib.rknn_custom_op_get_op_attr(op_ctx, b"absent", ct.byref(attr))
        assert attr.n_elems == 0
        self.lib.rknn_custom_op_get_op_attr(op_ctx, b"alpha", ct.byref(attr))
        self.alpha = ct.c_float.from_address(attr.data).value
        return 0

    def compute(self, op_ctx: Any, ins: Any, n_in: int, outs: Any, n_out: int) -> int:
        self.calls.append("compute")
        arrays = [self.array(ins[i]) for i in range(n_in)]
        for i in range(n_out):
            self.array(outs[i])[...] = arrays[i] * np.float32(self.alpha) - arrays[1 - i]
        return 0

    def destroy(self, op_ctx: Any) -> int:
        self.calls.append("destroy")
        return 0

    def array(self, tensor: Any) -> np.ndarray:
        where = ct.cast(tensor.mem.virt_addr + tensor.mem.offset, ct.POINTER(ct.c_float))
        return np.ctypeslib.as_array(where, tuple(tensor.attr.dims[: tensor.attr.n_dims]))


HAND_MADE = (
    "input left float32 2 1 4",
    "input right float32 2 1 4",
    "output a float32 2 1 4",
    "output b float32 2 1 4",
    "op cstDualResidual",
    "attr alpha f32 0.5",
)


def test_operators_built_by_hand(board: Board, tmp_path: Path) -> None:
    (tmp_path / "op.rknn").write_bytes(model(*HAND_MADE))
    rknn = board.start(DUAL if board.backend == "cpu" else tmp_path / "op.rknn")
    shapes = [tuple(attr.dims) for attr in rknn.rknn_runtime.get_inputs()]
    inputs = [np.random.default_rng(i).random(shape, np.float32) for i, shape in enumerate(shapes)]
    runtime = rknn.rknn_runtime
    made = HandMade(runtime.lib, "cstDualResidual")
    assert runtime.lib.rknn_register_custom_ops(runtime.context, ct.byref(made.struct), 1) == 0
    outputs = rknn.inference(inputs)
    assert made.calls == ["init", "compute"] and made.alpha == 0.5
    if board.backend == "cpu":
        twin = RKNNLite()
        twin.load_rknn(str(DUAL))
        twin.reg_custom_op(PlainDual())
        twin.init_runtime()
        expected = twin.inference(inputs)
        twin.release()
    else:
        left, right = inputs
        expected = [left * np.float32(0.5) - right, right * np.float32(0.5) - left]
    assert all(np.array_equal(got, want) for got, want in zip(outputs, expected))
    rknn.release()
    assert made.calls == ["init", "compute", "destroy"]


def test_a_context_that_is_kept_too_long(rknn: RKNNLite, capfd: pytest.CaptureFixture[str]) -> None:
    """The genuine library dies of a stale number; here it gets none."""
    lib, context = rknn.rknn_runtime.lib, rknn.rknn_runtime.context
    rknn.release()
    attr = Attr()
    assert lib.rknn_query(context, 1, ct.byref(attr), ct.sizeof(attr)) == -7
    assert rknn.rknn_runtime is None
