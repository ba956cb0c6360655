"""Storage forms of genuine files: what decodes to the same numbers, and what is refused with its reason."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from rknnlite_graph.graph import Graph, Node
from rknnlite_graph.read import read_graph

from rknnlite.errors import ModelUnsupported
from rknnlite.formats import ModelFile
from rknnlite.formats.slots import GraphSlot, RootSlot, StorageForm, TensorSlot
from rknnlite.tensor import DType
from tests.support import swept
from tests.support.corpus import DATA, genuine


def graph_of(name: str) -> Graph:
    return read_graph(ModelFile(genuine(name)).model)


def convolutions(name: str) -> list[Node]:
    return [node for node in graph_of(name).nodes if node.conv is not None]


def is_compressed(name: str) -> int:
    """How many tensors of a file are compressed."""
    model = ModelFile(genuine(name)).model
    tensors = next(model.flat.tables(RootSlot.GRAPHS)).tables(GraphSlot.TENSORS)
    return sum(table.i8(TensorSlot.STORAGE) == StorageForm.COMPRESSED for table in tensors)


# -- compressed ----------------------------------------------------------------------------------------------

PACKED = ["rk3588.i8", "rk3568.i8", "rk3562.i8", "rk3576.i8", "rk3588.fp16", "rk3576.fp16"]


@pytest.mark.parametrize("target", PACKED)
def test_compressed_weights_are_bit_for_bit_those_of_the_plain_file(target):
    assert is_compressed(f"packed_mixed.{target}") > 0
    pairs = list(zip(convolutions(f"packed_mixed.{target}"), convolutions(f"plain_mixed.{target}")))
    assert len(pairs) == 5
    for packed, plain in pairs:
        assert packed.conv.weight().tobytes() == plain.conv.weight().tobytes(), packed.label()


@pytest.mark.parametrize("soc", ["rk3588", "rk3576"])
def test_compressed_int16_weights_are_read(soc):
    assert is_compressed(f"packed_i16.{soc}.i16") > 0
    assert all(node.conv.weight().dtype == np.int16 for node in convolutions(f"packed_i16.{soc}.i16"))


# -- the element type follows the convolution's own input -----------------------------------------------------


@pytest.mark.parametrize(
    "name, inner", [("hybrid_float.rk3588.i8", DType.FLOAT16), ("hybrid_int16.rk3562.i8", DType.INT16)]
)
def test_hybrid_models_mix_types(name, inner):
    graph = graph_of(name)
    kinds = [(graph.tensors[n.inputs[0]].dtype, n.conv.quantised) for n in graph.nodes if n.conv]
    assert kinds[1] == (inner, inner is DType.INT16)
    assert all(kind == (DType.INT8, True) for kind in (kinds[0], *kinds[2:]))


def test_four_bit_weights_are_fifteen_values_times_a_scale_per_channel():
    weight = convolutions("nibbles.rk3576.w4a16")[-1].conv.weight()
    for channel in weight:
        steps = channel / np.abs(channel).max() * 7
        assert np.abs(steps - np.rint(steps)).max() < 1e-3


def test_the_accumulator_shift_of_int16_is_taken_back_in_bias_and_multiplier():
    shifted = [n for n in convolutions("int16_chain.rk3562.i16") if n.stage.bias_scale != 1]
    assert shifted, "no layer of this file is shifted"
    plain = {n.name: n for n in convolutions("int16_chain.rk3588.i16")}
    for node in shifted:
        assert node.conv.bias == pytest.approx(
            plain[node.name].conv.bias, rel=1e-3, abs=4 * node.stage.bias_scale
        )


def test_int16_on_older_npus_is_said_to_be_uncertain_where_it_is(caplog):
    """Layers whose sums are in the steps of their weights are as the simulator has them (the goldens show it)."""
    with caplog.at_level(logging.WARNING, logger="rknnlite"):
        members = swept.members(DATA / "guessed" / "int16_large_bias.tar.xz")
        graph = read_graph(ModelFile(members["rk3588.i16.rknn"]).model)
    assert len(caplog.records) == 1 and "2, 4, ... times too large" in caplog.text
    assert len(graph.guesses) == 1
    caplog.clear()
    graph_of("int16_chain.rk3588.i16")
    graph_of("int16_chain.rk3562.i16")
    assert not caplog.records


# -- CPU layers, texts ---------------------------------------------------------------------------------------


def test_layers_sent_to_the_cpu_hold_weights_rounded_to_their_steps():
    nodes = [n for n in convolutions("cpu_layers.rk3588.i8") if not n.on_npu]
    assert [n.op for n in nodes] == ["Conv", "Conv", "ConvTranspose"]
    assert [n.conv.depthwise for n in nodes] == [False, True, False]
    assert not any(n.conv.quantised for n in nodes)
    assert len(np.unique(nodes[0].conv.weight()[0])) < 256


def test_the_custom_string_is_read():
    assert ModelFile(genuine("named.rk3588.i8")).model.custom_string == "door, v7"


def test_an_input_in_yuv_becomes_two():
    model = ModelFile(genuine("yuv.rk3588.i8")).model
    assert [(t.name, t.shape) for t in model.inputs] == [
        ("in0_y_channel", (1, 1, 16, 16)),
        ("in0_uv_channel", (1, 1, 8, 16)),
    ]


# -- refused -------------------------------------------------------------------------------------------------

REFUSED = {
    "sparse.rk3576.i8": "sparse .2:4. weights are not supported; convert without",
    "removed.rk3588.i8": "weights were removed",
    "nibbles_layer.rk3576.w4a16": "1 scales for 32 channels",
    "nibbles_group.rk3576.w4a16": "groups of 32 input channels",
    "int16_limits_lost.rk3562.i16": "leaves the lower limit of an int16 layer out",
    "int16_slopes_lost.rk3576.i16": "left the slopes of int16 PRelu out",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_converter_left_out_is_refused_with_its_reason(name):
    with pytest.raises(ModelUnsupported, match=REFUSED[name]) as caught:
        graph_of(name)
    assert "convert" in str(caught.value) or "master model" in str(caught.value)


def test_lost_eight_bit_weights_are_refused_when_they_are_read():
    with pytest.raises(ModelUnsupported, match="the converter loses weights"):
        convolutions("bytes_uneven.rk3562.w8a16")[0].conv.weight()
