"""Archives of converted cases: one case, or many, read back as they were."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import swept
from tests.support.corpus import ROOT


@pytest.fixture
def packer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module ``pack`` of the sweep, which is no package."""
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "sweep"))
    import pack

    yield pack
    del sys.modules["pack"]


def case(packer: Any, folder: Path, name: str, inputs: int = 1) -> Any:
    (folder / name).mkdir()
    for number, target in enumerate(("rk3588.i8", "rv1106.i8")):
        (folder / name / f"{target}.rknn").write_bytes(f"{name} {target}".encode())
        fed = np.full((2, 3), inputs if number else 1, np.uint8)
        np.savez(folder / name / f"{target}.npz", in0=fed, out0=np.full(4, number))
    return packer.Packed(name, folder / name, "close", {"Conv": {}}, ("rk3588.i8", "rk3576.i8", "rv1106.i8"))


def test_one_case(packer: Any, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.xz"
    assert packer.pack([case(packer, tmp_path, "a")], archive) == archive.stat().st_size
    assert swept.stems(archive) == ["rk3588.i8", "rv1106.i8"]
    assert json.loads(swept.members(archive)["case.json"]) == {"judge": "close", "attributes": {"Conv": {}}}
    assert swept.members(archive)["rv1106.i8.rknn"] == b"a rv1106.i8"
    assert [array.tolist() for array in swept.arrays(archive, "rv1106.i8.out")] == [[1] * 4]
    assert swept.arrays(archive, "in")[0].shape == (2, 3)


def test_many_cases(packer: Any, tmp_path: Path) -> None:
    archive = tmp_path / "many.tar.xz"
    cases = [case(packer, tmp_path, name) for name in ("a", "b")]
    packer.pack(cases, archive)
    first = archive.read_bytes()
    packer.pack(cases, archive)
    assert archive.read_bytes() == first, "the same cache gives the same bytes"
    assert swept.stems(archive) == ["a/rk3588.i8", "a/rv1106.i8", "b/rk3588.i8", "b/rv1106.i8"]
    assert swept.members(archive)["b/rk3588.i8.rknn"] == b"b rk3588.i8"
    assert len(swept.arrays(archive, "b/in")) == 1


def test_inputs_are_those_of_the_case(packer: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has another in0, inputs are per case"):
        packer.pack([case(packer, tmp_path, "a", inputs=7)], tmp_path / "a.tar.xz")
