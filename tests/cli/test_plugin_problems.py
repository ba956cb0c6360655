"""What is wrong with plugins is seen in ``plugins``, in ``doctor`` and in errors; a crash takes nobody along."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rknnlite import hookimpl
from rknnlite.abi import include_dir
from rknnlite.cli.program import Exit
from tests.support.corpus import EXAMPLES, ROOT

from .conftest import RESNET, Call

DUAL = EXAMPLES / "custom_op" / "dual_for_RK3588.rknn"


def problem(call: Call, name: str) -> str:
    """The problem that ``plugins`` shows, when ``doctor`` shows it too."""
    return problems(call, name)[0]


def problems(call: Call, *names: str) -> list[str]:
    """Those of several plugins, by one look at each command."""
    shown = {entry["name"]: entry["problem"] for entry in call("plugins", "--json").data}
    findings = call("doctor", "--json").data["findings"]
    for name in names:
        lines = [f for f in findings if f["text"].startswith(f"plugin {name}: ")]
        assert shown[name], "nothing is wrong"
        assert lines, "doctor says nothing"
        assert all(line["level"] == "WARN" and line["remedy"] for line in lines)
        assert all(line["text"].split(": ", 1)[1] in shown[name] for line in lines)
    return [str(shown[name]) for name in names]


def missing_operator(call: Call) -> str:
    done = call("run", DUAL, "--backend", "cpu")
    assert done.code != Exit.OK
    return done.err


class Plain:
    op_type = "cstDualResidual"

    def compute(self, node: Any, inputs: Any) -> Any:
        return inputs


class Offers:
    @hookimpl
    def rknnlite_register_custom_ops(self, register: Any) -> None:
        register(Plain())


# -- packages ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_misspelt_hook(call: Call, install: Any) -> None:
    class Misspelt:
        @hookimpl
        def rknnlite_register_custom_op(self, register: Any) -> None:
            register(Plain())

    install(mine=Misspelt())
    text = "rknnlite_register_custom_op is never called: there is no such hook; did you mean "
    assert f"{text}rknnlite_register_custom_ops?" in problem(call, "mine")
    assert f"plugin mine: {text}" in missing_operator(call)


@pytest.mark.slow
def test_a_hook_without_its_mark(call: Call, install: Any) -> None:
    class Unmarked:
        def rknnlite_register_custom_ops(self, register: Any) -> None:
            register(Plain())

    install(mine=Unmarked())
    text = "rknnlite_register_custom_ops is never called: it lacks @rknnlite.hookimpl"
    assert text in problem(call, "mine")
    assert f"plugin mine: {text}" in missing_operator(call)


@pytest.mark.slow
def test_what_merely_looks_like_a_hook_is_no_mistake(call: Call, install: Any) -> None:
    class Fine(Offers):
        rknnlite_registered_at = "noon"

        @hookimpl(optionalhook=True)
        def rknnlite_register_dreams(self, register: Any) -> None:
            """For a version to come."""

        @hookimpl(specname="rknnlite_register_commands")
        def more(self, register: Any) -> None:
            """A hook under another name."""

        def rknnlite_helper(self) -> None:
            """No hook."""

    install(mine=Fine())
    assert not {e["name"]: e["problem"] for e in call("plugins", "--json").data}["mine"]


@pytest.mark.slow
def test_a_command_that_is_none_is_no_offer(call: Call, install: Any) -> None:
    class Empty:
        @hookimpl
        def rknnlite_register_commands(self, register: Any) -> None:
            register(None)

    install(mine=Empty())
    printed = call("plugins")
    assert "commands: NoneType" not in printed.out and "no Command" in printed.out


@pytest.mark.slow
def test_two_packages_with_one_operator(call: Call, install: Any) -> None:
    install(one=Offers(), two=Offers())
    for found in problems(call, "one", "two"):
        assert "cstDualResidual is offered several times: " in found
        assert "Plain (plugin one), " in found
    assert "is offered by several plugins" in missing_operator(call)


@pytest.mark.slow
def test_two_packages_of_one_name(call: Call, install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from rknnlite import plugins
    from tests.support.entry_points import EntryPoint

    install(mine=Offers())
    other = EntryPoint("mine", Offers())
    other.value = "other_package"
    entries = [*plugins._entry_points(), other]
    monkeypatch.setattr(plugins, "_entry_points", lambda: entries)
    text = "two packages have an entry point of this name, mine_package and other_package"
    assert text in problem(call, "mine")


# -- folders of compiled operators --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_folder_that_is_none(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RKNNLITE_OP_PLUGINS", f"{tmp_path / 'file'}:{tmp_path / 'nowhere'}")
    found = problem(call, "cplugin")
    for name, why in (("file", "Not a directory"), ("nowhere", "No such file or directory")):
        assert f"folder of operator plugins {tmp_path / name} is skipped: {why}" in found
        assert f"{tmp_path / name} is skipped: {why}" in missing_operator(call)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "op_plugins"
    place.mkdir(mode=0o755)
    monkeypatch.setenv("RKNNLITE_OP_PLUGINS", str(place))
    return place


@pytest.mark.slow
def test_a_folder_that_others_can_write(call: Call, folder: Path) -> None:
    (folder / "librkcst_mine.so").write_bytes(b"\x7fELF")
    folder.chmod(0o777)
    text = f"{folder} can be written by others than root; run chown root and chmod go-w on it"
    assert text in problem(call, "cplugin")
    assert text in missing_operator(call)


@pytest.mark.slow
def test_a_broken_library_until_it_is_gone(call: Call, folder: Path) -> None:
    library = folder / "librkcst_broken.so"
    library.write_bytes(b"\x7fELF")
    text = f"operator plugin {library} is skipped: no shared library (no ELF header); copy it again"
    assert text in problem(call, "cplugin")
    assert text in missing_operator(call)
    library.unlink()
    assert not {e["name"]: e["problem"] for e in call("plugins", "--json").data}["cplugin"]


# -- crashes -----------------------------------------------------------------------------------------------------

CRASH = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
LATE = (
    "import rknnlite\n@rknnlite.hookimpl\ndef rknnlite_register_custom_ops(register):\n    "
    + CRASH.replace("\n", "; ")
)


def packages(folder: Path, **modules: str) -> Path:
    """Installed packages of one module each, as pip leaves them."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[rknnlite]\n{name} = {name}\n")
    return folder


def rknnlite_command(folder: Path, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), str(ROOT), str(ROOT / "plugins")])
    command = [sys.executable, "-m", "rknnlite", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_plugins_and_doctor_survive_a_crash_at_import(tmp_path: Path) -> None:
    site = packages(tmp_path, crashing=CRASH, late=LATE, fine="print('hello')\n")
    listed = rknnlite_command(site, "plugins", "--json")
    assert listed.returncode == Exit.OK, listed.stderr
    found = {entry["name"]: entry["problem"] for entry in json.loads(listed.stdout.splitlines()[-1])}
    died = "ends the process with signal 11 (SIGSEGV)"
    assert found["crashing"] == f"import {died}; update or remove it"
    assert found["late"] == f"rknnlite_register_custom_ops {died}; update or remove it"
    assert not found["fine"]
    assert not found.get("cpu")
    examined = rknnlite_command(site, "doctor", RESNET)
    assert f"plugin crashing: import {died}" in examined.stdout, examined.stderr
    assert f"plugin late: rknnlite_register_custom_ops {died}" in examined.stdout
    assert "backend cpu opens it" in examined.stdout


PROBE = """import os, signal
import rknnlite
from rknnlite.spi import Backend

class Mine(Backend):
    name = "mine"

    def probe(self):
        os.kill(os.getpid(), signal.SIGSEGV)

    def open(self, model, options):
        raise NotImplementedError

@rknnlite.hookimpl
def rknnlite_register_backends(register):
    register(Mine())
"""


@pytest.mark.slow
def test_doctor_survives_a_crash_in_a_probe(tmp_path: Path) -> None:
    site = packages(tmp_path, probing=PROBE)
    for words in (("doctor",), ("doctor", RESNET)):
        examined = rknnlite_command(site, *words)
        assert "mine: its probe ends the process with signal 11 (SIGSEGV)" in examined.stdout, examined.stderr
    assert "backend cpu opens it" in examined.stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
def test_a_library_that_crashes_is_named_and_the_others_stay(tmp_path: Path) -> None:
    place = tmp_path / "op_plugins"
    place.mkdir(mode=0o755)
    source = tmp_path / "bad.c"
    source.write_text(
        "#include <stdlib.h>\n__attribute__((constructor)) static void first(void) { abort(); }\n"
    )
    build = ["cc", "-shared", "-fPIC", "-w", f"-I{include_dir()}", "-o"]
    subprocess.run([*build, place / "librkcst_bad.so", source], check=True)
    example = EXAMPLES / "custom_op" / "librkcst_dual_residual.c"
    subprocess.run([*build, place / "librkcst_good.so", example, "-lm"], check=True)
    listed = rknnlite_command(tmp_path, "plugins", "--json", RKNNLITE_OP_PLUGINS=str(place))
    assert listed.returncode == Exit.OK, listed.stderr
    (found,) = (e for e in json.loads(listed.stdout.splitlines()[-1]) if e["name"] == "cplugin")
    assert "librkcst_bad.so" in found["problem"]
    assert "loading it in a process of its own ended with signal 6 (SIGABRT)" in found["problem"]
    assert found["offers"]["custom operators"] == ["cstDualResidual"]
