"""Man pages and bash completion follow the parser."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rknnlite import plugins
from rknnlite.cli.program import BUILT_IN
from tests.support.corpus import ROOT


def test_man_pages(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "tools" / "man.py", tmp_path], check=True, cwd=ROOT)
    assert {p.name for p in tmp_path.iterdir()} == {
        "rknnlite.1",
        *(f"rknnlite-{name}.1" for name in (*BUILT_IN, *plugins.commands())),
    }
    assert (tmp_path / "rknnlite-export-onnx.1").exists(), "what our own plugins offer has a page, too"
    run = (tmp_path / "rknnlite-run.1").read_text()
    assert "\\fB\\-\\-core\\-mask\\fR \\fIMASK\\fR" in run
    assert ".SH EXAMPLES" in run
    assert "--root" not in (tmp_path / "rknnlite-doctor.1").read_text().replace("\\", "")
    assert "RKNNLITE_BACKEND" in (tmp_path / "rknnlite.1").read_text()
    if shutil.which("man"):
        for page in tmp_path.iterdir():
            checked = subprocess.run(
                ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page],
                capture_output=True,
                text=True,
                check=True,
            )
            assert not checked.stderr, checked.stderr


@pytest.fixture(scope="module")
def completion() -> str:
    """What the shell reads."""
    made = subprocess.run(
        [sys.executable, ROOT / "tools" / "completion.py"],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return made.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["inf"], {"info"}),
        (["perf", "--h"], {"--help", "--html"}),
        (["compare", "--mode", ""], {"entire", "single"}),
        (["doctor", "--ro"], set()),
    ],
)
def test_bash_completion(words: list[str], expected: set[str], completion: str, tmp_path: Path) -> None:
    script = tmp_path / "rknnlite"
    script.write_text(completion)
    quoted = " ".join(f"'{word}'" for word in words)
    shell = (
        f"source {script}; COMP_WORDS=(rknnlite {quoted}); COMP_CWORD={len(words)}; _rknnlite; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", shell], check=True, capture_output=True, text=True)
    assert set(done.stdout.split()) == expected
