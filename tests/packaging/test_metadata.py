"""Version, packages, entry points and dependencies are said once, or the same everywhere."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest
from rknnlite_librknnrt import recipe

import rknnlite
from rknnlite.extras import EXTRAS

from .project import DEBIAN, ROOT, extras, fields, installed_by, package_data, relation, requirements, table

PACKAGES: list[str] = table("tool.setuptools")["packages"]
ENTRY_POINTS: dict[str, str] = table("project.entry-points.rknnlite")
TOPS = {"rknnlite": ROOT / "rknnlite", "rknn3lite": ROOT / "plugins" / "rknn3lite"}
TOPS.update({folder.name: folder for folder in sorted((ROOT / "plugins").glob("rknnlite_*"))})
CORE = {"rknnlite", "rknn3lite", "rknnlite_pytest", "rknnlite-*.dist-info"}
"""What the core's package holds: with the entry points the one module that pytest imports by one of them."""
COMPILED = {"python3-rknnlite-cplugin", "librknnrt-rknnlite", "librknnrt-rknnlite-dev"}


def folders() -> Iterator[tuple[str, Path]]:
    """Every import package in the tree, by dotted name."""
    for top, path in TOPS.items():
        for file in sorted(path.rglob("*.py")):
            inside = file.parent.relative_to(path).parts
            yield ".".join([top, *inside]), file.parent


def test_version_is_said_in_one_place() -> None:
    assert table("tool.setuptools.dynamic")["version"] == {"attr": "rknnlite._version.__version__"}
    newest = (DEBIAN / "changelog").read_text("utf-8").splitlines()[0]
    debian = re.sub(r"(rc\d+)$", r"~\1", rknnlite.__version__)  # so that a candidate comes before its release
    assert re.match(rf"rknnlite \({re.escape(debian)}-\d+\) ", newest), newest


def test_every_package_of_the_tree_is_in_the_wheel() -> None:
    assert sorted(PACKAGES) == sorted({name for name, _ in folders()})


def test_every_package_lands_in_exactly_one_debian_package() -> None:
    homes = installed_by()
    assert {name.split(".")[0] for name in PACKAGES} == set(homes) - {"rknnlite-*.dist-info"}
    for name, home in homes.items():
        assert home == ["python3-rknnlite-core" if name in CORE else f"python3-{name.replace('_', '-')}"]


def test_every_install_file_has_a_package() -> None:
    known = set(fields()) - {"source"}
    for pattern in ("*.install", "*.examples", "*.docs", "*.manpages", "*.bash-completion"):
        assert {file.stem for file in DEBIAN.glob(pattern)} <= known


def test_files_beside_the_modules_are_in_the_wheel() -> None:
    patterns = package_data()
    for name, folder in sorted(set(folders())):
        for file in folder.iterdir():
            if file.is_file() and file.suffix not in (".py", ".pyc", ".pyi"):
                assert any(fnmatch(file.name, pattern) for pattern in patterns.get(name, [])), (
                    f"{name}: {file.name}"
                )


@pytest.mark.parametrize("name", sorted(ENTRY_POINTS))
def test_entry_points_can_be_resolved(name: str) -> None:
    assert ENTRY_POINTS[name] in PACKAGES
    module = importlib.import_module(ENTRY_POINTS[name])
    assert any(word.startswith("rknnlite_register_") for word in dir(module)), "it offers nothing"


def test_the_command_can_be_resolved() -> None:
    module, function = table("project.scripts")["rknnlite"].split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_debian_depends_on_what_the_wheel_requires() -> None:
    wanted = {
        f"python3-{name}": version for name, version in requirements(table("project")["dependencies"]).items()
    }
    given = relation(fields()["python3-rknnlite-core"]["Depends"])
    assert {name: version for name, version in given.items() if not name.startswith("$")} == wanted
    assert set(wanted) <= set(relation(fields()["source"]["Build-Depends"]))


def test_debian_names_what_the_extras_name() -> None:
    """The extra opencl is a package of its own; the others are suggested, as far as Debian 12 has them."""
    suggested = set(relation(fields()["python3-rknnlite"]["Suggests"]))
    for extra in EXTRAS.values():
        if extra.name == "opencl":
            needed = fields()["python3-rknnlite-opencl"]
            assert set(extra.debian) <= set(relation(f"{needed['Depends']}, {needed['Recommends']}"))
        else:
            assert set(extra.debian) <= suggested, extra.name
        assert extra.name in extras()


@pytest.mark.parametrize("name", sorted(EXTRAS))
def test_an_extra_installs_what_is_imported(name: str) -> None:
    """Nothing else, and nothing less: the names of its modules where the package has no other."""
    called = {"PIL": "pillow", "cv2": "opencv-python-headless", "prometheus_client": "prometheus-client"}
    called |= {"grpc": "grpcio", "google.protobuf": "protobuf", "opentelemetry.sdk": "opentelemetry-sdk"}
    called["opentelemetry.exporter"] = "opentelemetry-exporter-otlp-proto-http"
    wanted = {called.get(module, module) for module in EXTRAS[name].modules}
    assert {re.split(r"[^\w-]", entry)[0] for entry in extras()[name]} == wanted


def test_the_extra_all_is_all_of_them() -> None:
    """But for Ray, which is large and has no wheels for some versions of Python."""
    (every,) = extras()["all"]
    assert set(re.findall(r"\w+", every.partition("[")[2])) == set(EXTRAS) - {"ray"}


def test_two_extras_of_one_content_are_one_and_its_former_name() -> None:
    assert extras()["onnx"] == ["rknnlite[fast]"]
    modules = [extra.modules for extra in EXTRAS.values()]
    assert len(set(modules)) == len(modules)


def test_replaces_the_packages_of_the_vendor() -> None:
    package = fields()["python3-rknnlite-core"]
    assert "python3-rknnlite2" in relation(package["Provides"])
    assert package["Provides"] == package["Conflicts"]
    assert set(relation(package["Provides"])) < set(relation(package["Replaces"]))


def test_the_package_build_runs_tests_that_are_there() -> None:
    rules = (DEBIAN / "rules").read_text("utf-8").replace("\\\n", " ")
    run = re.findall(r"\btests/(\w+)", re.findall(r"PYBUILD_TEST_ARGS = (.*)", rules)[0])
    assert {"insight", "core", "native", "packaging", "spi"} <= set(run)
    assert all(any((ROOT / "tests" / folder).glob("test_*.py")) for folder in run)


def test_every_debian_package_is_tried_after_installation() -> None:
    """By a script of debian/tests, and every script is listed."""
    text = (DEBIAN / "tests" / "control").read_text("utf-8")
    needed = {name for line in re.findall(r"^Depends: (.*)$", text, re.MULTILINE) for name in relation(line)}
    scripts = {name for line in re.findall(r"^Tests: (.*)$", text, re.MULTILINE) for name in line.split()}
    beneath = {
        below for name in needed if name in fields() for below in relation(fields()[name].get("Depends", ""))
    }
    beneath |= set(relation(fields()["python3-rknnlite"]["Depends"]))  # beneath the examples
    assert set(fields()) - {"source"} <= needed | beneath
    assert scripts == {path.name for path in (DEBIAN / "tests").iterdir()} - {"control"}


def test_only_what_is_compiled_has_an_architecture() -> None:
    for name, package in fields().items():
        if name != "source":
            expected = "amd64 arm64 armhf" if name in COMPILED else "all"
            assert package["Architecture"] == expected, name


def test_the_c_library_is_no_programs_by_accident() -> None:
    """It lies where neither the dynamic linker, nor compilers, nor pkg-config under a vendor's name look."""
    library, rknn1, rkllm, headers, file = (
        line.split()
        for package in ("librknnrt-rknnlite", "librknnrt-rknnlite-dev")
        for line in sorted((DEBIAN / f"{package}.install").read_text("utf-8").splitlines(), reverse=True)
    )
    assert library[1] == "usr/lib/${DEB_HOST_MULTIARCH}/rknnlite"
    assert headers[1] == "usr/include/rknnlite" and rkllm[1] == "usr/include/rknnlite/rkllm"
    assert rknn1[1] == "usr/include/rknnlite/rknn1"  # of the same name as the later one
    assert file == ["debian/librknnrt/pkgconfig", "usr/lib/${DEB_HOST_MULTIARCH}"]
    rules = (DEBIAN / "rules").read_text("utf-8")
    assert "debian/librknnrt/pkgconfig/librknnrt-rknnlite.pc" in rules
    assert "debian/librknnrt/pkgconfig/librknnmrt-rknnlite.pc" in rules
    assert "debian/librknnrt/pkgconfig/librknn3_api-rknnlite.pc" in rules
    (stand_ins,) = re.findall(r"^BOARD_LIBRARIES := .*/lib/board/,(.*)\)$", rules, re.MULTILINE)
    assert [f"board/{name}" for name in stand_ins.split()] == list(recipe.BOARD_LIBRARIES)
    assert f"debian/librknnrt/lib/{recipe.PLAYED_LIBRARY}\n" in rules
    assert rules.count("echo /usr/bin/python3 > $(@D)/interpreter") == 2
    (made,) = re.findall(r"^LIBRKLLM := .*,(.*)\)$", rules, re.MULTILINE)
    assert made.split() == list(recipe.RKLLM_LIBRARIES)
    assert not list(DEBIAN.glob("librknnrt-rknnlite*.triggers")), "nothing for ldconfig"


def test_only_what_is_named_comes_along() -> None:
    """Of everything else that MANIFEST.in grafts setuptools prints a warning of thirty lines per folder."""
    assert table("tool.setuptools")["include-package-data"] is False


def test_all_that_the_tests_need_is_chosen_at_once() -> None:
    """One by one the newest of each was taken, and pip said that they do not fit together."""
    makefile = ROOT / "Makefile"
    if not makefile.exists():
        pytest.skip("an installed package has no Makefile")
    assert '-e ".[all,test,lint,docs,server-test,fleet-test]" ||' in makefile.read_text("utf-8")


def test_the_wheel_has_all_that_compiles_the_c_library() -> None:
    """Git and the sdist have nothing that was compiled."""
    assert {"client/*/*.[ch]", "include/*.h", "lib/*/*"} <= set(package_data()["rknnlite_librknnrt"])
    folder = ROOT / "plugins" / "rknnlite_librknnrt"
    rooms = (*(folder / "client").iterdir(), folder / "include")
    assert {file.suffix for room in rooms for file in room.iterdir()} == {".c", ".h"}
