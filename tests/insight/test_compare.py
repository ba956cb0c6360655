"""Accuracy analysis: distances, the table, what the sides of a comparison may be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_insight.comparison import Comparison, Distance, TensorError, distance
from rknnlite_insight.dumps import Dump, DumpWriter

import rknnlite
from rknnlite.errors import BackendUnavailable, InputInvalid, ModelInvalid, ParamInvalid, RknnError
from tests.support.corpus import genuine, golden_of, open_cpu
from tests.support.onnx_twin import write_twin

TWO = "two_images.rk3588.i8"
MODEL = genuine(TWO)
INPUTS = golden_of(TWO).inputs


@pytest.fixture
def twin(tmp_path: Path) -> Path:
    return write_twin(MODEL, tmp_path / "twin.onnx")


# -- distances ------------------------------------------------------------------------------------------------


def test_distances() -> None:
    a = np.array([3.0, 4.0], np.float32)
    assert distance(a, a) == Distance(1.0, 0.0)
    assert distance(a, 2 * a) == Distance(1.0, 5.0)
    assert distance(a, -a) == Distance(-1.0, 10.0)
    assert distance(a, np.array([-4.0, 3.0])).cosine == 0.0
    assert distance(np.zeros(2), np.zeros(2)) == Distance(1.0, 0.0)
    assert distance(a, np.zeros(2)) == Distance(0.0, 5.0)
    assert distance(np.array([True, False]), np.array([True, True])).euclidean == 1.0


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=50), st.integers(1, 7))
def test_distances_do_not_depend_on_blocks(values: list[float], block: int) -> None:
    from rknnlite_insight import comparison

    a = np.array(values, np.float32)
    b = a[::-1].copy()
    whole = distance(a, b)
    before, comparison._BLOCK = comparison._BLOCK, block
    try:
        parts = distance(a, b)
    finally:
        comparison._BLOCK = before
    assert parts.cosine == pytest.approx(whole.cosine, abs=1e-9)
    assert parts.euclidean == pytest.approx(whole.euclidean, rel=1e-9)


# -- sides ----------------------------------------------------------------------------------------------------


def test_a_model_against_itself() -> None:
    found = rknnlite.compare(MODEL, str(MODEL), INPUTS, backend="cpu")
    assert len(found.tensors) == 7 and not found.unmatched and not found.missing
    assert all(tensor.entire == Distance(pytest.approx(1.0), 0.0) for tensor in found.tensors)
    assert [tensor.name for tensor in found.outputs] == ["out1", "out0"]


def test_a_model_against_its_onnx_network(twin: Path) -> None:
    found = rknnlite.compare(MODEL, twin, INPUTS, backend="cpu")
    assert {tensor.name for tensor in found.outputs} == {"out0", "out1"}
    assert all(0.999 < tensor.entire.cosine <= 1 and tensor.entire.euclidean > 0 for tensor in found.tensors)
    assert found["out0"].op == "Conv" and found["out0"].time_us is not None
    assert set(found.missing) == {"/left/left.2/Relu_output_0_before", "/right/right.2/Relu_output_0_before"}
    with pytest.raises(KeyError, match="'nobody' is not compared; there are in0"):
        found["nobody"]


def test_an_open_context_a_dump_and_a_folder(tmp_path: Path) -> None:
    with open_cpu(MODEL, extra={"fidelity": "float"}) as context:
        context.infer(INPUTS)
        dump = context.dump(tmp_path / "float")
        by_context = rknnlite.compare(MODEL, context, INPUTS, backend="cpu")
    by_dump = rknnlite.compare(MODEL, dump, INPUTS, backend="cpu")
    by_folder = rknnlite.compare(MODEL, tmp_path / "float", INPUTS, backend="cpu")
    both_dumps = rknnlite.compare(Dump.read(tmp_path / "float"), tmp_path / "float")
    assert [t.entire for t in by_context.tensors] == [t.entire for t in by_dump.tensors]
    assert [t.entire for t in by_dump.tensors] == [t.entire for t in by_folder.tensors]
    assert by_folder["out0"].entire.euclidean > 0
    assert both_dumps["out0"].entire.euclidean == 0


def test_an_onnx_network_is_fed_with_what_a_context_was_fed(twin: Path) -> None:
    """A context does not say mean and deviation: the network gets the quantised input tensors."""
    with open_cpu(MODEL) as context:
        found = rknnlite.compare(context, twin, INPUTS)
    assert found["in0"].entire.euclidean == 0 < found["out0"].entire.euclidean


def test_inputs_of_the_reference_may_be_given(twin: Path) -> None:
    zeros = {"in0": np.zeros((1, 3, 12, 16), np.float32), "in1": np.zeros((1, 4, 12, 16), np.float32)}
    found = rknnlite.compare(MODEL, twin, INPUTS, reference_inputs=zeros, backend="cpu")
    assert found["in0"].entire.cosine == 0
    both = rknnlite.compare(twin, twin, reference_inputs=zeros)
    assert both["out0"].entire.euclidean == 0


def test_a_backend_without_dumps_shows_its_outputs() -> None:
    context = open_cpu(MODEL)
    outputs_only = type("OutputsOnly", (type(context),), {"dump": rknnlite.Context.dump})
    context.__class__ = outputs_only
    found = rknnlite.compare(context, MODEL, INPUTS, backend="cpu")
    assert {tensor.name for tensor in found.tensors} == {"out0", "out1"}
    assert all(tensor.entire.euclidean == 0 for tensor in found.tensors)
    with pytest.raises(ParamInvalid, match="each layer"):
        rknnlite.compare(context, MODEL, INPUTS, "single", backend="cpu")


# -- single ---------------------------------------------------------------------------------------------------


def test_single_judges_each_layer_alone(twin: Path) -> None:
    found = rknnlite.compare(MODEL, twin, INPUTS, "single", backend="cpu")
    last = found["out0"]
    assert last.single is not None and last.single.cosine > last.entire.cosine - 1e-6
    first = found["/left/left.2/Relu_output_0"]
    assert first.single == first.entire, "nothing is before it"
    assert found.worst is not None and found.worst.single is not None


def test_single_finds_the_layer_that_is_wrong(twin: Path) -> None:
    """A custom operator that spoils one node in the middle: only that node errs alone, all after it err entirely."""

    class Spoiled(rknnlite.CustomOp):
        op_type = "Concat"

        def compute(self, ctx, inputs, outputs):  # type: ignore[no-untyped-def]
            outputs[0][...] = -np.concatenate(inputs, axis=1)

    found = rknnlite.compare(MODEL, twin, INPUTS, "single", backend="cpu", custom_ops=[Spoiled()])
    assert found.worst is not None and found.worst.name == "/Concat_output_0"
    output = found["out0"]
    assert output.single is not None and output.entire.cosine < 0.9 < 0.999 < output.single.cosine


# -- the table ------------------------------------------------------------------------------------------------


def made(mode: str = "single", count: int = 2) -> Comparison:
    tensors = [TensorError("in0", "InputOperator", (1, 3), "input", Distance(1.0, 0.0), Distance(1.0, 0.0))]
    tensors += [
        TensorError(
            f"t{i}", "Conv", (1, 8), "output", Distance(0.998765432, 12.3456), Distance(0.5, 1e-9), 10.0
        )
        for i in range(1, count)
    ]
    return Comparison("a.rknn", "a.onnx", mode, tensors, ("only_here",), tuple(f"fused{i}" for i in range(9)))


def test_the_table() -> None:
    lines = str(made()).splitlines()
    assert lines[:2] == ["model: a.rknn", "reference: a.onnx"]
    assert lines[2].split() == ["layer_name", "entire", "single"]
    assert lines[3].split() == ["cos", "|", "euc", "cos", "|", "euc"]
    assert lines[5].split() == ["[Input]", "in0", "1.00000", "|", "0", "1.00000", "|", "0"]
    assert lines[6].split() == ["[Conv]", "t1", "0.99877", "|", "12.35", "0.50000", "|", "1e-09"]
    assert lines[3].index("cos", 20) == lines[6].index("0.50000") == lines[2].index("single")
    assert lines[-3:] == [
        "2 tensors compared", "1 only in the model: only_here",
        "9 only in the reference: fused0, fused1, fused2, fused3, fused4, fused5 and 3 more",
    ]  # fmt: skip


def test_without_single_there_is_one_column() -> None:
    text = str(made("entire"))
    assert "single" not in text and "0.50000" not in text
    assert str(made(count=1)).count("[Conv]") == 0
    assert Comparison("a", "b", "entire", []).worst is None


@pytest.mark.slow
def test_the_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = made().plot(tmp_path / "layers.png")
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert rknnlite.compare(MODEL, MODEL, INPUTS, backend="cpu", plot=tmp_path / "b.png").tensors
    assert (tmp_path / "b.png").stat().st_size > 1000


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in ("matplotlib", "matplotlib.figure", "onnxruntime"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BackendUnavailable, match=r"\(extra plot;"):
        made().plot(tmp_path / "layers.png")
    with pytest.raises(BackendUnavailable, match=r"\(extra fast;"):
        rknnlite.compare(MODEL, tmp_path / "net.onnx", INPUTS, backend="cpu")


def test_importing_rknnlite_imports_none_of_them() -> None:
    program = "import sys, rknnlite; print({'onnx', 'onnxruntime', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# -- mistakes -------------------------------------------------------------------------------------------------


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ParamInvalid, match="'entire' or 'single', not 'both'"):
        rknnlite.compare(MODEL, MODEL, INPUTS, "both")
    with pytest.raises(ParamInvalid, match="give the inputs"):
        rknnlite.compare(MODEL, MODEL, backend="cpu")
    with pytest.raises(ParamInvalid, match="no folder of dumps"):
        rknnlite.compare(MODEL, tmp_path, INPUTS, backend="cpu")
    with pytest.raises(ParamInvalid, match="not 5"):
        rknnlite.compare(MODEL, 5, INPUTS, backend="cpu")  # type: ignore[arg-type]
    with pytest.raises(ModelInvalid, match="nowhere"):
        rknnlite.compare(tmp_path / "nowhere.rknn", MODEL, INPUTS, backend="cpu")
    with pytest.raises(InputInvalid):
        rknnlite.compare(MODEL, MODEL, INPUTS[:1], backend="cpu")


def test_mistakes_with_onnx(twin: Path, tmp_path: Path) -> None:
    (tmp_path / "junk.onnx").write_bytes(b"junk")
    with pytest.raises(ModelInvalid, match=r"junk\.onnx"):
        rknnlite.compare(MODEL, tmp_path / "junk.onnx", INPUTS, backend="cpu")
    with pytest.raises(InputInvalid, match="has 2 inputs, 1 were given"):
        rknnlite.compare(MODEL, twin, INPUTS, reference_inputs={"in0": np.zeros(3)}, backend="cpu")
    wrong = {"in0": np.zeros((1, 3, 12, 16)), "in1": np.zeros((1, 4, 12, 17))}
    with pytest.raises(InputInvalid, match=r"in1 has shape \[1, 4, 12, 16\], \[1, 4, 12, 17\] was given"):
        rknnlite.compare(MODEL, twin, INPUTS, reference_inputs=wrong, backend="cpu")
    with pytest.raises(ParamInvalid, match="reference_inputs"):
        rknnlite.compare(twin, twin)


def test_networks_that_have_nothing_in_common(tmp_path: Path) -> None:
    writer = DumpWriter(tmp_path / "other")
    writer.add("stranger", np.zeros(3, np.float32), dtype="FP32")
    writer.add("out0", np.zeros(3, np.float32), dtype="FP32")
    writer.close()
    with pytest.raises(RknnError, match="no tensor of the same name and size"):
        rknnlite.compare(MODEL, tmp_path / "other", INPUTS, backend="cpu")


# -- beside the reference: a network in float --------------------------------------------------------------------


def test_distances_to_a_network_in_float(twin: Path) -> None:
    """Quantised against itself is no distance, and both sides are as far from the network in float."""
    found = rknnlite.compare(MODEL, MODEL, INPUTS, "single", floating=MODEL, backend="cpu")
    assert "fidelity" not in found.model and "float" in found.floating
    for tensor in found.tensors:
        assert tensor.entire.euclidean == 0 and tensor.to_float == tensor.reference_to_float
    assert any(tensor.to_float is not None and tensor.to_float.euclidean > 0 for tensor in found.outputs)
    table = str(found).splitlines()
    assert any(
        line.split() == ["layer_name", "entire", "single", "float", "reference", "to", "float"]
        for line in table
    )
    assert f"network in float: {found.floating}" in table


def test_a_reference_in_float_is_at_no_distance_from_itself(twin: Path) -> None:
    found = rknnlite.compare(MODEL, twin, INPUTS, floating=twin, backend="cpu")
    pairs = [tensor for tensor in found.tensors if tensor.reference_to_float is not None]
    assert pairs and all(tensor.reference_to_float.euclidean == 0 for tensor in pairs)  # type: ignore[union-attr]
    assert all(tensor.to_float == tensor.entire for tensor in pairs)


def test_without_a_network_in_float_nothing_is_said_of_it() -> None:
    found = rknnlite.compare(MODEL, MODEL, INPUTS, backend="cpu")
    assert found.floating == "" and all(tensor.to_float is None for tensor in found.tensors)
    assert "float" not in str(found)


def test_a_folder_is_no_network_in_float(tmp_path: Path) -> None:
    with pytest.raises(ParamInvalid, match=r"is a folder; the network in float is an \.onnx or \.rknn file"):
        rknnlite.compare(MODEL, MODEL, INPUTS, floating=tmp_path, backend="cpu")
