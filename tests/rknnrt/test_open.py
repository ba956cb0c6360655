"""``rknn_init`` from a path and from memory, with every flag; encrypted models; what is asked afterwards."""

from __future__ import annotations

import ctypes as ct
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_rknnrt import abi
from rknnlite_rknnrt.settings import RknnrtSettings

import rknnlite
from rknnlite.errors import (
    ContextInvalid,
    ModelUnsupported,
    OutOfMemory,
    ParamInvalid,
    RknnError,
    TargetPlatformUnmatch,
)
from rknnlite.spi import AttrKind, OpenOptions
from rknnlite.tensor import DType, Layout, QuantParams
from tests.doubles.double import Double, model
from tests.support.corpus import genuine

from .models import AFFINE, DYNAMIC, NATIVE, TWO, identity, picture, scores

Start = Callable[..., Any]


@pytest.mark.parametrize("name", ["model.rknn", "mödel ✓.rknn"])
def test_from_a_path(double: Double, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(model(*AFFINE))
    with rknnlite.open(path) as context:
        assert np.array_equal(context.infer(picture())[0], scores(picture()))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_from_memory(double: Double, kind: Callable[[bytes], Any]) -> None:
    with rknnlite.open(kind(model(*AFFINE))) as context:
        assert np.array_equal(context.infer(picture())[0], scores(picture()))


def test_a_genuine_file_is_handed_over_untouched(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The double takes what it shall be from beside the file, and only if the file looks genuine."""
    description = tmp_path / "double.txt"
    description.write_bytes(model(*AFFINE, "platform rk3588"))
    monkeypatch.setenv("RKNN_DOUBLE_MODEL", str(description))
    with rknnlite.open(genuine("conv_relu.rk3588.i8")) as context:
        assert context.soc.name == "rk3588"
        assert np.array_equal(context.infer(picture())[0], scores(picture()))


@pytest.mark.parametrize("magic", [b"CYPTRKNN", b"RKCE"])
def test_encrypted_models_pass_through(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, magic: bytes
) -> None:
    description = tmp_path / "double.txt"
    description.write_bytes(model(*AFFINE))
    monkeypatch.setenv("RKNN_DOUBLE_MODEL", str(description))
    path = tmp_path / "secret.rknn"
    path.write_bytes(magic + bytes(100))
    with rknnlite.open(path) as context:
        assert np.array_equal(context.infer(picture())[0], scores(picture()))
    with pytest.raises(ModelUnsupported, match=r"secret.rknn comes with a key file, but no public version"):
        rknnlite.open(path, user_key=b"key")
    assert double.count("rknn_init") == 1  # the second one was not even tried


def test_an_encrypted_model_that_the_library_refuses(double: Double, tmp_path: Path) -> None:
    path = tmp_path / "secret.rknn"
    path.write_bytes(b"RKCE" + bytes(100))
    with pytest.raises(
        RknnError, match=r"encrypted: this runtime has no key for it, or is too old for it"
    ) as caught:
        rknnlite.open(path)
    assert caught.value.code == -6


def test_a_key_for_a_plain_model_is_ignored(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rknnlite"):
        start(*AFFINE, user_key=b"key")
    assert "is not encrypted: the key file is not needed and ignored" in caplog.text


# -- flags -------------------------------------------------------------------------------------------------

SETTINGS = [
    ({}, 0),
    ({"priority": "medium"}, abi.InitFlag.PRIOR_MEDIUM),
    ({"priority": "low"}, abi.InitFlag.PRIOR_LOW),
    ({"async_mode": True}, abi.InitFlag.ASYNC),
    ({"verbose": True}, abi.InitFlag.COLLECT_PERF),
    ({"collect_perf": True}, abi.InitFlag.COLLECT_PERF),
    ({"outside": "all"}, abi.InitFlag.MEM_ALLOC_OUTSIDE),
    ({"outside": "internal"}, abi.InitFlag.INTERNAL_ALLOC_OUTSIDE),
    ({"info_only": True}, abi.InitFlag.COLLECT_MODEL_INFO_ONLY),
    ({"sram": True}, abi.InitFlag.ENABLE_SRAM),
    ({"flush_inputs": False}, abi.InitFlag.DISABLE_FLUSH_INPUT),
    ({"flush_outputs": False}, abi.InitFlag.DISABLE_FLUSH_OUTPUT),
    ({"model_in_npu_memory": True}, abi.InitFlag.MODEL_BUFFER_ZERO_COPY),
    ({"flags": int(abi.InitFlag.FALLBACK_GPU)}, abi.InitFlag.FALLBACK_GPU),
    ({"flags": 8192, "sram": True, "priority": "low"}, 8192 | 2048 | 2),
]


@pytest.mark.parametrize("options, flags", SETTINGS)
def test_flags_reach_the_library(start: Start, double: Double, options: dict[str, Any], flags: int) -> None:
    start(*AFFINE, **options)
    assert double.flags() == flags


@pytest.mark.parametrize("option", ["flush_inputs", "flush_outputs"])
def test_without_flushing_there_is_no_common_path(start: Start, option: str) -> None:
    """The library would compute with what is in memory, not with what the program wrote."""
    with pytest.raises(
        ContextInvalid, match=f"{option}=False leaves the cache to the program: use bind, sync"
    ):
        start(*AFFINE, **{option: False}).infer(picture())


def test_illegal_settings() -> None:
    with pytest.raises(ParamInvalid, match=r"priority 'urgent' is not one of high, medium, low"):
        RknnrtSettings.of(OpenOptions(extra={"priority": "urgent"}))
    with pytest.raises(ParamInvalid, match=r"outside='some' is not 'all', 'internal' or None"):
        RknnrtSettings.of(OpenOptions(extra={"outside": "some"}))


def test_unknown_options_are_refused() -> None:
    with pytest.raises(
        ParamInvalid, match="option priorty is unknown to backend rknnrt; did you mean priority"
    ):
        RknnrtSettings.of(OpenOptions(extra={"priorty": "low"}))


ILLEGAL: dict[str, Any] = {
    "flags": 1 << 20,
    "user_key": "text",
    "sram": 5,
    "collect_perf": np.ones(3),
    "priority": [1],
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_values_are_refused(name: str, start: Start) -> None:
    with pytest.raises(ParamInvalid, match=name):
        start(*AFFINE, **{name: ILLEGAL[name]})


def test_outside_memory_is_needed_before_a_run(start: Start) -> None:
    context = start(*AFFINE, "weight 8192", "internal 4096", outside="all")
    context.set_inputs(_inputs())
    with pytest.raises(RknnError, match=r"rknn_run failed"):
        context.run()
    need = context.memory()
    with pytest.raises(ParamInvalid, match=r"the memory has 100 bytes, weights need 8192"):
        context.set_weight_mem(context.create_mem(100))
    context.set_weight_mem(context.create_mem(need.weight))
    context.set_internal_mem(context.create_mem(need.internal))
    assert np.array_equal(context.infer(picture())[0], scores(picture()))


def test_contexts_that_run_in_turn_share_internal_memory(start: Start) -> None:
    """One allocation, one descriptor per context on its fd (RKNN user guide 2.0, 9.3)."""
    first, second = (start(*AFFINE, "internal 4096", outside="internal") for _ in range(2))
    shared = first.create_mem(4096)
    first.set_internal_mem(shared)
    second.set_internal_mem(second.import_mem(shared.fd, 4096))
    for context in (first, second, first):
        assert np.array_equal(context.infer(picture())[0], scores(picture()))


def test_given_memory_outlives_its_object(start: Start, double: Double) -> None:
    context = start(*AFFINE, outside="internal")
    memory = context.create_mem(4096)
    context.set_internal_mem(memory)
    memory.close()  # the program is done with it, the context is not
    assert double.live()["mems"] == 1
    assert np.array_equal(context.infer(picture())[0], scores(picture()))


def test_shared_weights(double: Double, start: Start) -> None:
    master = start(*AFFINE)
    slave = start(*AFFINE, master=master)
    master.close()  # stays in C as long as the slave needs it
    assert double.live()["contexts"] == 2
    assert np.array_equal(slave.infer(picture())[0], scores(picture()))
    slave.close()
    assert double.live() == {}


def test_only_an_open_context_can_be_master(start: Start) -> None:
    master = start(*AFFINE)
    master.close()
    for wrong in (master, 7):
        with pytest.raises(ParamInvalid, match=r"master must be an open context of backend rknnrt"):
            start(*AFFINE, master=wrong)


def test_a_model_in_npu_memory(start: Start, double: Double) -> None:
    context = start(*AFFINE, model_in_npu_memory=True)
    assert double.live() == {"contexts": 1, "mems": 1}
    assert np.array_equal(context.infer(picture())[0], scores(picture()))
    context.close()
    assert double.live() == {}  # and the memory went after the context, or the double would count it


def test_no_npu_memory_for_the_model(start: Start, double: Double) -> None:
    double.fault("rknn_create_mem2", -1)
    with pytest.raises(OutOfMemory, match=r"rknn_create_mem2 gave no memory for \d+ bytes"):
        start(*AFFINE, model_in_npu_memory=True)


def test_a_hollow_context_only_knows_sizes(start: Start) -> None:
    context = start(*AFFINE, "weight 1000", "internal 2000", info_only=True)
    assert (context.memory().weight, context.memory().internal) == (1000, 2000)
    for call in (lambda: context.set_inputs(_inputs()), context.run, lambda: context.get_outputs()):
        with pytest.raises(ContextInvalid):
            call()


def _inputs() -> list[Any]:
    from rknnlite.spi import Input

    return [Input(0, picture())]


# -- questions ---------------------------------------------------------------------------------------------


def test_attributes(start: Start) -> None:
    context = start(*NATIVE)
    (image,), (result,) = context.inputs, context.outputs
    assert (image.name, image.dims, image.dtype, image.layout) == (
        "image",
        (1, 4, 6, 3),
        DType.INT8,
        Layout.NHWC,
    )
    assert image.quant == QuantParams(0.5, -3)
    assert (result.name, result.dims, result.layout) == ("map", (1, 3, 4, 6), Layout.NCHW)
    assert (image.n_elems, image.size) == (72, 72)


ALL_KINDS = {
    AttrKind.INPUT: (Layout.NHWC, (1, 4, 6, 3), 0),
    AttrKind.OUTPUT: (Layout.NCHW, (1, 3, 4, 6), 0),
    AttrKind.NATIVE_INPUT: (Layout.NHWC, (1, 4, 6, 3), 16),  # rows padded to 16 pixels
    AttrKind.NATIVE_OUTPUT: (Layout.NC1HWC2, (1, 1, 4, 6, 16), 0),
    AttrKind.NATIVE_NHWC_INPUT: (Layout.NHWC, (1, 4, 6, 3), 0),
    AttrKind.NATIVE_NHWC_OUTPUT: (Layout.NHWC, (1, 4, 6, 3), 0),
    AttrKind.CURRENT_INPUT: (Layout.NHWC, (1, 4, 6, 3), 0),
    AttrKind.CURRENT_OUTPUT: (Layout.NHWC, (1, 4, 6, 3), 0),
    AttrKind.CURRENT_NATIVE_INPUT: (Layout.NHWC, (1, 4, 6, 3), 16),
    AttrKind.CURRENT_NATIVE_OUTPUT: (Layout.NC1HWC2, (1, 1, 4, 6, 16), 0),
}


@pytest.mark.parametrize("kind", AttrKind)
def test_attributes_in_every_form(start: Start, kind: AttrKind) -> None:
    (attr,) = start(*NATIVE).attrs(kind)
    assert (attr.layout, attr.dims, attr.w_stride) == ALL_KINDS[kind]


def test_several_tensors_keep_their_order(start: Start) -> None:
    context = start(*TWO)
    assert [(a.index, a.name) for a in context.inputs] == [(0, "image"), (1, "state")]
    assert [(a.index, a.name) for a in context.outputs] == [(0, "map"), (1, "next")]
    assert context.inputs[1].quant == QuantParams(1.0, 0) and context.inputs[1].layout is Layout.UNDEFINED
    assert [attr.dims for attr in context.native_inputs] == [(1, 4, 6, 3), (1, 8)]


def test_other_questions(start: Start) -> None:
    context = start(*AFFINE, "string made by hand", "weight 11", "internal 22")
    assert context.custom_string == "made by hand"
    size = context.memory()
    assert (size.weight, size.internal, size.total) == (11, 22, 33)
    assert (size.sram_total, size.sram_free) == (956 * 1024, 956 * 1024)
    assert (context.batch, context.shapes, context.soc.name) == (1, [], "rk3588")
    assert context.last_run_us == 0
    context.infer(picture())
    assert context.last_run_us > 0


def test_sram_is_taken(start: Start) -> None:
    assert start(*AFFINE, sram=True).memory().sram_free == 0


def test_legal_shapes(start: Start) -> None:
    assert start(*DYNAMIC).shapes == [[(1, 4, 6, 3), (1, 4)], [(1, 8, 12, 3), (1, 6)]]


def test_a_question_without_a_name_of_its_own(start: Start) -> None:
    """``RKNN_QUERY_DEVICE_MEM_INFO`` exists on a few platforms; elsewhere the library refuses it."""
    context = start(*AFFINE)
    with pytest.raises(ParamInvalid, match=r"rknn_query\(DEVICE_MEM_INFO\) failed"):
        context.session.query(abi.Query.DEVICE_MEM_INFO, abi.TensorMem())


def test_layers(start: Start) -> None:
    context = start(*AFFINE, collect_perf=True)
    with pytest.raises(ContextInvalid, match=r"run the model before asking for figures"):
        context.perf_table()
    context.infer(picture())
    table = context.perf_table()
    assert [(row.op, row.target, row.time_us, row.name) for row in table] == [
        ("InputOperator", "CPU", 5.0, "InputOperator:image"),
        ("ConvRelu", "NPU", 120.0, "Conv:conv 1"),
        ("OutputOperator", "CPU", 7.0, "OutputOperator:scores"),
    ]
    assert "Network Layer Information Table" in context.perf_text()


def test_layers_are_collected_on_request(start: Start) -> None:
    context = start(*AFFINE)
    context.infer(picture())
    with pytest.raises(RknnError, match=r"open the model with collect_perf=True"):
        context.perf_table()


# -- settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0, 1, 2, 4, 3, 7, 0xFFFF])
def test_core_masks(start: Start, mask: int) -> None:
    context = start(*NATIVE, core_mask=mask)
    context.set_core_mask(mask)
    assert np.array_equal(context.infer(picture())[0], identity(picture()))


@pytest.mark.parametrize("mask", [5, 6, 8, 0x10000, -1, 1 << 32, (1 << 32) + 1])
def test_illegal_core_masks(start: Start, mask: int) -> None:
    context = start(*AFFINE)
    with pytest.raises(
        RknnError, match=r"core mask -?0x\w+ is not legal on rk3588; legal masks: 0, 1, 2, 4, 3, 7"
    ):
        context.set_core_mask(mask)
    assert np.array_equal(context.infer(picture())[0], scores(picture()))
    with pytest.raises(RknnError, match=r"legal masks"):
        start(*AFFINE, core_mask=mask)


def test_a_core_mask_that_the_board_lacks(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_SOC", "rk3576")
    context = start(*AFFINE, "platform rk3576")
    context.set_core_mask(3)
    with pytest.raises(
        RknnError, match=r"core mask 0x7 is not legal on rk3576; legal masks: 0, 1, 2, 3, 0xffff"
    ):
        context.set_core_mask(7)


def test_one_core_takes_no_mask(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_SOC", "rk3566")
    context = start(*AFFINE, "platform rk3566")
    with pytest.raises(TargetPlatformUnmatch, match=r"rk3566 has a single NPU core and takes no core mask"):
        context.set_core_mask(1)


def test_cores_of_a_batch(start: Start) -> None:
    context = start(*AFFINE)
    context.set_batch_core_num(3)
    for count in (0, 4, 1 << 32):
        with pytest.raises(ParamInvalid, match=f"{count} cores: the rk3588 has 1 to 3"):
            context.set_batch_core_num(count)


def test_programs_may_call_c_themselves(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    context = start(*AFFINE)
    number = abi.InputOutputNum()
    query, handle = context.lib.rknn_query, context.handle
    assert query(handle, 0, ct.byref(number), ct.sizeof(number)) == 0
    assert (number.n_input, number.n_output) == (1, 1)
    for same in (int(handle), abi.CONTEXT(handle), handle.value):
        assert query(same, 0, ct.byref(number), ct.sizeof(number)) == 0
    with monkeypatch.context() as patch:  # a program's own prototypes disturb nobody
        patch.setattr(query, "argtypes", [abi.CONTEXT, ct.c_int, ct.c_void_p, ct.c_uint32])
        assert query(handle, 0, ct.byref(number), ct.sizeof(number)) == 0
        assert np.array_equal(context.infer(picture())[0], scores(picture()))
    context.close()
    assert handle.value == 0  # C answers an error to that, a stale number would kill the process
    assert query(handle, 0, ct.byref(number), ct.sizeof(number)) == -7
