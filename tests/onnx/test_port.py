"""A model for another SoC: what the vendor's toolkit is given, and, where one is named, what it makes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from rknnlite_onnx.calibration import unstepped, with_steps
from rknnlite_onnx.port import port
from rknnlite_onnx.port_report import report_on
from rknnlite_onnx.toolkit_network import for_the_toolkit, keeping_steps, told_as_steps
from rknnlite_programs.toolkit_process import Toolkit

import rknnlite
from rknnlite.errors import ModelInvalid, ModelUnsupported, RknnError
from rknnlite.files.input_arrays import made_up
from rknnlite.formats import ModelFile
from tests.cli.conftest import DIGIT, RESNET, Call, call
from tests.support.corpus import EXAMPLES, genuine, golden_of

from .support import checked, feeds, onnx, run

__all__ = ["call"]  # the fixture

TOOLKIT = os.environ.get("RKNNLITE_TOOLKIT_PYTHON", "")
RESIDUAL = "residual_add_relu.rk3588.i8"


@pytest.fixture
def toolkit_python() -> Path:
    if not TOOLKIT:
        pytest.skip("RKNNLITE_TOOLKIT_PYTHON names no Python that has the vendor's toolkit")
    return Path(TOOLKIT)


@pytest.fixture
def fake_python(tmp_path: Path) -> Any:
    """An interpreter whose toolkit is a module of ours: it keeps what it was given and answers with a file."""

    def make(answer: Path | None, says: str = "", build: str = "pass") -> Path:
        room = tmp_path / "toolkit" / "rknn"
        room.mkdir(parents=True)
        (room / "__init__.py").touch()
        (room / "api.py").write_text(
            "import json, shutil\n"
            "class RKNN:\n"
            "    def __init__(self, verbose=False): self.told = {}\n"
            "    def config(self, **given): self.told.update(given); return 0\n"
            f"    def load_onnx(self, model): shutil.copy(model, {str(tmp_path / 'given.onnx')!r}); return 0\n"
            "    def build(self, **given):\n"
            f"        {build}\n"
            "        self.told.update(given); return 0\n"
            "    def export_rknn(self, out):\n"
            f"        json.dump(self.told, open({str(tmp_path / 'told.json')!r}, 'w'))\n"
            f"        print({says!r})\n"
            f"        answer = {str(answer) if answer else ''!r}\n"
            "        return shutil.copy(answer, out) and 0 if answer else -1\n"
        )
        python = tmp_path / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH={room.parent} exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        return python

    return make


def samples(path: Path, count: int = 2) -> list[list[np.ndarray]]:
    with rknnlite.open(path, backend="cpu") as context:
        return [[made_up(attr, number) for attr in context.inputs] for number in range(count)]


# -- what the toolkit is given -------------------------------------------------------------------------------------


def test_sums_inside_of_nodes_get_steps() -> None:
    network = rknnlite.to_onnx(RESNET, "qdq")
    assert len(unstepped(network)) == 8, "a value before each residual sum"
    pixels = np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)
    stepped, names = with_steps(network, [{"input": pixels}])
    assert len(names) == 8 and not unstepped(checked(stepped))
    maker = {output: node for node in stepped.graph.node for output in node.output}
    for node in stepped.graph.node:
        if node.op_type == "Add":
            assert {maker[each].op_type for each in node.input} == {"DequantizeLinear"}
    got, want = (run(each, {"input": pixels})[0] for each in (stepped, network))
    step = ModelFile(RESNET).model.outputs[0].quant.scale
    assert np.abs(got - want).max() < 3 * step


def test_steps_follow_the_range_of_the_samples() -> None:
    """0 has a step, the largest value on the samples is not cut off."""
    network = rknnlite.to_onnx(RESNET, "qdq")
    given = [{"input": np.full((1, 3, 224, 224), value, np.float32)} for value in (-1.0, 0.5)]
    stepped, (name, *_) = with_steps(network, given)
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in stepped.graph.initializer}
    scale, zero = stored[f"{name}/scale"], int(stored[f"{name}/zero"])
    network.graph.output.extend([onnx.ValueInfoProto(name=name)])
    values = [run(network, each)[-1] for each in given]
    low, high = min(v.min() for v in values), max(v.max() for v in values)
    assert (-128 - zero) * scale <= min(low, 0) + scale and (127 - zero) * scale >= max(high, 0) - scale


def test_steps_around_zero_are_told_smaller() -> None:
    network = rknnlite.to_onnx(genuine("mean_std.rk3588.i8"), "qdq")
    told = checked(keeping_steps(network))
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in told.graph.initializer}
    old = {each.name: onnx.numpy_helper.to_array(each) for each in network.graph.initializer}
    for before, after in zip(network.graph.node, told.graph.node):
        if before.op_type == "QuantizeLinear":
            share = 127 / 128 if old[before.input[2]] == 0 else 1
            assert stored[after.input[1]] == pytest.approx(old[before.input[1]] * share, rel=1e-6)
        elif before.op_type == "DequantizeLinear" and before.input[0] in old:
            assert list(before.input) == list(after.input), "weights stay as they are"


def test_tokens_get_no_steps() -> None:
    """The converter's own reader refuses QuantizeLinear of integers."""
    name = "embedding.rk3588.i8"
    network = rknnlite.to_onnx(genuine(name), "qdq")
    assert not unstepped(network) and "Cast" not in {node.op_type for node in network.graph.node}
    _, names = with_steps(network, [feeds(name, network, golden_of(name).inputs)])
    assert not names
    info = onnx.helper.make_tensor_value_info
    cast = onnx.helper.make_node("Cast", ["ids"], ["wide"], to=onnx.TensorProto.INT64)
    gather = onnx.helper.make_node("Gather", ["table", "wide"], ["rows"])
    table = onnx.numpy_helper.from_array(np.ones((4, 2), np.float32), "table")
    ends = [info("ids", onnx.TensorProto.INT32, [3])], [info("rows", onnx.TensorProto.FLOAT, [3, 2])]
    assert not unstepped(onnx.helper.make_model(onnx.helper.make_graph([cast, gather], "g", *ends, [table])))


def _stored_weights(model: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    nodes = [n for n in model.graph.node if n.op_type == "DequantizeLinear" and n.input[0] in stored]
    return [(stored[n.input[0]].astype(int), stored[n.input[2]].astype(int)) for n in nodes]


def test_weights_of_zero_point_0_are_moved() -> None:
    """The converter would quantise them anew; the real values stay, but for the ends where all 8 bits are taken."""
    network = rknnlite.to_onnx(genuine("per_tensor.rk3588.i8"), "qdq")
    told = checked(keeping_steps(network))
    changed = []
    for (before, none), (after, zero) in zip(_stored_weights(network), _stored_weights(told)):
        assert not none.any() and np.count_nonzero(zero) == 1 and abs(after).max() <= 128
        away = (after - zero.reshape(-1, 1, 1, 1)) - before
        changed.append(np.count_nonzero(away))
        assert np.abs(away).max() <= 1
    assert changed == [0, 0, 1], "one channel has both ends, and keeps one of them"


@pytest.mark.parametrize("name, inside", [("product_tails.rk3588.i8", 3), ("attention.rk3588.i8", 2)])
def test_roundings_inside_of_nodes_are_told_as_steps(name: str, inside: int) -> None:
    """Second operands of products; scores and weights of attention."""
    network = rknnlite.to_onnx(genuine(name), "qdq")
    told = checked(told_as_steps(network))
    kinds, before = ([node.op_type for node in each.graph.node] for each in (told, network))
    assert before.count("Round") == inside and not {"Round", "Clip", "Div"} & set(kinds)
    for kind in ("QuantizeLinear", "DequantizeLinear"):
        assert kinds.count(kind) == before.count(kind) + inside
    inputs = feeds(name, network, golden_of(name).inputs)
    for got, want, output in zip(
        run(told, inputs), run(network, inputs), ModelFile(genuine(name)).model.outputs
    ):
        assert np.abs(got - want).max() < 3.001 * output.quant.scale, "onnxruntime makes one of two pairs"


def test_other_roundings_stay() -> None:
    network = rknnlite.to_onnx(genuine("hybrid_int16.rk3562.i8"), "qdq")
    assert [n.op_type for n in told_as_steps(network).graph.node] == [n.op_type for n in network.graph.node]


def test_outputs_that_nodes_read_are_parted() -> None:
    """Else the converter loses track of them (YOLOv8n, whose class scores are an output and summed up, too)."""
    name = "three_outputs.rk3588.i8"
    network = rknnlite.to_onnx(genuine(name), "qdq", normalise=True)
    outputs = {each.name for each in network.graph.output}
    assert outputs & {each for node in network.graph.node for each in node.input} == {"out0", "out1"}
    told = checked(keeping_steps(network))
    assert not outputs & {each for node in told.graph.node for each in node.input}
    pixels = feeds(name, network, golden_of(name).inputs)
    for got, want in zip(run(told, pixels), run(network, pixels)):
        assert np.array_equal(got, want)


def test_the_toolkit_is_told_soc_means_and_no_quantisation(fake_python: Any, tmp_path: Path) -> None:
    import json

    source, out = genuine("mean_std.rk3588.i8"), tmp_path / "out.rknn"
    port(source, "rk3576", out, Toolkit(fake_python(source)), samples(source))
    told = json.loads((tmp_path / "told.json").read_text())
    (io,) = ModelFile(source).model.inputs
    assert told == {
        "target_platform": "rk3576", "mean_values": [list(io.mean)], "std_values": [list(io.std)],
        "do_quantization": False,
    }  # fmt: skip
    given = checked(onnx.load(tmp_path / "given.onnx"))
    assert given.graph.node[0].op_type == "QuantizeLinear", "steps on the input"
    assert {n.op_type for n in given.graph.node} >= {"QuantizeLinear", "DequantizeLinear"}
    assert out.read_bytes() == source.read_bytes()


def test_fp16_is_the_float_network(fake_python: Any, tmp_path: Path) -> None:
    source = genuine("mean_std.rk3588.i8")
    port(source, "rv1126b", tmp_path / "out.rknn", Toolkit(fake_python(source)), samples(source), "fp16")
    kinds = {node.op_type for node in onnx.load(tmp_path / "given.onnx").graph.node}
    assert not kinds & {"QuantizeLinear", "DequantizeLinear"}


def test_a_port_is_compared_with_its_original(call: Call, fake_python: Any, tmp_path: Path) -> None:
    good, out = genuine("mean_std.rk3588.i8"), tmp_path / "out.rknn"
    same = call("port", good, "--to", "rk3576", "--toolkit-python", fake_python(good), "-o", out)
    assert same.code == 0
    assert "100.0 % of" in same.out and "at most 0 steps apart" in same.out and "identical" in same.out
    found = report_on(good, good, "rk3588", samples(good))
    assert found.weights == found.same_weights and found.samples == 2
    assert found.bytes == (good.stat().st_size, good.stat().st_size)


def test_the_comparison_tells_what_it_does() -> None:
    good, told = genuine("mean_std.rk3588.i8"), []
    report_on(good, good, "rk3588", samples(good), tell=lambda *step: told.append(step))
    assert [(done, total) for done, total, _ in told] == [(done, 7) for done in range(1, 7)]
    assert told[-1][2] == "runs of the original in float"


def test_a_bad_port_is_told() -> None:
    """A file for another SoC, from the source network, stands for one: the report says how far it is."""
    good, bad = (
        EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn",
        EXAMPLES / "resnet18" / "resnet18_for_RK3562.rknn",
    )
    found = report_on(good, bad, "rk3562", samples(good, 1))
    (output,) = found.outputs
    assert output.elements == 10 and 0 <= output.identical <= 1 and output.most_steps is not None
    with rknnlite.open(good) as one, rknnlite.open(bad) as other:
        given = samples(good, 1)[0]
        away = np.abs(one.infer(given)[0] - other.infer(given)[0])
        assert output.most_steps == round(float(away.max()) / one.outputs[0].quant.scale)


def test_weights_that_a_port_lacks_are_named() -> None:
    one, other = (genuine(f"{name}.rk3588.i8") for name in ("residual_add", "residual_add_relu"))
    found = report_on(one, other, "rk3588", samples(one, 1))
    assert found.same_weights == 0 and len(found.lost_weights) == found.weights
    assert "weights not kept: Conv" in str(found) and "elements differ, by at most" in str(found)
    assert not report_on(one, one, "rk3588", samples(one, 1)).lost_weights


def test_a_network_that_is_damaged_is_refused(tmp_path: Path) -> None:
    """Also one whose arrays are elsewhere: who asks for them would read any file, to its end."""
    name = "per_tensor.rk3588.i8"
    good = rknnlite.to_onnx(genuine(name), "qdq")
    sample = feeds(name, good, golden_of(name).inputs)
    told, _ = for_the_toolkit(good, [sample])
    assert checked(told).graph.node

    def refused(change: Any) -> str:
        network = onnx.ModelProto.FromString(good.SerializeToString())
        change(network.graph)
        with pytest.raises(
            ModelInvalid, match=r"the network is damaged.*export-onnx --form qdq, or port with --dtype fp16"
        ) as caught:
            for_the_toolkit(network, [sample])
        return str(caught.value)

    def elsewhere(graph: Any) -> None:
        graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
        entry = graph.initializer[0].external_data.add()
        entry.key, entry.value = "location", "/dev/zero"

    def missing(graph: Any) -> None:
        del next(node for node in graph.node if node.op_type == "DequantizeLinear").input[1:]

    assert "is in another file" in refused(elsewhere)
    assert "DequantizeLinear" in refused(missing)
    assert "Graph must be" in refused(lambda graph: graph.node.append(graph.node[0]))
    assert "nowhere" in refused(lambda graph: graph.node[-1].input.__setitem__(0, "nowhere"))
    with pytest.raises(RknnError, match=r"could not run the network to calibrate it: .*--dtype fp16"):
        with_steps(rknnlite.to_onnx(RESNET, "qdq"), [{"input": np.zeros((1, 2), np.float32)}])


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_without_a_toolkit(call: Call, tmp_path: Path) -> None:
    words = (
        "port",
        genuine("mean_std.rk3588.i8"),
        "--to",
        "rk3576",
        "-o",
        tmp_path / "x.rknn",
        "--toolkit-python",
    )
    absent = call(*words, tmp_path / "none")
    assert absent.code == 4 and "cannot be run" in absent.err
    empty = call(*words, sys.executable)
    assert empty.code == 4 and "has no vendor toolkit" in empty.err
    assert not list(tmp_path.iterdir())


def test_a_toolkit_that_refuses(fake_python: Any, tmp_path: Path) -> None:
    source = genuine("mean_std.rk3588.i8")
    toolkit = Toolkit(fake_python(None, says="E build: Not supported"))
    with pytest.raises(ModelUnsupported, match=r"refuses the network for rk3576: .*E build: Not supported"):
        port(source, "rk3576", tmp_path / "out.rknn", toolkit, samples(source))
    assert not (tmp_path / "out.rknn").exists()


def test_a_toolkit_that_is_named_from_the_working_folder(
    call: Call, fake_python: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = genuine("mean_std.rk3588.i8")
    python = fake_python(source)
    monkeypatch.chdir(tmp_path)
    words = ("port", source, "--to", "rk3576", "-o", tmp_path / "out.rknn", "--toolkit-python")
    assert call(*words, python.name).code == 0
    assert call(*words, Path("toolkit") / ".." / python.name).code == 0
    monkeypatch.chdir("/")
    assert call(*words, python.name).code == 4
    python.rename(tmp_path / "python-of-the-toolkit")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert call(*words, "python-of-the-toolkit").code == 0


CRASHES = {
    "import os; os.kill(os.getpid(), 11)": r"crashed in build for rk3576 with signal 11 \(SIGSEGV\), a fault of the toolkit's own",
    "import os; os.kill(os.getpid(), 9)": r"crashed in build .* signal 9 \(SIGKILL, as a system that is out of memory does\)",
    "[][0]": r"failed in build .* exception of its own \(exit status 1\): IndexError: list index out of range",
    "return -1": r"refuses the network for rk3576: build failed \(exit status 1 in build\)",
    "import os; os._exit(7)": r"refuses the network for rk3576: begun \(exit status 7 in build\)",
}


@pytest.mark.parametrize("build", sorted(CRASHES))
def test_a_toolkit_that_fails_is_told_as_such(build: str, fake_python: Any, tmp_path: Path) -> None:
    source = genuine("mean_std.rk3588.i8")
    python = fake_python(source, build=f"print('begun', flush=True); {build}")
    with pytest.raises(ModelUnsupported, match=CRASHES[build]) as caught:
        port(source, "rk3576", tmp_path / "out.rknn", Toolkit(python), samples(source))
    fault = "toolkit's own" in CRASHES[build] or "of its own" in CRASHES[build] or "SIGKILL" in CRASHES[build]
    assert ("try another release of the toolkit or --dtype fp16" in str(caught.value)) == fault
    assert not (tmp_path / "out.rknn").exists()


def test_what_is_not_ported(call: Call, fake_python: Any, tmp_path: Path) -> None:
    python = fake_python(RESNET)
    words = ("--to", "rk3576", "--toolkit-python", python, "-o", tmp_path / "x.rknn")
    assert "dynamic model" in call("port", genuine("dynamic_two.rk3568.i8"), *words).err
    custom = call("port", EXAMPLES / "custom_op" / "dual_for_RK3588.rknn", *words)
    assert custom.code == 3 and "cstDualResidual" in custom.err
    assert call("port", RESNET, "--to", "rk9999", "--toolkit-python", python).code == 2
    (tmp_path / "pictures").mkdir()
    nothing = call("port", RESNET, *words, "--pictures", tmp_path / "pictures")
    assert nothing.code == 5 and "has no files" in nothing.err


def test_the_script_imports_nothing_of_ours() -> None:
    from rknnlite_programs import toolkit_script

    script = f"import runpy, sys; runpy.run_path({toolkit_script.__file__!r}); print([m for m in sys.modules if 'rknn' in m])"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


# -- with the toolkit ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_real_port_has_the_weights_and_bytes(call: Call, toolkit_python: Path, tmp_path: Path) -> None:
    pictures, out = tmp_path / "pictures", tmp_path / "resnet.rknn"
    pictures.mkdir()
    (pictures / DIGIT.name).write_bytes(DIGIT.read_bytes())
    words = ("port", RESNET, "--to", "rk3576", "--toolkit-python", toolkit_python, "-o", out, "--json")
    data = call(*words, "--pictures", pictures).data
    assert ModelFile(out).model.platform == "rk3576"
    assert data["weights"] == data["same_weights"] == 22
    (output,) = data["outputs"]
    assert output["identical"] >= 0.8 and output["most_steps"] <= 1
    assert output["port_to_float"] > output["original_to_float"] - 1e-4
    assert data["bytes"][1] < 1.03 * data["bytes"][0]


@pytest.mark.slow
@pytest.mark.parametrize("name, kept", [("embedding.rk3588.i8", 1), ("per_tensor.rk3588.i8", 2)])
def test_a_real_port_of(name: str, kept: int, call: Call, toolkit_python: Path, tmp_path: Path) -> None:
    """Tokens in int64; weights that are quantised as a whole."""
    words = ("port", genuine(name), "--to", "rk3576", "--toolkit-python", toolkit_python)
    data = call(*words, "-o", tmp_path / "out.rknn", "--json").data
    assert data["same_weights"] == kept and len(data["lost_weights"]) == data["weights"] - kept
    assert all(output["most_steps"] is None or output["most_steps"] <= 1 for output in data["outputs"])


@pytest.mark.slow
def test_a_real_port_to_fp16(call: Call, toolkit_python: Path, tmp_path: Path) -> None:
    out = tmp_path / "resnet.rknn"
    done = call(
        "port",
        RESNET,
        "--to",
        "rk3576",
        "--toolkit-python",
        toolkit_python,
        "-o",
        out,
        "--dtype",
        "fp16",
        "--json",
    )
    (output,) = done.data["outputs"]
    assert done.data["same_weights"] is None and output["port_to_float"] > 0.9999


def test_means_of_pictures_beside_other_inputs() -> None:
    """The converter wants a list for each input, as long as its second axis; none where there is nothing to tell."""
    from rknnlite_onnx.port import means_and_deviations

    model = ModelFile(genuine("image_and_vector.rk3588.i8")).model
    assert means_and_deviations(model.inputs) == {}
    picture, vector = model.inputs
    tinted = [picture._replace(mean=(1.0, 2.0, 3.0), std=(4.0,)), vector]
    assert means_and_deviations(tinted) == {
        "mean_values": [[1.0, 2.0, 3.0], [0.0] * 9],
        "std_values": [[4.0] * 3, [1.0] * 9],
    }
