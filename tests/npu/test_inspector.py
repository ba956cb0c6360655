"""``rknnlite info --npu`` and ``rknnlite perf --npu``."""

from __future__ import annotations

from pathlib import Path

import pytest
from rknnlite_npu.cpu_reasons import cpu_reason
from rknnlite_npu.placement import Bases
from rknnlite_npu.submission import plan

from rknnlite import plugins
from rknnlite.formats import ModelFile
from tests.cli.conftest import Call, call
from tests.support.classic import downgrade
from tests.support.corpus import EXAMPLES, genuine

from .plans import SOCS, planned, plans_of

__all__ = ["call"]  # the fixture

RESNET = EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn"


def test_info_tells_it_where_it_is_asked(call: Call) -> None:
    done = call("info", RESNET, "--npu")
    lines = [line.split() for line in done.out.splitlines()]
    assert ["3", "ConvRelu", "1", "130", "16257024", "108560", "100352", "Conv:/4/body/body.0/Conv"] in lines
    assert ["all", "25", "3088", "282702912", "3481840", "1295392"] in lines
    assert ["0x3", "2", "26", "+", "23", "50", "%", "+", "50", "%", "4026672", "543279"] in lines
    assert 'Reshape "Reshape:output_mm_tp_rs": others of its type run on the NPU' in done.out
    assert done.out.splitlines()[-1] == "  none"
    assert "on the NPU" not in call("info", RESNET).out


def test_info_as_data(call: Call) -> None:
    told = call("info", RESNET, "--npu", "--json").data["npu"]
    assert sum(node["macs"] for node in told["nodes"]) == 282702912
    assert [way["mask"] for way in told["cores"]] == [1, 3, 7]
    assert [way["tasks"] for way in told["cores"]] == [[25], [26, 23], [25, 22, 22]]
    assert sum(told["cores"][2]["macs"]) == 282702912 and told["limits"] == [] == told["never_recorded"]
    assert [node["op"] for node in told["cpu"]] == ["Reshape"]


def test_what_is_not_known_is_said(call: Call, tmp_path: Path) -> None:
    old = tmp_path / "old.rknn"
    old.write_bytes(downgrade(genuine("conv_relu.rk3588.i8"), 2))
    done = call("info", old, "--npu")
    assert (
        done.code == 0
        and "on the NPU: not known: " in done.out
        and "container 2: how the runtime makes" in done.out
    )
    refused = call("perf", old, "--npu")
    assert refused.code == 3 and "container 2: how the runtime makes" in refused.err


def test_perf_estimates_without_a_run(call: Call) -> None:
    done = call("perf", RESNET, "--npu", "--core-mask", "all")
    assert "an estimate from counts at 1 GHz, nothing was run" in done.out
    row = next(line.split() for line in done.out.splitlines() if line.endswith("Conv:/4/body/body.0/Conv"))
    assert row == [
        "3", "ConvRelu", "INT8", "NPU", "(1,24,56,56)", "(1,24,56,56)", "9827", "9648", "9827", "9.8", "53.9", "34%/34%/32%", "3",
        "226.95", "Conv:/4/body/body.0/Conv",
    ]  # fmt: skip
    cpu = next(line.split() for line in done.out.splitlines() if "Reshape:output_mm_tp_rs" in line)
    assert cpu[3] == "CPU" and cpu[6:14] == ["\\"] * 8


def test_perf_as_data(call: Call) -> None:
    told = call("perf", RESNET, "--npu", "--json").data
    assert told["layers"][2]["npu_cycles"] == "28224" and told["layers"][2]["tasks"] == "1"
    assert told["layers"][-1]["time_us"] is None
    assert told["total_us"] == pytest.approx(998.59, abs=0.01)


def test_an_estimate_is_of_a_file_alone(call: Call) -> None:
    done = call("perf", RESNET, "--npu", "--html", "x.html")
    assert done.code == 2 and "leave out --html" in done.err
    assert call("perf", RESNET, "--npu", "--core-mask", "5").code == 2


@pytest.mark.parametrize("command", ["info", "perf"])
def test_without_the_plugin_it_is_said(call: Call, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr(plugins, "inspectors", dict)
    done = call(command, RESNET, "--npu")
    assert done.code == 4 and "--npu is not here" in done.err


@pytest.mark.parametrize(
    ("name", "op", "why"),
    [
        ("arithmetic.rk3588.i8", "Div", "others of its type run on the NPU"),
        ("arithmetic.rk3588.i8", "Min", "no file seen has this type on the NPU"),
        ("ranking.rk3576.i8", "TopK", "its values are int64, which the NPU does not compute with"),
        ("gru.rv1103b.i8", "exGRU", "its values are float32"),
    ],
)
def test_why_nodes_run_on_the_cpu(name: str, op: str, why: str) -> None:
    found = planned(name)
    node = next(node for node in found.cpu_nodes if node.type == op)
    assert cpu_reason(found.program, node).startswith(why)


def test_custom_operators_run_elsewhere() -> None:
    found = plan(ModelFile(EXAMPLES / "custom_op" / "dual_for_RK3588.rknn").model, Bases())
    assert [cpu_reason(found.program, n) for n in found.cpu_nodes if n.type.startswith("cst")] == [
        "a custom operator runs where its author's code does"
    ]


@pytest.mark.parametrize("soc", SOCS)
def test_every_node_of_the_cpu_has_a_reason(soc: str) -> None:
    for name, found in plans_of(soc):
        assert all(cpu_reason(found.program, node) for node in found.program.nodes), name
