"""The mini format of RV1103, RV1106, RV1103B and RV1106B: genuine files, registers, damage."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_graph.read import read_graph
from rknnlite_graph.reading.register_map import T3, W1, Field
from rknnlite_graph.reading.weights import parse_joined_bias

from rknnlite.errors import ModelInvalid, ParamInvalid, TargetPlatformUnmatch
from rknnlite.formats import ModelFile
from rknnlite.tensor import Layout
from tests.formats.test_hostile import open_and_run
from tests.support import damage
from tests.support.corpus import DATA, fixture_file, genuine, golden_of, open_cpu

STEMS = sorted(path.stem for path in DATA.glob("*.rv110*.rknn"))


def agreement(ours: np.ndarray, expected: np.ndarray) -> float:
    a, b = ours.astype(np.float64).reshape(-1), expected.astype(np.float64).reshape(-1)
    return float(a @ b / max(np.sqrt(a @ a) * np.sqrt(b @ b), 1e-30))


def test_there_are_files_of_every_soc() -> None:
    assert {stem.split(".")[1] for stem in STEMS} == {"rv1103", "rv1106", "rv1103b", "rv1106b"}
    assert len(STEMS) >= 50


@pytest.mark.parametrize("stem", STEMS)
def test_against_the_simulator(stem: str) -> None:
    golden, context = golden_of(stem), open_cpu(genuine(stem))
    assert context.soc.name == stem.split(".")[1]
    for attr, ours, expected in zip(context.outputs, context.infer(golden.inputs), golden.outputs):
        assert ours.shape == expected.shape
        assert agreement(ours, expected) >= 0.9995
        if attr.quant is not None and not attr.dtype.is_float:
            assert np.abs(ours - expected).max() <= 2.01 * attr.quant.scale
        else:
            assert np.abs(ours - expected).max() <= 1e-2 * np.abs(expected).max()


def test_metadata() -> None:
    model = ModelFile(genuine("mean_std.rv1103.i8")).model
    assert (model.container, model.toolkit_version, model.platforms) == (0x1004, "2.5.0", ("rv1103",))
    assert model.family == "RKNPU t3" and model.batch == 1 and not model.dynamic
    assert len(set(model.inputs[0].mean)) == 3 and model.inputs[0].layout is Layout.NHWC


@pytest.mark.parametrize(("stem", "lanes"), [("conv_1x1.rv1106.i8", 16), ("conv_1x1.rv1103b.i8", 8)])
def test_native_layout(stem: str, lanes: int) -> None:
    """The lanes that the SoC table says are those of the file."""
    context = open_cpu(genuine(stem))
    assert context.native_outputs[0].dims[-1] == lanes
    n, groups, height, width, _ = ModelFile(genuine(stem)).model.outputs[0].native_shape
    positions = -(-height * width // 4) * 4  # reported as one row, because they were no multiple of 4
    assert positions != height * width
    assert context.native_outputs[0].dims == (n, groups, 1, positions, lanes)


def test_interchangeable_platforms() -> None:
    assert open_cpu(genuine("conv_1x1.rv1106.i8"), soc="rv1103").soc.name == "rv1103"
    with pytest.raises(TargetPlatformUnmatch, match="built for rv1106, not for rv1103b"):
        open_cpu(genuine("conv_1x1.rv1106.i8"), soc="rv1103b")
    with pytest.raises((TargetPlatformUnmatch, ParamInvalid), match="core mask"):
        open_cpu(genuine("conv_1x1.rv1106.i8")).set_core_mask(1)


# -- registers -----------------------------------------------------------------------------------------------


def test_field() -> None:
    assert Field(0x10, 4, 8).of({0x10: 0xABC}) == 0xAB
    assert Field(0x10, 4, 8, signed=True).of({0x10: 0xABC}) == 0xAB - 256
    assert Field(0x11).of({0x10: 5}) == 0


def test_geometry() -> None:
    """Stride 2 x 1, dilation 1 x 3, pads 4 (top) and 5 (left)."""
    expected = ((2, 1), (1, 3), (4, 5))
    assert T3.geometry({0x1014: 2 << 3 | 1 | 2 << 16, 0x1068: 5 << 8 | 4}) == expected
    assert W1.geometry({0x100C: 2 << 4 | 1 | 2 << 16, 0x1028: 3 << 30 | 4 << 24, 0x1084: 5 << 8}) == expected


def test_deconv_geometry() -> None:
    """Stride 3 x 2 and pads 1 x 0 of a 4 x 4 kernel."""
    expected = ((3, 2), (1, 0))
    assert T3.deconv_geometry({0x1014: 2 << 11 | 1 << 8, 0x1068: 3 << 8 | 2}, (4, 4)) == expected
    assert W1.deconv_geometry({0x100C: 2 << 12 | 1 << 8, 0x1028: 2 << 24, 0x1084: 3 << 8}, (4, 4)) == expected


def test_data_use() -> None:
    """Order: bias, zero point, multiplier; then the common zero point, whose negative is stored."""
    assert T3.data_use({0x501C: 0b1010, 0x4054: 0xFFFD}) == (True, False, True, 3)
    assert W1.data_use({0x501C: 0b1001, 0x1078: 0x80}) == (True, True, False, -128)


def attributes(stem: str, op: str) -> list[dict[str, object]]:
    return [node.attrs for node in read_graph(ModelFile(genuine(stem)).model).nodes if node.op == op]


def test_attention_scale() -> None:
    """Heads of 8 numbers: the scores are divided by sqrt(8)."""
    (attrs,) = attributes("attention.rv1106.i8", "exSDPAttention")
    assert attrs["scale"] == pytest.approx(8**-0.5, rel=1e-4)


@pytest.mark.parametrize("stem", ["product_tails.rv1106.i8", "product_tails.rv1103b.i8"])
def test_third_operand_of_a_product(stem: str) -> None:
    assert sorted(str(attrs["c_type"]) for attrs in attributes(stem, "exMatMul")) == ["add", "add", "mul"]


@given(
    st.lists(
        st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(-127, 127), st.integers(0, 65535)),
        min_size=1,
        max_size=40,
    )
)
def test_joined_bias(channels: list[tuple[int, int, int]]) -> None:
    data = b""
    for start in range(0, len(channels), 8):
        group = [*channels[start : start + 8], *[(0, 0, 0)] * 8][:8]
        halves = [
            struct.pack("<4i4H", *(bias for bias, _, _ in half), *(multiplier for _, _, multiplier in half))
            for half in (group[:4], group[4:])
        ]
        data += halves[0] + struct.pack("<8b", *(-zero for _, zero, _ in group)) + halves[1]
    blob = parse_joined_bias(memoryview(data), len(channels), "b")
    assert blob.bias is not None and blob.zero_point is not None and blob.multiplier is not None
    assert list(zip(blob.bias.tolist(), blob.zero_point.tolist(), blob.multiplier.tolist())) == channels
    with pytest.raises(ModelInvalid, match="bias b"):
        parse_joined_bias(memoryview(data)[:-1], len(channels), "b")


# -- genuine third-party file --------------------------------------------------------------------------------


@pytest.mark.slow
def test_retinaface_finds_the_same_anchors() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    cv2 = pytest.importorskip("cv2")
    session = onnxruntime.InferenceSession(str(fixture_file("mini/retinaface.onnx")))
    picture = cv2.resize(cv2.imread(str(fixture_file("vendor/human_seg/test_image.jpg"))), (640, 640))[None]
    feed = (picture.astype(np.float32) - [104, 117, 123]).transpose(0, 3, 1, 2).astype(np.float32)
    expected = session.run(None, {session.get_inputs()[0].name: feed})
    ours = open_cpu(fixture_file("mini/retinaface.rknn")).infer([picture])
    best = [set(np.argsort(-scores[0, :, 1])[:5].tolist()) for scores in (ours[1], expected[1])]
    assert best[0] == best[1]
    assert agreement(ours[1], expected[1]) >= 0.99
    assert all(agreement(a, b) >= 0.9 for a, b in zip(ours, expected))


# -- damaged files -------------------------------------------------------------------------------------------

VICTIMS = [
    "conv_uneven.rv1106.i8",
    "conv_uneven.rv1103b.i8",
    "depthwise_s2.rv1106.i8",
    "depthwise_s2.rv1103b.i8",
    "deconv_depthwise.rv1106.i8",
    "act_silu.rv1106.i8",
    "act_leaky.rv1103b.i8",
    "lstm.rv1106.i8",
    "gru.rv1103b.i8",
    "attention.rv1106.i8",
]


@pytest.mark.parametrize("name", VICTIMS)
def test_damaged(name: str) -> None:
    data = genuine(name).read_bytes()

    @given(damage.mixed(data))
    def check(damaged: bytes) -> None:
        open_and_run(damaged)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("kind", damage.KINDS)
@pytest.mark.parametrize("name", VICTIMS)
def test_damaged_thoroughly(name: str, kind: str) -> None:
    data = genuine(name).read_bytes()

    @given(getattr(damage, kind)(data))
    def check(damaged: bytes) -> None:
        open_and_run(damaged)

    check()


@given(st.integers(0, 15), st.integers(0, 2**32 - 1) | st.integers(0, 10_000))
def test_damaged_sizes(place: int, value: int) -> None:
    """The table of sizes behind the header: parts that do not add up are refused, the unused words ignored."""
    data = bytearray(genuine("conv_uneven.rv1106.i8").read_bytes())
    (before,) = struct.unpack_from("<I", data, 64 + 4 * place)
    struct.pack_into("<I", data, 64 + 4 * place, value)
    if place in (0, 1, 3, 5, 6) and value != before:
        with pytest.raises(ModelInvalid, match="do not add up"):
            open_cpu(bytes(data))
    else:
        open_and_run(bytes(data))


def test_constant_outside_its_area() -> None:
    model = ModelFile(genuine("conv_uneven.rv1106.i8")).model
    areas = model.areas  # type: ignore[attr-defined]
    model.areas = areas._replace(weights=areas.weights[:100])  # type: ignore[attr-defined]
    with pytest.raises(ModelInvalid, match=r"constant .* leave their area of 100 bytes"):
        read_graph(model)
