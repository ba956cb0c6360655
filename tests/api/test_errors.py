"""Whatever a context answers: one E line in the vendor's words, -1 or None, and the object works on."""

from __future__ import annotations

import numpy as np
import pytest

from rknnlite import errors
from rknnlite.api import RKNNLite

from .fake_backend import Bench

CALLS = {
    "set_inputs": "Catch exception when setting inputs.",
    "run": "Catch exception when running RKNN model.",
    "get_outputs": "Catch exception when getting outputs.",
}
CODES = [code for code in errors.ERROR_NAMES if code != 0]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("call", CALLS)
def test_every_code_from_every_call_of_an_inference(
    rknn: RKNNLite, bench: Bench, image: np.ndarray, capfd: pytest.CaptureFixture[str], call: str, code: int
) -> None:
    bench.faults[call] = errors.error_from_code(code, "it broke;\n  mend it")
    assert rknn.inference([image]) is None
    name = errors.ERROR_NAMES[code]
    assert capfd.readouterr() == ("", f"E {CALLS[call]} it broke; mend it (error code: {name})\n")
    assert rknn.inference([image])[0][0, 0] == image.sum()


@pytest.mark.parametrize("code", CODES)
def test_every_code_from_open(
    rknn: RKNNLite, bench: Bench, image: np.ndarray, capfd: pytest.CaptureFixture[str], code: int
) -> None:
    bench.faults["open"] = errors.error_from_code(code, "it broke")
    assert rknn.init_runtime() == -1
    assert capfd.readouterr().err == (
        "E Catch exception when init runtime! RKNN init failed. "
        f"error code: {errors.ERROR_NAMES[code]}. it broke\n"
    )
    assert rknn.init_runtime() == 0 and rknn.inference([image]) is not None


@pytest.mark.parametrize("code", CODES)
def test_every_code_from_set_core_mask(
    rknn: RKNNLite, bench: Bench, image: np.ndarray, capfd: pytest.CaptureFixture[str], code: int
) -> None:
    bench.faults["set_core_mask"] = errors.error_from_code(code, "it broke")
    assert rknn.init_runtime(core_mask=1) == -1
    assert capfd.readouterr().err == (
        f"E Catch exception when set npu core mode. it broke (error code: {errors.ERROR_NAMES[code]})\n"
    )
    assert rknn.init_runtime(core_mask=1) == 0 and rknn.inference([image]) is not None


@pytest.mark.parametrize("code", CODES)
def test_every_code_from_the_versions(
    rknn: RKNNLite, bench: Bench, capfd: pytest.CaptureFixture[str], code: int
) -> None:
    bench.faults["versions"] = errors.error_from_code(code, "it broke")
    assert rknn.get_sdk_version() is None
    assert capfd.readouterr().err.startswith("E Catch exception when get sdk version it broke")
    assert rknn.get_sdk_version() is not None


@pytest.mark.parametrize("code", CODES)
def test_every_code_from_close(
    rknn: RKNNLite, bench: Bench, image: np.ndarray, capfd: pytest.CaptureFixture[str], code: int
) -> None:
    bench.faults["close"] = errors.error_from_code(code, "it broke")
    assert rknn.release() is None
    assert len(capfd.readouterr().err.splitlines()) == 1
    assert rknn.release() is None
    assert rknn.init_runtime() == 0 and rknn.inference([image]) is not None


@pytest.mark.parametrize("call", [*CALLS, "open", "set_core_mask", "versions", "close"])
def test_what_nobody_foresaw_is_logged_with_its_traceback(
    rknn: RKNNLite, bench: Bench, image: np.ndarray, capfd: pytest.CaptureFixture[str], call: str
) -> None:
    bench.faults[call] = ZeroDivisionError("oops")
    if call in CALLS:
        assert rknn.inference([image]) is None
    elif call in ("open", "set_core_mask"):
        assert rknn.init_runtime(core_mask=1) == -1
    elif call == "versions":
        assert rknn.get_sdk_version() is None
    else:
        rknn.release()
    first, second, *rest = capfd.readouterr().err.splitlines()
    assert first.startswith("E Catch exception when ") and first.endswith("ZeroDivisionError: oops")
    assert second == "E Traceback (most recent call last):"
    assert rest[-1] == "ZeroDivisionError: oops"
    assert rknn.init_runtime() == 0 and rknn.inference([image]) is not None


def test_interrupting_a_run_is_not_swallowed(rknn: RKNNLite, bench: Bench, image: np.ndarray) -> None:
    bench.faults["run"] = KeyboardInterrupt()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        rknn.inference([image])
    assert rknn.inference([image]) is not None
