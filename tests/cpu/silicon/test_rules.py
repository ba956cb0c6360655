"""Which nodes ``fidelity="silicon"`` computes in registers, what it says of the others, and how far it is from the simulator."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from rknnlite_cpu.silicon.rules import left_to_simulator, silicon_graph
from rknnlite_cpu.silicon.telling import assumptions, evidence
from rknnlite_graph.graph import Graph
from rknnlite_graph.read import read_graph

from rknnlite.errors import ModelUnsupported
from rknnlite.files.pictures import read_picture
from rknnlite.formats import ModelFile
from rknnlite.spi import Context, Input
from tests.support.corpus import EXAMPLES, genuine, golden_of, open_cpu

WHOLE = [
    "act_gelu.rk3588.i8", "act_leaky.rv1106.i8", "act_prelu.rk3588.i8", "acts_alone.rk3588.i8", "channels.rk3588.i8",
    "conv_mul.rv1106.i8", "deconv_k3_s1.rk3576.i8", "depthwise_3x3.rk3562.i8", "iresnet_like.rk3562.i8",
    "mobilenetv2_like.rv1103b.i8", "pooling.rk3588.i8", "residual_leaky_add.rk3588.i8", "resnet_like.rk3568.i8",
    "resnet_like.rv1126b.i8", "squeeze_excite.rk3588.i8", "two_images.rk3588.i8", "yolov5_decode.rk3588.i8",
]  # fmt: skip
"""Networks of which every node is computed in registers."""


def silicon(name: str, **options: object) -> Context:
    return open_cpu(genuine(name), extra={"fidelity": "silicon", **options})


def marked(name: str) -> Graph:
    return silicon_graph(read_graph(ModelFile(genuine(name)).model))


@pytest.mark.parametrize("name", WHOLE)
def test_nothing_is_left_to_the_simulator(name: str) -> None:
    graph = marked(name)
    assert not left_to_simulator(graph)
    assert any(node.stage is not None and node.stage.in_registers for node in graph.nodes)


@pytest.mark.parametrize("name", WHOLE)
def test_a_network_is_within_steps_of_the_simulator(name: str) -> None:
    inputs = golden_of(name).inputs
    with open_cpu(genuine(name)) as simulator, silicon(name) as chip:
        for a, b, attr in zip(simulator.infer(inputs), chip.infer(inputs), chip.outputs):
            assert attr.quant is not None
            steps = np.abs(a - b) / attr.quant.scale
            assert steps.max() < 3.5 and (steps > 0.5).mean() < 0.35


def test_the_roundings_do_differ() -> None:
    """A first layer: 4 of 1,000 values by one step."""
    name = "depthwise_3x3.rk3588.i8"
    inputs = golden_of(name).inputs
    with open_cpu(genuine(name)) as simulator, silicon(name) as chip:
        (a,), (b,) = simulator.infer(inputs), chip.infer(inputs)
        quant = chip.outputs[0].quant
    assert quant is not None
    steps = np.rint((a - b) / quant.scale)
    assert set(np.unique(steps)) <= {-1, 0, 1} and 0 < np.count_nonzero(steps) <= 0.004 * steps.size


def test_a_trained_network() -> None:
    pytest.importorskip("PIL", reason="needs the package Pillow (extra pictures)")
    image = read_picture(EXAMPLES / "resnet18" / "digit_224.png", 224, 224, 3)[None]
    path = EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn"
    with open_cpu(path) as simulator, open_cpu(path, extra={"fidelity": "silicon"}) as chip:
        (a,), (b,) = simulator.infer([image]), chip.infer([image])
        quant = chip.outputs[0].quant
    assert quant is not None and np.abs(a - b).max() <= 1.01 * quant.scale and a.argmax() == b.argmax() == 7


def test_float_parts_and_unknown_nodes_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "rknnlite"):
        silicon("norms.rk3588.i8").close()
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    (told,) = [text for text in warnings if "exNorm" in text]
    assert (
        told.count("exNorm:") == 4 and "as the simulator computes: how the NPU computes this exNorm" in told
    )
    assert any("its numbers are as measured on RK3588" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("soc", ["rk3562", "rk3568", "rv1103b", "rv1126b"])
def test_families_that_nobody_measured_say_so(soc: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rknnlite"):
        silicon(f"mobilenetv2_like.{soc}.i8").close()
    assert "by analogy: nobody has measured how this NPU family rounds" in caplog.text


def test_families_that_were_measured_warn_of_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rknnlite"):
        for soc in ("rk3576", "rk3588", "rv1106"):
            silicon(f"mobilenetv2_like.{soc}.i8").close()
    assert not caplog.records
    assert evidence("RK3576") == "as measured on RK3576"


def test_assumed_roundings_are_told() -> None:
    assert list(assumptions(marked("resnet_like.rk3588.i8"))) == ["the shift of a second operand"]
    assert list(assumptions(marked("act_gelu.rk3588.i8"))) == ["indices and lines of activation tables"]
    assert not assumptions(marked("conv_1x1.rk3588.i8"))


def test_a_graph_without_registers_is_refused() -> None:
    with pytest.raises(ModelUnsupported, match="fidelity='simulator'"):
        silicon_graph(Graph([], [], [], []))


def test_an_engine_is_not_asked(caplog: pytest.LogCaptureFixture) -> None:
    name = "conv_1x1.rk3588.i8"
    with caplog.at_level(logging.WARNING, "rknnlite"), silicon(name, engine="numpy") as context:
        context.infer(golden_of(name).inputs)
    assert not caplog.records


def test_layers_of_16_bits() -> None:
    """Whole where sums are not shifted before their bias; how they round is assumed, and told."""
    graph = marked("packed_i16.rk3588.i16")
    assert not left_to_simulator(graph)
    assert len(assumptions(graph)["all shifts of 16-bit layers"]) == 5
    shifted = left_to_simulator(marked("packed_i16.rk3576.i16"))
    assert len(shifted) == 5 and all("shifted before the bias" in left.why for left in shifted)


def test_slopes_that_are_no_integers() -> None:
    """RK3576 keeps slopes of 16-bit layers as float16."""
    graph = read_graph(ModelFile(genuine("act_leaky.rk3588.i8")).model)
    node = next(node for node in graph.nodes if node.op == "ConvLeakyRelu")
    assert node.stage is not None
    node.stage.slope = 0.1  # the registers say 1638 / 16384
    (left,) = left_to_simulator(silicon_graph(graph))
    assert "no whole numbers" in left.why


def test_a_twin_computes_the_same() -> None:
    name = "acts_alone.rk3588.i8"
    inputs = golden_of(name).inputs
    with silicon(name) as context, context.dup() as twin:
        for a, b in zip(context.infer(inputs), twin.infer(inputs)):
            assert np.array_equal(a, b)


def test_a_dump_says_what_made_it(tmp_path: Path) -> None:
    name = "conv_1x1.rk3588.i8"
    with silicon(name) as context:
        context.set_inputs([Input(0, golden_of(name).inputs[0])])
        assert context.dump(tmp_path).info["fidelity"] == "silicon"
