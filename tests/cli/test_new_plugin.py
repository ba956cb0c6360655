"""``rknnlite new-plugin``: every kind passes its own tests at once, and is found once it is installed."""

from __future__ import annotations

import re
import shutil
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest
from rknnlite_authoring.package import KINDS

from tests.packaging.project import package_data
from tests.support.brothers import slow_unless
from tests.support.corpus import ROOT

from .conftest import Call
from .new_plugins import run, unpack_goldens

COMPILERS = {"c": "cc", "riscv": "riscv64-unknown-elf-gcc"}
TESTS = {"python": 5, "c": 6, "opencl": 6, "riscv": 3}


@pytest.mark.parametrize("kind", slow_unless(lambda kind: kind in ("c", "python"), sorted(KINDS)))
def test_a_new_package_passes_its_own_tests(kind: str, tmp_path: Path, call: Call) -> None:
    """Behind the simulator's models, too: genuine files that ``convert.py`` of such a package made."""
    if kind in COMPILERS and shutil.which(COMPILERS[kind]) is None:
        pytest.skip(f"{COMPILERS[kind]} is not installed")
    done = call("new-plugin", "my_scale", "--kind", kind, "--output", tmp_path, "--json")
    assert done.code == 0, done.err
    folder, site = tmp_path / "rknnlite_my_scale", tmp_path / "site"
    assert sorted(done.data["files"]) == sorted(
        file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()
    )
    assert not [
        file for file in folder.rglob("*") if file.is_file() and re.search(r"@\w+@", file.read_text())
    ]
    if kind != "riscv":
        unpack_goldens(folder / "tests" / "golden")
    run(folder, "-c", "import packages; packages.build_wheel('.')")
    zipfile.ZipFile(next(folder.glob("*.whl"))).extractall(site)
    shutil.rmtree(folder / "rknnlite_my_scale")  # what is tested is what was installed
    alone = {"first": str(site), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # plugins of pytest take longer
    output = run(folder, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", **alone)
    if kind == "opencl" and "SKIPPED" in output:
        pytest.skip("no OpenCL")
    assert f"{TESTS[kind]} passed" in output and "skipped" not in output, output


@pytest.mark.parametrize(
    "name",
    ["../up", "a/b", "Upper", "1st", "with-dash", "", "class", "x" * 99, "é", "cpu", "opencl", "float"],
)
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path, call: Call) -> None:
    done = call("new-plugin", "--kind", "c", "--output", tmp_path / "there", "--", name)
    assert (done.code, done.out) == (2, "")
    assert "cannot name a plugin" in done.err
    assert not list(tmp_path.iterdir())


def test_a_command_that_is_there_is_not_offered_again(tmp_path: Path, call: Call) -> None:
    done = call("new-plugin", "run", "--kind", "riscv", "--output", tmp_path)
    assert done.code == 2 and "rknnlite run is one already" in done.err
    assert call("new-plugin", "run", "--kind", "python", "--output", tmp_path).code == 0


def test_nothing_is_written_over(tmp_path: Path, call: Call) -> None:
    (tmp_path / "rknnlite_mine").symlink_to(tmp_path / "nowhere")
    done = call("new-plugin", "mine", "--kind", "python", "--output", tmp_path)
    assert done.code == 2 and "is there already; remove it" in done.err
    assert [file.name for file in tmp_path.iterdir()] == ["rknnlite_mine"]


def test_the_headers_are_found_and_are_the_only_ones(call: Call) -> None:
    include = Path(call("new-plugin", "--print-include").out.strip())
    assert {file.name for file in include.iterdir()} == {"rknn_op.h", "rknn3_op.h"}
    tracked = [*ROOT.glob("examples/**/*.h"), *ROOT.glob("rknnlite/**/rknn*_op.h")]
    assert {file.parent for file in tracked} == {include}
    assert "give a NAME and --kind" in call("new-plugin").err


def test_headers_and_templates_are_in_the_wheel() -> None:
    patterns = package_data()
    for package, folder in (
        ("rknnlite.abi", ROOT / "rknnlite/abi"),
        ("rknnlite_authoring", ROOT / "plugins/rknnlite_authoring"),
    ):
        files = [f for f in folder.rglob("*") if f.is_file() and f.suffix not in (".py", ".pyc")]
        assert len(files) >= 2
        for file in files:
            name = file.relative_to(folder).as_posix()
            assert any(fnmatch(name, p) and name.count("/") == p.count("/") for p in patterns[package]), name
