"""Where an error is born."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_insight import Comparison, Distance, Kind, TensorError, Verdict, judge
from rknnlite_insight.dumps import Dump

import rknnlite
from tests.support.corpus import EXAMPLES, genuine, golden_of, open_cpu
from tests.support.needs import needs

ELEMENTS = 100
TWO = "two_images.rk3588.i8"
MODEL, INPUTS = genuine(TWO), golden_of(TWO).inputs


def tensor(
    name: str, entire: float, own: float | None = None, step: float | None = 0.01, **about: Any
) -> TensorError:
    """A tensor of length 1 with these relative errors; as many steps as its error is in percent, divided by ten."""

    def away(share: float) -> Distance:
        return Distance(1 - share**2 / 2, share)

    fields: dict[str, Any] = {"role": "activation", **about}
    return TensorError(
        name, "Conv", (1, ELEMENTS), fields["role"], away(entire),
        None if own is None else away(own), length=1.0, step=step,
    )  # fmt: skip


def network(*owns: float, entire: float = 0.05, **about: Any) -> list[TensorError]:
    rows = [tensor(f"t{i}", entire, own, **about) for i, own in enumerate(owns)]
    return [tensor("in", 0.001, 0.001, role="input"), *rows, tensor("out", entire, 0.01, role="output")]


def judged(tensors: list[TensorError]) -> Verdict:
    return judge(Comparison("model", "reference", "single", tensors))


def test_identical() -> None:
    found = judged([tensor("in", 0, 0), tensor("out", 0, 0)])
    assert (found.kind, found.headline) == (Kind.IDENTICAL, "Identical")
    assert "All 2 tensors are the same" in found.sentence and not found.born


def test_noise_names_the_layer_that_errs_most() -> None:
    found = judged(network(0.01, 0.02, 0.012, 0.08, 0.01, 0.011))
    assert found.kind is Kind.NOISE and found.headline == "Quantisation noise"
    assert [layer.tensor.name for layer in found.born] == ["t3"]
    assert (
        "no layer is off by more than 8 % (0.8 steps), [Conv] t3, and the typical one by 1.1 %"
        in found.sentence
    )
    assert "the outputs are 5 % off" in found.sentence


def test_one_layer_is_wrong() -> None:
    found = judged(network(0.01, 0.02, 0.9, 0.01, 0.01, entire=0.7))
    assert found.kind is Kind.WRONG and found.headline == "Something is wrong from [Conv] t2 on"
    assert "[Conv] t2 is off by 90 % (9 steps), 90 times the typical layer" in found.sentence
    assert "the outputs are 70 % off" in found.sentence


def test_a_layer_that_nobody_behind_it_notices() -> None:
    """Two sides may mean different values by one name; the outputs agree all the same."""
    found = judged(network(0.01, 0.9, 0.01, 0.01))
    assert found.kind is Kind.LOCAL and found.headline == "[Conv] t1 differs, the outputs do not"


def test_a_name_with_two_meanings_is_no_noise_and_hides_nothing() -> None:
    """The converter puts an activation before a concatenation: all negative values of the exporter's tensor are gone."""
    apart = lossy("apart", 0.7, 0.7, 0.01)
    calm = network(0.01, 0.01)
    harmless = judged([*calm[:-1], apart, *calm[1:]])
    assert harmless.kind is Kind.LOCAL and harmless.headline == "[Conv] apart differs, the outputs do not"
    hidden = [
        *calm[:-1],
        apart,
        tensor("fine", 0.01, 0.01),
        tensor("bad", 0.9, 0.9),
        tensor("o", 0.9, 0.01, role="output"),
    ]
    found = judged(hidden)
    assert found.kind is Kind.WRONG and found.born[0].tensor.name == "bad"
    tired = judged([*calm[:-1], apart, tensor("fine", 0.01, 0.01), tensor("o", 0.3, 0.01, role="output")])
    assert tired.kind is Kind.ADDED


def test_two_suspects_and_one_that_lasts() -> None:
    rows = [
        *network(0.01, 0.01)[:-1],
        tensor("name", 0.9, 0.9),
        tensor("fine", 0.01, 0.01),
        tensor("bad", 0.8, 0.8),
    ]
    found = judged([*rows, tensor("o", 0.8, 0.01, role="output")])
    assert found.headline == "Something is wrong from [Conv] bad on"


def test_a_layer_behind_many_that_were_not_compared() -> None:
    """Its own error is theirs, too: one is wrong, or the noise of all adds up."""
    far = replace(tensor("far", 0.6, 0.6, role="output"), unseen=30)
    found = judged([tensor("in", 0.01, 0.01, role="input"), far])
    assert found.kind is Kind.UNSEEN and found.headline == "[Conv] far is off, by what lies before it"
    assert (
        "30 tensors before it were not compared: one of them is wrong, or the quantisation of all adds up"
        in found.sentence
    )
    assert judged([far, tensor("o", 0.6, 0.6, role="output")]).born[0].tensor.name == "o"


def test_tensors_without_a_counterpart_are_counted(tmp_path: Path) -> None:
    with open_cpu(MODEL) as context:
        context.infer(INPUTS)
        dump = context.dump(tmp_path / "own")
    hidden = [dump.names[-3], dump.names[-2]]
    some = Dump(dump.folder, [t for t in dump.tensors if t.name not in hidden], dump.info)
    found = rknnlite.compare(dump, some)
    assert found.tensors[-1].unseen == 2 and not any(t.unseen for t in found.tensors[:-1])


def test_noise_that_adds_up() -> None:
    found = judged(network(*[0.04] * 20, entire=0.3))
    assert found.kind is Kind.ADDED and found.headline == "Quantisation noise that adds up"


def test_all_layers_bad_are_not_the_typical_noise() -> None:
    assert judged(network(*[0.8] * 6, entire=0.8)).kind is Kind.WRONG


def lossy(name: str, lost: float, own: float, step: float, **about: Any) -> TensorError:
    """A tensor that cannot hold the reference's values."""
    return replace(tensor(name, own, own, step, **about), stored=Distance(1 - lost**2 / 2, lost))


def test_a_tensor_that_cannot_hold_its_values() -> None:
    """Not something wrong: the tensor itself, nor its readers."""
    calm = network(0.01, 0.01)[:-1]
    coarse = judged([*calm, lossy("coarse", 0.25, 0.3, 0.1, role="output")])
    assert coarse.kind is Kind.LOSSY and "its step is coarse" in coarse.sentence
    assert coarse.headline == "Quantisation: [Conv] coarse cannot hold its values"
    reader = tensor("reader", 0.4, 0.4, role="output")
    beyond = judged([*calm, lossy("pool", 0.15, 0.15, 0.001), reader])
    assert beyond.kind is Kind.LOSSY and [b.tensor.name for b in beyond.born] == ["pool"]
    assert (
        "lose 15 % by being stored" in beyond.sentence
        and "outside of the calibrated range" in beyond.sentence
    )
    worse = judged([*calm, lossy("pool", 0.15, 0.15, 0.001), tensor("r", 0.9, 0.9, role="output")])
    assert worse.kind is Kind.WRONG and worse.born[0].tensor.name == "r"


@pytest.mark.slow
def test_noise_beyond_the_calibrated_range_is_told(tmp_path: Path) -> None:
    """The example has seen digits; random pixels drive its pooled values out of their range."""
    image = np.random.default_rng(0).integers(0, 256, (1, 224, 224, 3), dtype=np.uint8)
    model = EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn"
    with open_cpu(model, extra={"fidelity": "float"}) as golden:
        found = judge(rknnlite.compare(model, golden, image, "single", backend="cpu"))
    assert found.kind is not Kind.WRONG
    assert "GlobalAveragePool" in found.born[0].tensor.name


def test_float_networks_are_measured_by_a_finer_rule() -> None:
    rows = [tensor(f"t{i}", 0.03, own, step=None) for i, own in enumerate((0.0003, 0.0004, 0.03, 0.0003))]
    found = judged([*rows, tensor("out", 0.03, 0.0004, step=None, role="output")])
    assert found.kind is Kind.WRONG and not found.quantised
    calm = judged([tensor("t", 0.001, 0.0005, step=None)])
    assert calm.headline == "Rounding noise"


def test_without_single_errors_the_first_jump_counts() -> None:
    rows = [tensor(f"t{i}", entire) for i, entire in enumerate((0.01, 0.02, 0.6, 0.7))]
    found = judged(rows)
    assert found.kind is Kind.WRONG and found.born[0].tensor.name == "t2"
    assert "large for the first time at [Conv] t2: 60 %" in found.sentence and found.typical is None
    calm = judged(rows[:2])
    assert calm.headline == "No more than quantisation noise" and "mode single tells" in str(calm)


def test_inputs_that_differ() -> None:
    found = judged([tensor("in", 0.6, 0.6, role="input"), tensor("out", 0.5, 0.01, role="output")])
    assert found.kind is Kind.WRONG and "differs before any layer has run" in found.sentence


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_never_noise(bad: float) -> None:
    row = TensorError("t", "Conv", (1, 4), "output", Distance(bad, bad), Distance(bad, bad), length=1.0)
    found = judged([tensor("a", 0.01, 0.01), row])
    assert found.kind is Kind.NOT_FINITE and found.mood == "bad" and found.born[0].tensor is row
    assert found.headline == "Not comparable: infinities or NaN from [Conv] t on"


def test_a_reference_of_zeros_has_no_length_to_divide_by() -> None:
    row = TensorError("t", "Conv", (1, 4), "output", Distance(0.0, 1.0), Distance(0.0, 1.0), length=0.0)
    found = judged([tensor("a", 0.01, 0.01), row])
    assert found.kind is Kind.WRONG and "more than can be told" in found.sentence


def test_a_comparison_knows_lengths_and_steps(tmp_path: Path) -> None:
    with open_cpu(MODEL) as context:
        context.infer(INPUTS)
        dump = context.dump(tmp_path / "own")
    with open_cpu(MODEL, extra={"fidelity": "float"}) as context:
        found = rknnlite.compare(MODEL, context, INPUTS, "single", backend="cpu")
        context.infer(INPUTS)
        golden = context.dump(tmp_path / "float")
    for row in found.tensors:
        assert row.length == pytest.approx(float(np.linalg.norm(golden.value(row.name).astype(float))))
        entry = dump.entry(row.name)
        assert row.step == entry.scale and row.stored is not None and entry.scale is not None
        # within the range: half a step
        assert row.stored.euclidean <= 0.51 * entry.scale * np.sqrt(np.prod(row.shape))
    assert judge(found).kind is Kind.NOISE
    same = rknnlite.compare(dump, Dump.read(tmp_path / "own"))
    assert judge(same).kind is Kind.IDENTICAL


def test_a_changed_network_is_told_from_noise(tmp_path: Path) -> None:
    """Weights of the middle convolution upside down in the reference: wrong from there on, with and without single errors."""
    needs("onnx", "onnxruntime")
    import onnx
    from onnx import numpy_helper

    resnet, network = genuine("resnet_like.rk3588.i8"), tmp_path / "network.onnx"
    model = rknnlite.to_onnx(resnet)
    onnx.save(model, network)
    inputs = golden_of("resnet_like.rk3588.i8").inputs
    right = judge(rknnlite.compare(resnet, network, inputs, "single", backend="cpu"))
    assert right.kind is Kind.NOISE
    convs = [node for node in model.graph.node if node.op_type == "Conv"]
    changed = convs[len(convs) // 2]
    (weights,) = [i for i in model.graph.initializer if i.name == changed.input[1]]
    upside_down = numpy_helper.to_array(weights)[::-1].copy()
    weights.CopyFrom(numpy_helper.from_array(upside_down, weights.name))
    onnx.save(model, network)
    for mode in ("single", "entire"):
        found = judge(rknnlite.compare(resnet, network, inputs, mode, backend="cpu"))
        assert found.kind is Kind.WRONG, mode
        assert found.born[0].tensor.name == _result_of(model, changed, [t.tensor.name for t in found.layers])


def _result_of(model: Any, node: Any, known: list[str]) -> str:
    """The first tensor behind a node that was compared."""
    name = node.output[0]
    while name not in known:
        name = next(n for n in model.graph.node if name in n.input).output[0]
    return str(name)


def test_a_spoiled_layer_is_found(tmp_path: Path) -> None:
    """A dump in which one layer was doubled, and all that follow it as they were: it differs, the outputs do not."""
    with open_cpu(MODEL) as context:
        context.infer(INPUTS)
        dump = context.dump(tmp_path / "own")
    spoiled = next(t for t in dump.tensors if t.role == "activation")
    np.save(dump.folder / spoiled.file, 2 * dump.value(spoiled.name))
    found = judge(rknnlite.compare(MODEL, dump, INPUTS, backend="cpu"))
    assert found.kind is Kind.LOCAL and found.born[0].tensor.name == spoiled.name
    assert (
        "the outputs are identical" in found.sentence
        and f"1 of {len(found.layers)} tensors differ." in found.lines
    )
