"""init_runtime: order of calls, targets, core masks, re-initialisation, failures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rknnlite import socs
from rknnlite.api import RKNNLite
from rknnlite.errors import DeviceUnavailable, ModelInvalid, OutOfMemory

from .corpus import genuine
from .fake_backend import Bench


@pytest.fixture
def loaded(bench: Bench, model_file: Path, capfd: pytest.CaptureFixture[str]) -> RKNNLite:
    rknn = RKNNLite()
    rknn.load_rknn(str(model_file))
    capfd.readouterr()
    return rknn


def test_before_load(capfd: pytest.CaptureFixture[str]) -> None:
    rknn = RKNNLite()
    assert rknn.init_runtime() == -1
    assert capfd.readouterr().err.splitlines()[1:] == [
        "E Model is not loaded yet, this interface should be called after load_rknn!"
    ]


def test_success_says_nothing(loaded: RKNNLite, capfd: pytest.CaptureFixture[str]) -> None:
    assert loaded.init_runtime() == 0
    assert loaded.rknn_runtime is not None
    assert capfd.readouterr() == ("", "")


def test_again_closes_the_earlier_runtime(loaded: RKNNLite, bench: Bench, image: np.ndarray) -> None:
    assert loaded.init_runtime() == loaded.init_runtime() == 0
    assert bench.names() == ["open", "close", "open"]
    assert loaded.inference([image]) is not None


def test_release_keeps_the_model_for_another_init(loaded: RKNNLite, image: np.ndarray) -> None:
    loaded.init_runtime()
    assert loaded.release() is None and loaded.release() is None
    assert loaded.rknn_runtime is None and loaded.rknn_data == b"any bytes"
    assert loaded.init_runtime() == 0 and loaded.inference([image]) is not None


def test_release_before_init() -> None:
    assert RKNNLite().release() is None


@pytest.mark.parametrize("soc", sorted(socs.table()))
@pytest.mark.parametrize("form", ["default", "explicit"])
def test_auto_is_legal_on_every_soc(loaded: RKNNLite, bench: Bench, soc: str, form: str) -> None:
    bench.soc = soc
    mask = {} if form == "default" else {"core_mask": RKNNLite.NPU_CORE_AUTO}
    assert loaded.init_runtime(**mask) == 0
    assert "set_core_mask" not in bench.names()


def test_core_mask_reaches_the_context(loaded: RKNNLite, bench: Bench) -> None:
    assert loaded.init_runtime(core_mask=2**2 - 1) == 0
    assert ("set_core_mask", 3) in bench.calls
    assert loaded.init_runtime(core_mask=np.int64(7)) == 0


@pytest.mark.parametrize(
    ("soc", "mask", "words"),
    [
        ("rk3588", 5, ["0x5", "rk3588", "0, 1, 2, 4, 3, 7, 0xffff"]),
        ("rk3588", 6, ["0x6", "legal masks"]),
        ("rk3576", 4, ["0x4", "rk3576", "0, 1, 2, 3, 0xffff"]),
        ("rk3566", 1, ["rk3566", "leave core_mask out"]),
        ("rk3588", None, ["core_mask must be an int"]),
        ("rk3588", "all", ["core_mask must be an int", "'all'"]),
    ],
)
def test_illegal_core_mask(
    loaded: RKNNLite,
    bench: Bench,
    capfd: pytest.CaptureFixture[str],
    soc: str,
    mask: object,
    words: list[str],
) -> None:
    bench.soc = soc
    assert loaded.init_runtime(core_mask=mask) == -1  # type: ignore[arg-type]
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("E Catch exception when set npu core mode. ")
    assert all(word in line for word in words)
    assert loaded.rknn_runtime is None
    assert bench.names()[-1] == "close"
    assert loaded.init_runtime() == 0


@pytest.mark.parametrize("target", ["rk3588", "RK3588", "rk3588s"])
def test_target_is_the_soc_to_play(loaded: RKNNLite, bench: Bench, target: str) -> None:
    assert loaded.init_runtime(target=target) == 0
    assert bench.options[-1].soc == "rk3588"
    assert loaded.target == "simulator"


@pytest.mark.parametrize("target", ["rk9999", "", 3588])
def test_unknown_target(loaded: RKNNLite, capfd: pytest.CaptureFixture[str], target: object) -> None:
    assert loaded.init_runtime(target=target) == -1  # type: ignore[arg-type]
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("E Catch exception when init runtime! RKNN init failed. error code: ")
    assert "rk3588" in line
    assert loaded.init_runtime() == 0, "programs retry without a target"


def test_async_mode_and_device_id(loaded: RKNNLite, bench: Bench) -> None:
    assert loaded.init_runtime(None, "0123456789", True) == 0
    assert bench.options[-1].extra.get("async_mode") or bench.options[-1].async_mode


def test_key_reaches_the_backend(loaded: RKNNLite, bench: Bench) -> None:
    loaded.rknn_user_key = b"envelope"
    assert loaded.init_runtime() == 0
    assert bench.options[-1].extra["user_key"] == b"envelope"


def test_bytes_put_into_rknn_data_are_a_model(bench: Bench) -> None:
    rknn = RKNNLite()
    rknn.rknn_data = bytearray(b"from a database")
    assert rknn.init_runtime() == 0


@pytest.mark.parametrize("error", [ModelInvalid("damaged"), DeviceUnavailable("no NPU"), OutOfMemory("full")])
def test_what_the_backend_answers(
    loaded: RKNNLite, bench: Bench, capfd: pytest.CaptureFixture[str], error: Exception
) -> None:
    bench.faults["open"] = error
    assert loaded.init_runtime() == -1
    assert capfd.readouterr().err == (
        f"E Catch exception when init runtime! RKNN init failed. error code: {error.name}. {error}\n"
    )
    assert loaded.rknn_runtime is None
    assert loaded.inference([]) is None
    assert loaded.get_sdk_version() is None
    assert loaded.init_runtime() == 0


def test_failed_init_after_a_good_one_leaves_no_stale_runtime(
    loaded: RKNNLite, bench: Bench, image: np.ndarray
) -> None:
    loaded.init_runtime()
    bench.faults["open"] = ModelInvalid("damaged")
    assert loaded.init_runtime() == -1
    assert loaded.inference([image]) is None


def test_subclass_with_its_own_release(bench: Bench) -> None:
    class Mine(RKNNLite):
        def release(self) -> None:
            raise AssertionError("init_runtime must not call what a subclass made of release")

    rknn = Mine()
    rknn.rknn_data = b"model"
    assert rknn.init_runtime() == rknn.init_runtime() == 0


# -- with genuine files on the CPU reference ----------------------------------------------------------------


def test_off_board_init_works(cpu: None, capfd: pytest.CaptureFixture[str]) -> None:
    rknn = RKNNLite()
    rknn.load_rknn(str(genuine("conv_1x1.rk3588.i8")))
    assert rknn.init_runtime() == 0
    assert capfd.readouterr().err.count("CPU reference") == 1
    rknn.release()


def test_model_for_another_soc_names_both(cpu: None, capfd: pytest.CaptureFixture[str]) -> None:
    rknn = RKNNLite()
    rknn.load_rknn(str(genuine("conv_1x1.rk3588.i8")))
    capfd.readouterr()
    assert rknn.init_runtime(target="rk3566") == -1
    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("E ")]
    assert len(errors) == 1 and "rk3588" in errors[0] and "rk3566" in errors[0]
    assert rknn.init_runtime(target="rk3588") == 0


@pytest.mark.parametrize("content", [b"", b"junk", b"RKNN" + b"\0" * 8, b"RKNN" + bytes(200)])
def test_file_that_is_no_model(
    cpu: None, tmp_path: Path, capfd: pytest.CaptureFixture[str], content: bytes
) -> None:
    path = tmp_path / "junk.rknn"
    path.write_bytes(content)
    rknn = RKNNLite()
    assert rknn.load_rknn(str(path)) == 0
    capfd.readouterr()
    assert rknn.init_runtime() == -1
    errors = [line for line in capfd.readouterr().err.splitlines() if not line.startswith("W ")]
    assert len(errors) == 1
    assert errors[0].startswith("E Catch exception when init runtime! RKNN init failed. error code: ")
