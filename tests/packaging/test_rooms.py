"""A Debian package for each plugin: it depends on what its modules import, and an upgrade loses nothing."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rknnlite.extras import OWN_PLUGINS
from tests.core.test_architecture import type_checking

from .project import ROOT, fields, relation, table

PACKAGES = {name: field for name, field in fields().items() if name != "source"}
ROOMS = sorted(path.name for path in (ROOT / "plugins").glob("rknnlite_*") if path.name != "rknnlite_pytest")
OTHERS_NEEDS = {"cplugin", "opencl", "remote", "riscv"}
"""Plugins that the first version had in packages of their own, for what they need."""
SPLIT = "python3-rknnlite (<< 0.1.0-2~)"
"""The package that held the others."""


def package(room: str) -> str:
    """``rknnlite_cpu`` -> ``python3-rknnlite-cpu``."""
    return f"python3-{room.replace('_', '-')}"


def ours(name: str, field: str) -> set[str]:
    """Packages of ours that a field names."""
    return set(relation(PACKAGES[name].get(field, ""))) & set(PACKAGES)


def imported_rooms(room: str, first: bool) -> set[str]:
    """Other plugins that the modules of one import: at once, or (``first`` is False) when a function is called."""
    found: set[str] = set()
    for file in (ROOT / "plugins" / room).rglob("*.py"):
        found.update(name for name, late in imports(ast.parse(file.read_text("utf-8"))) if late is not first)
    return {name for name in found if name.startswith("rknnlite_")} - {room}


def imports(tree: ast.AST, late: bool = False) -> Iterator[tuple[str, bool]]:
    """Top-level names of modules, and whether a function imports them; not those for types only."""
    for node in ast.iter_child_nodes(tree):
        if type_checking(node):
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0], late
        yield from imports(node, late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


@pytest.mark.parametrize("room", ROOMS)
def test_a_package_depends_on_what_its_modules_import(room: str) -> None:
    """What a function imports is recommended: without it there is less, and a message that says so."""
    needed = {package(name) for name in imported_rooms(room, True)} | {"python3-rknnlite-core"}
    assert ours(package(room), "Depends") == needed
    wanted = {package(name) for name in imported_rooms(room, False)} - needed
    assert wanted <= ours(package(room), "Recommends")


def test_every_plugin_of_ours_has_a_row_and_a_package() -> None:
    assert {f"rknnlite_{name}" for name in OWN_PLUGINS} == set(ROOMS)
    assert set(table("project.entry-points.rknnlite")) <= set(OWN_PLUGINS)
    for plugin in OWN_PLUGINS.values():
        alone = package(f"rknnlite_{plugin.name}")
        assert plugin.debian == alone or alone in ours(plugin.debian, "Depends"), plugin.name


def test_the_metapackage_brings_all_that_the_first_version_had() -> None:
    """So that nobody who upgrades loses anything, whether recommended packages are installed or not."""
    held = {package(room) for room in ROOMS if OWN_PLUGINS[room[len("rknnlite_") :]].name not in OTHERS_NEEDS}
    assert ours("python3-rknnlite", "Depends") == held | {"python3-rknnlite-core"}
    assert "${python3:Depends}" not in PACKAGES["python3-rknnlite"]["Depends"], "it has no modules"


def test_the_metapackage_brings_no_packages_of_others() -> None:
    """Beyond those of the core, which the first version needed, too."""
    for name in ours("python3-rknnlite", "Depends") - {"python3-rknnlite-core"}:
        assert {other for other in relation(PACKAGES[name]["Depends"]) if other[0] != "$"} <= set(PACKAGES), (
            name
        )


def test_whatever_the_first_version_held_may_be_taken_from_it() -> None:
    for name in ours("python3-rknnlite", "Depends"):
        for field in ("Breaks", "Replaces"):
            assert SPLIT in PACKAGES[name][field], f"{name}: {field}"


def test_a_backend_is_enough_for_the_command() -> None:
    """``python3-rknnlite | python3-rknnlite-any-backend``: who has a backend is not given all the others."""
    for plugin in OWN_PLUGINS.values():
        provided = relation(PACKAGES[package(f"rknnlite_{plugin.name}")].get("Provides", ""))
        assert ("python3-rknnlite-any-backend" in provided) == (plugin.kind == "backend"), plugin.name
    for name in ("rknnlite", "rknnlite-server"):
        assert "python3-rknnlite | python3-rknnlite-any-backend" in PACKAGES[name]["Recommends"]


PROGRAM = """
import rknnlite
from rknnlite import cli, extras, plugins

print("backends", *plugins.backends())
for name in ("Chat", "compare", "open_llm", "to_onnx"):
    try:
        getattr(rknnlite, name)
    except rknnlite.errors.BackendUnavailable as error:
        print(f"rknnlite.{name}", error)
for plugin in extras.OWN_PLUGINS.values():
    for word in plugin.commands:
        print(word, cli.main([word, "model.rknn"]))
try:
    import rknnlite.protocol.rest
except ModuleNotFoundError as error:
    print("former", error)
"""


def test_a_board_of_the_core_and_one_backend(tmp_path: Path) -> None:
    """Whatever else is asked for says which package has it; nothing complains by itself."""
    rooms = {"rknnlite": ROOT / "rknnlite", "rknn3lite": ROOT / "plugins" / "rknn3lite"}
    for name in ("rknnlite_rknnrt", *imported_rooms("rknnlite_rknnrt", True)):
        rooms[name] = ROOT / "plugins" / name
    for name, place in rooms.items():
        (tmp_path / name).symlink_to(place)
    lines = [f"{name} = {value}" for name, value in table("project.entry-points.rknnlite").items()]
    (tmp_path / "rknnlite-0.dist-info").mkdir()
    (tmp_path / "rknnlite-0.dist-info" / "entry_points.txt").write_text(
        "\n".join(["[rknnlite]", *lines]), "utf-8"
    )
    site = Path(np.__file__).parents[1]
    if (site / "rknnlite").exists():
        pytest.skip("all of rknnlite is installed beside numpy")
    path = os.pathsep.join(map(str, (tmp_path, site)))
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM],
        capture_output=True, text=True, check=True, cwd=tmp_path,
        env={"PYTHONPATH": path, "HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert told.pop("backends") == "rknnrt"
    assert "apt install python3-rknnlite-protocol" in told.pop("former")
    for plugin in OWN_PLUGINS.values():
        for name in plugin.names:
            assert f"apt install {plugin.debian})" in told.pop(f"rknnlite.{name}")
        for word in plugin.commands:
            assert told.pop(word) == "4"
            assert re.search(rf"command {word} .*apt install {plugin.debian}\)", done.stderr), word
    assert not told
    assert len(done.stderr.splitlines()) == sum(len(plugin.commands) for plugin in OWN_PLUGINS.values())


def test_what_is_compiled_goes_with_any_build_of_a_version() -> None:
    """A package with an architecture may be built again by itself: no exact version of those that have none."""
    for name, field in PACKAGES.items():
        if field["Architecture"] != "all":
            assert "(= ${source:Version})" not in field["Depends"], name
