"""What judges the zoo's networks, without converter and exporters."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rknnlite.formats import ModelFile
from rknnlite.quant import RANGES
from tests.support.corpus import DATA, open_cpu

TOOLS = Path(__file__).resolve().parent.parent / "tools"


def test_no_two_networks_have_one_name() -> None:
    """Else the zoo does not even start; its networks are looked at as text, since building them takes what few have."""
    if not TOOLS.is_dir():
        pytest.skip("an installed package has no tools")
    places: dict[str, list[str]] = {}
    for path in sorted((TOOLS / "zoo").glob("nets_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            called = (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "network"
            )
            if called and isinstance(node.args[0], ast.Constant):
                places.setdefault(node.args[0].value, []).append(path.name)
    assert len(places) > 50
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


@pytest.fixture
def zoo(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Modules of the zoo and of the sweep, which it shares; their names are common, so they leave no trace."""
    if not TOOLS.is_dir():
        pytest.skip("an installed package has no tools")
    before = set(sys.modules)
    for folder in ("sweep", "zoo"):
        monkeypatch.syspath_prepend(str(TOOLS / folder))
    import answers
    import boxes
    import joined
    import layers
    import meanings
    import measure
    import page
    import stored
    import table
    import table_layers
    import trained

    found = SimpleNamespace(
        answers=answers,
        boxes=boxes,
        joined=joined,
        layers=layers,
        meanings=meanings,
        measure=measure,
        page=page,
        stored=stored,
        table=table,
        table_layers=table_layers,
        trained=trained,
    )
    for name in set(sys.modules) - before:
        if str(TOOLS) in str(getattr(sys.modules[name], "__file__", "")):
            monkeypatch.delitem(sys.modules, name)
    return found


def test_sections_of_a_page(zoo: SimpleNamespace, tmp_path: Path) -> None:
    """Each command replaces its own section and nothing else."""
    page = tmp_path / "page.md"
    zoo.page.put(page, "sweep", "# One")
    zoo.page.put(page, "zoo", "## Two")
    zoo.page.put(page, "sweep", "# Three")
    text = page.read_text(encoding="utf-8")
    assert "# One" not in text
    assert text.index("# Three") < text.index("## Two")
    assert text.count("<!-- sweep: begin -->") == text.count("<!-- zoo: end -->") == 1


def test_closeness_to_both(zoo: SimpleNamespace) -> None:
    """Steps and shares against the simulator; distances of both to the float network."""
    simulator = np.linspace(-1, 1, 100, dtype=np.float32)
    ours = simulator.copy()
    ours[:3] += np.array([0.1, 0.2, 0.3], np.float32)
    found = zoo.measure.closeness(zoo.answers.ComparedOutput(ours, simulator, 0.1), simulator)
    assert found.steps == pytest.approx(3, abs=0.01)
    assert found.within_one == pytest.approx(0.98)
    assert found.within_two == pytest.approx(0.99)
    assert found.simulator == 0.0 < found.ours


def test_layers_that_explain(zoo: SimpleNamespace) -> None:
    """A network is explained when no layer alone is more than a step off."""
    near = zoo.layers.Layer("ConvHardSwish", "a", 1.0, 0.75)
    far = zoo.layers.Layer("Conv", "b", 40.0, 0.9, near=0.95)
    outcome = zoo.measure.Outcome.DIFFERS
    good = zoo.measure.Measured("net", "rk3588.i8", outcome, layers=(near,))
    bad = zoo.measure.Measured("net", "rk3588.i8", outcome, layers=(near, far))
    assert good.explained
    assert not bad.explained
    assert bad.odd is far


def test_a_conversion_that_failed_stands_in_the_tables(zoo: SimpleNamespace, tmp_path: Path) -> None:
    """Networks that were not converted are named with what the toolkit said."""
    folder = tmp_path / "net"
    folder.mkdir()
    facts = {"config": {}, "exporter": "torch.onnx", "opset": 12, "trained": True, "inputs": [[1, 3, 64, 64]]}
    (folder / "zoo.json").write_text(json.dumps(facts))
    (folder / "rk3588.i8.fail").write_text("exit 1: no")
    (network,) = zoo.stored.networks_in(tmp_path)
    results = [zoo.measure.measure(network, target) for target in ("rk3588.i8", "rk3588.fp16")]
    assert [r.outcome.value for r in results] == ["not converted", "waiting"]
    (row,) = zoo.table.rows(results, [network]).rows
    assert row == [
        "net", "RK3588", "int8", "not converted", "", "", "exit 1: no",
        "torch.onnx, opset 12", "trained", "1x3x64x64", "6",
    ]  # fmt: skip
    assert "RK3588" not in zoo.table.markdown(results).partition("| SoC, type |")[2]  # nothing to count


def test_trained_networks_are_rows_and_a_summary(zoo: SimpleNamespace) -> None:
    """Readings with their cosines, what was not converted, and medians of those that are shares."""
    package = {"name": "reader", "version": "1.0", "licence": "MIT"}
    facts = {"meaning": "text", "package": package, "calibrations": 20, "many": 24}
    network = SimpleNamespace(name="reader_net", facts=facts, calibrations=20, many=24)
    simulator, ours, both = (
        zoo.trained.Agreement(c, r) for c, r in ((0.99, 98.0), (0.995, 97.0), (1.0, 100.0))
    )
    good = zoo.trained.Trained(network, simulator, ours, both, within=0.9, steps=3)
    results = {"rk3588.i8": [good, zoo.trained.Trained(network, note="exit 1: no")]}
    first, second = zoo.trained.rows(results).rows
    assert first[:2] == ["reader_net", "int8"]
    assert first[3:] == [
        "98.0 (0.9900)",
        "97.0 (0.9950)",
        "100.0 (1.0000)",
        "90.0 %, 3 at most",
        "reader 1.0",
        "MIT",
    ]
    assert second[3] == "not converted: exit 1: no"
    assert "| RK3588, int8 | 1 of 1 | 98.0 % | 97.0 % | 100.0 % |" in zoo.trained.markdown(results)


def test_rounding_of_what_the_simulator_kept(zoo: SimpleNamespace) -> None:
    """Step and range come from the values, which are text of six decimals; float values have no rounding."""
    kept = np.round(0.0137 * np.array([-20, -3, 0, 7, 9, 100, 101]), 6).astype(np.float32)
    rounding = zoo.joined.rounding_of(kept)
    assert rounding.step == pytest.approx(0.0137, rel=1e-5)
    assert (rounding.low, rounding.high) == pytest.approx((-0.274, 1.3837))
    assert zoo.joined.rounding_of(np.linspace(-1, 1, 1000, dtype=np.float32) ** 3) is None


def test_halves_and_slack_agree(zoo: SimpleNamespace) -> None:
    """A value half way between two levels may go either way; values beyond the range are cut off."""
    rounding = zoo.joined.Rounding(1.0, -3.0, 3.0)
    real = np.array([0.5, 0.5, 0.6, 0.6, 9.0])
    kept = np.array([0.0, 1.0, 1.0, 0.0, 3.0])
    assert rounding.agreement(real, kept) == pytest.approx(0.8)
    assert rounding.agreement(real, kept, 0.1) == 1.0


@pytest.fixture
def silu(zoo: SimpleNamespace) -> SimpleNamespace:
    """A convolution with SiLU: what a simulator keeps that rounds between the two, and the real numbers."""
    file = ModelFile(DATA / "act_silu.rk3588.i8.rknn")
    with open_cpu(file) as context:
        graph = context._shapes.current.plan.graph  # type: ignore[attr-defined]
    node = next(node for node in graph.nodes if node.op == "ConvExSwish")
    source, target = (graph.tensors[i] for i in (node.inputs[0], node.outputs[0]))
    rng = np.random.default_rng(3)
    low, high = RANGES[source.dtype]
    x = (rng.integers(low, high, source.shape, endpoint=True) - source.quant.zero_point) * source.quant.scale
    kept = {source.name: x.astype(np.float32), target.name: np.zeros(target.shape, np.float32)}
    simulator = zoo.joined.Simulated(graph, kept)
    (first, parts), *_ = simulator._splits(
        simulator._real.nodes[graph.nodes.index(node)], [kept[source.name]], 0
    )
    step = np.float32(np.ptp(first) / 200)
    between = np.rint(first / step) * step

    def stored(real: Any) -> Any:
        scale, zero = target.quant.scale, target.quant.zero_point
        return (np.clip(np.rint(real / scale), -128 - zero, 127 - zero) * scale).astype(np.float32)

    kept["between"] = between
    kept[target.name] = stored(parts[0](between.copy()))
    ours = stored(parts[0](first.copy()))
    return SimpleNamespace(graph=graph, kept=kept, index=node.outputs[0], ours=ours, target=target.name)


def test_a_rounding_between_the_parts_is_proven(zoo: SimpleNamespace, silu: SimpleNamespace) -> None:
    """The layer differs, and is the simulator's with the rounding that the simulator's own value shows."""
    assert (silu.ours == silu.kept[silu.target]).mean() < 0.99
    proof = zoo.joined.Simulated(silu.graph, silu.kept).prove(silu.index, silu.ours)
    assert proof.share == 1.0
    assert proof.between == 1
    assert proof.integers >= 0.999


def test_other_differences_are_not_proven(zoo: SimpleNamespace, silu: SimpleNamespace) -> None:
    """Without that value there is no proof, nor where our own bytes are not what the real numbers say."""
    kept = {name: value for name, value in silu.kept.items() if name != "between"}
    assert zoo.joined.Simulated(silu.graph, kept).prove(silu.index, silu.ours).share < 0.99
    wrong = zoo.joined.Simulated(silu.graph, silu.kept).prove(silu.index, silu.ours * 0.9)
    layer = zoo.layers.Layer("ConvExSwish", "a", 30.0, 0.5, near=0.6, proof=wrong)
    assert wrong.share == 1.0
    assert not layer.proven
    assert not layer.fits


def test_one_odd_value_of_a_small_layer(zoo: SimpleNamespace) -> None:
    """575 of 576 is less than 99.9 %, and all that a small layer can be off."""
    proof = zoo.joined.Proof(575 / 576, 1)
    assert zoo.layers.Layer("ConvHardSwish", "a", 3.0, 0.88, near=0.998, proof=proof, size=576).fits
    assert not zoo.layers.Layer("ConvHardSwish", "a", 3.0, 0.88, near=0.998, proof=proof, size=5760).fits


def test_findings_of_a_network(zoo: SimpleNamespace) -> None:
    """The table counts what the layers tell: equal, proven, near, and names what is none of these."""
    even = zoo.layers.Layer("Conv", "a", 0.0, 1.0)
    proven = zoo.layers.Layer("ConvExSwish", "b", 2.0, 0.7, near=0.99, proof=zoo.joined.Proof(1.0, 1))
    far = zoo.layers.Layer("Div", "c", 127.0, 0.5, near=0.5)
    outcome = zoo.measure.Outcome.DIFFERS
    good = zoo.measure.Measured("net", "rk3588.i8", outcome, layers=(even, proven))
    bad = zoo.measure.Measured("net", "rk3588.i8", outcome, layers=(even, proven, far))

    assert zoo.table_layers.told(good) == "each of 2 layers alone: 1 equal, 1 with the simulator's roundings"
    assert zoo.table_layers.told(bad).startswith("not explained yet: 1 of 3 layers")
    assert ["ConvExSwish", "1", "0", "1", "0", "0", "70 %"] in zoo.table_layers.kinds([good]).rows


def test_float_layers_fit_in_units_of_the_last_place(zoo: SimpleNamespace) -> None:
    """Subnormal numbers of float16 have a coarse unit; two of it are no error."""
    unit = zoo.joined.half_unit(np.array([1.0, 1.5, 2.0, 1e-6]))
    assert unit.tolist() == [2.0**-10, 2.0**-10, 2.0**-9, 2.0**-24]
    assert zoo.layers.Layer("Mul", "a", 0.015, 0.4, near=1.0, quantised=False).fits
    assert not zoo.layers.Layer("Mul", "a", 0.015, 0.4, near=0.9, quantised=False).fits


def test_layers_that_fail_leave_the_conversion(zoo: SimpleNamespace, tmp_path: Path) -> None:
    """A network whose tensors cannot be kept stays converted."""
    pytest.importorskip("onnx")
    from convert import Job

    stem = tmp_path / "rk3588.i8"
    (tmp_path / "rk3588.i8.npz").write_bytes(b"")
    (tmp_path / "rk3588.i8.rknn").write_bytes(b"")
    job = Job(None, "rk3588.i8", stem, layers=True)  # type: ignore[arg-type]
    assert not job.done
    job.fail("time limit")
    assert job.done
    assert not job.converted
    assert (tmp_path / "rk3588.i8.rknn").exists()
    assert not (tmp_path / "rk3588.i8.fail").exists()


def test_a_normalisation_in_the_steps_of_its_calibration(zoo: SimpleNamespace) -> None:
    """The simulator of RV1106 rounds inside of it; with the ranges of the calibration it is the same to the byte."""
    with open_cpu(ModelFile(DATA / "vit_like.rk3588.i8.rknn")) as context:
        graph = context._shapes.current.plan.graph  # type: ignore[attr-defined]
    node = next(node for node in graph.nodes if node.op == "exNorm")
    source, target = (graph.tensors[i] for i in (node.inputs[0], node.outputs[0]))
    rng = np.random.default_rng(5)
    levels = rng.integers(-128, 127, source.shape, endpoint=True)
    x = ((levels - source.quant.zero_point) * source.quant.scale).astype(np.float32)
    kept = {
        source.name: x,
        target.name: np.zeros(target.shape, np.float32),
        "net/norm": np.array([4.0, 2.0, 3.0]),
    }
    simulator = zoo.joined.Simulated(graph, kept)
    place = graph.nodes.index(node)
    ways = list(simulator._in_steps(simulator._real.nodes[place], [x]))
    assert len(ways) == 2  # int8 and int16
    scale, zero = target.quant.scale, target.quant.zero_point
    stored = (np.clip(np.rint(ways[0][0] / scale) + zero, -128, 127) - zero) * scale
    kept[target.name] = stored.astype(np.float32)
    plain = simulator._run(simulator._real.nodes[place], [x], 0)
    proof = simulator.prove(node.outputs[0], plain.astype(np.float32))
    assert proof is not None
    assert proof.share == 1.0
    assert simulator._own(node.outputs[0], stored).agreement(plain, kept[target.name]) < 0.9


def test_what_a_user_reads(zoo: SimpleNamespace) -> None:
    """Texts by edits, boxes by overlap, vectors by their nearest other."""
    meanings = zoo.meanings.MEANINGS
    assert zoo.meanings.edits([1, 2, 3], [1, 3, 4]) == 2
    steps = np.eye(5, dtype=np.float32)[[0, 2, 2, 0, 2, 3]]
    assert meanings["text"].read([steps]) == [2, 2, 3]
    assert meanings["text"].compare([[2, 2, 3]], [[2, 3]]) == pytest.approx(100 * 2 / 3)
    mask = np.zeros((40, 40), bool)
    mask[2:8, 3:20] = mask[20:30, 5:9] = True
    found = zoo.boxes.regions(mask)
    assert found.tolist() == [[3, 2, 20, 8, 0], [5, 20, 9, 30, 0]]
    assert zoo.boxes.matched([found], [found[:1]]) == pytest.approx(100 * 2 / 3)
    assert zoo.boxes.matched([found[:0]], [found[:0]]) == 100.0
    vectors = [np.array(v, float) for v in ((1, 0), (1, 0.1), (0, 1), (0.1, 1))]
    assert meanings["embedding"].compare(vectors, vectors) == 100.0


def test_overlapping_boxes_leave_the_best(zoo: SimpleNamespace) -> None:
    """YOLOv8's answer: of two boxes on one thing the likelier stays, of another class both do."""
    columns = [
        (50, 50, 20, 20, 0.9, 0),
        (51, 50, 20, 20, 0.8, 0),
        (50, 51, 20, 20, 0, 0.7),
        (90, 9, 8, 8, 0.1, 0),
    ]
    boxes = zoo.boxes.yolov8([np.array(columns, np.float32).T[None]])
    assert boxes.tolist() == [[40, 40, 60, 60, 0], [40, 41, 60, 61, 1]]
