"""Wrong words on a command line are answered in words that a user knows, with the nearest right one."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from rknnlite.cli.program import main, parser


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) != 0
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("export-onnx", "A", "B", "C"), "'C' is too much: it takes MODEL OUT"),
        (("runs",), "there is no 'runs'; did you mean run?"),
        (("info", "--chek", "A"), "there is no option '--chek'; did you mean --check?"),
        (("bench", "--runs", "x", "m"), "'x' is no whole number from 1"),
        (("bench", "--runs", "0", "m"), "'0' is no whole number from 1"),
        (("bench", "--threads", "1,x", "m"), "'x' is no whole number from 1 to 64"),
        (("bench", "--zero-copy", "of", "m"), "there is no 'of'; did you mean off?"),
        (("info", "/no/such/place/m.rknn"), "there is no folder /no/such/place"),
        (("run", "/no/such/place/m.rknn"), "there is no folder /no/such/place"),
        (("new-plugin", "x", "--kind", "tcl"), "there is no 'tcl'"),
    ],
)
def test_mistakes(words: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert text in said(capsys, *words)


def test_results_into_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Path(__file__).parents[2] / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"
    assert f"there is no folder {tmp_path}/no" in said(
        capsys, "perf", str(model), "--html", f"{tmp_path}/no/page.html"
    )


def test_no_message_names_our_functions() -> None:
    """Whatever an argument is not: ``invalid _positive value`` told of a function."""
    for name, command in parser().commands.items():
        for action in command.declared:
            if action.type is None or not callable(action.type):
                continue
            for wrong in ("x\x1b[31m", "-", "1,,2", "nan", "9" * 30):
                try:
                    command._get_value(action, wrong)  # type: ignore[attr-defined]
                except (argparse.ArgumentError, argparse.ArgumentTypeError) as error:
                    text = str(error)
                    assert " _" not in text and "invalid " not in text and "\x1b" not in text, (name, text)
