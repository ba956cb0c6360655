"""Operators in Python on the CPU reference, by the native API and by the face."""

from __future__ import annotations

import functools
import gc
import re
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite import plugins
from rknnlite.api import RKNNLite
from rknnlite.api.custom_op import get_node_attr
from rknnlite.errors import ContextInvalid, ModelUnsupported, ParamInvalid
from rknnlite.spi import CustomOp, CustomOpFailed, OpContext, OpNode, UseBuiltin
from rknnlite.spi.custom_op import as_custom_op
from tests.support.corpus import fixture_file

from .models import DUAL, PROBE, FullDual, PlainDual, Probe, argmax_model, dual_golden, probe_golden

SOCS = ["RK3562", "RK3566_RK3568", "RK3576", "RK3588", "RV1126B"]


def assert_close_to_simulator(outputs: list[np.ndarray], context: Any) -> None:
    for answer, expected, attr in zip(outputs, dual_golden().outputs, context.outputs):
        steps = np.abs(answer - expected) / attr.quant.scale
        assert steps.max() < 1.01
        assert (steps > 0.5).mean() < 0.01


# -- the numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("op", [PlainDual, FullDual])
def test_the_vendors_model_gives_the_vendors_outputs(soc: str, op: Any) -> None:
    """The stored answers are float32; the model's outputs are float16, so ours are those answers rounded."""
    model = fixture_file(f"vendor/dual_residual/{soc}.rknn")
    inputs = [np.load(fixture_file(f"vendor/dual_residual/dual_residual_input_{i}_nhwc.npy")) for i in (0, 1)]
    with rknnlite.open(model, custom_ops=[op()]) as context:
        answers = context.infer(inputs)
    for i, answer in enumerate(answers):
        stored = np.fromfile(fixture_file(f"vendor/dual_residual/dual_residual_output_{i}.bin"), np.float32)
        assert np.array_equal(answer.reshape(-1), stored.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("soc", ["RK3566_RK3568", "RK3588"])
def test_an_argmax_of_ones_own_overrides_the_standard_type(soc: str) -> None:
    cv2 = pytest.importorskip("cv2")
    picture = cv2.imread(str(fixture_file("vendor/human_seg/test_image.jpg")))
    picture = cv2.cvtColor(cv2.resize(picture, (192, 192)), cv2.COLOR_BGR2RGB)
    logits: list[np.ndarray] = []

    class ArgMax(CustomOp):
        op_type = "ArgMax"

        def compute(self, ctx: OpContext, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
            logits.append(inputs[0].copy())
            outputs[0][...] = inputs[0].argmax(ctx.attr("axis"), keepdims=bool(ctx.attr("keepdims", 1)))

    with rknnlite.open(fixture_file(f"vendor/human_seg/{soc}.rknn"), custom_ops=[ArgMax()]) as context:
        (mask,) = context.infer(picture)
    assert np.array_equal(mask, logits[0].argmax(1))
    assert 0.02 < mask.mean() < 0.5


def test_quantised_tensors_are_real_numbers_to_the_operator() -> None:
    with rknnlite.open(DUAL, custom_ops=[PlainDual()]) as context:
        assert_close_to_simulator(context.infer(dual_golden().inputs), context)


def test_attributes_and_integer_tensors_arrive_as_they_are() -> None:
    op = Probe()
    with rknnlite.open(PROBE, custom_ops=[op]) as context:
        answers = context.infer(probe_golden().inputs)
    assert op.seen == {
        "alpha": 0.25, "n": -7, "s": "word", "ints": [1, -2, 3], "floats": [0.5, -1.25], "absent": None,
        "types": ["float32", "int64"],
    }  # fmt: skip
    for answer, expected in zip(answers, probe_golden().outputs):
        assert np.array_equal(answer, expected)


def test_get_node_attr_answers_what_the_toolkits_own_does() -> None:
    """Values by which rknn-toolkit2 2.5.0 answers, for a node of ours and for one of ONNX."""
    helper = pytest.importorskip("onnx.helper")
    given = {"f": 0.5, "i": 3, "s": "t", "floats": [1.0, 2.0], "ints": [1, 2], "strings": ["a", "b"]}
    answered = {**given, "strings": [b"a", b"b"], "absent": None}
    for node in (OpNode("cstX", "node", given), helper.make_node("cstX", ["a"], ["b"], **given)):
        assert {name: get_node_attr(node, name) for name in answered} == answered


def test_get_node_attr_hands_tensors_of_onnx_out() -> None:
    onnx = pytest.importorskip("onnx")
    table = onnx.numpy_helper.from_array(np.arange(3, dtype=np.float32))
    node = onnx.helper.make_node("cstX", ["a"], ["b"], table=table, tables=[table, table])
    assert get_node_attr(node, "table") == table
    assert get_node_attr(node, "tables") == [table, table]


# -- life --------------------------------------------------------------------------------------------------------


def test_init_once_compute_per_run_destroy_at_close() -> None:
    op = FullDual()
    context = rknnlite.open(DUAL, custom_ops=[op])
    assert op.calls == ["init"]
    context.infer(dual_golden().inputs)
    context.infer(dual_golden().inputs)
    context.close()
    context.close()
    assert op.calls == ["init", "compute", "compute", "destroy"]


def test_a_dropped_context_destroys_too() -> None:
    op = FullDual()
    context = rknnlite.open(DUAL, custom_ops=[op])
    del context
    gc.collect()
    assert op.calls == ["init", "destroy"]


def test_an_operator_must_not_use_the_context_that_runs_it() -> None:
    refused: list[str] = []

    class Nosy(FullDual):
        def compute(self, ctx: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
            again = functools.partial(context.infer, dual_golden().inputs)
            for call in (again, context.run, context.get_outputs, context.close):
                with pytest.raises(
                    ContextInvalid, match="an operator that the context itself runs"
                ) as caught:
                    call()
                refused.append(str(caught.value))
            super().compute(ctx, inputs, outputs)

    with rknnlite.open(DUAL) as plain:
        plain.register_ops([FullDual()])
        wanted = plain.infer(dual_golden().inputs)
    context = rknnlite.open(DUAL, custom_ops=[Nosy()])
    for found, right in zip(context.infer(dual_golden().inputs), wanted):
        np.testing.assert_array_equal(found, right)
    assert len(refused) == 4


def test_registering_again_replaces_only_the_same_type() -> None:
    first, second = FullDual(), FullDual()
    with rknnlite.open(DUAL, custom_ops=[first]) as context:
        context.register_ops([Probe()])
        assert first.calls == ["init"]
        context.register_ops([second])
        assert first.calls == ["init", "destroy"]
        assert_close_to_simulator(context.infer(dual_golden().inputs), context)
    assert second.calls == ["init", "compute", "destroy"]


def test_an_operator_that_cannot_take_over_leaves_the_one_before_in_place() -> None:
    before = FullDual()
    with rknnlite.open(DUAL, custom_ops=[before]) as context:
        with pytest.raises(CustomOpFailed, match="not ready"):
            context.register_ops([failing("init", OSError("not ready"))])
        assert "destroy" not in before.calls
        assert_close_to_simulator(context.infer(dual_golden().inputs), context)


def test_one_object_serves_two_contexts() -> None:
    op = FullDual()
    with rknnlite.open(DUAL, custom_ops=[op]) as one, rknnlite.open(DUAL, custom_ops=[op]) as two:
        a, b = one.infer(dual_golden().inputs), two.infer(dual_golden().inputs)
    assert all(np.array_equal(x, y) for x, y in zip(a, b))
    assert op.calls.count("destroy") == 2


def test_outputs_of_an_earlier_run_are_not_overwritten() -> None:
    with rknnlite.open(PROBE, custom_ops=[Probe()]) as context:
        first = context.infer(probe_golden().inputs)
        kept = [array.copy() for array in first]
        context.infer([-array for array in probe_golden().inputs])
    assert all(np.array_equal(a, b) for a, b in zip(first, kept))


# -- the face ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before load", "before init", "after init"])
def test_the_face_registers_at_any_time_and_keeps_it(when: str) -> None:
    rknn = RKNNLite()
    assert when != "before load" or rknn.reg_custom_op(PlainDual()) == 0
    assert rknn.load_rknn(str(DUAL)) == 0
    assert when != "before init" or rknn.reg_custom_op(PlainDual()) == 0
    assert rknn.init_runtime() == 0
    assert when != "after init" or rknn.reg_custom_op(PlainDual()) == 0
    assert rknn.inference(dual_golden().inputs) is not None
    assert rknn.init_runtime() == 0
    assert rknn.inference(dual_golden().inputs) is not None
    rknn.release()


def test_the_face_answers_minus_one_for_what_is_no_operator(capfd: pytest.CaptureFixture[str]) -> None:
    rknn = RKNNLite()
    assert rknn.reg_custom_op(object()) == -1
    assert rknn.reg_custom_op("missing.so") == -1
    assert "op_type" in capfd.readouterr().err


# -- mistakes ----------------------------------------------------------------------------------------------------


def failing(step: str, error: BaseException) -> FullDual:
    def raising(*args: Any) -> None:
        raise error

    op = FullDual()
    setattr(op, step, raising)
    return op


def test_a_model_without_its_operator_opens_and_does_not_run() -> None:
    with rknnlite.open(DUAL) as context:
        with pytest.raises(ModelUnsupported, match=r"cstDualResidual.*custom_ops"):
            context.infer(dual_golden().inputs)
        context.register_ops([PlainDual()])
        assert_close_to_simulator(context.infer(dual_golden().inputs), context)


@pytest.mark.parametrize("step", ["init", "compute"])
def test_an_operator_that_exits_has_failed_and_the_program_goes_on(step: str) -> None:
    with pytest.raises(CustomOpFailed, match=f"failed in {step} at node .*: SystemExit: no licence"):
        rknnlite.open(DUAL, custom_ops=[failing(step, SystemExit("no licence"))]).infer(dual_golden().inputs)
    with rknnlite.open(DUAL, custom_ops=[failing("destroy", SystemExit(1))]) as context:
        context.infer(dual_golden().inputs)


def test_an_exception_names_operator_node_and_line(capfd: pytest.CaptureFixture[str]) -> None:
    op = failing("compute", ZeroDivisionError("by zero"))
    with rknnlite.open(DUAL, custom_ops=[op]) as context:
        with pytest.raises(CustomOpFailed) as caught:
            context.infer(dual_golden().inputs)
        for word in (
            "cstDualResidual",
            "FullDual",
            '"cstDualResidual:dual"',
            "by zero",
            "test_python_ops.py, line",
        ):
            assert word in str(caught.value)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        del op.compute
        context.infer(dual_golden().inputs)
    rknn = RKNNLite()
    rknn.reg_custom_op(failing("compute", ValueError("not today")))
    rknn.load_rknn(str(DUAL))
    rknn.init_runtime()
    assert rknn.inference(dual_golden().inputs) is None
    assert "not today" in capfd.readouterr().err


def test_an_exception_in_init_refuses_the_model() -> None:
    with pytest.raises(CustomOpFailed, match=r"failed in init.*no attribute 'beta'; there are: alpha"):
        rknnlite.open(
            DUAL, custom_ops=[failing("init", ParamInvalid("no attribute 'beta'; there are: alpha"))]
        )


def test_an_exception_in_destroy_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    rknnlite.open(DUAL, custom_ops=[failing("destroy", OSError("gone"))]).close()
    assert "gone" in caplog.text


def test_leaving_a_node_to_the_builtin_needs_a_builtin() -> None:
    with pytest.raises(ModelUnsupported, match="cstDualResidual"):
        rknnlite.open(DUAL, custom_ops=[failing("init", UseBuiltin())])


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ([np.zeros((1, 8, 32, 32))], "list of 2 arrays"),
        (None, "returned NoneType"),
        ([np.zeros((1, 8, 32, 31))] * 2, r"\[1, 8, 32, 31\].*\[1, 8, 32, 32\]"),
        ([np.zeros((1, 32, 32, 8))] * 2, r"\[1, 32, 32, 8\]"),
    ],
)
def test_wrong_answers_of_a_plain_class(results: Any, text: str) -> None:
    class Wrong(PlainDual):
        def compute(self, node: Any, inputs: list[np.ndarray]) -> Any:
            return results

    with rknnlite.open(DUAL, custom_ops=[Wrong()]) as context, pytest.raises(CustomOpFailed, match=text):
        context.infer(dual_golden().inputs)


class Returns(CustomOp):
    """The fuller class with the toolkit's habit: ``answer`` makes what ``compute`` returns."""

    op_type = "cstDualResidual"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def compute(self, ctx: OpContext, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> Any:
        x, y = inputs
        return self.answer(x * 0.5 - y, y * 0.5 - x, outputs)


def swapped(left: np.ndarray, right: np.ndarray, outputs: list[np.ndarray]) -> list[np.ndarray]:
    outputs[1][...], outputs[0][...] = left, right
    return [outputs[1], outputs[0]]


@pytest.mark.parametrize(
    "answer",
    [lambda x, y, _: [x, y], lambda x, y, _: (x.astype(np.float64), y[0]), swapped],
    ids=["list", "other type and shape", "the outputs, swapped"],
)
def test_arrays_that_compute_returns_are_used(answer: Any) -> None:
    for op in (Returns(answer), NotDerived(answer)):
        with rknnlite.open(DUAL, custom_ops=[op]) as context:
            assert_close_to_simulator(context.infer(dual_golden().inputs), context)


class NotDerived:
    """The same without the base class."""

    op_type = "cstDualResidual"

    def __init__(self, answer: Any) -> None:
        self._op = Returns(answer)

    def compute(self, ctx: OpContext, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> Any:
        return self._op.compute(ctx, inputs, outputs)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda x, y, _: [x], "list of 2 arrays, it returned 1 values"),
        (lambda x, y, _: 0, "list of 2 arrays, it returned int"),
        (lambda x, y, _: [x[..., 1:], y], r"output 0 has shape \[1, 8, 32, 31\], the model says"),
        (lambda x, y, _: [x, y * 1j], "output 1 is no array of numbers, it has type complex"),
    ],
)
def test_what_compute_returns_must_fit(answer: Any, text: str) -> None:
    with (
        rknnlite.open(DUAL, custom_ops=[Returns(answer)]) as context,
        pytest.raises(CustomOpFailed, match=text) as caught,
    ):
        context.infer(dual_golden().inputs)
    assert '"cstDualResidual:dual"' in str(caught.value)


# -- numbers that an int8 tensor does not have -------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_no_number_stays_one_value(value: float, caplog: pytest.LogCaptureFixture) -> None:
    """What is stored counts: the float outputs are the stored ones times the scale, of one element only."""

    def spoilt(left: np.ndarray, right: np.ndarray, _: Any) -> list[np.ndarray]:
        left, right = left.copy(), right.copy()
        left[0, 0, 3, 3] = right[0, 0, 3, 3] = value
        return [left, right]

    with rknnlite.open(DUAL, custom_ops=[Returns(spoilt)]) as context:
        for _ in range(2):
            real = context.infer(dual_golden().inputs)
            raw = context.infer(dual_golden().inputs, raw=True)
    for number, (answer, stored) in enumerate(zip(real, raw)):
        assert np.isfinite(answer).all()
        scaled = (stored.data.astype(np.float32) - stored.zero_point) * np.float32(stored.scale)
        assert np.allclose(answer, scaled, rtol=1e-6)
        away = np.abs(answer - dual_golden().outputs[number]) > 1.01 * stored.scale
        assert away.sum() <= (4 * 3 * 3 if number == 0 else 1)  # a convolution of 3 x 3 lies behind the first
    lines = [line for line in caplog.messages if "NaN" in line]
    assert len(lines) == (2 if np.isnan(value) else 0)  # one per output
    assert all('"cstDualResidual:dual"' in line for line in lines)


def test_nan_in_integers_is_told_with_its_node(caplog: pytest.LogCaptureFixture) -> None:
    """``ArgMax`` has an output of int64."""

    class Argmax(CustomOp):
        op_type = "ArgMax"

        def compute(self, ctx: OpContext, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> Any:
            found = inputs[0].argmax(axis=1, keepdims=True).astype(np.float32)
            found[0, 0, 0, 0] = np.nan
            return [found]

    image = np.random.default_rng(0).normal(size=(1, 4, 6, 5)).astype(np.float32)
    with rknnlite.open(argmax_model(), custom_ops=[Argmax()]) as context:
        for _ in range(2):
            assert context.infer([image])[0].ravel()[0] == 0
    (line,) = (line for line in caplog.messages if "NaN" in line)
    assert re.search(r'operator ArgMax .* at node "\S+": NaN in output 0, which is int64: stored as 0', line)


def test_inputs_cannot_be_written() -> None:
    class Writes(FullDual):
        def compute(self, ctx: OpContext, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
            inputs[0][...] = 0

    with (
        rknnlite.open(DUAL, custom_ops=[Writes()]) as context,
        pytest.raises(CustomOpFailed, match="read-only"),
    ):
        context.infer(dual_golden().inputs)


def test_a_plain_class_may_have_arguments_of_its_own() -> None:
    class Own(PlainDual):
        def compute(self, node: Any, inputs: list[np.ndarray], scale: float = 1) -> list[np.ndarray]:
            return super().compute(node, inputs)

    with rknnlite.open(DUAL, custom_ops=[Own()]) as context:
        assert_close_to_simulator(context.infer(dual_golden().inputs), context)


@pytest.mark.parametrize("op", [object(), type("NoCompute", (), {"op_type": "cstX"})(),
                                type("Odd", (), {"op_type": "cstX", "compute": lambda self: None})()])  # fmt: skip
def test_things_that_are_no_operators(op: Any) -> None:
    with pytest.raises(ParamInvalid, match="custom operator"):
        as_custom_op(op)


@pytest.mark.parametrize("ops", [PlainDual(), "librkcst_dual.so", None])
def test_operators_come_in_a_list(ops: Any) -> None:
    with pytest.raises(ParamInvalid, match="custom_ops must be a list of operators, not"):
        rknnlite.open(DUAL, custom_ops=ops)


def test_two_operators_of_one_type_are_refused() -> None:
    with pytest.raises(
        ParamInvalid, match=r"two custom operators of type cstDualResidual.*PlainDual.*FullDual"
    ):
        rknnlite.open(DUAL, custom_ops=[PlainDual(), FullDual()])


# -- discovery ---------------------------------------------------------------------------------------------------


class Offering:
    """A plugin that offers one operator."""

    def __init__(self, op: Any) -> None:
        self.op = op

    @rknnlite.hookimpl
    def rknnlite_register_custom_ops(self, register: Any) -> None:
        if isinstance(self.op, Exception):
            raise self.op
        register(self.op)


@pytest.fixture
def install() -> Any:
    """Install plugins for one test."""
    installed: list[Any] = []

    def add(name: str, op: Any) -> None:
        plugin = Offering(op)
        plugins.manager().register(plugin, name=name)
        installed.append(plugin)

    yield add
    for plugin in installed:
        plugins.manager().unregister(plugin)


def test_operators_of_plugins_are_found(install: Any) -> None:
    install("dual", PlainDual())
    with rknnlite.open(DUAL) as context:
        assert_close_to_simulator(context.infer(dual_golden().inputs), context)


def test_two_plugins_for_one_type_are_named_when_a_model_uses_it(install: Any) -> None:
    install("one", PlainDual())
    install("other", FullDual())
    with pytest.raises(CustomOpFailed, match=r"PlainDual \(plugin one\), .*FullDual \(plugin other\)"):
        rknnlite.open(DUAL)
    rknnlite.open(PROBE).close()
    with rknnlite.open(DUAL, custom_ops=[PlainDual()]) as context:
        context.infer(dual_golden().inputs)


def test_a_plugin_that_fails_is_named_and_skipped(install: Any, caplog: pytest.LogCaptureFixture) -> None:
    install("broken", RuntimeError("half installed"))
    rknnlite.open(DUAL).close()
    assert "broken" in caplog.text
    assert "half installed" in caplog.text
