"""Custom operators on librknnrt: Python by callback, compiled ones as their structure; failures; life."""

from __future__ import annotations

import ctypes as ct
import gc
import logging
import os
import shutil
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_rknnrt import abi

import rknnlite
from rknnlite.api.custom_op import get_node_attr
from rknnlite.errors import ContextInvalid, ParamInvalid, RknnError
from rknnlite.spi import CustomOp, CustomOpFailed, UseBuiltin
from rknnlite.tensor import DType, Layout, QuantParams
from tests.doubles.double import Double, compile_c, compiler, model
from tests.support.corpus import EXAMPLES, ROOT, genuine

Start = Callable[..., Any]
LINES = (
    "input a float32 4 1 2 3 4",
    "input b float32 2 1 24",
    "output sum float32 4 1 4 2 3",
    "output gap float32 2 1 24",
    "op cstSumGap",
    "attr factor f32 2.5",
    "attr axis i64 3",
    "attr pads i64 1 2 3",
    "attr mode str linear",
)


class SumGap(CustomOp):
    """sum = factor * a + b, gap = a - b; remembers what it saw."""

    op_type = "cstSumGap"

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.seen: Any = None

    def init(self, ctx: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        self.calls.append("init")
        ctx.state = ctx.attr("factor")

    def compute(self, ctx: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        self.calls.append("compute")
        a, b = inputs
        self.seen = (ctx, [array.flags.writeable for array in (*inputs, *outputs)])
        outputs[0][...] = ctx.state * a + b.reshape(a.shape)
        outputs[1][...] = a.reshape(1, 24) - b

    def destroy(self, ctx: Any) -> None:
        self.calls.append("destroy")


class Broken(SumGap):
    """Fails where it is told to."""

    def __init__(self, step: str, error: BaseException) -> None:
        super().__init__()
        self.step, self.error = step, error

    def fail(self, step: str) -> None:
        if step == self.step:
            raise self.error

    def init(self, ctx: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        self.fail("init")
        super().init(ctx, inputs, outputs)

    def compute(self, ctx: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        self.fail("compute")
        super().compute(ctx, inputs, outputs)

    def destroy(self, ctx: Any) -> None:
        self.fail("destroy")
        super().destroy(ctx)


A = np.random.default_rng(0).normal(size=(1, 2, 3, 4)).astype(np.float32)
B = np.random.default_rng(1).normal(size=(1, 24)).astype(np.float32)


def expected() -> list[np.ndarray]:
    a = A.transpose(0, 3, 1, 2)  # operators see NCHW
    return [np.float32(2.5) * a + B.reshape(a.shape), a.reshape(1, 24) - B]


def check(context: Any) -> None:
    for got, want in zip(context.infer([A, B]), expected()):
        assert np.array_equal(got, want)


def test_python_operator(start: Start, double: Double) -> None:
    op = SumGap()
    context = start(*LINES, custom_ops=[op])
    assert op.calls == ["init"]  # inside rknn_register_custom_ops
    check(context)
    check(context)
    context.close()
    assert op.calls == ["init", "compute", "compute", "destroy"]
    assert double.live() == {}


def test_arrays_that_compute_returns_are_used_where_they_fit(start: Start) -> None:
    class Returns(SumGap):
        def compute(self, ctx: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> Any:
            a, b = inputs
            return [ctx.state * a + b.reshape(a.shape), a.reshape(1, 24) - b][: self.many]

        many = 2

    op = Returns()
    context = start(*LINES, custom_ops=[op])
    check(context)
    op.many = 1
    with pytest.raises(CustomOpFailed, match=r"cstSumGap .*list of 2 arrays, it returned 1 values"):
        context.infer([A, B])


def test_what_an_operator_sees(start: Start) -> None:
    op = SumGap()
    start(*LINES, custom_ops=[op]).infer([A, B])
    ctx, writeable = op.seen
    assert writeable == [False, False, True, True]
    assert (ctx.node.op_type, ctx.node.input, ctx.node.output) == ("cstSumGap", ["a", "b"], ["sum", "gap"])
    assert [(a.dims, a.dtype, a.layout) for a in ctx.inputs] == [
        ((1, 4, 2, 3), DType.FLOAT32, Layout.NCHW),
        ((1, 24), DType.FLOAT32, Layout.UNDEFINED),
    ]


def test_scale_and_zero_point_are_those_of_the_file(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library tells float32 and nothing else; what it does tell is believed."""
    monkeypatch.setattr(
        "rknnlite_rknnrt.customop.stored", lambda file: {"a": QuantParams(0.5, 3), "sum": QuantParams(2, 0)}
    )
    op = SumGap()
    start(*LINES, custom_ops=[op]).infer([A, B])
    ctx, _ = op.seen
    assert [a.quant for a in (*ctx.inputs, *ctx.outputs)] == [
        QuantParams(0.5, 3),
        None,
        QuantParams(2, 0),
        None,
    ]


def test_tensors_are_the_librarys_own_memory(start: Start) -> None:
    addresses: list[list[int]] = []

    class Looks(SumGap):
        def compute(self, ctx: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
            addresses.append([array.ctypes.data for array in (*inputs, *outputs)])
            assert not any(array.flags.owndata for array in (*inputs, *outputs))
            super().compute(ctx, inputs, outputs)

    context = start(*LINES, custom_ops=[Looks()])
    check(context)
    check(context)
    assert addresses[0] == addresses[1]


def test_attributes(start: Start) -> None:
    found: dict[str, Any] = {}

    class Reads(SumGap):
        def init(self, ctx: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
            super().init(ctx, inputs, outputs)
            found.update({name: ctx.attrs[name] for name in ("factor", "axis", "pads", "mode")})
            assert ctx.attr("absent", 7) == 7 and get_node_attr(ctx.node, "absent") is None
            assert get_node_attr(ctx.node, "axis") == 3
            with pytest.raises(
                ParamInvalid, match=r"has no attribute 'absent'; there are: axis, factor, mode, pads"
            ):
                ctx.attr("absent")

    op = Reads()
    context = start(*LINES, custom_ops=[op])
    check(context)
    assert found == {"factor": 2.5, "axis": 3, "pads": [1, 2, 3], "mode": "linear"}
    attrs = op.seen[0].attrs
    assert dict(attrs) == found and len(attrs) == 4  # what was read stays readable outside of a call
    with pytest.raises(KeyError, match=r"can be read in init and compute only"):
        attrs["other"]


def test_the_class_of_the_pc_toolkit(start: Start) -> None:
    class Plain:
        op_type = "cstSumGap"

        def shape_infer(self, node: Any, in_shapes: Any, in_dtypes: Any) -> Any:
            return in_shapes, in_dtypes

        def compute(self, node: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
            a, b = inputs
            return [get_node_attr(node, "factor") * a + b.reshape(a.shape), a.reshape(1, 24) - b]

    check(start(*LINES, custom_ops=[Plain]))


PLUGIN = """
#include "rknn_abi.h"
#include <stdlib.h>
static int init(rknn_custom_op_context *ctx, rknn_custom_op_tensor *in, uint32_t n, rknn_custom_op_tensor *out,
                uint32_t m) {
    rknn_custom_op_attr attr;
    rknn_custom_op_get_op_attr(ctx, "factor", &attr);
    if (n != 2 || m != 2 || attr.n_elems != 1) return RKNN_ERR_PARAM_INVALID;
    *(float *)(ctx->priv_data = malloc(sizeof(float))) = *(float *)attr.data;
    return 0;
}
static float *data(rknn_custom_op_tensor *t) { return (float *)((char *)t->mem.virt_addr + t->mem.offset); }
static int compute(rknn_custom_op_context *ctx, rknn_custom_op_tensor *in, uint32_t n, rknn_custom_op_tensor *out,
                   uint32_t m) {
    for (uint32_t i = 0; i < in->attr.n_elems; i++) {
        data(out)[i] = *(float *)ctx->priv_data * data(in)[i] + data(in + 1)[i];
        data(out + 1)[i] = data(in)[i] - data(in + 1)[i];
    }
    return 0;
}
static int destroy(rknn_custom_op_context *ctx) { free(ctx->priv_data); return 0; }
static rknn_custom_op op = {.version = 1, .target = RKNN_TARGET_TYPE_CPU, .op_type = "cstSumGap", .init = init,
                            .compute = compute, .destroy = destroy};
rknn_custom_op *get_rknn_custom_op(void) { return &op; }
"""


def compiled(folder: Path, *flags: str) -> Path:
    """A compiled operator as an author ships it; the runtime supplies the function that reads attributes."""
    if compiler() is None:
        pytest.skip("no C compiler is installed")
    source = folder / "sum_gap.c"
    source.write_text(PLUGIN)
    return compile_c([source], ("-shared", "-fPIC", "-ffp-contract=off", *flags), "librkcst_sum_gap.so")


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    return compiled(tmp_path)


def test_compiled_operator(start: Start, plugin: Path, double: Double) -> None:
    """The library calls the plugin's own functions; no Python in between."""
    pytest.importorskip("rknnlite_cplugin")
    asked = double.count("rknn_custom_op_get_op_attr")
    context = start(*LINES, custom_ops=[plugin])
    check(context)
    assert double.count("rknn_custom_op_get_op_attr") == asked + 1
    context.close()
    assert double.live() == {}


SEVERAL = """
import ctypes, sys
import numpy as np
import rknnlite
from tests.doubles.double import model
plugin, lines, *before = sys.argv[1:]
loaded = [ctypes.CDLL(path) for path in before]
a, b = np.ones((1, 2, 3, 4), np.float32), np.zeros((1, 24), np.float32)
with rknnlite.open(model(*lines.splitlines()), custom_ops=[plugin]) as context:
    print(np.unique(context.infer([a, b])[0]))
"""


@pytest.mark.parametrize("linked", [False, True], ids=["another runtime", "ours for a linked plugin"])
def test_of_several_librknnrt_the_one_that_calls_is_asked(
    linked: bool, library: Path, tmp_path: Path
) -> None:
    """The name alone does not tell: an older runtime may be loaded, or what a linked plugin is given where none is found."""
    pytest.importorskip("rknnlite_cplugin")
    calling = shutil.copy(library, tmp_path / "librknnrt.so")
    flags = ("-Wl,--no-as-needed", f"-L{library.parent}", "-lrknnrt") if linked else ()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path])),
        "RKNNLITE_LIBRARY": str(calling),
        "RKNNLITE_BACKEND": "rknnrt",
    }
    command = [sys.executable, "-c", SEVERAL, str(compiled(tmp_path, *flags)), "\n".join(LINES)]
    done = subprocess.run(
        command + ([] if linked else [str(library)]),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.strip() == "[2.5]", done.stderr


@pytest.mark.parametrize("as_address", [True, False])
def test_a_structure_filled_by_the_program(start: Start, as_address: bool) -> None:
    """``native`` may be a ctypes structure or its address; it is kept alive."""
    calls: list[int] = []

    def compute(ctx: Any, ins: Any, n_in: int, outs: Any, n_out: int) -> int:
        calls.append(n_in)
        return 0

    class Native(SumGap):
        def __init__(self) -> None:
            super().__init__()
            self.struct = abi.CustomOpStruct(version=1, target=1, op_type=b"cstSumGap")
            self.struct.compute = abi.CALLBACK(compute)
            self.native = ct.addressof(self.struct) if as_address else self.struct

    context = start(*LINES, custom_ops=[Native()])
    gc.collect()
    context.infer([A, B])
    assert calls == [2]


# -- which operators are registered ------------------------------------------------------------------------


def test_operators_that_the_model_does_not_need_stay_at_home(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plugin for another model must not reach a library that may take no custom operators at all."""
    description = tmp_path / "double.txt"
    description.write_bytes(model(*LINES))
    monkeypatch.setenv("RKNN_DOUBLE_MODEL", str(description))
    with rknnlite.open(genuine("conv_relu.rk3588.i8"), custom_ops=[SumGap()]):
        assert double.count("rknn_register_custom_ops") == 0

    class Dual(SumGap):
        op_type = "cstDualResidual"

    with rknnlite.open(EXAMPLES / "custom_op" / "dual_for_RK3588.rknn", custom_ops=[SumGap(), Dual()]):
        assert double.count("rknn_register_custom_ops") == 1
        assert double.registered() == 1


def test_a_standard_operator_may_be_overridden(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    description = tmp_path / "double.txt"
    description.write_bytes(model(*LINES))
    monkeypatch.setenv("RKNN_DOUBLE_MODEL", str(description))

    class Relu(SumGap):
        op_type = "Conv"

    with rknnlite.open(genuine("conv_1x1.rk3588.i8"), custom_ops=[Relu()]):
        assert double.registered() == 1


def test_registering_later_and_more_than_once(start: Start, double: Double) -> None:
    """All operators go over together: on the library a second call replaces the first."""

    class Other(SumGap):
        op_type = "cstOther"

    context = start(*LINES)
    context.set_inputs(_inputs())
    with pytest.raises(RknnError, match=r"rknn_run failed"):  # the operator is missing
        context.run()
    op = SumGap()
    context.register_ops([op])
    context.register_ops([Other()])
    assert double.registered() == 2
    check(context)
    replacement = SumGap()
    context.register_ops([replacement])
    check(context)
    assert replacement.calls == ["init", "compute"]
    assert op.calls[-1] == "destroy"


def _inputs() -> list[Any]:
    from rknnlite.spi import Input

    return [Input(0, A), Input(1, B, Layout.UNDEFINED)]


def test_duplicates_take_the_operators_along(start: Start) -> None:
    op = SumGap()
    context = start(*LINES, custom_ops=[op])
    with context.dup() as twin:
        check(twin)
    check(context)
    assert op.calls.count("init") == 2


def test_a_name_that_is_too_long(start: Start) -> None:
    class Long(SumGap):
        op_type = "x" * 256

    with pytest.raises(ParamInvalid, match=r"must have 1 to 255 bytes"):
        start(*LINES, custom_ops=[Long()])


# -- failures ----------------------------------------------------------------------------------------------


def test_use_builtin(start: Start) -> None:
    """init answers -14: the library's own operator takes over (the double's copies its inputs)."""
    context = start(*LINES, custom_ops=[Broken("init", UseBuiltin("not for me"))])
    assert np.array_equal(context.infer([A, B])[1], B)


def test_init_that_fails(start: Start, double: Double) -> None:
    op = Broken("init", ValueError("no such mode"))
    with pytest.raises(
        CustomOpFailed,
        match=r"custom operator cstSumGap \(.*Broken\) failed in init on inputs .*: ValueError: no such mode",
    ) as caught:
        start(*LINES, custom_ops=[op])
    assert isinstance(caught.value.__cause__, ValueError)
    assert op.calls == []  # no destroy without an init
    del caught
    gc.collect()
    assert double.live() == {}


def test_compute_that_fails(start: Start) -> None:
    op = Broken("compute", ZeroDivisionError("by zero"))
    context = start(*LINES, custom_ops=[op])
    for _ in range(2):
        context.set_inputs(_inputs())
        with pytest.raises(
            CustomOpFailed, match=r"failed in compute on inputs \[\[1, 4, 2, 3\], \[1, 24\]\]"
        ):
            context.run()
    op.step = ""
    check(context)


def test_an_operator_that_exits_has_failed(start: Start) -> None:
    op = Broken("compute", SystemExit("no licence"))
    context = start(*LINES, custom_ops=[op])
    with pytest.raises(CustomOpFailed, match=r"failed in compute on inputs .*: SystemExit: no licence"):
        context.infer([A, B])
    op.step = ""
    check(context)


def test_an_interrupt_stays_an_interrupt(start: Start) -> None:
    op = Broken("compute", KeyboardInterrupt())
    context = start(*LINES, custom_ops=[op])
    with pytest.raises(KeyboardInterrupt):
        context.infer([A, B])
    op.step = ""
    check(context)


def test_destroy_that_fails(start: Start, double: Double, caplog: pytest.LogCaptureFixture) -> None:
    context = start(*LINES, custom_ops=[Broken("destroy", OSError("busy"))])
    with caplog.at_level(logging.WARNING, "rknnlite"):
        context.close()
    assert "custom operator cstSumGap failed in destroy: OSError: busy" in caplog.text
    assert double.live() == {}


def test_operators_must_not_use_the_context_that_runs_them(start: Start) -> None:
    refused: list[str] = []

    class Nosy(SumGap):
        def compute(self, ctx: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
            for call in (
                context.run,
                context.get_outputs,
                context.close,
                lambda: check(context),
            ):
                with pytest.raises(ContextInvalid) as caught:
                    call()
                refused.append(str(caught.value))
            super().compute(ctx, inputs, outputs)

    context = start(*LINES, custom_ops=[Nosy()])
    check(context)
    assert len(refused) == 4 and all("an operator that the context itself runs" in text for text in refused)


def test_operators_are_let_go(start: Start) -> None:
    op = SumGap()
    watch = weakref.ref(op)
    context = start(*LINES, custom_ops=[op])
    check(context)
    op.seen = None
    context.close()
    del op
    assert watch() is None


def test_the_library_that_takes_no_operators(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    from .conftest import built

    monkeypatch.setenv("RKNNLITE_LIBRARY", str(built(mini=True)))
    with pytest.raises(RknnError, match=r"is not supported by this library version"):
        rknnlite.open(model(*LINES), custom_ops=[SumGap()])


def dual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A genuine model with a custom operator, which the double takes for LINES."""
    description = tmp_path / "double.txt"
    description.write_bytes(model(*LINES).replace(b"cstSumGap", b"cstDualResidual"))
    monkeypatch.setenv("RKNN_DOUBLE_MODEL", str(description))
    return EXAMPLES / "custom_op" / "dual_for_RK3588.rknn"


def test_a_run_without_the_operator_names_it(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library says -1 and nothing else."""
    path = dual(tmp_path, monkeypatch)
    with rknnlite.open(path) as context, pytest.raises(RknnError) as caught:
        context.infer([A, B])
    text = str(caught.value)
    assert "rknn_run failed. error code: RKNN_ERR_FAIL (-1); " in text and path.name in text
    assert "is a custom operator and nobody registered one of type cstDualResidual (there are: none)" in text
    assert "custom_ops=[...], call reg_custom_op" in text and "RKNNLITE_OP_PLUGINS" in text


def test_what_is_wrong_with_plugins_is_told_when_an_operator_is_missing(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RKNNLITE_OP_PLUGINS", str(tmp_path / "nowhere"))
    path = dual(tmp_path, monkeypatch)
    with rknnlite.open(path) as context, pytest.raises(RknnError) as caught:
        context.infer([A, B])
    assert f"plugin cplugin: folder of operator plugins {tmp_path / 'nowhere'} is skipped" in str(
        caught.value
    )


def test_a_run_that_fails_with_the_operator_does_not_blame_it(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dual(SumGap):
        op_type = "cstDualResidual"

    with rknnlite.open(dual(tmp_path, monkeypatch), custom_ops=[Dual()]) as context:
        check(context)
        double.fault("rknn_run", -1)
        with pytest.raises(RknnError, match=r"rknn_run failed.*RKNN_LOG_LEVEL") as caught:
            context.infer([A, B])
        assert "nobody registered" not in str(caught.value)


def test_the_mini_library_does_not_advise_to_register(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from .conftest import built

    monkeypatch.setenv("RKNNLITE_LIBRARY", str(built(mini=True)))
    path = dual(tmp_path, monkeypatch)
    with rknnlite.open(path) as context:
        for attr in (*context.native_inputs, *context.native_outputs):
            context.bind(attr, context.create_mem(attr.size_with_stride))
        with pytest.raises(RknnError, match="is a custom operator, and librknnmrt takes none; convert"):
            context.run()
