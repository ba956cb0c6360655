"""Files that say something no verified file says are loaded with a line that names it."""

from __future__ import annotations

import contextlib
import logging
import struct

import numpy as np
import pytest
from rknnlite_cpu import ops, registry
from rknnlite_graph.graph import Graph, Guess, Node, Tensor, TensorRole
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.read import read_graph
from rknnlite_graph.reading.attributes import unread_attributes
from rknnlite_graph.reading.fused_ops import fused_op
from rknnlite_graph.reading.tensor_storage import Storage
from rknnlite_graph.reading.unverified_facts import (
    CONTROL_REGISTERS,
    SEEN,
    SEEN_ELSEWHERE,
    WORDLESS,
    WORDS,
    about_attributes,
    about_container,
    about_registers,
)

from rknnlite.errors import ModelInvalid
from rknnlite.formats import ModelFile
from rknnlite.formats.flatbuffer import root
from rknnlite.formats.slots import NodePlace, UnionCode
from rknnlite.tensor import DType
from tests.support import swept
from tests.support.corpus import DATA, EXAMPLES, genuine, open_cpu
from tests.support.flat import build, i32s

STEM = "conv_relu.rk3588.i8"
UNKNOWN_BIT = 0x2000


def with_register(stem: str, register: int, bits: int) -> bytes:
    """A genuine file in which every command that sets a register of the output stage sets more bits of it."""
    data = bytearray(genuine(stem).read_bytes())
    places = [
        at
        for at in range(0, len(data) - 8, 8)
        if struct.unpack_from("<H", data, at)[0] == register
        and struct.unpack_from("<H", data, at + 6)[0] in (0x1001, 0x2001, 0x4001)
    ]
    assert places
    for at in places:
        (word,) = struct.unpack_from("<Q", data, at)
        struct.pack_into("<Q", data, at, word | bits << 16)
    return bytes(data)


def known_right() -> list[tuple[str, ModelFile]]:
    """Every file that the tests compare with the simulator."""
    uneven = DATA / "uneven.tar.xz"
    plain = [(path.name, path) for path in (*DATA.glob("*.rknn"), *EXAMPLES.rglob("*.rknn"))]
    packed = [(f"{stem}.rknn", swept.members(uneven)[f"{stem}.rknn"]) for stem in swept.stems(uneven)]
    found = []
    for name, source in (*plain, *packed):
        with contextlib.suppress(ModelInvalid):  # kept to be refused
            found.append((name, ModelFile(source)))
    return found


ASSUMED = {"int16_fused.rk3562.i16.rknn", "int16_fused.rk3588.i16.rknn"}
"""Files that do not hold alpha of their Elu: right, because it is the one that is taken."""


def test_files_known_right_make_no_guess() -> None:
    wrong = {}
    for name, file in known_right():
        try:
            model = file.model
            guesses = [
                guess
                for index in range(max(1, len(model.shapes)))
                for guess in read_graph(model, index).guesses
            ]
        except ModelInvalid:
            continue  # kept to be refused
        if guesses:
            wrong[name] = guesses
    assert set(wrong) == ASSUMED, wrong
    assert all("alpha of its Elu is not in the file; 1 is taken" in guess.fact for (guess,) in wrong.values())


def test_an_unknown_bit_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    model = ModelFile(with_register(STEM, 0x4060, UNKNOWN_BIT)).model
    with caplog.at_level(logging.WARNING, "rknnlite"):
        graph = read_graph(model)
        read_graph(model)
    (line,) = [record.getMessage() for record in caplog.records if "not verified" in record.getMessage()]
    (node,) = [node for node in graph.nodes if node.conv is not None]
    assert node.label() in line and "register 0x4060" in line and "its bits 0x2000 in none" in line
    assert graph.guesses == [Guess(node.label(), node.doubts[0])]


@pytest.mark.parametrize("family", list(CONTROL_REGISTERS))
def test_each_family_has_its_control_registers(family: str) -> None:
    for register, mask in CONTROL_REGISTERS[family].items():
        known = next(iter(SEEN[family][register]))
        assert about_registers(family, {register: known | ~mask & 0xFFFFFFFF}) == []
        free = next(
            bit for bit in range(32) if mask >> bit & 1 and known ^ 1 << bit not in SEEN[family][register]
        )
        (fact,) = about_registers(family, {register: known ^ 1 << free})
        assert f"{register:#06x}" in fact


def test_layers_with_shared_parameters_are_in_the_table() -> None:
    """No file known before had these values; their layers came out wrong without a word."""
    for family, register, value in (
        ("RKNPU f2", 0x501C, 0x11C),
        ("RKNPU t4", 0x4050, 0),
        ("RKNPU w1", 0x4030, 0x40020042),
    ):
        assert value in SEEN[family][register]


def test_attributes_that_nobody_reads() -> None:
    def table(slot: int) -> object:
        return root(memoryview(build({slot: i32s(1, 2)})), b"RKNN")

    assert unread_attributes("Conv", UnionCode.CONV, table(4)) == []  # type: ignore[arg-type]
    assert unread_attributes("MaxPool", UnionCode.MAX_POOL, table(0)) == []  # type: ignore[arg-type]
    (fact,) = unread_attributes("Conv", UnionCode.CONV, table(9))  # type: ignore[arg-type]
    assert fact == "attribute 9 in its table of kind 1 is filled, but not known"
    (fact,) = unread_attributes("exNew", 120, table(0))  # type: ignore[arg-type]
    assert "unknown kind 120" in fact
    assert (
        unread_attributes("Cos", 72, root(memoryview(build({})), b"RKNN"))
        == unread_attributes("Cos", 72, None)
        == []
    )


def test_containers_and_toolkits() -> None:
    assert about_container(6, "2.5.0") == about_container(2, "1.4.0b9") == about_container(6, "") == []
    (fact,) = about_container(6, "2.6.0")
    assert "toolkit 2.6" in fact and "up to 2.5" in fact
    assert "container version 5" in about_container(5, "1.5.2")[0]


# -- nodes that are no convolutions, attributes ---------------------------------------------------------------


@pytest.mark.parametrize("family", list(CONTROL_REGISTERS))
def test_each_family_has_registers_of_other_nodes(family: str) -> None:
    for register, mask in CONTROL_REGISTERS[family].items():
        seen = SEEN_ELSEWHERE[family][register]
        assert about_registers(family, {register: seen[0]}, "Add", convolution=False) == []
        free = next(bit for bit in range(32) if mask >> bit & 1 and seen[0] ^ 1 << bit not in seen)
        (fact,) = about_registers(family, {register: seen[0] ^ 1 << free}, "Add", convolution=False)
        assert f"{register:#06x}" in fact


@pytest.mark.parametrize(("op", "method"), [("MaxPool", 0x10), ("AveragePool", 0x11)])
def test_pooling_of_another_kind_is_told(op: str, method: int) -> None:
    (fact,) = about_registers("RKNPU v2", {0x6024: method}, op, convolution=False)
    assert "another kind of pooling" in fact
    assert about_registers("RKNPU v2", {0x6024: method ^ 1}, op, convolution=False) == []


def test_a_pooling_that_writes_into_a_wider_tensor_is_no_other_kind() -> None:
    """SPPF in files of toolkit 1.5: bits 28 to 16 say how many lines are skipped."""
    assert about_registers("RKNPU v2", {0x6024: 0xA0011}, "MaxPool", convolution=False) == []
    for other in (0xA0010, 0x400A0011):
        (fact,) = about_registers("RKNPU v2", {0x6024: other}, "MaxPool", convolution=False)
        assert f"{other:#x}" in fact


def about(op: str, **attrs: object) -> list[str]:
    return about_attributes(Node(0, op, "n", [0], [1], attrs=dict(attrs), fused=fused_op(op)))


def test_words_and_switches_that_no_verified_node_has() -> None:
    assert about("Resize", mode="linear", coordinate_transformation_mode="half_pixel") == []
    (fact,) = about("Resize", mode="cubic")
    assert fact == "its attribute mode is 'cubic', which no verified Resize has"
    (fact,) = about("Resize", mode="linear", antialias=1)
    assert "antialias" in fact
    (fact,) = about("TopK", axis=1, sorted=0)
    assert "sorted is 0" in fact
    assert about("TopK", axis=77, sorted=1) == about("LRN", size=12345) == []
    assert about("ConvRelu", group=4, strides=[2, 2]) == []
    assert about("myOperator", anything="goes") == []


def test_types_that_no_verified_file_has() -> None:
    for op in ("Gemm", "ConvTransposeMul"):
        (fact,) = about(op)
        assert fact == f"no verified file has a node of type {op}"


def test_every_type_that_is_computed_is_known_or_told() -> None:
    """A new handler without a verified file has to stand among the unseen types."""
    ops.load_rare()
    for op in registry._BUILDERS:
        convolution = fused_op(op)
        base = convolution.accumulator.value if convolution and convolution.accumulator.value else op
        assert (
            base in WORDS or base in WORDLESS or about(op) == [f"no verified file has a node of type {op}"]
        ), op


def kept(case: str, target: str) -> bytes:
    return swept.members(DATA / "guessed" / f"{case}.tar.xz")[f"{target}.rknn"]


@pytest.mark.parametrize(
    ("case", "attributes"),
    [("rnn_reverse", {"direction": "reverse"}), ("rnn_relu", {"activations": ["Relu"]})],
)
def test_attributes_that_the_mini_format_leaves_out_of_a_rnn(
    case: str, attributes: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    """Both files are those of a plain RNN, in which Tanh and forward are taken."""
    archive = DATA / "guessed" / f"{case}.tar.xz"
    (wanted,) = swept.arrays(archive, "rv1106.i8.out")
    with (
        caplog.at_level(logging.WARNING, "rknnlite"),
        open_cpu(ModelFile(kept(case, "rv1106.i8"))) as context,
    ):
        (guessed,) = context.infer(swept.arrays(archive, "in"))
        step = context.outputs[0].quant.scale
    (line,) = [record.getMessage() for record in caplog.records]
    assert "activations Tanh, direction forward taken, unless attributes= gives others" in line
    assert abs(guessed - wanted).max() > 50 * step
    with open_cpu(ModelFile(kept(case, "rv1106.i8")), extra={"attributes": {"RNN": attributes}}) as context:
        (found,) = context.infer(swept.arrays(archive, "in"))
    assert abs(found - wanted).max() < 3.5 * step


@pytest.mark.parametrize("attributes", [{"activations": ["Sigmoid", "Tanh", "Relu"]}, {"clip": 0.3}])
def test_an_lstm_with_other_functions_is_refused(attributes: dict[str, object]) -> None:
    tensors = [Tensor(i, f"t{i}", DType.FLOAT32, (4, 1, 4), TensorRole.INPUT) for i in range(2)]
    node = Node(0, "LSTM", "n", [0], [1], attrs=attributes)
    with pytest.raises(ModelInvalid, match="supported"):
        ops.builder_of("LSTM")(NodeView(Graph(tensors, [node], [0], [1]), node))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("op", "attribute", "word"),
    [("Pad", "mode", "mirror"), ("DepthToSpace", "mode", "XYZ"), ("Resize", "nearest_mode", "odd"),
     ("Resize", "coordinate_transformation_mode", "new"), ("GridSample", "padding_mode", "wrap"),
     ("GridSample", "mode", "lanczos"), ("RoiAlign", "coordinate_transformation_mode", "pixel"), ("RoiAlign", "mode", "max"),
     ("exMatMul", "c_type", "pow"), ("Gelu", "approximate", "tanh"), ("RNN", "direction", "sideways")],
)  # fmt: skip
def test_unknown_words_are_refused(op: str, attribute: str, word: str) -> None:
    tensors = [Tensor(i, f"t{i}", DType.FLOAT32, (1, 4, 4, 4), TensorRole.INPUT) for i in range(4)]
    node = Node(0, op, "n", [0, 1, 2], [3], attrs={attribute: word, "blocksize": 2})
    with pytest.raises(ModelInvalid, match=f"{attribute} '{word}'"):
        view = NodeView(Graph(tensors, [node], [0, 1, 2], [3]), node)
        values = [np.zeros((1, 4, 4, 4), np.float32)] * 3
        ops.builder_of(op)(view)(values)  # type: ignore[misc]


@pytest.mark.parametrize(("stem", "op"), [("pooling.rk3588.i8", "MaxPool"), ("arithmetic.rk3588.i8", "Sub")])
def test_a_genuine_file_with_another_register_speaks(stem: str, op: str) -> None:
    register = 0x6024 if op == "MaxPool" else 0x5034
    graph = read_graph(ModelFile(with_register(stem, register, UNKNOWN_BIT)).model)
    assert any(guess.node.startswith(op) and f"{register:#06x}" in guess.fact for guess in graph.guesses)


def test_a_genuine_file_with_another_word_speaks() -> None:
    data = genuine("resize.rk3588.i8").read_bytes()
    assert data.count(b"half_pixel") >= 1
    graph = read_graph(ModelFile(data.replace(b"half_pixel", b"half_pixes")).model)
    assert any("coordinate_transformation_mode is 'half_pixes'" in guess.fact for guess in graph.guesses)


def test_a_place_that_nobody_knows_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodePlace, "CPU", 5)
    (guess,) = read_graph(swept.model("pad_wrap", "rk3588.i8").model).guesses
    assert (
        guess.node.startswith("Pad")
        and guess.fact == "the code 0 for where it runs is not known; the CPU is taken"
    )


def test_missing_numbers_of_a_table_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    file = ModelFile(genuine("espcn_like.rv1126b.i8"))
    assert not read_graph(file.model).guesses
    named = Storage.named
    monkeypatch.setattr(
        Storage, "named", lambda self, name: None if name.endswith("BNcfgTensor") else named(self, name)
    )
    facts = {guess.fact for guess in read_graph(file.model).guesses}
    assert facts == {"the constant with multiplier and offset of its table is missing; 0 is taken"}


def test_scores_that_are_not_rounded_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rknnlite_graph.reading.products.attention_steps", lambda *_: {})
    facts = [guess.fact for guess in read_graph(ModelFile(genuine("attention.rk3588.i8")).model).guesses]
    assert facts == ["its registers do not tell the steps of its scores; they are not rounded"]
