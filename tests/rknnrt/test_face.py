"""``RKNNLite`` on librknnrt: results, wording, modes, and the C functions for programs that call them."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_rknnrt import abi

from rknnlite.api import RKNNLite
from rknnlite.api.rknn_runtime import RKNNOutput
from tests.doubles.double import Double, model
from tests.support.corpus import genuine

from .models import AFFINE, DYNAMIC, NATIVE, TWO, identity, picture, scores

Face = Callable[..., RKNNLite]


def lines(capfd: pytest.CaptureFixture[str], letter: str) -> list[str]:
    """Lines of the face (the library writes its own with a clock)."""
    said = capfd.readouterr().err.splitlines()
    return [line for line in said if line.startswith(f"{letter} ") and "RKNN: [" not in line]


def test_inference(face: Face) -> None:
    outputs = face(*AFFINE).inference(inputs=[picture()])
    assert isinstance(outputs, list) and outputs[0].dtype == np.float32
    assert np.array_equal(outputs[0], scores(picture()))


def test_inputs_by_name_and_in_order(face: Face) -> None:
    rknn = face(*TWO)
    state = np.arange(8, dtype=np.float32).reshape(1, 8)
    for inputs in ([picture(), state], {"state": state, "image": picture()}):
        got, following = rknn.inference(inputs=inputs)
        assert np.array_equal(got, identity(picture())) and np.array_equal(following, state)


def test_35_inputs_with_int64_caches(face: Face) -> None:
    """A streaming transducer: features, and 34 states that come back as outputs."""
    states = [f"state{i} {'int64' if i % 2 else 'float32'} 2 1 4" for i in range(34)]
    lines_ = ["input x float32 2 1 4", *(f"input {state}" for state in states)]
    lines_ += ["output y float32 2 1 4", *(f"output next_{state}" for state in states), "op affine 1 0"]
    caches = [np.arange(4, dtype=np.int64 if i % 2 else np.float32).reshape(1, 4) for i in range(34)]
    outputs = face(*lines_).inference(inputs=[np.zeros((1, 4), np.float32), *caches])
    assert all(np.array_equal(got, cache) for got, cache in zip(outputs[1:], caches))


def test_no_mask_is_set_for_auto(face: Face, double: Double) -> None:
    face(*AFFINE, core_mask=RKNNLite.NPU_CORE_AUTO)
    assert double.count("rknn_set_core_mask") == 0
    face(*AFFINE, core_mask=RKNNLite.NPU_CORE_0_1_2)
    assert double.count("rknn_set_core_mask") == 1


def test_an_illegal_mask(double: Double, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.rknn"
    path.write_bytes(model(*AFFINE))
    rknn = RKNNLite()
    rknn.load_rknn(str(path))
    assert rknn.init_runtime(core_mask=5) == -1
    (line,) = lines(capfd, "E")
    assert (
        line.startswith("E Catch exception when set npu core mode.")
        and "legal masks: 0, 1, 2, 4, 3, 7" in line
    )
    assert double.live() == {}
    assert rknn.init_runtime(core_mask=7) == 0
    rknn.release()


@pytest.mark.parametrize("words", ["nchw", ["nchw"], ["NCHW"]])
def test_data_format(face: Face, capfd: pytest.CaptureFixture[str], words: Any) -> None:
    rknn = face(*AFFINE)
    capfd.readouterr()
    given = np.ascontiguousarray(picture().transpose(0, 3, 1, 2))
    assert np.array_equal(rknn.inference(inputs=[given], data_format=words)[0], scores(picture()))
    assert lines(capfd, "W") == [
        "W The input[0] need NHWC data format, but NCHW set, the data format and data buffer will be changed to NHWC."
    ]


def test_pass_through(face: Face) -> None:
    elements = np.random.default_rng(7).integers(-128, 128, (1, 4, 6, 3), dtype=np.int8)
    (got,) = face(*NATIVE).inference(inputs=[elements], inputs_pass_through=[1])
    assert np.array_equal(got, (elements.transpose(0, 3, 1, 2).astype(np.float32) + 3) * np.float32(0.5))


def test_reuse_outputs(face: Face) -> None:
    rknn = face(*AFFINE)
    first = rknn.inference(inputs=[picture(1)], reuse_outputs=True)
    second = rknn.inference(inputs=[picture(2)], reuse_outputs=True)
    assert first[0] is second[0] and np.array_equal(first[0], scores(picture(2)))
    fresh = rknn.inference(inputs=[picture(3)])
    assert fresh[0] is not first[0] and np.array_equal(first[0], scores(picture(2)))


def test_frame_ids(face: Face) -> None:
    rknn = face(*AFFINE)
    for expected in range(3):
        *outputs, frame = rknn.inference(inputs=[picture()], get_frame_id=True)
        assert (frame, len(outputs)) == (expected, 1)


def test_async_mode_and_its_frame_ids(face: Face) -> None:
    rknn = face(*AFFINE, async_mode=True)
    for seed in range(4):
        (got, frame) = rknn.inference(inputs=[picture(seed)], get_frame_id=True)
        assert frame == max(0, seed - 1)
        assert np.array_equal(got, scores(picture(frame)))


def test_dynamic_shapes_by_the_shape_of_the_arrays(face: Face, capfd: pytest.CaptureFixture[str]) -> None:
    rknn = face(*DYNAMIC)
    for dims, extra in (((1, 8, 12, 3), 6), ((1, 4, 6, 3), 4)):
        image = picture(0, dims)
        (got,) = rknn.inference(inputs=[image, np.zeros((1, extra), np.float32)])
        assert np.array_equal(got, identity(image))
    capfd.readouterr()
    assert rknn.inference(inputs=[picture(0, (1, 5, 6, 3)), np.zeros((1, 4), np.float32)]) is None
    (line,) = lines(capfd, "E")
    assert line.startswith(
        "E Catch exception when setting inputs. Set input shape failed. error code: RKNN_ERR_FAIL"
    )
    assert "[1, 4, 6, 3]" in line and "[1, 8, 12, 3]" in line


def test_wrong_inputs_are_one_line_and_none(face: Face, capfd: pytest.CaptureFixture[str]) -> None:
    rknn = face(*AFFINE)
    capfd.readouterr()
    assert rknn.inference(inputs=[np.zeros((1, 4, 7, 3), np.uint8)]) is None
    (line,) = lines(capfd, "E")
    assert line.startswith("E Catch exception when setting inputs.")
    assert "[1, 4, 6, 3]" in line and "[1, 4, 7, 3]" in line
    assert np.array_equal(rknn.inference(inputs=[picture()])[0], scores(picture()))


def test_before_and_after(face: Face, double: Double, capfd: pytest.CaptureFixture[str]) -> None:
    rknn = face(*AFFINE)
    rknn.release()
    rknn.release()
    assert double.live() == {}
    capfd.readouterr()
    assert rknn.inference(inputs=[picture()]) is None and rknn.get_sdk_version() is None
    said = "E Runtime environment is not inited, please call init_runtime to init it first!"
    assert lines(capfd, "E") == [said, said]
    assert rknn.init_runtime() == 0  # the model is still loaded
    assert rknn.init_runtime() == 0  # an earlier runtime is released first
    assert double.live() == {"contexts": 1}
    assert np.array_equal(rknn.inference(inputs=[picture()])[0], scores(picture()))


def test_versions(face: Face) -> None:
    banner = face(*AFFINE).get_sdk_version().splitlines()
    assert banner[1:4] == ["RKNN VERSION:", "  API: 2.3.2 (double@2026-11-21T00:00:00)", "  DRV: 0.9.8"]


def test_verbose(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Version lines in the vendor's wording, and figures per layer of each run."""
    description = tmp_path / "double.txt"
    description.write_bytes(model(*AFFINE))
    monkeypatch.setenv("RKNN_DOUBLE_MODEL", str(description))
    rknn = RKNNLite(verbose=True)
    rknn.load_rknn(str(genuine("conv_relu.rk3588.i8")))
    assert rknn.init_runtime() == 0
    said = lines(capfd, "I")
    assert said[0] == ("I RKNN Runtime Information, librknnrt version: 2.3.2 (double@2026-11-21T00:00:00)")
    assert said[1] == "I RKNN Driver Information, version: 0.9.8"
    assert said[2].startswith("I RKNN Model Information, version: 6, toolkit version: 2.")
    assert said[2].endswith("model inference type: static_shape")
    assert double.flags() == abi.InitFlag.COLLECT_PERF
    rknn.inference(inputs=[picture()])
    assert any("Network Layer Information Table" in line for line in lines(capfd, "D"))
    rknn.release()


def test_a_static_genuine_model_is_not_asked_for_its_range(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The vendor's wheel asks, and the library complains in its log each time."""
    description = tmp_path / "double.txt"
    description.write_bytes(model(*AFFINE))
    monkeypatch.setenv("RKNN_DOUBLE_MODEL", str(description))
    rknn = RKNNLite()
    rknn.load_rknn(str(genuine("conv_relu.rk3588.i8")))
    assert rknn.init_runtime() == 0
    assert "RKNN_QUERY_INPUT_DYNAMIC_RANGE" not in capfd.readouterr().err
    rknn.release()


def test_a_key_that_the_library_cannot_take(
    double: Double, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, key = tmp_path / "secret.rknn", tmp_path / "secret_key.bin"
    path.write_bytes(b"RKCE" + bytes(100))
    key.write_bytes(b"key")
    rknn = RKNNLite()
    assert rknn.load_rknn(str(path), key_path=str(key)) == 0
    assert rknn.init_runtime() == -1
    (line,) = lines(capfd, "E")
    assert "no public version of the runtime's C API names an entry that takes one" in line


def test_custom_operators(face: Face, double: Double) -> None:
    class Double_:
        op_type = "cstDouble"

        def compute(self, node: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
            return [2 * inputs[0]]

    lines_ = ("input x float32 2 1 4", "output y float32 2 1 4", "op cstDouble")
    rknn = face(*lines_)
    assert rknn.reg_custom_op(Double_()) == 0
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    assert np.array_equal(rknn.inference(inputs=[x])[0], 2 * x)
    rknn.release()
    assert rknn.init_runtime() == 0  # it stays over a new initialisation
    assert np.array_equal(rknn.inference(inputs=[x])[0], 2 * x)


# -- programs that call the C functions --------------------------------------------------------------------


def test_lib_and_context(face: Face) -> None:
    """As programs in the field do: rknn_query, rknn_outputs_get and rknn_outputs_release by hand."""
    rknn = face(*AFFINE)
    runtime = rknn.rknn_runtime
    number = abi.InputOutputNum()
    assert runtime.lib.rknn_query(runtime.context, 0, ct.byref(number), ct.sizeof(number)) == 0
    assert (number.n_input, number.n_output) == runtime.get_in_out_num() == (1, 1)
    runtime.set_inputs([picture()])
    runtime.run()
    outputs = (RKNNOutput * 1)()
    outputs[0].want_float = 1
    assert runtime.lib.rknn_outputs_get(runtime.context, 1, outputs, None) == 0
    got = np.ctypeslib.as_array(ct.cast(outputs[0].buf, ct.POINTER(ct.c_float)), (1, 10)).copy()
    assert outputs[0].size == 40 and np.array_equal(got, scores(picture()))
    assert runtime.lib.rknn_outputs_release(runtime.context, 1, outputs) == 0


def test_operators_registered_by_hand(face: Face) -> None:
    rknn = face("input x float32 2 1 4", "output y float32 2 1 4", "op cstHand")
    calls: list[int] = []

    def compute(ctx: Any, ins: Any, n_in: int, outs: Any, n_out: int) -> int:
        calls.append(ins[0].attr.n_elems)
        return 0

    op = abi.CustomOpStruct(version=1, target=1, op_type=b"cstHand", compute=abi.CALLBACK(compute))
    runtime = rknn.rknn_runtime
    assert runtime.lib.rknn_register_custom_ops(runtime.context, ct.byref(op), 1) == 0
    assert rknn.inference(inputs=[np.zeros((1, 4), np.float32)]) is not None
    assert calls == [4]
    rknn.release()
