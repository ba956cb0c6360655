"""Which engine computes, what it may compute, and everything beside the plain run."""

from __future__ import annotations

import logging
import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from rknnlite_cpu.engines import accelerator, choice, prover
from rknnlite_cpu.engines.with_onnxruntime import OnnxRuntime
from rknnlite_graph.lowering import Form
from rknnlite_insight.dumps import Dump
from rknnlite_onnx import ops, registry

import rknnlite
from rknnlite.errors import BackendUnavailable, ModelInvalid, ParamInvalid
from rknnlite.spi import Context
from rknnlite.spi.custom_op import as_custom_op
from tests.custom_ops.models import DUAL, PlainDual, dual_golden
from tests.support.corpus import genuine, golden_of, goldens, open_cpu
from tests.support.needs import needs

DENSE = "dense.rk3588.i8"
RESIDUAL = "resnet_like.rk3588.i8"


def fast(name: str, **options: Any) -> Context:
    extra = {"engine": "onnxruntime", **options.pop("extra", {})}
    return open_cpu(genuine(name), extra=extra, **options)


def raw(context: Context, name: str) -> list[np.ndarray]:
    return [answer.data for answer in context.infer(golden_of(name).inputs, raw=True)]


def expected(name: str) -> list[np.ndarray]:
    with open_cpu(genuine(name), extra={"engine": "numpy"}) as context:
        return raw(context, name)


def islands(context: Any) -> list[accelerator.Island]:
    found: list[accelerator.Island] = context._shapes.current.plan._accelerator._islands
    return found


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b))


# -- which engine ----------------------------------------------------------------------------------------------


def test_an_unknown_engine_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        ParamInvalid, match="engine 'fastest' is unknown; there are numpy, native, onnxruntime, openvino"
    ):
        fast(DENSE, extra={"engine": "fastest"})


def test_an_engine_that_was_asked_for_and_is_missing_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_lacking", lambda name: "openvino")
    with pytest.raises(
        BackendUnavailable, match=r"openvino, which is not installed; pip install onnx openvino"
    ):
        fast(DENSE, extra={"engine": "openvino"})


def test_without_being_asked_for_a_missing_engine_is_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RKNNLITE_ENGINE")
    monkeypatch.setattr(choice, "_where_possible", lambda name: None)
    with open_cpu(genuine(DENSE)) as context:
        assert same(raw(context, DENSE), expected(DENSE))
        assert context._shapes.current.plan._accelerator is None  # type: ignore[attr-defined]


def test_an_onnxruntime_that_does_not_round_to_float16_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    needs("onnxruntime")
    import onnxruntime

    choice._engine.cache_clear()
    monkeypatch.setattr(onnxruntime, "__version__", "1.16.3")
    with fast(DENSE, extra={"engine": "onnxruntime"}) as context:
        assert same(raw(context, DENSE), expected(DENSE))
        assert context._shapes.current.plan._accelerator is None
    assert "onnxruntime 1.16.3 does not round to float16; 1.17 or newer does" in caplog.text
    choice._engine.cache_clear()


def test_the_installed_engine_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RKNNLITE_ENGINE")
    with open_cpu(genuine(DENSE)) as context:
        assert "onnxruntime" in context._shapes.current.plan._tiers._names[0]  # type: ignore[attr-defined]


def test_the_native_engine_goes_first_and_the_installed_one_has_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs("gcc")
    monkeypatch.delenv("RKNNLITE_ENGINE")
    assert choice.engines("native"), "no context waits for the compiler, see test_prebuilt.py"
    assert [engine.name for engine in choice.chosen(None)] == ["native", "onnxruntime"]
    for name in ("native", "onnxruntime"):
        monkeypatch.setenv("RKNNLITE_ENGINE", name)
        assert [engine.name for engine in choice.chosen(None)] == [name]


def test_importing_and_opening_loads_no_engine() -> None:
    import subprocess
    import sys

    script = "import rknnlite, sys; assert not {'onnx', 'onnxruntime', 'openvino'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


# -- proof -----------------------------------------------------------------------------------------------------


def spoil(monkeypatch: pytest.MonkeyPatch, kind: str, node_name: str = "") -> None:
    """Make one type of node come out one step too high."""
    true = ops.writer_for(kind)
    assert true is not None

    def wrong(node: registry.LoweredNode) -> None:
        true(node)
        values, index = node.values, node.outputs[0].index
        real = values.scaled(index, 1.0)
        values._names = {key: name for key, name in values._names.items() if key[0] != index}
        values.store_centred(index, node.emit("Sub", real, node.const(1.0)))

    monkeypatch.setitem(registry._WRITERS, kind, wrong)


def test_a_node_that_comes_out_wrong_is_left_to_numpy(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    right = expected(RESIDUAL)
    spoil(monkeypatch, "ConvAddRelu")
    with caplog.at_level(logging.INFO, "rknnlite"), fast(RESIDUAL) as context:
        assert same(raw(context, RESIDUAL), right)
        inside = {node.op for island in islands(context) for node in island.segment.nodes}
    assert inside and "ConvAddRelu" not in inside
    assert "is not for the engine onnxruntime: other bytes than those of the numpy kernel" in caplog.text


def test_an_engine_that_fails_leaves_all_to_numpy(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    right = expected(DENSE)

    def broken(*args: Any) -> Any:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(OnnxRuntime, "compile", broken)
    with caplog.at_level(logging.INFO, "rknnlite"), fast(DENSE) as context:
        assert same(raw(context, DENSE), right) and islands(context) == []
    assert "no such kernel" in caplog.text


class _Saturating:
    """An engine whose sums of 8 bits are cut off at 16 bits."""

    def __init__(self) -> None:
        self.true = OnnxRuntime()

    def compile(self, model: bytes, outputs: list[str], threads: int) -> Any:
        program = self.true.compile(model, outputs, threads)

        class Cut:
            def run(self, values: list[np.ndarray]) -> list[np.ndarray]:
                return [np.clip(result, -(1 << 15), (1 << 15) - 1) for result in program.run(values)]

        return Cut()


def test_inexact_sums_of_bytes_are_noticed() -> None:
    from rknnlite_cpu.engines.int8_exactness import exact_in_bytes

    assert not exact_in_bytes(_Saturating())  # type: ignore[arg-type]
    assert OnnxRuntime().form in (Form.EXACT, Form.EXACT_INT8, Form.EXACT_OWN)


# -- what is kept ----------------------------------------------------------------------------------------------


def test_the_log_says_which_engine_has_how_many_nodes(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "rknnlite"), fast(DENSE) as context:
        raw(context, DENSE)
        nodes = len(context._shapes.current.plan.graph.nodes)  # type: ignore[attr-defined]
        count = sum(len(island.segment.nodes) for island in islands(context))
    assert f"of {nodes} nodes {count} on onnxruntime" in caplog.text


def test_what_was_proven_is_not_proven_again(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    with fast(DENSE) as context:
        first = raw(context, DENSE)
    monkeypatch.setattr(prover, "Prover", None)
    with fast(DENSE) as context:
        kernels = [type(step.kernel).__name__ for step in context._shapes.current.plan.steps]  # type: ignore[attr-defined]
        assert set(kernels) == {"LateKernel"}, "numpy kernels of proven nodes are not prepared"
        assert same(raw(context, DENSE), first)
    assert any(own_cache.rglob("verdict")) and any(own_cache.rglob("island0"))


def test_weights_that_are_read_late_are_those_of_the_file(tmp_path: Path) -> None:
    copy = tmp_path / "model.rknn"
    copy.write_bytes(genuine(DENSE).read_bytes())
    with open_cpu(copy, extra={"engine": "onnxruntime"}) as context:
        first = raw(context, DENSE)
        os.utime(copy, ns=(1, 1))
        with copy.open("r+b") as file:
            file.truncate(copy.stat().st_size // 2)
        assert same(raw(context, DENSE), first), "what is compiled needs the file no more"
        with pytest.raises(ModelInvalid, match="changed"):
            context.dump(tmp_path / "dump")


@pytest.mark.parametrize("file", ["verdict", "island0"])
def test_a_damaged_cache_is_no_matter(own_cache: Path, file: str) -> None:
    with fast(DENSE) as context:
        first = raw(context, DENSE)
    for path in own_cache.rglob(file):
        path.write_bytes(path.read_bytes()[:-40] + b"x" * 40)
    with fast(DENSE) as context:
        assert same(raw(context, DENSE), first) and islands(context)


def test_a_cache_that_cannot_be_written_is_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_CACHE", "/proc/none")
    with fast(DENSE) as context:
        assert same(raw(context, DENSE), expected(DENSE)) and islands(context)


# -- beside the plain run --------------------------------------------------------------------------------------


def test_dumps_and_tables_are_those_of_the_numpy_kernels(tmp_path: Path) -> None:
    with (
        fast(DENSE, extra={"collect_perf": True}) as context,
        open_cpu(genuine(DENSE), extra={"engine": "numpy"}) as slow,
    ):
        assert same(raw(context, DENSE), raw(slow, DENSE))
        assert len(context.perf_table()) == len(slow.perf_table())
        for each, folder in ((context, "fast"), (slow, "slow")):
            each.dump(tmp_path / folder)
    ours, theirs = (Dump.read(tmp_path / folder) for folder in ("fast", "slow"))
    assert ours.names == theirs.names
    assert all(np.array_equal(ours.value(name), theirs.value(name)) for name in ours.names)


def test_a_custom_operator_that_comes_later_gets_its_nodes() -> None:
    name = RESIDUAL
    with fast(name) as context:
        before = raw(context, name)
        context.register_ops([_Halves()])
        assert not same(raw(context, name), before)
        assert all(node.op != "ConvAddRelu" for island in islands(context) for node in island.segment.nodes)


class _Halves:
    op_type = "ConvAddRelu"

    def shape_infer(
        self, node: Any, in_shapes: list[Any], in_dtypes: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        return in_shapes[:1], in_dtypes[:1]

    def compute(self, node: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
        return [inputs[1] / 2]


def test_custom_operators_between_islands() -> None:
    answers = []
    for engine in ("numpy", "onnxruntime"):
        with open_cpu(DUAL, custom_ops=[as_custom_op(PlainDual())], extra={"engine": engine}) as context:
            answers.append(context.infer(dual_golden().inputs, raw=True))
            types = (
                {node.op for each in islands(context) for node in each.segment.nodes}
                if engine != "numpy"
                else set()
            )
    assert types and "cstDualResidual" not in types
    assert all(np.array_equal(a.data, b.data) for a, b in zip(*answers))


def test_every_shape_of_a_dynamic_model() -> None:
    name = "dynamic_three.rk3588.i8"
    if not genuine(name).exists():
        pytest.skip("no such file")
    with fast(name) as context, open_cpu(genuine(name), extra={"engine": "numpy"}) as slow:
        for golden in goldens(genuine(name).with_suffix(".npz")):
            for each in (context, slow):
                each.set_shapes([array.shape for array in golden.inputs])
            ours, theirs = (each.infer(golden.inputs, raw=True) for each in (context, slow))
            assert all(np.array_equal(a.data, b.data) for a, b in zip(ours, theirs))


def test_duplicates_and_numbers_of_threads_share_what_was_compiled() -> None:
    with fast(DENSE) as context, context.dup() as twin:
        first = raw(context, DENSE)
        twin.limit_threads(1)
        assert same(raw(twin, DENSE), first) and islands(twin)[0] is islands(context)[0]
        assert len(islands(context)[0]._programs) <= 2


def test_a_forked_child_computes_anew() -> None:
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork here")
    with fast(DENSE, threads=2) as context:
        first = raw(context, DENSE)
        child = os.fork()
        if child == 0:
            os._exit(0 if same(raw(context, DENSE), first) else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_float_fidelity_on_the_engine() -> None:
    with (
        fast(DENSE, extra={"fidelity": "float"}) as context,
        open_cpu(genuine(DENSE), extra={"engine": "numpy", "fidelity": "float"}) as slow,
    ):
        for a, b in zip(*(each.infer(golden_of(DENSE).inputs) for each in (context, slow))):
            np.testing.assert_allclose(a, b, atol=1e-4 * np.abs(b).max())
        assert islands(context)


def test_a_pool_computes_on_the_engine() -> None:
    with rknnlite.Pool(genuine(DENSE), 2, backend="cpu", engine="onnxruntime") as pool:
        answers = [pool.submit(*golden_of(DENSE).inputs) for _ in range(6)]
        right = answers[0].result()
        assert all(same(answer.result(), right) for answer in answers)
