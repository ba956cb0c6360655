"""Every error code from every function: the typed error natively, -1 or None and one line on the face.

After any fault the object can be released, opened again and used; nothing stays alive in the library.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_rknnrt import device

import rknnlite
from rknnlite.api import RKNNLite
from rknnlite.errors import ERROR_NAMES, DeviceUnavailable, OutOfMemory, RknnError, error_from_code
from rknnlite.spi import CustomOp, Input, OpContext
from tests.doubles.double import Double, model

from .models import AFFINE, DYNAMIC, picture, scores

CODES = [*range(-13, 0), -99]
LINES = (*AFFINE, "internal 64")
Act = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def device_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing device would be the better explanation of -1."""
    monkeypatch.setattr(device, "look", lambda: device.NodeState(("/dev/dri/renderD129",), ""))


def run_once(context: Any) -> None:
    context.set_inputs([Input(0, picture())])
    context.run()
    context.get_outputs()


def start_and_wait(context: Any) -> None:
    context.set_inputs([Input(0, picture())])
    context.wait(context.start())


CRASHES = {
    "rknn_init": "backend rknnrt, {library}",
    "rknn_inputs_set": "backend rknnrt: rknn_inputs_set",
    "rknn_run": "backend rknnrt: rknn_run",
    "rknn_outputs_get": "backend rknnrt: rknn_outputs_get",
    "rknn_destroy": "backend rknnrt, {library}",
}


@pytest.mark.parametrize("function", CRASHES)
def test_a_crash_in_the_library_names_backend_and_call(function: str, library: Path, tmp_path: Path) -> None:
    file = tmp_path / "model.rknn"
    file.write_bytes(model(*LINES))
    script = (
        "import sys, numpy, rknnlite\n"
        "with rknnlite.open(sys.argv[1], backend='rknnrt', library=sys.argv[2]) as context:\n"
        "    context.infer(numpy.zeros(context.inputs[0].dims, numpy.uint8))\n"
    )
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "RKNN_DOUBLE_FAULTS": f"{function}:1:139",
    }  # fmt: skip
    command = [sys.executable, "-c", script, str(file), str(library)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGSEGV, done.stderr
    assert CRASHES[function].format(library=library) in done.stderr
    assert f" in {function}" in done.stderr or f": {function}" in done.stderr


class Twice(CustomOp):
    op_type = "cstTwice"

    def compute(self, ctx: OpContext, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        outputs[0][...] = 2 * inputs[0]


NATIVE: dict[str, Act] = {
    "rknn_query": lambda c: c.versions,
    "rknn_inputs_set": run_once,
    "rknn_run": run_once,
    "rknn_outputs_get": run_once,
    "rknn_outputs_release": run_once,
    "rknn_wait": start_and_wait,
    "rknn_set_core_mask": lambda c: c.set_core_mask(1),
    "rknn_set_batch_core_num": lambda c: c.set_batch_core_num(2),
    "rknn_dup_context": lambda c: c.dup(),
    "rknn_set_weight_mem": lambda c: c.set_weight_mem(c.create_mem(4096)),
    "rknn_set_internal_mem": lambda c: c.set_internal_mem(c.create_mem(4096)),
    "rknn_set_io_mem": lambda c: c.bind(c.native_inputs[0], c.create_mem(4096)),
    "rknn_mem_sync": lambda c: c.sync(c.create_mem(16), "both"),
    "rknn_register_custom_ops": lambda c: c.register_ops([Twice()]),
}


@pytest.mark.parametrize("function", sorted(NATIVE))
def test_codes_become_typed_errors(start: Callable[..., Any], double: Double, function: str) -> None:
    for code in CODES:
        context = start(*LINES)
        double.fault(function, code)
        with pytest.raises(
            RknnError, match=rf"{function}.* failed\. error code: .* \({code}\); \w+"
        ) as caught:
            NATIVE[function](context)
        assert type(caught.value) is type(error_from_code(code, ""))
        assert caught.value.code == code
        assert ERROR_NAMES.get(code, "unknown code") in str(caught.value)
        with rknnlite.open(model(*LINES)) as again:
            assert np.array_equal(again.infer(picture())[0], scores(picture()))
        context.close()
        double.reset()


@pytest.mark.parametrize(
    "function", ["rknn_inputs_set", "rknn_run", "rknn_outputs_get", "rknn_outputs_release"]
)
def test_the_same_context_goes_on(start: Callable[..., Any], double: Double, function: str) -> None:
    context = start(*LINES)
    for code in CODES:
        double.reset()
        double.fault(function, code)
        with pytest.raises(RknnError):
            run_once(context)
        assert np.array_equal(context.infer(picture())[0], scores(picture()))


@pytest.mark.parametrize("code", CODES)
def test_shapes(start: Callable[..., Any], double: Double, code: int) -> None:
    context = start(*DYNAMIC)
    double.fault("rknn_set_input_shapes", code)
    with pytest.raises(RknnError, match=r"rknn_set_input_shapes failed") as caught:
        context.set_shapes([(1, 8, 12, 3), (1, 6)])
    assert caught.value.code == code
    context.set_shapes([(1, 8, 12, 3), (1, 6)])


def import_again(context: Any) -> None:
    memory = context.create_mem(64)
    context.import_mem(memory.fd, 64)


@pytest.mark.parametrize(
    "function, act",
    [
        ("rknn_create_mem", lambda c: c.create_mem(64)),
        ("rknn_create_mem2", lambda c: c.create_mem(64, 2)),
        ("rknn_create_mem_from_phys", lambda c: c.import_phys(4096, 64)),
        ("rknn_create_mem_from_fd", import_again),
    ],
)
def test_no_memory(start: Callable[..., Any], double: Double, function: str, act: Act) -> None:
    context = start(*LINES)
    double.fault(function, -4)
    with pytest.raises(OutOfMemory, match=f"{function} gave no memory for 64 bytes; close other contexts"):
        act(context)
    act(context)


@pytest.mark.parametrize("code", CODES)
def test_opening(double: Double, code: int) -> None:
    """Any call on the way: init, and each of the questions."""
    for nth in range(1, 9):
        double.reset()
        double.fault("rknn_init" if nth == 1 else "rknn_query", code, max(1, nth - 1))
        try:
            rknnlite.open(model(*LINES)).close()
        except RknnError as error:
            assert error.code == code and "failed. error code" in str(error)
            assert nth == 1 or f"rknn_query({'IN_OUT_NUM' if nth == 2 else ''}" in str(error)
        else:
            # the range of a static model is an error anyway; five questions in all
            assert nth == 3 or nth > 5
        assert double.live() == {}


def test_short_answers(double: Double) -> None:
    for nth in range(1, 5):
        double.reset()
        double.short("rknn_query", nth)
        if nth == 2:
            rknnlite.open(model(*LINES)).close()  # no range: static
            continue
        with pytest.raises(RknnError, match=r"the library answers"):
            rknnlite.open(model(*LINES))


@pytest.mark.parametrize("function", ["rknn_destroy", "rknn_destroy_mem"])
def test_errors_while_giving_back_are_logged(
    start: Callable[..., Any], double: Double, caplog: pytest.LogCaptureFixture, function: str
) -> None:
    context = start(*LINES)
    context.create_mem(16).close()
    double.fault(function, -1)
    memory = context.create_mem(16)
    memory.close()
    del memory
    context.close()
    assert [r.getMessage() for r in caplog.records if r.levelname == "ERROR"] == [
        f"{function} failed. error code: RKNN_ERR_FAIL (-1); set RKNN_LOG_LEVEL=4 and read the library's own lines"
    ]
    assert double.live() == {}


# -- the face ----------------------------------------------------------------------------------------------


@pytest.fixture
def model_file(tmp_path: Path) -> str:
    path = tmp_path / "model.rknn"
    path.write_bytes(model(*LINES))
    return str(path)


def errors(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith("E ")]


def works(rknn: RKNNLite) -> bool:
    got = rknn.inference(inputs=[picture()])
    return got is not None and np.array_equal(got[0], scores(picture()))


HEADLINES = {
    "rknn_inputs_set": "Catch exception when setting inputs.",
    "rknn_run": "Catch exception when running RKNN model.",
    "rknn_outputs_get": "Catch exception when getting outputs.",
    "rknn_outputs_release": "Catch exception when getting outputs.",
}


@pytest.mark.parametrize("function", sorted(HEADLINES))
def test_inference_answers_none(
    double: Double, model_file: str, capfd: pytest.CaptureFixture[str], function: str
) -> None:
    rknn = RKNNLite()
    rknn.load_rknn(model_file)
    for code in CODES:
        assert rknn.init_runtime() == 0
        double.reset()
        double.fault(function, code)
        capfd.readouterr()
        assert rknn.inference(inputs=[picture()]) is None
        (line,) = errors(capfd)
        assert line.startswith(f"E {HEADLINES[function]}")
        assert f"{function} failed. error code: {ERROR_NAMES.get(code, 'unknown code')}" in line
        assert works(rknn)
        rknn.release()
    assert double.live() == {}


@pytest.mark.parametrize("function", ["rknn_init", "rknn_query", "rknn_set_core_mask"])
def test_init_runtime_answers_minus_one(
    double: Double, model_file: str, capfd: pytest.CaptureFixture[str], function: str
) -> None:
    rknn = RKNNLite()
    rknn.load_rknn(model_file)
    for code in CODES:
        double.reset()
        double.fault(function, code)
        capfd.readouterr()
        assert rknn.init_runtime(core_mask=RKNNLite.NPU_CORE_0) == -1
        (line,) = errors(capfd)
        step = "set npu core mode." if function == "rknn_set_core_mask" else "init runtime!"
        assert line.startswith(f"E Catch exception when {step}")
        assert function in line and f"({code}); " in line
        assert rknn.inference(inputs=[picture()]) is None
        assert double.live() == {}
        assert rknn.init_runtime(core_mask=RKNNLite.NPU_CORE_0) == 0
        assert works(rknn)
        rknn.release()


def test_the_version_that_cannot_be_had(
    double: Double, model_file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    rknn = RKNNLite()
    rknn.load_rknn(model_file)
    assert rknn.init_runtime() == 0
    double.fault("rknn_query", -7)
    capfd.readouterr()
    assert rknn.get_sdk_version() is None
    (line,) = errors(capfd)
    assert (
        line.startswith("E Catch exception when get sdk version") and "rknn_query(SDK_VERSION) failed" in line
    )
    rknn.release()


def test_release_says_what_failed_and_is_done(
    double: Double, model_file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    rknn = RKNNLite()
    rknn.load_rknn(model_file)
    rknn.init_runtime()
    double.fault("rknn_destroy", -1)
    rknn.release()
    (line,) = errors(capfd)
    assert "rknn_destroy failed" in line
    assert rknn.init_runtime() == 0 and works(rknn)
    rknn.release()


def test_no_device_on_the_face(
    double: Double, model_file: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    problem = "no permission to open /dev/dri/renderD129; join its group: sudo usermod -aG render $USER"
    monkeypatch.setattr(device, "look", lambda: device.NodeState((), problem))
    monkeypatch.delenv("RKNNLITE_LIBRARY")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(double.path.parent))
    rknn = RKNNLite()
    rknn.load_rknn(model_file)
    capfd.readouterr()
    assert rknn.init_runtime() == -1
    (line,) = errors(capfd)
    assert problem in line and DeviceUnavailable.__name__ not in line
