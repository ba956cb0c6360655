"""Calls and files of rknn-toolkit-lite 1.x: old keywords and order, pictures without batch, channel order, generations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rknnlite import plugins
from rknnlite.api import RKNNLite
from rknnlite.api._first_toolkit import init_call
from rknnlite.errors import RknnError
from rknnlite.spi import Backend, Device, Probe
from tests.support.corpus import genuine
from tests.support.rknn1_files import File, dfp, u8

from .fake_backend import Bench

PICTURE = np.arange(2 * 4 * 3, dtype=np.uint8).reshape(2, 4, 3)  # height, width, R G B
MEAN, STD = (1.0, 2.0, 4.0), (1.0, 2.0, 4.0)


def identity(path: Path, **fields: Any) -> Path:
    """A network whose output is its input: (pixel - mean) / std of the reordered channels, in steps of a quarter."""
    file = File(mean_value=list(MEAN), std_value=list(STD), mean_value_chns=[3], **fields)
    last = bool(fields.get("input_fmt"))
    shape, kind = ((1, 2, 4, 3) if last else (1, 3, 2, 4)), u8(0.25, 100)
    file.output(file.node("VARIABLE", [file.input(shape, kind)], kind), shape)
    path.write_bytes(file.data)
    return path


def expected(order: tuple[int, ...]) -> Any:
    """NCHW: channels are taken in that order first, then mean and deviation by their new place."""
    channels = PICTURE.transpose(2, 0, 1)[list(order)].astype(np.float32)
    real = (channels - np.reshape(MEAN, (3, 1, 1))) / np.reshape(STD, (3, 1, 1))
    return (np.clip(np.rint(real / 0.25) + 100, 0, 255) - 100) * 0.25


def opened(path: Path, *args: Any, **given: Any) -> RKNNLite:
    rknn = RKNNLite()
    assert rknn.load_rknn(str(path)) == 0
    assert rknn.init_runtime(*args, **given) == 0
    return rknn


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return identity(tmp_path / "plain.rknn")


# -- arguments --------------------------------------------------------------------------------------------

OLD, NEW = "old", "new"
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], dict[str, Any]]] = [
    (NEW, ("rk3588", "board:8001"), {}, {}),
    (NEW, ("rk3588", None, True), {}, {}),
    (NEW, ("rk3588", None, False, 3), {}, {}),
    (NEW, ("rk3588", None, None, 1), {}, {}),
    (NEW, (), {"target": "rv1126", "async_mode": True}, {}),
    (OLD, ("rk1808", "AICS"), {}, {"target": "rk1808"}),
    (OLD, ("rk1808", None, "0123"), {}, {"target": "rk1808", "device_id": "0123"}),
    (OLD, ("rk1808", None, "0123", False), {}, {"target": "rk1808", "device_id": "0123"}),
    (OLD, ("rk1808", None, None, True), {}, {"target": "rk1808", "device_id": None}),
    (OLD, ("rk1808", None, None, False, False, True), {}, {"target": "rk1808", "device_id": None, "async_mode": True}),
    (OLD, ("rk1808", None, None, False, False, False, True), {},
     {"target": "rk1808", "device_id": None, "async_mode": False, "rknn2precompile": True}),
    (OLD, ("rk1808", None, "", np.zeros(3)), {}, {"target": "rk1808", "device_id": ""}),
    (OLD, ("rk1808",), {"rknn2precompile": 0}, {"target": "rk1808"}),
    (OLD, ("rk1808", "AICS"), {"eval_mem": True, "core_mask": 0}, {"target": "rk1808", "core_mask": 0}),
    (OLD, ("rk1808", None, "0123"), {"async_mode": True}, {"target": "rk1808", "device_id": "0123", "async_mode": True}),
]  # fmt: skip


@pytest.mark.parametrize(("order", "args", "given", "words"), CALLS)
def test_which_order_is_meant(order: str, args: Any, given: Any, words: Any) -> None:
    found = init_call(args, given, lambda text: None)
    assert found == (((), words) if order == OLD else (args, given))


def test_old_keywords_reach_the_backend_or_are_told_once(bench: Bench, model_file: Path, capfd: Any) -> None:
    rknn = RKNNLite()
    rknn.load_rknn(str(model_file))
    for _ in range(2):
        assert rknn.init_runtime("rk3588", "AICS", perf_debug=True, eval_mem=True, async_mode=True) == 0
    said = capfd.readouterr().err
    for name in ("target_sub_class", "perf_debug", "eval_mem"):
        assert said.count(f"W {name} has no effect") == 1
    assert rknn.init_runtime(perf_debug=False, eval_mem=False, rknn2precompile=False) == 0
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("args", "given", "words"),
    [
        (("rk1808", "AICS", None), {"device_id": "x"}, "multiple values for argument 'device_id'"),
        (("rk1808",) * 8, {}, "at most 7 arguments, 8"),
        ((), {"perf_debugs": True}, "perf_debugs"),
    ],
)
def test_wrong_calls_are_wrong_as_ever(plain: Path, args: Any, given: Any, words: str) -> None:
    rknn = RKNNLite()
    with pytest.raises(TypeError, match=words):
        rknn.init_runtime(*args, **given)


def test_load_model_in_npu(plain: Path, capfd: Any) -> None:
    rknn = RKNNLite()
    assert rknn.load_rknn(plain, False) == rknn.load_rknn(str(plain), load_model_in_npu=False) == 0
    assert not rknn.load_model_in_npu and "load_model_in_npu" not in capfd.readouterr().err
    assert rknn.load_rknn(str(plain), True) == 0 and rknn.load_model_in_npu is True
    assert "W load_model_in_npu has no effect: the file is read on this machine" in capfd.readouterr().err
    assert rknn.load_rknn("/userdata/there.rknn", load_model_in_npu=True) == -1


# -- frames -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_channel_order_comes_before_mean_and_deviation(
    tmp_path: Path, last: int, order: tuple[int, ...]
) -> None:
    rknn = opened(
        identity(tmp_path / "m.rknn", reorder=list(order), input_fmt=last, input_transpose=1 - last)
    )
    (found,) = rknn.inference(inputs=[PICTURE[None]]) or [None]
    wanted = expected(order)[None]
    assert np.array_equal(found, wanted.transpose(0, 2, 3, 1) if last else wanted)
    (floats,) = rknn.inference(inputs=[PICTURE[None].astype(np.float32)], data_type="float32") or [None]
    assert np.array_equal(floats, found)


def test_programs_of_that_age(plain: Path, capfd: Any) -> None:
    rknn = opened(plain, target="rv1126")
    capfd.readouterr()
    for data_format in (None, "nhwc"):
        (found,) = rknn.inference(inputs=[PICTURE], data_type="uint8", data_format=data_format) or [None]
        assert np.array_equal(found[0], expected((0, 1, 2)))
    (found, number) = rknn.inference([PICTURE], get_frame_id=True) or [None, None]
    assert number == 2 and np.array_equal(found[0], expected((0, 1, 2)))
    assert capfd.readouterr().err == ""  # no word about the batch dimension
    turned = rknn.inference([PICTURE.transpose(2, 0, 1)[None]], data_format="nchw")
    assert turned is not None and np.array_equal(turned[0], found)


def test_the_default_element_type_is_uint8(plain: Path, capfd: Any) -> None:
    rknn = opened(plain)
    whole, half = PICTURE.astype(np.float32), PICTURE.astype(np.float32) + 0.5
    (found,) = rknn.inference([whole]) or [None]
    assert np.array_equal(found[0], expected((0, 1, 2)))
    said = capfd.readouterr().err
    assert "data_type is not given: it is uint8 by default" in said and "cannot hold" not in said
    (found,) = rknn.inference([half]) or [None]  # never cut to whole numbers without a word
    assert not np.array_equal(found[0], expected((0, 1, 2)))
    said = capfd.readouterr().err
    assert "float32 values that data_type uint8 cannot hold; they are taken as float32" in said
    rknn.inference([half])
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("last", [0, 1])
def test_elements_that_pass_through_lie_as_the_graph_has_them(tmp_path: Path, last: int) -> None:
    rknn = opened(identity(tmp_path / "m.rknn", reorder=[2, 1, 0], input_fmt=last))
    stored = PICTURE if last else PICTURE.transpose(2, 0, 1)
    for given in (stored, stored[None]):
        (found,) = rknn.inference([given], inputs_pass_through=[1]) or [None]
        assert np.array_equal(found[0], (stored.astype(np.float32) - 100) * 0.25)


def test_fixed_point(tmp_path: Path) -> None:
    file = File()
    kind = dfp("INT8", 2)
    file.output(file.node("RELU", [file.input((1, 5), kind)], kind), (1, 5))
    path = tmp_path / "fixed.rknn"
    path.write_bytes(file.data)
    given = np.array([[-1, 0.25, 0.3, 7, 1000]], np.float32)
    (found,) = opened(path).inference([given], data_type="float32") or [None]
    assert found.tolist() == [[0, 0.25, 0.25, 7, 31.75]]


# -- generations ------------------------------------------------------------------------------------------


def test_a_target_of_the_other_generation(plain: Path, capfd: Any) -> None:
    for path, target in ((plain, "rk3588"), (genuine("conv_1x1.rk3588.i8"), "rv1126")):
        rknn = RKNNLite()
        assert rknn.load_rknn(str(path)) == 0
        assert rknn.init_runtime(target=target) == -1
        said = capfd.readouterr().err
        assert f"not for {target}" in said and "different generations" in said and "Traceback" not in said


def test_a_target_of_the_same_npu(plain: Path) -> None:
    assert opened(plain, target="RV1109").inference([PICTURE]) is not None
    rknn = RKNNLite()
    assert rknn.load_rknn(str(plain)) == 0 and rknn.init_runtime(target="rk1808") == -1


def test_what_only_a_board_runs(tmp_path: Path, capfd: Any) -> None:
    rknn = RKNNLite()
    assert rknn.load_rknn(identity(tmp_path / "c.rknn", pre_compile=1)) == 0
    assert rknn.init_runtime() == -1
    said = capfd.readouterr().err
    assert (
        "runs on the board through librknn_api, cannot be executed here; convert without pre_compile" in said
    )


# -- methods ----------------------------------------------------------------------------------------------


def test_questions(plain: Path, tmp_path: Path, capfd: Any) -> None:
    rknn = opened(plain)
    lines = (rknn.get_sdk_version() or "").splitlines()
    assert lines[0] == lines[-1] == "=" * 46 and lines[1] == "RKNN VERSION:"
    assert lines[2].startswith("  API: ") and lines[3].startswith("  DRV: ")
    found = rknn.list_support_target_platform(rknn_model=str(plain))
    assert found is not None and found["support_target_platform"] == ["RV1109", "RV1126"]
    assert rknn.list_support_target_platform("absent.rknn") is None
    capfd.readouterr()
    assert rknn.list_devices() == ([], [])
    assert capfd.readouterr().out.splitlines() == ["*" * 25, "None devices connected.", "*" * 25]


def test_devices_by_kind(plain: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Old(Backend):
        name, generation = "old", "rknpu1"

        def probe(self) -> Probe:
            return Probe(False, "a double")

        def open(self, model: Any, options: Any) -> Any:
            raise AssertionError("nobody opens it")

        def devices(self) -> list[Device]:
            return [Device("0123", "rk1808", address="ntb"), Device("4567", "rk3399pro", address="adb")]

    rknn = opened(plain)
    known = {**plugins.backends(), "old": Old()}
    monkeypatch.setattr(plugins, "backends", lambda: known)
    assert rknn.list_devices() == (["4567"], ["0123"])
    done = capfd.readouterr()
    assert (
        "all device(s) with ntb mode:\n0123\n" in done.out
        and "all device(s) with adb mode:\n4567\n" in done.out
    )
    assert "use one kind at a time" in done.err


def test_methods_of_the_old_class(plain: Path, tmp_path: Path, capfd: Any) -> None:
    rknn: Any = RKNNLite()
    assert (rknn.set_core_mask(1), rknn.eval_memory(), rknn.export_rknn_precompile_model("x")) == (
        -1,
        None,
        -1,
    )
    assert capfd.readouterr().err.count("please call init_runtime to init it first!") == 3
    rknn = opened(plain, rknn2precompile=True)
    assert rknn.set_core_mask() == rknn.set_core_mask(core_mask=0) == 0
    assert rknn.set_core_mask(1) == -1
    assert "single NPU core" in capfd.readouterr().err
    sizes = rknn.eval_memory(is_print=False)
    assert sizes["total_memory"] >= sizes["weight_memory"] and capfd.readouterr().out == ""
    assert rknn.eval_memory() == sizes and "Memory Profile Info Dump" in capfd.readouterr().out
    made = tmp_path / "made.rknn"
    assert rknn.export_rknn_precompile_model(str(made)) == -1 and not made.exists()
    assert "only the driver of an RK1808, RV1109 or RV1126" in capfd.readouterr().err
    assert rknn.export_rknn_precompile_model() == -1
    with pytest.raises(AttributeError, match="no attribute 'eval_perf'"):
        rknn.eval_perf()
    assert not hasattr(rknn, "_anything")


def test_a_board_s_precompiled_model_is_written(plain: Path, tmp_path: Path) -> None:
    rknn: Any = opened(plain, rknn2precompile=True)
    rknn.rknn_runtime.opened.precompiled = lambda: b"compiled"
    assert rknn.export_rknn_precompile_model(str(tmp_path / "made.rknn")) == 0
    assert (tmp_path / "made.rknn").read_bytes() == b"compiled"


def test_core_masks_of_chips_with_several_cores(rknn: Any, bench: Bench) -> None:
    assert rknn.set_core_mask(3) == 0 and ("set_core_mask", 3) in bench.calls
    bench.faults["set_core_mask"] = RknnError("no")
    assert rknn.set_core_mask(1) == -1
