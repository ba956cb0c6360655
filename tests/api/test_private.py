"""What real programs touch although no document names it: ``rknn_runtime`` and the module names."""

from __future__ import annotations

import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_capi.custom_ops import StructOp, read_attr

from rknnlite import errors
from rknnlite.abi import rknn_op
from rknnlite.api import RKNNLite
from rknnlite.api.rknn_runtime import RKNNOutput, RKNNRuntime
from rknnlite.spi import OpContext, OpNode, UseBuiltin

from .fake_backend import Bench, Gate, image_input, output, plain_input


@pytest.fixture
def runtime(rknn: RKNNLite) -> RKNNRuntime:
    return rknn.rknn_runtime


def test_in_out_num(bench: Bench) -> None:
    bench.inputs = [image_input(), plain_input(1, "tokens", (1, 5))]
    bench.outputs = [output(0), output(1), output(2)]
    rknn = RKNNLite()
    rknn.rknn_data = b"model"
    rknn.init_runtime()
    n_inputs, n_outputs = rknn.rknn_runtime.get_in_out_num()
    assert (n_inputs, n_outputs) == (2, 3)
    assert [attr.name.decode() for attr in rknn.rknn_runtime.get_inputs()] == ["image", "tokens"]


def test_attributes_of_an_input(runtime: RKNNRuntime) -> None:
    attr = runtime.get_tensor_attr(0)
    assert attr.index == 0
    assert attr.n_dims == 4 and tuple(attr.dims[: attr.n_dims]) == (1, 4, 6, 3)
    assert [attr.dims[i] for i in range(attr.n_dims)] == [1, 4, 6, 3]
    assert (attr.type, attr.fmt, attr.qnt_type) == (2, 1, 2)
    assert (attr.scale, attr.zp, attr.fl) == (0.5, -3, 0)
    assert (attr.n_elems, attr.size, attr.size_with_stride) == (72, 72, 72)
    assert (attr.w_stride, attr.h_stride, attr.pass_through) == (16, 0, 0)


def test_attributes_of_an_output(runtime: RKNNRuntime) -> None:
    attr = runtime.get_tensor_attr(0, is_output=True)
    assert attr == runtime.get_tensor_attr(0, True)
    assert (attr.dims, attr.type, attr.fmt, attr.qnt_type) == ([1, 2], 1, 3, 0)
    assert (attr.scale, attr.zp, attr.size) == (1.0, 0, 4)


def test_name_is_bytes_and_reads_like_text(runtime: RKNNRuntime) -> None:
    name = runtime.get_tensor_attr(0).name
    assert isinstance(name, bytes)
    assert name.decode() == "image"
    assert name == "image" and name == b"image" and name != "other" and name != b"other"
    assert f"{name}" == str(name) == "image"
    assert {name: 1}[b"image"] == 1


@pytest.mark.parametrize("index", [-1, 1, 99])
def test_attribute_that_is_not_there(runtime: RKNNRuntime, index: int) -> None:
    with pytest.raises(errors.ParamInvalid):
        runtime.get_tensor_attr(index)


def test_output_shapes(runtime: RKNNRuntime) -> None:
    assert runtime.get_output_shape(0) == [1, 2]
    assert runtime.get_output_shape() == [[1, 2]]


def test_the_three_steps(runtime: RKNNRuntime, image: np.ndarray) -> None:
    runtime.set_inputs([image], None, ["nhwc"], inputs_pass_through=None)
    assert runtime.run(False) == 0
    (scores,) = runtime.get_outputs(False)
    assert scores[0, 0] == image.sum()
    assert runtime.run(True)[1] == 1
    assert runtime.get_outputs()[0].shape == (1, 2)


def test_steps_raise_instead_of_logging(
    runtime: RKNNRuntime, bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        errors.InputInvalid, match=r"The input\[0\] need 4dims input, but 2dims input buffer feed"
    ):
        runtime.set_inputs([np.zeros((2, 2))])
    bench.faults["run"] = errors.RunTimeout("late")
    with pytest.raises(errors.RunTimeout):
        runtime.run(False)
    assert capfd.readouterr().err == ""


def test_outputs_before_a_run_are_zeros_of_the_right_shape(
    runtime: RKNNRuntime, capfd: pytest.CaptureFixture[str]
) -> None:
    assert np.array_equal(runtime.get_outputs()[0], np.zeros((1, 2)))
    assert "not run yet" in capfd.readouterr().err


def test_next_inputs_may_be_set_while_outputs_are_fetched(runtime: RKNNRuntime, image: np.ndarray) -> None:
    runtime.set_inputs([image], None, ["nhwc"])
    with ThreadPoolExecutor() as pool:
        for _ in range(20):
            runtime.run(False)
            outputs = pool.submit(runtime.get_outputs, False)
            following = pool.submit(runtime.set_inputs, [image], None, ["nhwc"])
            assert following.result() == 0
            assert outputs.result()[0][0, 0] == image.sum()


def test_a_step_waits_for_the_step_of_another_thread(
    runtime: RKNNRuntime, bench: Bench, image: np.ndarray
) -> None:
    runtime.set_inputs([image])
    bench.gates["run"] = gate = Gate()
    runner = threading.Thread(target=runtime.run)
    runner.start()
    assert gate.entered.wait(20)
    with ThreadPoolExecutor() as pool:
        outputs = pool.submit(runtime.get_outputs)
        assert not outputs.done()
        gate.open.set()
        assert outputs.result(20)[0][0, 0] == image.sum()
    runner.join()


def test_set_core_mask(runtime: RKNNRuntime, bench: Bench) -> None:
    assert runtime.set_core_mask(RKNNLite.NPU_CORE_0_1) == 0
    assert runtime.set_core_mask(RKNNLite.NPU_CORE_AUTO) == 0
    assert [call[1] for call in bench.calls if call[0] == "set_core_mask"] == [3, 0]
    with pytest.raises(errors.ParamInvalid):
        runtime.set_core_mask(5)
    bench.soc = "rk3566"
    assert runtime.set_core_mask(0) == 0
    with pytest.raises(errors.TargetPlatformUnmatch):
        runtime.set_core_mask(1)


def test_run_perf(runtime: RKNNRuntime) -> None:
    assert runtime.get_run_perf().run_duration / 1000.0 == 1.234


def test_sdk_version_has_three_values(runtime: RKNNRuntime) -> None:
    banner, api, driver = runtime.get_sdk_version()
    assert api in banner and driver in banner
    assert (api, driver) == ("9.9.9 (fake@2026-01-01)", "0.9.8")


def test_c_functions_without_a_vendor_library(
    runtime: RKNNRuntime, image: np.ndarray, capfd: pytest.CaptureFixture[str]
) -> None:
    """What programs in the field call is there, and answers codes; see also test_field_programs.py."""
    lib, context = runtime.lib, runtime.context
    number = (ctypes.c_uint32 * 2)()
    assert lib.rknn_query(context, 0, ctypes.byref(number), ctypes.sizeof(number)) == 0
    assert list(number) == [1, 1]
    text = (ctypes.c_char * 512)()
    assert lib.rknn_query(ctypes.c_uint64(context), ctypes.c_int(5), text, ctypes.c_uint32(512)) == 0
    assert text.value == b"9.9.9 (fake@2026-01-01)" and text[256:261] == b"0.9.8"
    duration = ctypes.c_int64()
    runtime.set_inputs([image])
    assert lib.rknn_run(context, None) == lib.rknn_set_core_mask(context, 3) == 0
    assert lib.rknn_query(context, 4, ctypes.byref(duration), 8) == 0 and duration.value == 1234
    assert capfd.readouterr().err == ""


WRONG_QUERIES = [
    (lambda runtime, room: runtime.lib.rknn_query(runtime.context + 1, 0, room, 8), -7, "context is closed"),
    (lambda runtime, room: runtime.lib.rknn_query(runtime.context, 0, None, 8), -5, "a pointer is NULL"),
    (lambda runtime, room: runtime.lib.rknn_query(runtime.context, 0, room, 4), -5, "4 bytes, the answer 8"),
    (lambda runtime, room: runtime.lib.rknn_query(runtime.context, 99, room, 8), -5, "command 99"),
    (lambda runtime, room: runtime.lib.rknn_outputs_get(runtime.context, 9, room, None), -9, "9 outputs"),
]


@pytest.mark.parametrize("call, code, text", WRONG_QUERIES)
def test_c_functions_that_are_called_wrongly(
    runtime: RKNNRuntime, capfd: pytest.CaptureFixture[str], call: Any, code: int, text: str
) -> None:
    assert call(runtime, (ctypes.c_uint8 * 64)()) == code
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("E rknn_") and text in line and f"({code})" in line


@pytest.mark.parametrize(
    "step, target, why", [(None, 1, "needs op_type and compute"), ("compute", 2, "the GPU")]
)
def test_operators_that_cannot_be_registered(
    runtime: RKNNRuntime, capfd: pytest.CaptureFixture[str], step: str | None, target: int, why: str
) -> None:
    struct = rknn_op.CustomOpStruct(version=1, target=target, op_type=b"cstX")
    callback = rknn_op.CALLBACK(lambda *arguments: 0)
    if step:
        setattr(struct, step, callback)
    assert runtime.lib.rknn_register_custom_ops(runtime.context, ctypes.byref(struct), 1) == -5
    assert why in capfd.readouterr().err


@pytest.mark.parametrize("step, code", [("init", -1), ("prepare", -3), ("compute", -9), ("init", -14)])
def test_codes_of_operators(step: str, code: int) -> None:
    struct = rknn_op.CustomOpStruct(version=1, target=1, op_type=b"cstX")
    callbacks = {name: rknn_op.CALLBACK(lambda *arguments: 0) for name in ("init", "prepare", "compute")}
    callbacks[step] = rknn_op.CALLBACK(lambda *arguments: code)
    for name, callback in callbacks.items():
        setattr(struct, name, callback)
    op, ctx = StructOp(struct), OpContext(OpNode("cstX", "node"))
    kind, text = (UseBuiltin, "-14") if code == -14 else (errors.RknnError, f"{step} answers {code}")
    with pytest.raises(kind, match=text):
        op.init(ctx, [], [])
        op.compute(ctx, [], [])


def test_attributes_that_an_operator_reads() -> None:
    """As the runtime shows them: int64, float32, bool, bytes of a text; scalars and lists."""
    given = {"n": -7, "alpha": 0.25, "flag": True, "s": "word", "ints": [1, -2], "floats": [0.5, -1.0]}
    seen: dict[str, Any] = {}

    def init(op_ctx: Any, *tensors: Any) -> int:
        for name in (*given, "absent"):
            attr = rknn_op.CustomOpAttr()
            read_attr(op_ctx, name.encode(), ctypes.byref(attr))
            seen[name] = (attr.dtype, ctypes.string_at(attr.data, 1), attr.n_elems) if attr.data else None
        return 0

    struct = rknn_op.CustomOpStruct(version=1, target=1, op_type=b"cstX", init=rknn_op.CALLBACK(init))
    struct.compute = rknn_op.CALLBACK(lambda *arguments: 0)
    StructOp(struct).init(OpContext(OpNode("cstX", "node", given)), [], [])
    assert {name: entry and (entry[0], entry[2]) for name, entry in seen.items()} == {
        "n": (8, 1), "alpha": (0, 1), "flag": (9, 1), "s": (3, 4), "ints": (8, 2), "floats": (0, 2), "absent": None,
    }  # fmt: skip
    assert seen["n"][1] == b"\xf9" and seen["s"][1] == b"w"


def test_after_release(rknn: RKNNLite, runtime: RKNNRuntime, image: np.ndarray) -> None:
    rknn.release()
    runtime.release()
    for call in (runtime.get_in_out_num, runtime.run, runtime.get_outputs, runtime.get_inputs):
        with pytest.raises(errors.ContextInvalid):
            call()
    with pytest.raises(errors.ContextInvalid):
        runtime.set_inputs([image])
    assert runtime.context is None and runtime.lib is None


def test_rknn_output_is_the_structure_of_the_c_api() -> None:
    outputs = (RKNNOutput * 2)()
    outputs[1].want_float = 1
    outputs[1].index = 1
    assert ctypes.sizeof(RKNNOutput) == (24 if ctypes.sizeof(ctypes.c_void_p) == 8 else 16)
    assert RKNNOutput.buf.offset == 8


def test_programs_that_replace_the_library_path(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, model_file: Path
) -> None:
    monkeypatch.setattr(RKNNRuntime, "_get_rknn_api_lib_path", lambda self: "/opt/librknnrt.so")
    rknn = RKNNLite()
    rknn.load_rknn(model_file)
    assert rknn.init_runtime() == 0
    assert bench.options[-1].extra["library"] == "/opt/librknnrt.so"
