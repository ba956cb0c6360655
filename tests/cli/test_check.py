"""``rknnlite check``: one line per file, one exit code, and the hook of pre-commit that calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rknnlite.spi.command import Exit
from tests.support.corpus import ROOT, genuine

from .conftest import Call

RK3588 = genuine("conv_1x1.rk3588.i8")
RK3566 = genuine("lenet_like.rk3566.i8")
DYNAMIC = genuine("dynamic_two.rk3588.fp16")
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614\nsize 12345\n"


@pytest.fixture
def bad(tmp_path: Path) -> dict[str, Path]:
    """Files that are no models, by what is wrong with them."""
    content = RK3588.read_bytes()
    files = {
        "pointer": POINTER.encode(),
        "empty": b"",
        "cut": content[: len(content) // 2],
        "page": b"<!DOCTYPE html>",
        "rknn3": b"RKNX" + bytes(200),
    }
    for name, data in files.items():
        (tmp_path / f"{name}.rknn").write_bytes(data)
    return {
        **{name: tmp_path / f"{name}.rknn" for name in files},
        "folder": tmp_path,
        "absent": tmp_path / "no",
    }


def test_good_files(call: Call) -> None:
    done = call("check", RK3588, RK3566)
    assert done.code == 0 and not done.err
    size = RK3588.stat().st_size
    assert done.out.splitlines() == [
        f"{RK3588}: fine, RK3588, {size} bytes",
        f"{RK3566}: fine, RK3566/RK3568, {RK3566.stat().st_size} bytes",
    ]


@pytest.mark.parametrize("model", [RK3588, RK3566, DYNAMIC], ids=lambda p: p.stem)
def test_run(call: Call, model: Path) -> None:
    done = call("check", "--run", model)
    assert done.code == 0
    assert "ran on the CPU reference in " in done.out


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("pointer", "a pointer of Git LFS, not the model itself; fetch it: git lfs pull"),
        ("empty", "the file is empty"),
        ("cut", ""),
        ("page", "not an RKNN model: it starts with b'<!DOCTYP'"),
        ("rknn3", "an RKNN3 model"),
        ("folder", "Is a directory"),
        ("absent", "No such file"),
    ],
)
def test_what_is_wrong(call: Call, bad: dict[str, Path], kind: str, says: str) -> None:
    """The files behind it are looked at, too."""
    done = call("check", bad[kind], RK3588)
    assert done.code == Exit.MODEL
    first, second = done.out.splitlines()
    assert first.startswith(f"{bad[kind]}: wrong: ") and says in first
    assert second.startswith(f"{RK3588}: fine")


def test_socs_and_sizes_are_wrong_together(call: Call) -> None:
    done = call("check", "--soc", "rk3588,rk3576", "--max-size", "1kB", RK3566)
    assert done.code == Exit.MODEL
    size = RK3566.stat().st_size
    assert (
        f"wrong: {size} bytes are more than the 1000 that are allowed; it runs on RK3566/RK3568, not on "
        in done.out
    )
    assert call("check", "--soc", "rk3576,RK3568", "--max-size", str(size), RK3566).code == 0


def test_a_custom_operator_that_is_absent(call: Call) -> None:
    model = ROOT / "examples" / "custom_op" / "dual_for_RK3588.rknn"
    assert call("check", model).code == 0
    done = call("check", "--run", model)
    assert done.code == Exit.MODEL and "cstDualResidual" in done.out


@pytest.mark.parametrize("words", [("--max-size", "big"), ("--max-size", "-1"), ("--soc", "rk9999"), ()])
def test_wrong_arguments(call: Call, words: Any) -> None:
    model = (RK3588,) if words else ()
    assert call("check", *words, *model).code == Exit.USAGE


@pytest.mark.parametrize(
    ("text", "size"), [("2kB", 2000), ("1.5 KiB", 1536), ("3M", 3_000_000), ("77", 77), ("1Gi", 2**30)]
)
def test_sizes(call: Call, text: str, size: int) -> None:
    from rknnlite_insight.commands.check import _size

    assert _size(text) == size


def test_json(call: Call, bad: dict[str, Path]) -> None:
    done = call("check", "--json", "--run", RK3588, bad["pointer"])
    good, wrong = map(json.loads, done.out.splitlines())
    assert good["ok"] and good["runs_on"] == ["RK3588"] and good["run_us"] > 0 and good["problems"] == []
    assert not wrong["ok"] and "Git LFS" in wrong["problems"][0] and wrong["model"] == str(bad["pointer"])


def test_the_hook_calls_the_command(tmp_path: Path) -> None:
    """What pre-commit does with the hook: its entry, its files as last words."""
    yaml = pytest.importorskip("ruamel.yaml").YAML(typ="safe")
    (hook,) = yaml.load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert hook["id"] == "rknn-check" and hook["language"] == "python"
    program, *words = hook["entry"].split()
    assert program == "rknnlite"
    (tmp_path / "a.rknn").write_text(POINTER)
    done = subprocess.run(
        [sys.executable, "-m", "rknnlite", *words, str(RK3588), str(tmp_path / "a.rknn")],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "Git LFS" in done.stdout
