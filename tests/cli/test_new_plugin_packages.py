"""What ``make`` does in the folder of a new plugin: a wheel, a Debian package, an installation, a conversion."""

from __future__ import annotations

import os
import platform
import shutil
import site
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from rknnlite_authoring.package import KINDS, write_package

from tests.support.needs import needs

from .new_plugins import GOLDEN, PATH, program, run

TOOLKIT = os.environ.get("RKNNLITE_TOOLKIT_PYTHON", "")
COMPILED = f"linux_{platform.machine()}"
WHEELS = {"python": "any", "c": COMPILED, "opencl": "any", "riscv": "any"}
LISTS = """
import sys
from rknnlite import plugins
print(sorted({op.op_type for op in plugins.custom_ops()}), sorted(plugins.commands()))
"""
CONVERTER = """
import inspect, sys, types, numpy
class attribute: name, type, f = "factor", 1, 0.5
class node: attribute = [attribute]
api = types.ModuleType("rknn.api.custom_op")
api.get_node_attr = lambda node, name: next((a.f for a in node.attribute if a.name == name), None)
sys.modules["rknnlite"] = None  # cannot be imported
sys.modules.update({"rknn": types.ModuleType("rknn"), "rknn.api": types.ModuleType("rknn.api"), api.__name__: api})
sys.path.insert(0, "rknnlite_my_scale")
from op import MyScale
assert list(inspect.signature(MyScale.shape_infer).parameters) == ["self", "node", "in_shapes", "in_dtypes"]
assert list(inspect.signature(MyScale.compute).parameters) == ["self", "node", "inputs"]
print(MyScale().shape_infer(node, [[1, 2]], ["float32"]), MyScale().compute(node, [numpy.ones(2, "f4")])[0].tolist())
"""


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment: pip, and what venv puts beside it in this version of Python."""
    folder = tmp_path_factory.mktemp("fresh")
    program(folder, sys.executable, "-m", "venv", "venv")
    python = folder / "venv" / "bin" / "python"
    there = program(folder, str(python), "-m", "pip", "list", PYTHONPATH="")
    assert "wheel" not in there
    return python


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of a new plugin of the kind ``request.param``."""
    if request.param == "c":
        needs("gcc")
    if request.param == "riscv":
        needs("gcc-riscv64-unknown-elf")
    folder, _ = write_package("my_scale", request.param, tmp_path)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("project", "kind"), [(kind, kind) for kind in sorted(KINDS)], indirect=["project"])
def test_make_wheel_deb_and_install(project: Path, kind: str, fresh: Path, tmp_path: Path) -> None:
    program(project, "make", "wheel", f"PYTHON={fresh}", PYTHONPATH="", PIP_NO_INDEX="1")
    (wheel,) = (project / "dist").glob("*.whl")
    assert wheel.name == f"rknnlite_my_scale-1.0-py3-none-{WHEELS[kind]}.whl"

    needs("dpkg")
    program(project, "make", "deb")
    (package,) = (project / "dist").glob("*.deb")
    program(tmp_path, "dpkg-deb", "-x", str(package), "system")
    installed = tmp_path / "system/usr/lib/python3/dist-packages"
    fields = program(tmp_path, "dpkg-deb", "-f", str(package), "Package", "Architecture", "Depends")
    assert "Package: python3-rknnlite-my-scale\n" in fields and "python3-rknnlite" in fields
    assert ("Architecture: all" in fields) == (kind != "c")
    wanted = ("[]", "'my_scale'") if kind == "riscv" else ("['cstMyScale']", "")
    assert all(word in run(tmp_path, "-c", LISTS, first=str(installed)) for word in wanted)

    (packages,) = fresh.parent.parent.glob("lib/python*/site-packages")
    (packages / "rknnlite_is_here.pth").write_text("\n".join([*PATH, *site.getsitepackages()]))
    program(project, "make", "install", f"PYTHON={fresh}", PIP_NO_INDEX="1")
    try:
        assert all(word in program(tmp_path, str(fresh), "-c", LISTS) for word in wanted)
    finally:
        program(tmp_path, str(fresh), "-m", "pip", "uninstall", "-qy", "rknnlite-my_scale")


@pytest.mark.slow
@pytest.mark.parametrize("project", ["python"], indirect=True)
def test_every_python_that_is_here_builds_the_wheel(project: Path) -> None:
    """By the functions that pip calls, from the oldest version on; on a machine with one Python that one."""
    there = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for version in range(9, 15):
        found = shutil.which(f"python3.{version}")
        for python in [found] if found and "shims" not in found else there.glob(f"3.{version}.*/bin/python"):
            program(
                project,
                str(python),
                "-c",
                "import packages; packages.build_wheel('.'); packages.build_sdist('.')",
            )
    (wheel,) = project.glob("*.whl")
    assert not zipfile.ZipFile(wheel).testzip()


@pytest.mark.parametrize("project", ["python"], indirect=True)
def test_the_class_needs_no_rknnlite_where_it_is_converted(project: Path) -> None:
    output = program(project, sys.executable, "-c", CONVERTER, PYTHONPATH="")
    assert output == "([[1, 2]], ['float32']) [0.5, 0.5]\n"


@pytest.mark.slow
@pytest.mark.skipif(not TOOLKIT, reason="needs the vendor's toolkit: RKNNLITE_TOOLKIT_PYTHON")
@pytest.mark.parametrize("project", ["python"], indirect=True)
def test_the_converter_takes_the_class_and_answers_as_here(project: Path) -> None:
    program(project, "make", "golden", f"TOOLKIT_PYTHON={TOOLKIT}", PYTHONPATH="")
    for golden in GOLDEN.glob("*.npz"):
        made, kept = np.load(project / "tests" / "golden" / golden.name), np.load(golden)
        assert all(np.array_equal(made[name], kept[name]) for name in ("x", "y"))
