"""What judges the zoo's networks, without converter and exporters."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

TOOLS = Path(__file__).resolve().parent.parent / "tools"


@pytest.fixture
def zoo(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Modules of the zoo and of the sweep, which it shares; their names are common, so they leave no trace."""
    if not TOOLS.is_dir():
        pytest.skip("an installed package has no tools")
    before = set(sys.modules)
    for folder in ("sweep", "zoo"):
        monkeypatch.syspath_prepend(str(TOOLS / folder))
    import answers
    import layers
    import measure
    import page
    import stored
    import table

    found = SimpleNamespace(
        answers=answers, layers=layers, measure=measure, page=page, stored=stored, table=table
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
    found = zoo.measure.closeness(zoo.answers.Answer(ours, simulator, 0.1), simulator)
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
    text = zoo.table.markdown(results, [network])
    assert "`net` T" in text
    assert "exit 1: no" in text
