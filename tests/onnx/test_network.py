"""Whole networks as ONNX: every form is a network that onnx proves, with the numbers that it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from rknnlite_graph.graph import TensorRole
from rknnlite_graph.lowering import NETWORK_FORMS, Form
from rknnlite_graph.read import read_graph

import rknnlite
from rknnlite.errors import ParamInvalid
from rknnlite.formats import ModelFile
from tests.support.corpus import DATA, EXAMPLES, genuine, golden_of, open_cpu

from .support import NAMES, checked, dims, feeds, metadata, onnx, run

FORMS = [form.value for form in NETWORK_FORMS]
SAMPLE = (
    "act_prelu.rk3588.i8", "arithmetic.rk3588.i8", "attention.rk3562.fp16", "bfloat_chain.rk3588.bf16",
    "deconv_k3_s2.rk3588.i8", "image_and_vector.rk3588.i8", "int16_chain.rk3588.i16", "hybrid_float.rk3588.i8",
    "residual_silu_add.rk3588.i8", "three_outputs.rk3588.i8", "two_images.rv1126b.i8", "vit_like.rk3588.fp16",
)  # fmt: skip
"""Networks of every kind of tensor; all of the corpus is slow."""


def sampled(names: Any) -> list[Any]:
    return [name if name in SAMPLE else pytest.param(name, marks=pytest.mark.slow) for name in names]


GOLDEN = [n for n in NAMES if (DATA / f"{n}.npz").exists() and "dynamic" not in n]


def written(name: str, form: str, **options: Any) -> Any:
    """The network, or a skip where nodes of it have no form in ONNX."""
    network = checked(rknnlite.to_onnx(genuine(name), form, normalise=True, **options))
    if "not_written" in metadata(network):
        pytest.skip(f"{name}: {metadata(network)['not_written'].splitlines()[0]}")
    return network


def furthest(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest distance, as a share of the largest value."""
    return float(np.abs(got.astype(np.float64) - expected).max() / (np.abs(expected).max() or 1))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", sampled(NAMES))
def test_every_form_is_proven_by_onnx(name: str, form: str) -> None:
    network = checked(rknnlite.to_onnx(genuine(name), form))
    model = ModelFile(genuine(name)).model
    assert [each.name for each in network.graph.input] == [io.name for io in model.inputs]
    assert [each.name for each in network.graph.output] == [io.name for io in model.outputs]
    if not model.dynamic:
        wanted = [[io.shape[0] * model.batch, *io.shape[1:]] for io in (*model.inputs, *model.outputs)]
        assert [dims(each) for each in (*network.graph.input, *network.graph.output)] == wanted


@pytest.mark.parametrize("name", sampled(GOLDEN))
def test_float_is_the_reference_in_float(name: str) -> None:
    network, golden = written(name, "float"), golden_of(name)
    expected = open_cpu(genuine(name), extra={"fidelity": "float"}).infer(golden.inputs)
    for got, want in zip(run(network, feeds(name, network, golden.inputs)), expected):
        assert got.shape == want.shape
        assert furthest(got, want) < 2e-5


@pytest.mark.parametrize("name", sampled(GOLDEN))
def test_exact_is_the_reference(name: str) -> None:
    """int8 bytes are the same; sums of floating networks are added in another order."""
    network, golden = written(name, "exact"), golden_of(name)
    context = open_cpu(genuine(name))
    for got, want, attr in zip(
        run(network, feeds(name, network, golden.inputs)), context.infer(golden.inputs), context.outputs
    ):
        if name.endswith(".i8") and attr.quant is not None:
            assert np.array_equal(got, want)
        else:
            assert furthest(got, want) < 2e-3


@pytest.mark.parametrize("name", sampled(n for n in GOLDEN if n.endswith(".i8")))
def test_qdq_is_a_step_from_the_reference(name: str) -> None:
    network, golden = written(name, "qdq"), golden_of(name)
    context = open_cpu(genuine(name))
    for got, want, attr in zip(
        run(network, feeds(name, network, golden.inputs)), context.infer(golden.inputs), context.outputs
    ):
        step = 1.0 if attr.quant is None else attr.quant.scale
        assert np.abs(got - want).max() < 1.001 * step


@pytest.mark.parametrize(
    "name",
    [
        "attention.rk3588.i8",
        "hybrid_float.rk3588.i8",
        "mobilenetv3_like.rk3588.i8",
        "product_tails.rk3588.i8",
    ],
)
def test_layers_of_qdq_are_those_of_the_reference(name: str, tmp_path: Path) -> None:
    """Each one, given the reference's values before it: what a network makes of single steps is its own affair.

    Squared attention, second operands of products, and gates (0.5 lies between two steps) have roundings of their own.
    """
    network, golden = written(name, "qdq"), golden_of(name)
    with open_cpu(genuine(name)) as context:
        context.infer(golden.inputs)
        dump = context.dump(tmp_path)
    given = feeds(name, network, golden.inputs)
    outputs = [each.name for each in network.graph.output]
    layers = _fed_from(network, {each: dump.value(each) for each in dump.names}, given)
    answers = dict(zip([each.name for each in network.graph.output], run(network, given)))
    assert layers and set(outputs) <= set(answers)
    for output, value, step in layers:
        away = np.abs(answers[output].ravel() - value.ravel()) / step
        assert away.max() < 1.001 and (away > 0.5).mean() < 0.012, output


def _fed_from(network: Any, values: dict[str, Any], given: dict[str, Any]) -> list[tuple[str, Any, float]]:
    """Let readers of stored tensors have ``values``, which ``given`` gets, and make all of them outputs: name, value, step."""
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in network.graph.initializer}
    outputs = {each.name for each in network.graph.output}
    layers, instead = [], {}
    for node in network.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] not in stored:
            output = node.output[0]
            name = output.replace("_DequantizeLinear_Output", "")
            if name in values:
                layers.append((output, values[name], float(stored[node.input[1]])))
                instead[output] = f"{name}/given"
                given[f"{name}/given"] = np.asarray(values[name], np.float32)
    for node in network.graph.node:
        node.input[:] = [instead.get(each, each) for each in node.input]
    read = {each for node in network.graph.node for each in node.input}
    for output, value, _ in layers:
        if instead[output] in read:
            info = onnx.helper.make_tensor_value_info(instead[output], onnx.TensorProto.FLOAT, value.shape)
            network.graph.input.append(info)
        else:
            del given[instead[output]]
        if output not in outputs:
            network.graph.output.append(onnx.ValueInfoProto(name=output))
    return layers


@pytest.mark.parametrize("name", sampled(n for n in GOLDEN if n.endswith((".i8", ".fp16"))))
def test_fp16_is_near_the_float_network(name: str) -> None:
    network, golden = written(name, "fp16"), golden_of(name)
    fidelity = "npu" if name.endswith("fp16") else "float"
    expected = open_cpu(genuine(name), extra={"fidelity": fidelity}).infer(golden.inputs)
    results = run(network, feeds(name, network, golden.inputs))
    assert any(node.op_type == "Cast" for node in network.graph.node), (
        "values are rounded where they are stored"
    )
    for got, want in zip(results, expected):
        assert furthest(got, want) < 3e-3


# -- names and where it came from --------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_names_survive(form: str) -> None:
    name = "residual_silu_add.rk3588.i8"
    network, model = written(name, form), ModelFile(genuine(name)).model
    graph = read_graph(model)
    values = {output for node in network.graph.node for output in node.output}
    stored = {graph.tensors[i].name for node in graph.nodes for i in node.outputs} - {"", *(
        io.name for io in model.inputs)}  # fmt: skip
    assert stored <= values
    known = {each.name for each in (*network.graph.value_info, *network.graph.output)}
    assert stored <= known
    titles = {node.name for node in network.graph.node}
    assert {node.name for node in graph.nodes if node.op not in ("InputOperator", "OutputOperator")} <= titles
    assert len(titles) == len(network.graph.node)


def test_a_value_is_the_tensor_of_its_name(tmp_path: Path) -> None:
    """Not only the outputs: every tensor of a dump is the value of that name."""
    name = "arithmetic.rk3588.i8"
    network, golden = written(name, "float"), golden_of(name)
    context = open_cpu(genuine(name), extra={"fidelity": "float"})
    context.infer(golden.inputs)
    dump = {tensor.name: tensor for tensor in context.dump(tmp_path).tensors if tensor.role == "activation"}
    assert len(dump) > 3
    known = {each.name: each for each in network.graph.value_info}
    outputs = len(network.graph.output)
    network.graph.output.extend(known[each] for each in dump)
    for tensor, got in zip(dump.values(), run(network, feeds(name, network, golden.inputs))[outputs:]):
        assert furthest(got, np.load(tmp_path / tensor.file)) < 2e-5


def test_it_says_where_it_came_from() -> None:
    network = rknnlite.to_onnx(genuine("mean_std.rk3588.i8"), "qdq")
    told = metadata(network)
    assert told == {
        "form": "qdq", "producer": f"rknnlite {rknnlite.__version__}", "soc": "rk3588",
        "source": "mean_std.rk3588.i8.rknn", "toolkit": ModelFile(genuine("mean_std.rk3588.i8")).model.toolkit_version,
    }  # fmt: skip
    assert network.producer_name == "rknnlite" and network.producer_version == rknnlite.__version__


def test_means_and_deviations_may_be_in_the_graph() -> None:
    name = "mean_std.rk3588.i8"
    (io,), golden = ModelFile(genuine(name)).model.inputs, golden_of(name)
    inside, outside = (checked(rknnlite.to_onnx(genuine(name), "float", normalise=n)) for n in (True, False))
    given = feeds(name, inside, golden.inputs)
    mean, std = (np.array(each, np.float32).reshape(1, -1, 1, 1) for each in (io.mean, io.std))
    by_hand = {key: (value - mean) / std for key, value in given.items()}
    assert np.array_equal(run(inside, given)[0], run(outside, by_hand)[0])
    assert not np.allclose(run(outside, given)[0], run(inside, given)[0])


# -- the qdq form ---------------------------------------------------------------------------------------------------


def test_qdq_has_the_steps_and_weights_of_the_file() -> None:
    name = "conv_3x3_wide.rk3588.i8"
    network, graph = written(name, "qdq"), read_graph(ModelFile(genuine(name)).model)
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in network.graph.initializer}
    steps = [
        (float(stored[node.input[1]]), int(stored[node.input[2]]))
        for node in network.graph.node
        if node.op_type == "QuantizeLinear"
    ]
    live = [*graph.inputs, *(i for node in graph.nodes for i in node.outputs if i not in graph.inputs)]
    quants = [graph.tensors[i].quant for i in live if graph.tensors[i].role is not TensorRole.CONST]
    wanted = [(float(np.float32(q.scale)), q.zero_point) for q in quants if q is not None]
    assert sorted(set(steps)) == sorted(set(wanted))
    bytes_of = [stored[node.input[0]] for node in network.graph.node
                if node.op_type == "DequantizeLinear" and node.input[0] in stored]  # fmt: skip
    convs = [node.conv for node in graph.nodes if node.conv is not None]
    assert len(bytes_of) == len(convs)
    for got, conv in zip(bytes_of, convs):
        assert got.dtype == np.int8 and np.array_equal(got, conv.weight())


# -- nodes without words ------------------------------------------------------------------------------------------------


def test_a_node_without_words_stands_in_our_domain(caplog: pytest.LogCaptureFixture) -> None:
    model = EXAMPLES / "custom_op" / "dual_for_RK3588.rknn"
    network = checked(rknnlite.to_onnx(model))
    (kind,) = {node.op for node in read_graph(ModelFile(model).model).nodes if node.op.startswith("cst")}
    strange = [node for node in network.graph.node if node.domain == "rknnlite"]
    assert {node.op_type for node in strange} == {kind}
    assert kind in metadata(network)["not_written"] and kind in caplog.text
    assert {each.domain for each in network.opset_import} == {"", "rknnlite"}


# -- shapes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["float", "exact", "qdq"])
def test_a_dynamic_model_has_symbols(form: str) -> None:
    name = "dynamic_three.rk3588.i8"
    network = written(name, form)
    assert dims(network.graph.input[0]) == [1, 3, "height", "width"]
    context = open_cpu(genuine(name), extra={"fidelity": "float" if form == "float" else "npu"})
    for shape in ModelFile(genuine(name)).model.shapes:
        n, c, h, w = shape[0]
        pixels = np.random.default_rng(1).integers(0, 256, (n, h, w, c)).astype(np.uint8)
        context.set_shapes([pixels.shape])
        (want,) = context.infer([pixels])
        (got,) = run(network, feeds(name, network, [pixels]))
        step = context.outputs[0].quant.scale
        assert got.shape == want.shape
        assert np.abs(got - want).max() <= {"float": 1e-4, "exact": 0, "qdq": 1.001 * step}[form]


def test_a_batch() -> None:
    name = "batch_four.rk3588.i8"
    network, golden = written(name, "exact"), golden_of(name)
    assert dims(network.graph.input[0])[0] == 4
    (want,) = open_cpu(genuine(name)).infer(golden.inputs)
    assert np.array_equal(run(network, feeds(name, network, golden.inputs))[0], want)
    one, many = written(name, "exact", batch=1), written(name, "exact", batch=0)
    assert [dims(each.graph.input[0])[0] for each in (one, many)] == [1, "batch"]
    first = [golden.inputs[0][:1]]
    assert np.array_equal(run(one, feeds(name, one, first))[0], want[:1])
    assert np.array_equal(run(many, feeds(name, many, golden.inputs))[0], want)
    assert np.array_equal(run(many, feeds(name, many, first))[0], want[:1])


def test_no_batch_of_what_works_along_the_first_axis() -> None:
    with pytest.raises(ParamInvalid, match="pass batch=1"):
        rknnlite.to_onnx(genuine("attention.rk3588.i8"), batch=2)


# -- asking wrongly ----------------------------------------------------------------------------------------------------------


def test_wrong_forms_and_options() -> None:
    model = genuine("mean_std.rk3588.i8")
    with pytest.raises(ParamInvalid, match="'float', 'qdq', 'exact', 'exact-int8', 'fp16', not 'int4'"):
        rknnlite.to_onnx(model, "int4")
    with pytest.raises(ParamInvalid, match="batch must be a whole number, 0 for any, not -1"):
        rknnlite.to_onnx(model, batch=-1)
    from rknnlite import plugins

    with pytest.raises(ParamInvalid, match="no option colour; there are normalise, batch"):
        plugins.lowering("onnx").network(read_graph(ModelFile(model).model), [], [], Form.FLOAT, colour=1)


def test_without_onnx_the_extra_is_named() -> None:
    script = (
        "import sys; sys.modules.update(onnx=None, onnxruntime=None); import rknnlite\n"
        f"try: rknnlite.to_onnx({str(genuine('mean_std.rk3588.i8'))!r})\n"
        "except rknnlite.RknnError as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "BackendUnavailable" in done.stdout and "pip install onnx onnxruntime (extra fast" in done.stdout


def test_a_plugin_that_is_switched_off_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        f"import rknnlite\ntry: rknnlite.to_onnx({str(genuine('mean_std.rk3588.i8'))!r})\n"
        "except rknnlite.RknnError as error: print(error)"
    )
    monkeypatch.setenv("RKNNLITE_DISABLE", "onnx")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "no plugin writes onnx files; plugin onnx: switched off by RKNNLITE_DISABLE" in done.stdout


def test_importing_loads_no_onnx() -> None:
    script = (
        "import sys, rknnlite; print([m for m in ('onnx', 'onnxruntime', 'openvino') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_hands_a_floating_input_on_does_not_round_it() -> None:
    """As the reference, and the vendor's simulator."""
    name = "nibbles.rk3576.w4a16"
    network, golden = written(name, "exact"), golden_of(name)
    network.graph.output.extend(each for each in network.graph.value_info if each.name == "New_input_in0")
    (io,) = ModelFile(genuine(name)).model.inputs
    mean, std = (np.array(each, np.float32).reshape(1, -1, 1, 1) for each in (io.mean, io.std))
    (pixels,) = feeds(name, network, golden.inputs).values()
    assert np.array_equal(run(network, {io.name: pixels})[-1], (pixels - mean) / std)
