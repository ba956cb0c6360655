"""The exactness modes: ``simulator`` follows the integers as the vendor's does, ``float`` the network that they stand for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rknnlite_graph.float_graph import float_graph
from rknnlite_graph.read import read_graph

import rknnlite
from rknnlite.errors import ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi import Context
from tests.support.corpus import DATA, EXAMPLES, answers_of, genuine, golden_of, goldens, open_cpu
from tests.support.onnx_twin import write_twin

QUANTISED = sorted(path.stem for path in DATA.glob("*.rk3588.i8.npz") if "dynamic" not in path.stem)
STEPPED = ("yuv", "ranking", "rounding")
"""Networks that round, compare or sort inside: a small change of a value may change the result wholly."""


def in_float(name: str) -> Context:
    return open_cpu(genuine(name), extra={"fidelity": "float"})


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    size = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / size) if size else float(np.array_equal(a, b))


def test_an_unknown_mode_is_an_error() -> None:
    for name in ("exact", "NPU", 7, []):
        with pytest.raises(
            ParamInvalid, match=r"'simulator'.*'npu', its former name.*'table', 'silicon' or 'float', not"
        ):
            open_cpu(genuine("mean_std.rk3588.i8"), extra={"fidelity": name})


def test_the_simulator_is_the_default() -> None:
    name = "mean_std.rk3588.i8"
    inputs = golden_of(name).inputs
    found = [
        open_cpu(genuine(name), extra=extra) for extra in ({}, {"fidelity": "npu"}, {"fidelity": "simulator"})
    ]
    first, *others = (context.infer(inputs)[0] for context in found)
    assert all(np.array_equal(first, other) for other in others)


@pytest.mark.parametrize("name", [name for name in QUANTISED if not name.startswith(STEPPED)])
def test_both_modes_are_the_same_network(name: str) -> None:
    """What is left between them is the quantisation of activations: cosines above 0.99."""
    golden = golden_of(name)
    for got, expected in zip(in_float(name).infer(golden.inputs), golden.outputs):
        assert got.shape == expected.shape and got.dtype == np.float32
        assert cosine(got, expected) > 0.99


@pytest.mark.parametrize("name", ["two_images.rk3588.i8", "two_images.rv1126b.i8"])
def test_float_is_the_onnx_network(name: str, tmp_path: Path) -> None:
    twin = write_twin(genuine(name), tmp_path / "twin.onnx")
    found = rknnlite.compare(genuine(name), twin, golden_of(name).inputs, backend="cpu", fidelity="float")
    assert len(found.tensors) == 7 and not found.unmatched
    for tensor in found.tensors:
        assert tensor.entire.cosine > 1 - 1e-6, tensor.label


def test_values_between_the_steps(tmp_path: Path) -> None:
    """In float the outputs are no multiples of the step, and inside nothing is quantised."""
    name = "mean_std.rk3588.i8"
    context = in_float(name)
    (output,) = context.infer(golden_of(name).inputs)
    scale = context.outputs[0].quant
    assert scale is not None
    steps = output / scale.scale
    assert np.abs(steps - np.rint(steps)).max() > 0.1
    dump = context.dump(tmp_path)
    assert dump.info["fidelity"] == "float"
    assert all(tensor.dtype == "FP32" and tensor.raw_file is None for tensor in dump.tensors)


def test_stored_outputs_are_quantised_at_the_end() -> None:
    name = "mean_std.rk3588.i8"
    context = in_float(name)
    inputs = golden_of(name).inputs
    (real,) = context.infer(inputs)
    ((data, scale, zero_point),) = context.infer(inputs, raw=True)
    assert data.dtype == np.int8
    restored = (data.astype(np.float32) - zero_point) * scale
    inside = (data > -128) & (data < 127)
    assert np.abs(restored - real)[inside].max() <= 0.5001 * scale


def test_stored_inputs_may_pass_through() -> None:
    name = "mean_std.rk3588.i8"
    context = in_float(name)
    quant = context.inputs[0].quant
    assert quant is not None
    scale, zero = np.float32(quant.scale), np.float32(quant.zero_point)
    stored = np.random.default_rng(0).integers(-128, 128, context.inputs[0].dims).astype(np.int8)
    (passed,) = context.infer(stored, pass_through=True)
    mean = np.array([10.0, 128.0, 60.5], np.float32)  # of this file
    std = np.array([40.0, 64.0, 91.25], np.float32)
    (expected,) = context.infer((stored.astype(np.float32) - zero) * scale * std + mean)
    assert np.allclose(passed, expected, atol=1e-3)


@pytest.mark.parametrize("name", ["batch_three.rk3588.fp16", "batch_four.rk3588.i8", "vit_like.rk3588.fp16"])
def test_other_models_run_in_float_too(name: str) -> None:
    golden = golden_of(name)
    for got, expected in zip(in_float(name).infer(golden.inputs), golden.outputs):
        assert cosine(got, expected) > 0.999


def test_attention_in_float_stores_nothing_in_between() -> None:
    """int8 attention stores scores and softmax in 8 bits; in float a small change of an input is a small change of the result."""
    from rknnlite_graph.float_graph import float_graph

    from rknnlite.formats import ModelFile

    graph = read_graph(ModelFile(genuine("attention.rk3588.i8")).model)
    (stored,), (real,) = (
        [node.attrs for node in each.nodes if node.op == "exSDPAttention"]
        for each in (graph, float_graph(graph))
    )
    assert {"score_step", "score_zero_point", "weight_step"} == set(stored) - set(real)
    assert stored["scale"] == real["scale"]


def test_figures_say_that_it_was_float() -> None:
    name = "mean_std.rk3588.i8"
    context = in_float(name)
    context.infer(golden_of(name).inputs)
    assert "in float" in context.perf_table().note


def test_a_trained_network_loses_little_by_quantisation() -> None:
    path = EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn"
    (golden,) = goldens(answers_of(path))
    with rknnlite.open(path, backend="cpu", fidelity="float") as context:
        (real,) = context.infer(golden.inputs)
    assert cosine(real, golden.outputs[0]) > 0.999
    assert real.argmax() == golden.outputs[0].argmax()


# -- activations by table ------------------------------------------------------------------------------------

OTHER_TABLES = ("hidden_high.rk3562.i8", "hidden_low.rk3588.i8")
"""Their fused Elu has an alpha other than 1, and the converter's table is wrong for it."""


def in_tables(name: str) -> Context:
    return open_cpu(genuine(name), extra={"fidelity": "table"})


@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("act*.i8.npz")))
def test_tables_stay_within_one_step_of_the_functions(name: str) -> None:
    golden, by_table = golden_of(name), in_tables(name)
    functions, tables = open_cpu(genuine(name)).infer(golden.inputs), by_table.infer(golden.inputs)
    for function, table, attr in zip(functions, tables, by_table.outputs):
        assert attr.quant is not None
        assert np.abs(table - function).max() <= 1.01 * attr.quant.scale


def test_tables_do_differ() -> None:
    """GELU: 98 % of the bytes of the simulator, where the function gives 99.9 %."""
    golden = golden_of("act_gelu.rk3588.i8")
    shares = []
    for context in (open_cpu(genuine("act_gelu.rk3588.i8")), in_tables("act_gelu.rk3588.i8")):
        (found,) = context.infer(golden.inputs)
        shares.append(np.isclose(found, golden.outputs[0]).mean())
    assert shares[0] > 0.998 > shares[1] > 0.97


@pytest.mark.parametrize("name", OTHER_TABLES)
def test_tables_show_what_the_converter_did_to_elu(name: str) -> None:
    golden = golden_of(name)
    found = in_tables(name).infer(golden.inputs)
    assert any(cosine(a, b) < 0.95 for a, b in zip(found, golden.outputs))


def test_stored_elements_are_the_same_with_tables() -> None:
    golden, context = golden_of("act_silu.rk3588.i8"), in_tables("act_silu.rk3588.i8")
    (real,) = context.infer(golden.inputs)
    ((stored, scale, zero),) = context.infer(golden.inputs, raw=True)
    assert np.allclose((stored.astype(np.float32) - zero) * scale, real)


def test_attention_in_float_rounds_nothing_in_between() -> None:
    """int8 stores the scores and their softmax as int8; the registers tell the steps."""
    graph = read_graph(ModelFile(genuine("attention.rk3588.i8")).model)
    (node,) = (node for node in graph.nodes if node.op == "exSDPAttention")
    (real,) = (node for node in float_graph(graph).nodes if node.op == "exSDPAttention")
    assert "score_step" in node.attrs and not {
        name for name in real.attrs if name.endswith(("_step", "_point"))
    }
    assert real.attrs["scale"] == node.attrs["scale"]
