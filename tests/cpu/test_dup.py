"""A duplicate is made of parts: shared, twins, copies, or fresh. A field that belongs to none of them fails here."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from rknnlite_cpu.context import CpuContext
from rknnlite_cpu.running_context import RecentRuns
from rknnlite_insight.dumps import Dump

from rknnlite import errors
from rknnlite.spi import Context, PostProcess
from rknnlite.tensor import DType, TensorAttr
from tests.custom_ops.models import PlainDual
from tests.support.corpus import EXAMPLES, genuine, golden_of, open_cpu

BATCH = "batch_four.rk3588.i8"
SHARED = {"_opened"}
TWINS = {"_shapes"}
COPIES = {"_settings"}
FRESH = {"_bindings", "_common", "_post", "_runs"}
FOLLOW = {"_attrs", "_shape_chosen"}  # from the parts above


class Bare(CpuContext):
    """Has the fields of every context, and no part."""

    def __init__(self) -> None:
        Context.__init__(self)


def parts(context: Context) -> dict[str, Any]:
    own = vars(context).keys() - vars(Bare()).keys()
    return {name: getattr(context, name) for name in own}


@pytest.fixture
def used() -> Any:
    """A context that differs from a new one in all that a caller can change on the common path."""
    with open_cpu(genuine(BATCH), core_mask=1) as context:
        context.infer(*golden_of(BATCH).inputs)
        context.perf_table()
        for number, setting in enumerate(fields(context._settings)):
            setattr(context._settings, setting.name, 100 + number)
        yield context


def test_every_field_is_shared_or_twin_or_copied_or_fresh(used: Any) -> None:
    with used.dup() as twin:
        ours, theirs = parts(used), parts(twin)
        assert ours.keys() == theirs.keys() == SHARED | TWINS | COPIES | FRESH | FOLLOW, (
            "a new field of the context: say here what a duplicate has of it"
        )
        for name in SHARED:
            assert theirs[name] is ours[name]
        for name in COPIES:
            assert theirs[name] == ours[name] and theirs[name] is not ours[name]
        for name in FOLLOW:
            assert theirs[name] == ours[name]
    with open_cpu(genuine(BATCH), core_mask=1) as new:
        assert {name: theirs[name] for name in ("_common", "_post")} == {
            name: parts(new)[name] for name in ("_common", "_post")
        }


def test_runs_begin_anew(used: Any) -> None:
    assert all(
        getattr(used._runs, name) for name in ("inputs", "last", "count", "last_us", "seconds", "table")
    )
    with used.dup() as twin:
        assert twin._runs == RecentRuns()
        assert twin.last_run_us == 0
        with pytest.raises(errors.ContextInvalid, match="run the model before"):
            twin.get_outputs()
        with pytest.raises(errors.ContextInvalid, match="set inputs before"):
            twin.run()


def test_settings_are_not_shared(used: Any) -> None:
    with used.dup() as twin:
        for setting in fields(twin._settings):
            setattr(twin._settings, setting.name, 1)
        assert 1 not in vars(used._settings).values()


def test_a_thread_limit_and_cores_go_over() -> None:
    with open_cpu(genuine(BATCH)) as context:
        context.set_core_mask(4)
        context.set_batch_core_num(2)
        context.limit_threads(1)
        with context.dup() as twin, twin.dup() as again:
            settings = again._settings  # type: ignore[attr-defined]
            assert (settings.core_mask, settings.lanes, settings.threads) == (4, 2, 1)


def test_memory_stays_with_its_context() -> None:
    with open_cpu(genuine("mean_std.rk3588.i8")) as context:
        (attr,) = context.native_inputs
        context.bind(attr, context.create_mem(attr.size_with_stride))
        with context.dup() as twin:
            image = golden_of("mean_std.rk3588.i8").inputs[0]
            assert twin.infer(image), "nothing is bound there: the common path is open"
        with pytest.raises(errors.ContextInvalid, match="must not be mixed"):
            context.get_outputs()


def test_options_go_over(tmp_path: Any) -> None:
    """Fidelity, async mode and timing, seen from outside."""
    name = "mean_std.rk3588.i8"
    first, second = np.zeros((2, *golden_of(name).inputs[0].shape), np.uint8)
    second[:] = 200
    options = {"fidelity": "float", "collect_perf": True}
    with open_cpu(genuine(name), async_mode=True, extra=options) as context, context.dup() as twin:
        expected = context.infer(first)
        assert all(np.array_equal(a, b) for a, b in zip(twin.infer(first), expected))
        assert all(np.array_equal(a, b) for a, b in zip(twin.infer(second), expected)), "one frame late"
        assert twin.frame_id == 0
        assert "computed in float" in twin.perf_table().note
        twin.dump(tmp_path)
        assert Dump.read(tmp_path).info["fidelity"] == "float"


class First(PostProcess):
    """Keeps the first output, as int32."""

    def open(self, inputs: Any, outputs: Any) -> list[TensorAttr]:
        return [replace(outputs[0], name="first", dtype=DType.INT32, quant=None)]

    def compute(self, arrays: Any) -> list[Any]:
        return [arrays[0].astype(np.int32)]

    def close(self) -> None:
        """It holds nothing."""


def test_a_plugin_of_the_options_goes_over_and_a_later_one_does_not() -> None:
    name = "mean_std.rk3588.i8"
    image = golden_of(name).inputs[0]
    with open_cpu(genuine(name), extra={"postprocess": First()}) as context, context.dup() as twin:
        assert (
            [attr.name for attr in twin.outputs] == [attr.name for attr in twin.native_outputs] == ["first"]
        )
        assert np.array_equal(twin.infer(image)[0], context.infer(image)[0])
    with open_cpu(genuine(name)) as context:
        plain = context.outputs
        context.register_postprocess(First())
        with context.dup() as twin:
            assert twin.outputs == plain != context.outputs


def test_operators_that_were_registered_go_over_but_not_back() -> None:
    with open_cpu(EXAMPLES / "custom_op" / "dual_for_RK3588.rknn") as context:
        zeros = [np.zeros(attr.dims, np.uint8) for attr in context.inputs]
        with context.dup() as twin:
            twin.register_ops([PlainDual()])  # type: ignore[list-item]
            twin.infer(*zeros)
            with pytest.raises(errors.ModelUnsupported, match="nobody registered"):
                context.infer(*zeros)
            with twin.dup() as again:
                assert all(np.array_equal(a, b) for a, b in zip(again.infer(*zeros), twin.infer(*zeros)))
