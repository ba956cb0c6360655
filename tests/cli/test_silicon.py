"""Patterns with reports of wrong results on boards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_graph import known_hardware_issues as issues
from rknnlite_graph.graph import ConvParams, Graph, Node, Tensor, TensorRole
from rknnlite_graph.known_hardware_issues import PATTERNS

from rknnlite.formats import ModelFile
from rknnlite.spi.finding import Level
from rknnlite.tensor import DType
from tests.cli.conftest import RESNET, Call
from tests.support.corpus import genuine
from tests.support.handmade import one_node
from tests.support.swept import flawed

HALF = DType.FLOAT16


class Played:
    """A model whose graph is given."""

    default_shape = 0

    def __init__(self, graph: Graph, soc: str) -> None:
        self.graph, self.platform, self.platforms = graph, soc, (soc,)


def line(shapes: list[tuple[int, ...]], *nodes: Node) -> Graph:
    tensors = [Tensor(i, f"t{i}", HALF, shape, TensorRole.ACTIVATION) for i, shape in enumerate(shapes)]
    return Graph(tensors, list(nodes), [0], [len(shapes) - 1])


def conv(inputs: list[int], outputs: list[int], stride: int = 1) -> Node:
    params = ConvParams(lambda: None, (1, 1, 1, 1), False, False, False, (stride, 1), (1, 1), (0, 0))  # type: ignore[arg-type, return-value]
    return Node(9, "Conv", "c", inputs, outputs, on_npu=True, conv=params)


def named(graph: Graph, soc: str) -> list[str]:
    played: Any = Played(graph, soc)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(issues, "told_graph", lambda model: model.graph)
        return [one.pattern for one in issues.suspicions(played)]


def test_what_rk3588_has_got_wrong() -> None:
    mean = Node(0, "ReduceMean", "m", [0], [1], on_npu=True)
    graph = line([(1, 8, 4, 9), (1, 8, 1, 9), (1, 8, 1, 9)], mean, conv([1], [2]))
    assert named(graph, "rk3588") == ["flat-convolution-after-mean"] and named(graph, "rk3576") == []
    add = Node(0, "AddRelu", "a", [0, 1], [2], on_npu=True)
    assert named(line([(1, 8, 4, 9), (1, 8, 1, 9), (1, 8, 4, 9)], add), "rk3588") == ["broadcast-add-relu"]
    assert named(line([(1, 8, 4, 9)] * 3, add), "rk3588") == []


def test_limits_of_registers_and_other_chips() -> None:
    relu = Node(0, "Relu", "r", [0], [1], on_npu=True)
    assert named(line([(1, 8, 1, 8192)] * 2, relu), "rk3562") == ["register-limit"]
    assert named(line([(1, 8, 1, 8191)] * 2, relu), "rk3562") == []
    assert named(line([(1, 8, 90, 9)] * 2, conv([0], [1], 10)), "rk3562") == ["stride-limit"]
    resize = Node(0, "Resize", "s", [0], [1], attrs={"mode": "linear"}, on_npu=True)
    assert named(line([(1, 8, 4, 4)] * 3, resize, replace(relu, inputs=[1], outputs=[2])), "rv1126b") == [
        "linear-resize-inside"
    ]
    assert named(line([(1, 8, 4, 4)] * 2, resize), "rv1126b") == []
    assert named(line([(1, 8, 4, 4)] * 2, replace(relu, on_npu=False)), "rk3588") == ["on-the-cpu"]


@pytest.mark.parametrize(
    ("name", "patterns"),
    [
        ("hidden_low.rk3588.i8", ["elu-table"]),
        ("act_elu.rk3588.i8", []),
        ("lstm.rk3588.fp16", ["lstm-first-states"]),
        ("lstm.rv1106.i8", ["lstm-first-states"]),
    ],
)
def test_what_command_words_tell(name: str, patterns: list[str]) -> None:
    found = [one.pattern for one in issues.suspicions(ModelFile(genuine(name)).model)]
    assert [pattern for pattern in found if pattern != "on-the-cpu"] == patterns


def test_steps_of_whole_atoms_are_not_told_of() -> None:
    steps = line([(5, 1, 24)] * 2, Node(0, "exLSTM", "l", [0], [1], on_npu=True))
    assert named(steps, "rk3588") == []
    assert named(line([(5, 1, 20)] * 2, *steps.nodes), "rk3588") == ["lstm-first-states"]


def test_attention_on_rk3576() -> None:
    graph = line([(1, 8, 64, 64)] * 2, Node(0, "exSDPAttention", "a", [0, 0, 0], [1], on_npu=True))
    assert named(graph, "rk3576") == ["attention-on-rk3576"] and named(graph, "rk3588") == []


def test_rows_without_a_public_report_say_so() -> None:
    """A document of ours is no evidence, but for what is no fault of the chip."""
    for row in PATTERNS:
        if row.level is Level.WARN and not row.source.startswith("https://"):
            assert "no public report is known" in row.source, row.name


def test_every_row_has_a_source_and_a_way_around() -> None:
    assert len({row.name for row in PATTERNS}) == len(PATTERNS)
    for row in PATTERNS:
        assert row.report and row.remedy and row.source.startswith(("https://github.com/", "docs/"))


@pytest.mark.slow
def test_in_the_commands(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "relu.rknn"
    path.write_bytes(one_node())
    done = call("info", "--check", path)
    assert done.code == 0 and "on boards:" in done.out and "computes on the CPU" in done.out
    assert call("info", "--check", "--json", path).data["silicon"][0]["pattern"] == "on-the-cpu"
    assert "silicon" not in call("info", "--json", path).data
    assert any("computes on the CPU" in f["text"] for f in call("doctor", "--json", path).data["findings"])


@pytest.mark.slow
def test_channels_that_lose_their_scale(call: Call, tmp_path: Path) -> None:
    """Named by info --check, by doctor and by compare, with what to do; nothing of it in a plain info."""
    path = flawed("silent_channels", "rk3588.i8", tmp_path)
    done = call("info", "--check", path)
    assert (
        'Conv "Conv:/2/Conv": 6 of 8 channels (2-7); all lost' in done.out
        and "hybrid quantisation" in done.out
    )
    (layer,) = call("info", "--check", "--json", path).data["coarse_multipliers"]
    assert (
        layer["channels"] == layer["lost"] == [2, 3, 4, 5, 6, 7] and layer["of"] == 8 and layer["steps"] > 5
    )
    assert "coarse_multipliers" not in call("info", "--json", path).data
    assert "multipliers" not in call("info", "--check", RESNET).out
    told = [f for f in call("doctor", "--json", path).data["findings"] if "multipliers" in f["text"]]
    assert [f["level"] for f in told] == ["WARN"] and "6 of 8 channels (2-7)" in told[0]["text"]
    words = "compare", path, path, "--float", path
    np.save(tmp_path / "in.npy", np.random.default_rng(1).standard_normal((1, 9, 8, 8)).astype(np.float32))
    done = call(*words[:3], tmp_path / "in.npy", *words[3:])
    assert (
        done.code == 0 and "6 of 8 channels (2-7); all lost" in done.out and "hybrid quantisation" in done.out
    )
    assert call(*words[:3], tmp_path / "in.npy", "--json").data["coarse_multipliers"] == [layer]


@pytest.mark.slow
def test_a_kernel_that_its_registers_do_not_hold(call: Call, tmp_path: Path) -> None:
    path = flawed("long_kernel", "rk3588.i8", tmp_path)
    done = call("info", "--check", path)
    assert done.code == 0 and "kernels larger than their registers hold" in done.out
    assert call("info", "--check", "--json", path).data["silicon"][0]["nodes"] == ['Conv "Conv:/0/Conv"']
    failed = [f for f in call("doctor", "--json", path).data["findings"] if f["level"] == "FAIL"]
    assert "kernel of 1x23, its weight is 1x87" in failed[0]["text"] and "export-onnx" in failed[0]["remedy"]


@pytest.mark.parametrize("path", [RESNET, genuine("conv_relu.rk3588.i8")])
def test_plain_networks_have_no_warning(path: Path) -> None:
    assert [f for f in issues.silicon(ModelFile(path).model) if f.level.value == "warn"] == []
