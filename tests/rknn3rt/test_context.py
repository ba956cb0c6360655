"""Networks on the double: loading, conversion, shapes, memory, runs, profiling, life."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_backend.library import FunctionMissing
from rknnlite_insight.dumps import Dump

import rknnlite
from rknnlite.abi.rknn3_enums import RKNN3ImFmt
from rknnlite.errors import (
    ContextInvalid,
    DeviceUnavailable,
    DeviceUnmatch,
    InputInvalid,
    ModelInvalid,
    ModelUnsupported,
    OutOfMemory,
    OutputInvalid,
    ParamInvalid,
    RknnError,
    RunTimeout,
)
from rknnlite.formats import ModelFile
from rknnlite.spi import Input
from rknnlite.tensor import DType, Layout
from tests.doubles.rknn3.double3 import Double3, model
from tests.support.interrupts import check_interrupts

from .conftest import CNN

IMAGE = np.arange(72, dtype=np.uint8).reshape(1, 4, 6, 3)
FLAT = IMAGE.transpose(0, 3, 1, 2).reshape(1, 72).astype(np.float32)
Start = Callable[..., Any]


# -- opening ----------------------------------------------------------------------------------------------


def test_a_network_runs(start: Start) -> None:
    context = start(*CNN)
    assert context.infer(IMAGE)[0].tolist() == (FLAT * 2 + 1).tolist()
    assert context.backend_name == "rknn3rt" and context.soc.name == "rk1820" and context.last_run_us > 0
    assert repr(context) == "<Rknn3Context 1 inputs, 1 outputs>"


def test_by_path_with_weights_beside_it(double: Double3, path_of: Callable[..., Path]) -> None:
    path = path_of(*CNN, "weight 100")
    with pytest.raises(ModelInvalid, match=r"net\.rknn with no weight file"):
        rknnlite.open(path)
    path.with_suffix(".weight").write_bytes(bytes(100))
    with rknnlite.open(path) as context:
        assert context.memory().weight == 100
    assert double.count("rknn3_load_model_from_path") == 2


def test_from_memory_with_weights(double: Double3) -> None:
    content = model(*CNN, "weight 10")
    with rknnlite.open(content, weights=ModelFile(bytes(10))) as context:
        assert context.infer(IMAGE)[0][0, 0] == 1
    with pytest.raises(ModelInvalid, match="with weights"):
        rknnlite.open(content, weights=ModelFile(bytes(9)))


@pytest.mark.parametrize("content", [b"", b"RKNX", b"RKNX DOUBLE 1\n", b"RKNX DOUBLE 1\ninput x y\n"])
def test_damaged_models(double: Double3, content: bytes) -> None:
    with pytest.raises(ModelInvalid):
        rknnlite.open(content, backend="rknn3rt")


def test_models_of_other_kinds_are_refused(double: Double3) -> None:
    with pytest.raises(ModelUnsupported, match="no model for RK1820/RK1828"):
        rknnlite.open(b"RKNN" + bytes(100), backend="rknn3rt")


def test_devices(double: Double3) -> None:
    double.devices(2)
    with pytest.raises(DeviceUnavailable, match="the only device cannot be used"):
        rknnlite.open(model(*CNN))
    with pytest.raises(DeviceUnavailable, match="device pcie-7"):
        rknnlite.open(model(*CNN), device_id="pcie-7")
    rknnlite.open(model(*CNN), device_id="pcie-1").close()
    with pytest.raises(DeviceUnmatch, match=r"rk1828 is wanted, plugged in are pcie-0 \(rk1820\)"):
        rknnlite.open(model(*CNN), soc="rk1828", device_id="pcie-0")
    double.devices(1)
    rknnlite.open(model(*CNN), soc="rk1820").close()


@pytest.mark.parametrize("mask", [0, None, 0xFF, 0xFFFFFFFF])
def test_core_masks(double: Double3, mask: int | None) -> None:
    with rknnlite.open(model(*CNN, "cores 8"), core_mask=mask) as context:
        assert context.core_num == 8 and len(context.memory().cores) == 8
        context.set_core_mask(mask or 0)
        with pytest.raises(ParamInvalid, match="chosen once"):
            context.set_core_mask(1)


def test_a_mask_that_does_not_fit(double: Double3) -> None:
    with pytest.raises(ParamInvalid, match=r"core mask 0xf does not fit .*converted for 8 cores"):
        rknnlite.open(model(*CNN, "cores 8"), core_mask=0xF)
    with pytest.raises(ParamInvalid, match="one bit per core"):
        rknnlite.open(model(*CNN), core_mask=-1)
    with pytest.raises(ParamInvalid, match="one bit per core"):
        rknnlite.open(model(*CNN), core_mask=1 << 32)


def test_an_unused_core_is_only_a_warning(double: Double3, caplog: pytest.LogCaptureFixture) -> None:
    with rknnlite.open(model(*CNN), core_mask=0xFFFFFFFF) as context:
        assert context.infer(IMAGE)[0].shape == (1, 72)
    assert "names a core that the model does not use" in caplog.text


def test_unknown_options_are_refused(start: Start) -> None:
    with pytest.raises(ParamInvalid, match="flavour"):
        start(*CNN, flavour="vanilla")


# -- conversion -------------------------------------------------------------------------------------------


def identity(start: Start, source: str, target: str) -> Any:
    return start(f"input x {source}", f"output y {target}")


@pytest.mark.parametrize("layout", ["nhwc 4 2 4 6 20", "nchw 4 2 20 4 6", "nc1hwc2 4 2 20 4 6"])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "uint8"])
def test_layouts_and_types(start: Start, layout: str, dtype: str) -> None:
    context = identity(start, f"{dtype} {layout}", f"{dtype} {layout}")
    nhwc = np.random.default_rng(0).integers(0, 100, (2, 4, 6, 20)).astype(dtype)
    wanted = nhwc.transpose(0, 3, 1, 2)
    assert context.inputs[0].dims == (2, 4, 6, 20) and context.outputs[0].dims == (2, 20, 4, 6)
    wider = np.float64 if dtype.startswith("float") else np.int32
    for given, order in ((nhwc, "nhwc"), (wanted, "nchw"), (nhwc.astype(wider), "nhwc")):
        assert np.array_equal(context.infer(given, layout=order)[0], wanted)
    raw = context.infer(nhwc, raw=True)[0].data
    assert raw.dtype == dtype and np.array_equal(raw, wanted)


def test_quantised_tensors(start: Start) -> None:
    context = identity(start, "int8 nchw 4 1 2 2 2 0.5 -3", "int8 undefined 2 1 8 0.25 5")
    real = np.array([-60.0, -1.3, 0, 0.25, 0.5, 2, 8, 60], np.float32).reshape(1, 2, 2, 2)
    quantised = np.clip(np.rint(real / 0.5) - 3, -128, 127)
    seen = np.clip((quantised + 3) * 0.5, (-128 - 5) * 0.25, (127 - 5) * 0.25)
    assert np.array_equal(context.infer(real, layout="nchw")[0].reshape(-1), seen.reshape(-1))
    ready = quantised.astype(np.int8)
    assert np.array_equal(context.infer(ready, layout="nchw")[0].reshape(-1), seen.reshape(-1))
    raw = context.infer(real, layout="nchw", raw=True)[0]
    assert raw.scale == 0.25 and raw.zero_point == 5 and raw.data.dtype == np.int8


def test_padding_lanes_hold_the_zero_point(start: Start) -> None:
    context = identity(start, "int8 nc1hwc2 4 1 3 2 2 0.5 -3", "float32 nchw 4 1 3 2 2")
    context.set_inputs([Input(0, np.zeros((1, 2, 2, 3), np.float32))])
    held = context._in._view(context._in.mem(0), 0)
    assert held.shape == (1, 1, 2, 2, 32) and (held == -3).all()


def test_whole_numbers(start: Start) -> None:
    context = identity(start, "int32 undefined 2 1 4", "int64 undefined 2 1 4")
    assert context.infer(np.array([[1, -2, 3, 1 << 30]]))[0].tolist() == [[1, -2, 3, 1 << 30]]
    with pytest.raises(InputInvalid, match=r"values 1 to 4294967296 do not fit int32"):
        context.infer(np.array([[1, 2, 3, 1 << 32]]))
    with pytest.raises(InputInvalid, match="holds int32 numbers, float32 were given"):
        context.set_inputs([Input(0, np.ones((1, 4), np.float32), Layout.UNDEFINED)])


def test_pass_through(start: Start) -> None:
    context = identity(start, "float16 nc1hwc2 4 1 3 2 2", "float16 nchw 4 1 3 2 2")
    native = np.arange(64, dtype=np.float16).reshape(1, 1, 2, 2, 16)
    context.set_inputs([Input(0, native, Layout.NC1HWC2, pass_through=True)])
    context.run()
    assert np.array_equal(context.get_outputs()[0], native[0, 0, :, :, :3].transpose(2, 0, 1)[None])
    with pytest.raises(
        InputInvalid, match=r"with pass_through needed are FLOAT16 \[1, 1, 2, 2, 16\] in NC1HWC2"
    ):
        context.set_inputs([Input(0, native[..., :3], pass_through=True)])


def test_inputs_that_do_not_fit(start: Start) -> None:
    context = start(*CNN)
    with pytest.raises(InputInvalid, match=r"needed is shape \[1, 4, 6, 3\] \(NHWC\), not \[1, 6, 4, 3\]"):
        context.set_inputs([Input(0, IMAGE.reshape(1, 6, 4, 3))])
    with pytest.raises(InputInvalid, match="has inputs 0 to 0, not 3"):
        context.set_inputs([Input(3, IMAGE)])
    with pytest.raises(ContextInvalid, match="set input image"):
        context.run()
    with pytest.raises(ContextInvalid, match="run the model before"):
        context.get_outputs()


def test_types_without_a_numpy_type(start: Start) -> None:
    with pytest.raises(ModelUnsupported, match="tensor x has element type 11"):
        identity(start, "int4 undefined 1 8", "int8 undefined 1 8")


def test_several_inputs_on_several_cores(start: Start) -> None:
    context = start(
        "cores 2",
        "input a float32 undefined 1 4 core 1",
        "input b float16 undefined 1 4",
        "output x float32 undefined 1 4 core 1",
        "output y float16 undefined 1 4",
    )
    assert context.core_ids == ([1, 0], [1, 0])
    a, b = np.arange(4, dtype=np.float32), np.full(4, 7, np.float32)
    first, second = context.infer({"b": b, "a": a})
    assert first.tolist() == a.tolist() and second.tolist() == b.tolist()


# -- shapes -----------------------------------------------------------------------------------------------

DYNAMIC = (
    "input x float32 nhwc 4 1 4 4 3",
    "output y float32 nchw 4 1 3 4 4",
    "shape 1 4 4 3 1 3 4 4",
    "shape 1 8 6 3 1 3 8 6",
)


def test_dynamic_shapes(start: Start) -> None:
    context = start(*DYNAMIC)
    assert context.shapes == [[(1, 4, 4, 3)], [(1, 8, 6, 3)]]
    for h, w in ((8, 6), (4, 4), (8, 6)):  # chosen by the arrays
        data = np.random.default_rng(1).random((1, h, w, 3), np.float32)
        assert np.array_equal(context.infer(data)[0], data.transpose(0, 3, 1, 2))
    context.set_shapes([(1, 4, 4, 3)])
    assert context.outputs[0].dims == (1, 3, 4, 4)
    with pytest.raises(ParamInvalid, match=r"\[\[1, 5, 5, 3\]\] are not among .*\[\[1, 8, 6, 3\]\]"):
        context.set_shapes([(1, 5, 5, 3)])
    with pytest.raises(InputInvalid, match="not among"):
        context.set_inputs([Input(0, np.zeros((1, 5, 5, 3), np.float32))])
    with pytest.raises(ContextInvalid, match="set input x"):
        context.run()  # memory was made anew


def test_a_static_model_has_no_shapes(start: Start) -> None:
    context = start(*CNN)
    assert context.shapes == []
    with pytest.raises(ParamInvalid, match="has static shapes"):
        context.set_shapes([(1, 4, 6, 3)])


# -- memory -----------------------------------------------------------------------------------------------


def test_zero_copy(start: Start) -> None:
    context = start(*CNN)
    source, target = context.native_inputs[0], context.native_outputs[0]
    into, out = context.create_mem(source.size_with_stride), context.create_mem(target.size_with_stride, 1)
    context.bind(source, into)
    context.bind(target, out)
    into.ndarray[:72] = IMAGE.reshape(-1)
    context.run()
    assert not out.ndarray.any()  # nothing moves without sync
    context.sync(into, "to_device")
    context.run()
    context.sync(out, "from_device")
    assert out.ndarray[: 72 * 4].view(np.float32).tolist() == (FLAT[0] * 2 + 1).tolist()
    assert context.get_outputs()[0][0, 1] == FLAT[0, 1] * 2 + 1  # the usual way works on bound memory too
    assert repr(into) == "<Rknn3Memory 128 bytes, core 0>"


def test_memory_that_cannot_be_bound(start: Start) -> None:
    context, other = start(*CNN, "cores 2"), start(*CNN)
    attr = context.native_inputs[0]
    with pytest.raises(InputInvalid, match="128 bytes on core 0, the memory has 64 bytes on core 0"):
        context.bind(attr, context.create_mem(64))
    with pytest.raises(InputInvalid, match="on core 1"):
        context.bind(attr, context.create_mem(128, core_id=1))
    with pytest.raises(OutputInvalid):
        context.bind(context.native_outputs[0], context.create_mem(8))
    with pytest.raises(ParamInvalid, match="belongs to another context"):
        context.bind(attr, other.create_mem(128))
    with pytest.raises(ParamInvalid, match="none of the native attributes"):
        context.bind(context.inputs[0], context.create_mem(128))
    with pytest.raises(ParamInvalid, match="belongs to another context"):
        context.sync(other.create_mem(8), "both")
    with pytest.raises(ParamInvalid, match="sideways"):
        context.sync(context.create_mem(8), "sideways")
    for size, flags in ((0, 0), (-1, 0), (8, 3)):
        with pytest.raises(ParamInvalid):
            context.create_mem(size, flags)
    with pytest.raises(OutOfMemory, match="on core 99"):
        context.create_mem(8, core_id=99)


def test_closed_memory(start: Start) -> None:
    context = start(*CNN)
    mem = context.create_mem(128)
    context.bind(context.native_inputs[0], mem)
    mem.close()
    mem.close()
    for use in (lambda: mem.ndarray, lambda: context.sync(mem, "both"), context.run):
        with pytest.raises(ContextInvalid, match="this memory is closed"):
            use()


def test_a_view_keeps_its_memory(start: Start, double: Double3) -> None:
    context = start(*CNN)
    view = context.create_mem(64).ndarray
    view[:] = 7
    context.close()
    gc.collect()
    assert double.live() == {"contexts": 1, "mems": 1} and view.sum() == 7 * 64
    del view
    assert double.live() == {}


def test_imported_memory(start: Start, version: str) -> None:
    context = start(*CNN)
    fd = os.memfd_create("test")
    try:
        os.ftruncate(fd, 8192)
        mem = context.import_mem(fd, 128, 4096)
        mem.ndarray[:4] = (1, 2, 3, 4)
        assert os.pread(fd, 4, 4096) == b"\1\2\3\4" and mem.fd == fd and mem.offset == 4096
        with pytest.raises(ParamInvalid, match="cannot be mapped"):
            context.import_mem(fd, 1 << 20)
    finally:
        os.close(fd)
    with pytest.raises(ParamInvalid):
        context.import_mem(-1, 16)
    buffer = np.zeros(64, np.uint8)
    if version == "1.0.0":
        phys = context.import_phys(0x1000, 64, buffer.ctypes.data)
        phys.ndarray[0] = 9
        assert buffer[0] == 9 and phys.phys == 0x1000
    else:
        with pytest.raises(FunctionMissing):
            context.import_phys(0x1000, 64, buffer.ctypes.data)
    with pytest.raises(ParamInvalid):
        context.import_phys(0, 64)


def test_a_part_is_synced(start: Start, version: str) -> None:
    context = start(*CNN)
    mem = context.create_mem(64)
    if version == "1.0.0":
        with pytest.raises(FunctionMissing, match="rknn3_mem_sync_range"):
            context.sync(mem, "to_device", 8, 8)
        return
    mem.ndarray[:] = 5
    context.sync(mem, "to_device", 8, 8)
    context.sync(mem, "from_device")
    assert mem.ndarray.tolist() == [0] * 8 + [5] * 8 + [0] * 48
    with pytest.raises(ParamInvalid, match="bytes 60 to 70 are not inside"):
        context.sync(mem, "both", 60, 10)


def test_memory_per_core(start: Start) -> None:
    context = start(*CNN, "cores 3", "internal 4096")
    figures = context.memory()
    assert figures.internal == 3 * 4096 and [core.core_id for core in figures.cores] == [0, 1, 2]
    assert [a.core_id for a in context.allocation()] == [0, 1, 2]
    assert context.device_memory().node_num == 1


def test_internal_memory_of_two_models(start: Start, double: Double3) -> None:
    from rknnlite_rknn3rt.device_memory import share_internal

    small = start(*CNN, "internal 100", user_internal=True)
    large = start(*CNN, "internal 5000", "cores 2", user_internal=True)
    with pytest.raises(RknnError, match="give it internal memory first"):
        small.infer(IMAGE)
    mems = share_internal(small, large)
    assert [(m.core_id, m.size) for m in mems] == [(0, 5000), (1, 5000)]
    del mems
    assert small.infer(IMAGE)[0][0, 1] == large.infer(IMAGE)[0][0, 1]
    small.close()  # its memory stays, the other model computes in it
    assert large.infer(IMAGE)[0].shape == (1, 72)
    large.close()


def test_internal_memory_that_does_not_fit(start: Start) -> None:
    context = start(*CNN, "internal 100", "cores 2", user_internal=True)
    with pytest.raises(ParamInvalid, match="core 1 needs 100 bytes, nothing was given"):
        context.set_internal_mem(context.create_mem(100))
    with pytest.raises(ParamInvalid, match="core 0 needs 100 bytes, 50 bytes was given"):
        context.set_internal_mem([context.create_mem(50), context.create_mem(100, core_id=1)])
    with pytest.raises(ParamInvalid, match="one per core"):
        context.set_internal_mem([])
    with pytest.raises(ParamInvalid, match="user_internal=True"):
        start(*CNN).set_internal_mem(context.create_mem(100))
    context.set_kvcache_mem([context.create_mem(64), context.create_mem(64, core_id=1)])


def test_weight_memory(start: Start, version: str) -> None:
    context = start(*CNN, user_weight=True)
    if version == "1.0.0":
        with pytest.raises(FunctionMissing):
            context.set_weight_mem(context.create_mem(64))
    else:
        context.set_weight_mem(context.create_mem(64))


# -- runs -------------------------------------------------------------------------------------------------


def test_runs_that_do_not_wait(start: Start, version: str, double: Double3) -> None:
    context = start(*CNN)
    context.set_inputs([Input(0, IMAGE)])
    if version != "1.0.0":
        with pytest.raises(FunctionMissing, match="rknn3_run_async"):
            context.start()
        return
    double.latency(20_000)
    frame = context.start()
    context.wait(frame)
    assert context.get_outputs()[0][0, 2] == FLAT[0, 2] * 2 + 1
    with pytest.raises(ParamInvalid, match="frame 7 is not under way"):
        context.wait(7)
    context.start()
    assert context.get_outputs()[0].shape == (1, 72)  # waits by itself
    context.start()  # closing waits


def test_waiting_without_a_start(start: Start) -> None:
    context = start(*CNN)
    with pytest.raises(ParamInvalid, match="frame 0 is not under way; none has begun: call start"):
        context.wait(0)


def test_a_run_that_takes_too_long(start: Start, double: Double3) -> None:
    context = start(*CNN, timeout_ms=5)
    context.infer(IMAGE)
    double.latency(50_000)
    with pytest.raises(RunTimeout, match=r"not done in 5 ms") as caught:
        context.infer(IMAGE)
    assert caught.value.native_code == -7
    with pytest.raises(ContextInvalid, match="run the model"):
        context.get_outputs()
    double.latency(0)
    assert context.infer(IMAGE)[0].shape == (1, 72)
    with pytest.raises(ParamInvalid, match="timeout_ms"):
        start(*CNN, timeout_ms=-1)


def test_one_caller_at_a_time(start: Start, double: Double3) -> None:
    context = start(*CNN)
    context.set_inputs([Input(0, IMAGE)])
    inside, done = threading.Event(), threading.Event()

    def hold() -> None:
        with context.exclusive():
            inside.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(60)
    with pytest.raises(ContextInvalid, match="in use by another thread"):
        context.run()
    done.set()
    thread.join()
    context.run()


def test_contexts_run_side_by_side(start: Start, double: Double3) -> None:
    contexts = [start(*CNN) for _ in range(4)]
    double.latency(2_000)
    results: dict[int, bool] = {}

    def work(number: int) -> None:
        data = IMAGE + np.uint8(number)
        wanted = data.transpose(0, 3, 1, 2).reshape(1, 72) * np.float32(2) + 1
        results[number] = all(np.array_equal(contexts[number].infer(data)[0], wanted) for _ in range(10))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(range(4), True)


def test_duplicates(start: Start, version: str) -> None:
    context = start(*CNN)
    if version != "1.0.0":
        return
    with context.dup() as twin:
        context.close()
        assert twin.infer(IMAGE)[0][0, 1] == FLAT[0, 1] * 2 + 1
    dynamic = start(*DYNAMIC)
    with pytest.raises(ParamInvalid, match="cannot be duplicated"):
        dynamic.dup()


# -- post-process plugins and profiling --------------------------------------------------------------------


def test_a_postprocess_plugin(start: Start, tmp_path: Path) -> None:
    plugin = tmp_path / "boxes.so"
    plugin.write_bytes(b"\x7fELF")
    lines = (*CNN, "post boxes float32 undefined 3 1 4 6")
    context = start(*lines)
    context.register_postprocess(plugin)
    assert [(a.name, a.dims) for a in context.outputs] == [("boxes", (1, 4, 6))]
    assert context.infer(IMAGE)[0].reshape(-1).tolist() == (-(FLAT[0, :24] * 2 + 1)).tolist()
    assert start(*lines, postprocess=str(plugin)).outputs[0].name == "boxes"
    with pytest.raises(ParamInvalid, match="there is no post-process plugin"):
        context.register_postprocess(tmp_path / "none.so")
    with pytest.raises(ParamInvalid, match="does not take the plugin"):
        start(*CNN, postprocess=str(plugin))


def test_profile_and_dump(start: Start, tmp_path: Path, version: str) -> None:
    context = start(*CNN)
    with pytest.raises(ContextInvalid, match="set input image"):
        context.profile_ops()
    context.set_inputs([Input(0, IMAGE)])
    context.profile_ops()
    context.profile_mem()
    with pytest.raises(ParamInvalid, match="log_level is 7"):
        context.profile_ops(7)
    files = context.dump_features(tmp_path / "dump")
    assert [path.name for path in files] == ["image.npy"]
    assert np.load(files[0]).tolist() == FLAT[0].tolist()
    if version == "1.0.0":
        with pytest.raises(ParamInvalid, match=r"need runtime 1\.0\.4"):
            context.dump_features(tmp_path, core_mask=1)
    else:
        context.dump_features(tmp_path, core_mask=1, selector="Conv")


def test_figures_and_dumps_of_any_backend(start: Start, tmp_path: Path, caplog: Any) -> None:
    context = start(*CNN, collect_perf=True)
    assert not caplog.records
    with pytest.raises(ContextInvalid, match="run the model before"):
        context.perf_table()
    context.infer(IMAGE)
    table = context.perf_table()
    assert [(row.op, row.time_us) for row in table] == [("Model", context.last_run_us)]
    assert "profile_ops()" in str(table)
    dump = context.dump(tmp_path / "dump")
    assert (dump.names, dump.info["backend"]) == (["image"], "rknn3rt")
    assert dump.value("image").tolist() == FLAT[0].tolist()
    assert Dump.read(tmp_path / "dump").entry("image").dtype == "float32"
    assert sorted(path.name for path in dump.folder.iterdir()) == ["0000_image.npy", "manifest.json"]
    with pytest.raises(ParamInvalid, match="takes no golden"):
        context.dump(tmp_path / "again", dump)


def test_custom_string(start: Start, version: str) -> None:
    context = start(*CNN, "string made by hand")
    assert context.custom_string == ("" if version == "1.0.0" else "made by hand")


def test_keys(start: Start, version: str, tmp_path: Path) -> None:
    key = tmp_path / "key.bin"
    key.write_bytes(b"key")
    if version == "1.0.0":
        with pytest.raises(FunctionMissing, match="decrypt_key"):
            start(*CNN, decrypt_key=b"key")
    else:
        start(*CNN, decrypt_key=b"key")
        start(*CNN, decrypt_key_path=str(key))


def test_images(start: Start, double: Double3) -> None:
    context = start(*CNN)
    rgb, bgr = context.create_image(5, 4), context.create_image(5, 4, RKNN3ImFmt.RKNN3_IM_FMT_BGR888)
    rgb.ndarray[...] = np.arange(60).reshape(4, 5, 3)
    rgb.sync(to_device=True)
    rgb.convert_to(bgr, sync_to_host=True)
    assert np.array_equal(bgr.ndarray, rgb.ndarray[..., ::-1])
    bgr.ndarray[...] = 0
    bgr.sync(to_device=False)
    assert np.array_equal(bgr.ndarray, rgb.ndarray[..., ::-1])
    grey = context.create_image(5, 4, RKNN3ImFmt.RKNN3_IM_FMT_GRAY8)
    assert grey.ndarray.shape == (4, 5, 1)
    with pytest.raises(RknnError, match="does not convert RKNN3_IM_FMT_RGB888 to RKNN3_IM_FMT_GRAY8"):
        rgb.convert_to(grey)
    with pytest.raises(ParamInvalid, match="sizes must agree"):
        rgb.convert_to(context.create_image(4, 5))
    with pytest.raises(ParamInvalid, match="0 x 4 pixels"):
        context.create_image(0, 4)
    double.fault("rknn3_im_mem_create", -6)
    with pytest.raises(OutOfMemory):
        context.create_image(5, 4)
    grey.close()
    grey.close()
    with pytest.raises(ContextInvalid, match="this image is closed"):
        _ = grey.ndarray
    view = rgb.ndarray
    rgb.close()
    context.close()
    assert view[3, 4, 2] == 59


# -- life -------------------------------------------------------------------------------------------------


def test_use_after_close(start: Start) -> None:
    context = start(*CNN)
    context.close()
    context.close()
    for use in (
        lambda: context.infer(IMAGE),
        lambda: context.create_mem(8),
        lambda: context.memory(),
        lambda: context.versions,
        lambda: context.profile_mem(),
        lambda: context.dup(),
    ):
        with pytest.raises(ContextInvalid):
            use()


def test_a_context_that_is_dropped(double: Double3) -> None:
    context = rknnlite.open(model(*CNN))
    context.infer(IMAGE)
    del context
    assert double.live() == {}


def test_a_context_that_is_dropped_in_the_middle_of_a_run(double: Double3, version: str) -> None:
    if version == "1.0.0":
        double.latency(20_000)
        context = rknnlite.open(model(*CNN))
        context.set_inputs([Input(0, IMAGE)])
        context.start()
        del context
    assert double.live() == {}


def test_after_a_fork_the_child_owns_nothing(start: Start, double: Double3) -> None:
    context = start(*CNN)
    child = os.fork()
    if child == 0:  # no assert in here: the child must not run pytest's machinery
        try:
            context.infer(IMAGE)
            os._exit(1)
        except ContextInvalid:
            context.close()
            os._exit(0 if double.live() == {"contexts": 1} else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert context.infer(IMAGE)[0].shape == (1, 72)


def test_attributes(start: Start) -> None:
    context = start("input x int8 nc1hwc2 4 1 40 2 2 0.5 3", "output y float16 undefined 2 1 4")
    logical, native = context.inputs[0], context.native_inputs[0]
    assert logical.dims == (1, 2, 2, 40) and logical.layout is Layout.NHWC and logical.dtype is DType.INT8
    assert (
        native.dims == (1, 2, 2, 2, 32) and native.layout is Layout.NC1HWC2 and native.size_with_stride == 256
    )
    assert context.structs[0][0].aligned_size == 256


def test_a_signal_handler_in_the_middle_of_a_frame_is_refused(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_interrupts(start(*CNN), [IMAGE], monkeypatch)
