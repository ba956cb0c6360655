"""What a program on a board waits for: classes that are made and modules that are loaded before it can infer."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rknnlite.spi import Probe
from rknnlite.spi.command import as_json
from rknnlite.tensor import QuantParams
from tests.support.corpus import ROOT

MODEL = ROOT / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"
MOST_DATA_CLASSES = 8
"""Each costs three to four million instructions to make; a named tuple costs one."""

BEFORE = "import sys, numpy, numpy.typing, pluggy\nbefore = set(sys.modules)\n"
NEW = "print(*sorted(set(sys.modules) - before))"


def run(script: str) -> list[str]:
    """The words that a fresh interpreter prints."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "RKNN_LOG_LEVEL": "0"}
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_import_makes_few_data_classes() -> None:
    made = run(
        "import sys, rknnlite.api\n"
        "ours = [module for name, module in sys.modules.items() if name.startswith('rknnlite')]\n"
        "made = {thing for module in ours for thing in vars(module).values()\n"
        "        if isinstance(thing, type) and '__dataclass_fields__' in vars(thing)}\n"
        "print(*sorted(thing.__qualname__ for thing in made))"
    )
    assert 0 < len(made) <= MOST_DATA_CLASSES, made


@pytest.mark.parametrize(
    "seldom",
    [
        "rknnlite_graph.graph",
        "rknnlite_graph.reading.tensor_storage",
        "rknnlite_backend.perf",
        "rknnlite_capi.functions",
        "rknnlite.api._tensor_attr",
        "concurrent.futures",
        "difflib",
    ],
)
def test_import_leaves_to_later_what_few_programs_use(seldom: str) -> None:
    assert seldom not in run(f"{BEFORE}import rknnlite.api\n{NEW}")


@pytest.mark.parametrize(
    "program",
    [
        "import rknnlite",
        "import rknnlite; dir(rknnlite)",
        "import rknnlite.api",
        f"import rknnlite; rknnlite.open({str(MODEL)!r}, backend='cpu').close()",
    ],
)
def test_comparing_is_left_to_those_who_compare(program: str) -> None:
    assert not [name for name in run(f"{BEFORE}{program}\n{NEW}") if name.startswith("rknnlite_insight")]


def test_names_of_the_accuracy_room_are_public_nevertheless() -> None:
    script = (
        "import rknnlite, rknnlite_insight\n"
        "print({'compare', 'to_onnx'} <= set(dir(rknnlite)), {'compare', 'to_onnx'} <= set(rknnlite.__all__))\n"
        "print(rknnlite.compare.__module__, rknnlite.to_onnx.__module__, rknnlite.compare is rknnlite_insight.compare)"
    )
    assert run(script) == [
        "True", "True", "rknnlite_insight.run_comparison", "rknnlite_insight.onnx_export", "True",
    ]  # fmt: skip


def test_what_is_imported_later_is_found() -> None:
    script = (
        "import rknnlite.spi as spi\nfrom rknnlite.api import rknn_runtime\n"
        "print(spi.PerfRow.__name__, spi.MemorySize.__name__, rknn_runtime.RKNNOutput.__name__,\n"
        "      'PerfTable' in dir(spi), hasattr(spi, 'Nothing'), hasattr(rknn_runtime, 'Nothing'))"
    )
    assert run(script) == ["PerfRow", "MemorySize", "RKNNOutput", "True", "False", "False"]


def test_reading_a_model_builds_nothing_and_needs_no_masked_arrays() -> None:
    loaded = run(
        f"{BEFORE}from rknnlite.formats import ModelFile\nassert ModelFile({str(MODEL)!r}).model.inputs\n{NEW}"
    )
    assert "rknnlite.formats.rknn6" in loaded
    assert not {"numpy.ma", "rknnlite_graph.graph", "rknnlite_graph.reading.builder"} & set(loaded)


def test_named_tuples_are_objects_in_json() -> None:
    assert as_json([QuantParams(0.5, -3)]) == [{"scale": 0.5, "zero_point": -3}]
    assert as_json(Probe(True, "here"))["reason"] == "here"


def test_reporting_crashes_needs_no_enumerations_of_signals() -> None:
    assert "signal" not in run(
        f"{BEFORE}from rknnlite_backend.crash import name_crashes; name_crashes()\n{NEW}"
    )


def test_few_things_in_plugins_are_examined() -> None:
    """pluggy looks at every name of a module for several thousand instructions; only functions can be hooks."""
    counted = (
        "import inspect, pluggy._manager as m\n"
        "seen, real = [], m.inspect.getattr_static\n"
        "inspect.getattr_static = lambda *a: (seen.append(a[1]), real(*a))[1]\n"
        "from rknnlite.plugins import backends\n"
        "backends()\n"
        "print(*seen)"
    )
    examined = run(counted)
    assert len(examined) <= 30, examined
    assert not {"annotations", "logging", "functools"} & set(examined)
