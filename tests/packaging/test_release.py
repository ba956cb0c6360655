"""A release is the same bytes whoever builds it; its SBOM has what SPDX requires; a tag is the version."""

from __future__ import annotations

import copy
import io
import os
import subprocess
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any, Callable

import pytest

import rknnlite
from tests.support.corpus import ROOT

from .project import requirements, table

if not (ROOT / "tools" / "release").exists():
    pytest.skip("an installed package has no tools", allow_module_level=True)

from tools.release import archives, sbom, sbom_check

RELEASE = ROOT / "tools" / "release"
EPOCH = 1764244800
METADATA = """\
Metadata-Version: 2.1
Name: rknnlite
Version: 1.0
Requires-Dist: numpy>=1.24
Requires-Dist: pillow>=9; extra == "pictures"
Requires-Dist: rknnlite[fast]; extra == "onnx"
Requires-Dist: pytest>=7; extra == "test"
"""


def wheel(path: Path, *names: str) -> Path:
    info = "rknnlite-1.0.dist-info"
    texts = {
        f"{info}/METADATA": METADATA,
        f"{info}/WHEEL": "Root-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as made:
        for name, text in {**dict.fromkeys(names, "x = 1\n"), **texts}.items():
            made.writestr(zipfile.ZipInfo(name, time.localtime()[:6]), text)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A release in small: a wheel, an sdist, the companion."""
    place = tmp_path / "release"
    place.mkdir()
    names = ("rknnlite/b.py", "rknnlite/a.py", "rknnlite/capi/x.py", "rknnlite_capi/x.py")
    wheel(place / "rknnlite-1.0-py3-none-any.whl", *names)
    wheel(place / "rknn_toolkit_lite2-2.3.2-py3-none-any.whl")
    (place / "rknnlite-1.0.tar.gz").write_bytes(b"sources")
    return place


# -- archives ----------------------------------------------------------------------------------------------


def test_a_wheel_depends_on_its_contents_alone(tmp_path: Path) -> None:
    first, second = tmp_path / "first.whl", tmp_path / "second.whl"
    for path, names in ((first, ("a.py", "b.py")), (second, ("b.py", "a.py"))):
        archives.write_wheel(path, archives.contents(wheel(path, *names)), EPOCH)
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as made:
        *_, record = made.namelist()
        assert record.endswith("RECORD") and made.testzip() is None
        rows = made.read(record).decode().splitlines()
        assert rows[-1] == f"{record},," and {row.split(",")[0] for row in rows} == set(made.namelist())
        assert {one.external_attr >> 16 for one in made.infolist()} == {0o100644}


def test_an_sdist_depends_on_its_contents_alone(tmp_path: Path) -> None:
    made = []
    for number, mode in enumerate((0o600, 0o644)):
        path = tmp_path / f"{number}.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name in ("p/b", "p/a")[:: 1 - 2 * number]:
                one = tarfile.TarInfo(name)
                one.size, one.mtime, one.uid, one.mode = 3, time.time() + number, number, mode
                archive.addfile(one, io.BytesIO(b"abc"))
        archives.plain_sdist(path, EPOCH)
        made.append(path.read_bytes())
    assert made[0] == made[1]
    with tarfile.open(tmp_path / "0.tar.gz") as archive:
        assert [(one.name, one.mtime, one.mode) for one in archive] == [
            ("p/a", EPOCH, 0o644),
            ("p/b", EPOCH, 0o644),
        ]


@pytest.mark.parametrize(
    ("asked", "tag"),
    [
        (b"", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
        (b"\0GLIBC_2.4\0GLIBC_2.17\0", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
        (b"\0GLIBC_2.34\0", "manylinux_2_34_x86_64"),
    ],
)
def test_a_wheel_for_a_machine_says_which_glibc_it_needs(tmp_path: Path, asked: bytes, tag: str) -> None:
    library = tmp_path / "plugins" / archives.HOMES[0] / "x86_64-linux-gnu" / "librknnrt.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"\x7fELF" + asked)
    pure = wheel(tmp_path / "rknnlite-1.0-py3-none-any.whl", "rknnlite/a.py")
    made = archives.add_libraries(pure, tmp_path, "x86_64", EPOCH)
    assert made is not None and made.name == f"rknnlite-1.0-py3-none-{tag}.whl"
    files = archives.contents(made)
    assert files["rknnlite_librknnrt/lib/x86_64-linux-gnu/librknnrt.so"] == library.read_bytes()
    told = files["rknnlite-1.0.dist-info/WHEEL"].decode()
    assert [f"Tag: py3-none-{one}" for one in tag.split(".")] == told.splitlines()[1:]
    assert archives.add_libraries(pure, tmp_path, "aarch64", EPOCH) is None


# -- SBOM --------------------------------------------------------------------------------------------------


def test_the_sbom_has_what_spdx_requires_and_is_the_same_each_time(folder: Path) -> None:
    made = sbom.document(folder, EPOCH)
    assert sbom_check.problems(made) == []
    assert made == sbom.document(folder, EPOCH)
    assert made["creationInfo"]["created"] == "2025-11-27T12:00:00Z"


def test_the_sbom_lists_releases_files_and_dependencies(folder: Path) -> None:
    made = sbom.document(folder, EPOCH)
    packages = {package.get("packageFileName", package["name"]): package for package in made["packages"]}
    assert set(packages) == {*(path.name for path in folder.iterdir()), "numpy", "pillow"}
    assert (
        packages["numpy"]["licenseDeclared"] == "BSD-3-Clause"
        and packages["numpy"]["versionInfo"] == ">=1.24"
    )
    assert packages["rknnlite-1.0.tar.gz"]["licenseDeclared"] == "Apache-2.0"
    assert "./rknnlite/a.py" in {file["fileName"] for file in made["files"]}
    kinds = {
        (row["spdxElementId"].rpartition("-")[2], row["relationshipType"]) for row in made["relationships"]
    }
    assert {("numpy", "DEPENDENCY_OF"), ("pillow", "OPTIONAL_DEPENDENCY_OF")} <= kinds


Spoil = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda made: made.pop("documentNamespace"), "document SPDXRef-DOCUMENT has no documentNamespace"),
        (lambda made: made.update(spdxVersion="SPDX-2.1"), "not SPDX-2.3"),
        (lambda made: made["creationInfo"].update(created="today"), "not a time in UTC"),
        (lambda made: made["packages"][0].pop("downloadLocation"), "has no downloadLocation"),
        (lambda made: made["files"][0]["checksums"].pop(0), "has no SHA1"),
        (lambda made: made["files"].append(made["files"][0]), "stands for 2 things"),
        (lambda made: made["files"].pop(), "which is not there"),
        (lambda made: made["files"][0]["checksums"][0].update(checksumValue="0" * 40), "verification code"),
        (lambda made: made["relationships"].clear(), "describes nothing"),
    ],
)
def test_a_document_that_lacks_something_is_told(folder: Path, spoil: Spoil, told: str) -> None:
    made = copy.deepcopy(sbom.document(folder, EPOCH))
    spoil(made)
    assert any(told in problem for problem in sbom_check.problems(made)), sbom_check.problems(made)


def test_every_dependency_has_a_licence() -> None:
    declared = table("project.optional-dependencies")
    lines = [
        line for name, entries in declared.items() if name not in sbom.FOR_DEVELOPERS for line in entries
    ]
    names = {*requirements(table("project")["dependencies"])}
    names |= {line.split(">=")[0].partition("[")[0] for line in lines} - {"rknnlite"}
    assert names == set(sbom.LICENCES)


# -- the version -------------------------------------------------------------------------------------------


def said(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([RELEASE / "version.sh", *words], capture_output=True, text=True, check=False)


def test_a_tag_is_the_version() -> None:
    assert said().stdout == f"{rknnlite.__version__}\n"
    assert said(f"v{rknnlite.__version__}").returncode == 0
    wrong = said("v0.9")
    assert wrong.returncode == 1
    assert f"the tag is v0.9, the version {rknnlite.__version__}; tag v{rknnlite.__version__}" in wrong.stderr


def test_the_release_of_a_tag_has_its_part_of_the_changelog(tmp_path: Path) -> None:
    (tmp_path / "SHA256SUMS").write_text("")
    done = subprocess.run(
        [RELEASE / "assets.sh", f"v{rknnlite.__version__}", tmp_path],
        env={**os.environ, "RELEASE_DRY_RUN": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    command, *text = done.stdout.splitlines()
    assert command.startswith(f"gh release create v{rknnlite.__version__} ") and command.endswith(
        "/SHA256SUMS"
    )
    assert ("--prerelease" in command) == ("rc" in rknnlite.__version__)
    assert "### Fixed" in text and not any(line.startswith("## ") for line in text)
