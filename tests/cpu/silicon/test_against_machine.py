"""Two implementations of one chip: this one from the graph, the machine of ``rknnlite_npu`` from command words, byte for byte."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_cpu.silicon.rules import left_to_simulator, silicon_graph
from rknnlite_graph.read import read_graph

import rknnlite
from rknnlite.formats import ModelFile
from tests.support.corpus import DATA, EXAMPLES, genuine, golden_of, open_cpu

SOME = [
    "act_elu", "act_gelu", "act_leaky", "act_prelu", "act_relu6", "acts_alone", "channels", "conv_grey", "conv_mul",
    "deconv_k5_s3", "depthwise_dilated", "espcn_like", "iresnet_like", "mathematics", "mobilenetv2_like",
    "packed_i16.rk3588.i16", "pooling", "residual_leaky_add", "residual_silu_add", "resize", "resnet_like", "squeeze_excite",
    "two_images", "yolov5_decode", "yuv",
]  # fmt: skip
PARTLY = {
    "arithmetic", "attention", "hybrid_float", "mobilenetv3_like", "norms", "product_tails", "products", "rounding",
    "softmaxes", "vit_like",
}  # fmt: skip
"""Parts of them are float, or follow the simulator's rule."""
OTHERS = {"removed"}
"""Its weights are in another file."""
EVERY = {path.name.split(".")[0] for path in DATA.glob("*.rk3588.i8.rknn")} - OTHERS


def computed_whole(name: str) -> bool:
    """Whether every node that rounds is computed in registers."""
    return not left_to_simulator(silicon_graph(read_graph(ModelFile(genuine(f"{name}.rk3588.i8")).model)))


def check(name: str) -> None:
    path = genuine(name if "." in name else f"{name}.rk3588.i8")
    inputs = golden_of(path.stem).inputs
    extra = {"fidelity": "silicon", "inputs": "board"}
    with open_cpu(path, extra=extra) as here, rknnlite.open(path, backend="npu-machine") as machine:
        for one, other in zip(here.infer(inputs), machine.infer(inputs)):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("name", SOME)
def test_every_byte_of_a_network(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EVERY - PARTLY - set(SOME)))
def test_every_byte_of_the_others(name: str) -> None:
    check(name)


@pytest.mark.slow
def test_what_is_computed_in_part() -> None:
    assert {name for name in EVERY if not computed_whole(name)} == PARTLY


@pytest.mark.slow
def test_a_trained_network() -> None:
    path = EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn"
    images = np.random.default_rng(5).integers(0, 256, (3, 1, 224, 224, 3), np.uint8)
    extra = {"fidelity": "silicon", "inputs": "board"}
    with open_cpu(path, extra=extra) as here, rknnlite.open(path, backend="npu-machine") as machine:
        for image in images:
            assert np.array_equal(here.infer([image])[0], machine.infer([image])[0])
