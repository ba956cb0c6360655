"""Damaged files of the first toolkit: a typed error or a result, within bounds of time and memory."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rknnlite_graph.read import read_graph

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.formats import ModelFile
from rknnlite.formats.rknn1.container import unpack
from tests.formats.test_hostile import open_and_run
from tests.support import damage, rknn1_damage
from tests.support.corpus import open_cpu
from tests.support.examples import examples
from tests.support.rknn1_files import File, u8
from tools.sweep1.sequences_and_regions import CASES

VICTIMS = [
    "conv_relu", "depthwise_2", "conv_groups", "grouped_conv2d", "fcl_relu", "deconv_io_4", "max_pool", "avg_pool_pad", "prelu_u8",
    "multiply_scale", "maximum_channels", "concat", "slice", "permute_0123", "reshape", "pad_value", "resize_bilinear",
    "resize_nearest_align", "shuffle", "reorg", "space2depth", "depth2space_crd", "reverse", "tile", "strided_slice", "crop",
    "space2batch", "batch2space", "split", "gather", "reduce_mean_hw", "argmax", "softmax_beta", "l2_normalize", "lrn",
    "batch_norm", "instance_norm", "layer_norm", "matmul_turned", "lstm", "conv_i16", "conv_f16",
    "conv1d_uneven", "gru_before", "rnn_relu_f16", "upsample_3",
    "roi_pool",
]  # fmt: skip


@pytest.mark.parametrize("name", VICTIMS)
def test_damaged(name: str) -> None:
    @settings(max_examples=examples(25))
    @given(rknn1_damage.mixed(CASES[name]().data))
    def check(damaged: bytes) -> None:
        open_and_run(damaged)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", VICTIMS)
def test_damaged_thoroughly(name: str) -> None:
    @settings(max_examples=examples(200))
    @given(rknn1_damage.mixed(CASES[name]().data))
    def check(damaged: bytes) -> None:
        open_and_run(damaged)

    check()


def test_the_description_is_bounded_in_depth() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    with pytest.raises(ModelInvalid, match="nested deeper than 32 levels"):
        ModelFile(rknn1_damage.joined(b"", b'{"nodes": ' + deep + b"}")).model  # noqa: B018


def test_the_description_is_bounded_in_size() -> None:
    """A length that the file does not have is refused before anything is allocated."""
    data = bytearray(rknn1_damage.joined(bytes(64), b"{}"))
    data[88:96] = (1 << 40).to_bytes(8, "little")
    with damage.limits(5, 1 << 20), pytest.raises(ModelInvalid, match="takes 1099511627776 bytes"):
        ModelFile(bytes(data)).model  # noqa: B018


@given(
    st.binary(max_size=40),
    st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8), max_size=4),
)
def test_container_keeps_its_parts(constants: bytes, fields: dict[str, object]) -> None:
    data = rknn1_damage.joined(constants, json.dumps(fields).encode())
    found = unpack(memoryview(data))
    assert (bytes(found.data), found.fields, found.libraries) == (constants, fields, [])


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(1, 255), st.integers(0, 255))
def test_description_of_any_input(shape: list[int], parts: int, zero_point: int) -> None:
    """Shapes, scales and zero points come back as they were written, and RELU runs over them."""
    file = File("made")
    given_shape, dtype = tuple(shape), u8(parts / 1024, zero_point)
    file.output(file.node("RELU", [file.input(given_shape, dtype)], dtype), given_shape)
    (entry,) = ModelFile(file.data).model.inputs
    assert entry.quant is not None
    assert (entry.shape, entry.quant.scale, entry.quant.zero_point) == (given_shape, parts / 1024, zero_point)
    with open_cpu(file.data) as context:
        stored = np.full(context.inputs[0].dims, 200, np.float32)
        assert np.asarray(context.infer([stored])[0].data).size == np.prod(given_shape)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pre_compile": 1}, "pre-compiled.*pre_compile=False"),
        ({"ovxlib_version": "x"}, "ovxlib_version is 'x'"),
    ],
)
def test_messages(fields: dict[str, object], message: str) -> None:
    file = File("made", **fields)
    file.output(file.node("RELU", [file.input((1, 4), u8(0.1))], u8(0.1)), (1, 4))
    with pytest.raises(ModelInvalid, match=message):
        read_graph(ModelFile(file.data).model)


def test_an_unknown_operator_is_named() -> None:
    file = File("made")
    file.output(file.node("PROPOSAL", [file.input((1, 4), u8(0.1))], u8(0.1)), (1, 4))
    with pytest.raises(ModelUnsupported, match=r"VSI_NN_OP_PROPOSAL.*does not know"):
        read_graph(ModelFile(file.data).model)


@pytest.mark.parametrize("place", [0, 1])
def test_an_input_without_axes(place: int) -> None:
    """It would broadcast to anything."""
    file = CASES["multiply_scale"]()
    norms = file.description["norm_tensor"]
    norms[place]["size"] = []
    with pytest.raises(ModelInvalid, match=f"the input input_{place} has no axes"):
        read_graph(ModelFile(file.data).model)
