"""Names of files may be any bytes: commands work with them, and no message lets one drive the terminal."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rknnlite
from rknnlite.errors import ModelInvalid, ParamInvalid, visible
from rknnlite.spi.terminal import Column, Table

MODEL = Path(__file__).parents[2] / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"
NAMES = ["é漢.rknn", "red\x1b[31m\x07.rknn", os.fsdecode(b"n\xff\xfe.rknn"), "two\nlines.rknn"]
COMMANDS = [
    "info",
    "check",
    "run",
    "bench --runs 1 --warmup 0",
    "perf",
    "compare",
    "export-onnx",
    "doctor",
    "chat",
    "export-llm",
]


@pytest.mark.parametrize("text", ["\x1b]0;title\x07", "\x9b31m", "\ud800", "\u202eabc", "\x7f", "\r"])
def test_what_drives_a_terminal_is_escaped(text: str) -> None:
    shown = visible(f"a {text} b")
    assert shown.isprintable() and shown != f"a {text} b"
    assert str(ModelInvalid(f"{text}.rknn is none")) == visible(f"{text}.rknn is none")
    assert visible("é漢\n\t😀") == "é漢\n\t😀"


def test_a_line_feed_in_a_name_begins_no_line_of_ours() -> None:
    error = ModelInvalid("x.rknn\nrknnlite: all is well: not a model")
    assert str(error).splitlines() == ["x.rknn", "  rknnlite: all is well: not a model"]
    assert Table([Column("layer")], [["conv\nfc"]]).lines(None) == ["layer", "conv\\nfc"]


def test_log_lines_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from rknnlite import log
    from rknnlite.api import RKNNLite

    RKNNLite().load_rknn("no\x1b[2Jfile")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(log._Lines("%(message)s"))
    handler.emit(logging.makeLogRecord({"msg": "a \x1b[2J name"}))
    printed = "".join(capsys.readouterr())
    assert "\x1b" not in printed and "\\x1b[2Jfile" in printed


def run(tmp_path: Path, name: str, command: str, there: bool, **variables: str) -> Any:
    file = tmp_path / name
    if there:
        file.write_bytes(MODEL.read_bytes())
    words = command.split()
    more = {
        "export-onnx": [str(tmp_path / "out.onnx")],
        "compare": ["none.onnx"],
        "export-llm": [str(tmp_path / "out")],
    }
    return subprocess.run(
        [sys.executable, "-m", "rknnlite", words[0], str(file), *more.get(words[0], []), *words[1:]],
        cwd=tmp_path,
        env={**os.environ, "RKNNLITE_BACKEND": "cpu", **variables},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("there", [True, False], ids=["there", "missing"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_with_odd_names(command: str, there: bool, tmp_path: Path) -> None:
    for name in NAMES:
        done = run(tmp_path, name, command, there)
        output = done.stdout + done.stderr
        assert b"unexpectedly" not in output and b"Traceback" not in output, output
        assert not set(output) & {0x1B, 0x07, 0xFF, 0xFE}, output


@pytest.mark.parametrize("name", [NAMES[0], NAMES[2]])
def test_export_in_the_c_locale(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    done = run(tmp_path, name, "export-onnx", True, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 0 and (tmp_path / "out.onnx").stat().st_size > 1000, done.stderr


def test_the_native_interface_with_odd_names(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_bytes(MODEL.read_bytes())
        with rknnlite.open(tmp_path / name, backend="cpu") as context:
            assert context.inputs
        with pytest.raises((ModelInvalid, ParamInvalid)) as caught:
            rknnlite.open(tmp_path / f"no{name}", backend="cpu")
        assert "\x1b" not in str(caught.value)
        str(caught.value).encode()
