"""Man pages and completion follow the parser; the scripts are tried in the shells."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from rknnlite import plugins
from rknnlite.cli.program import BUILT_IN
from rknnlite.spi.command import Exit
from tests.support.needs import needs
from tests.support.terminals import open_terminal

from .conftest import Call


@pytest.mark.slow
def test_man_pages(call: Call, tmp_path: Path) -> None:
    tmp_path /= "man1"
    assert call("man", tmp_path).code == 0
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


WORDS = pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["inf"], {"info"}),
        (["perf", "--h"], {"--help", "--help-all", "--html"}),
        (["compare", "--mode", ""], {"entire", "single"}),
        (["run", "near"], {"nearby.rknn"}),
        (["doctor", "--zz"], set()),
    ],
)


@pytest.fixture
def folder(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the scripts of all shells that shtab knows, and a model."""
    needs("shtab")
    import shtab

    (tmp_path / "nearby.rknn").touch()
    for shell in {"bash", "zsh", "fish"} & set(shtab.SUPPORTED_SHELLS):
        (tmp_path / f"_{shell}").write_text(call("completion", shell).out, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _script(folder: Path, shell: str) -> Path:
    needs(shell)
    script = folder / f"_{shell}"
    if not script.exists():
        pytest.skip(f"needs a shtab that knows {shell}")
    subprocess.run([shell, "-n", script], check=True)
    return script


@WORDS
def test_bash_completion(words: list[str], expected: set[str], folder: Path) -> None:
    script = _script(folder, "bash")
    quoted = " ".join(f"'{word}'" for word in words)
    shell = (
        f"source {script}; COMP_WORDS=(rknnlite {quoted}); COMP_CWORD={len(words)}; "
        f"_shtab_rknnlite rknnlite '{words[-1]}' '{['rknnlite', *words][-2]}' 2>/dev/null; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", shell], check=True, capture_output=True, text=True)
    assert set(done.stdout.split()) == expected


@WORDS
def test_fish_completion(words: list[str], expected: set[str], folder: Path) -> None:
    script = _script(folder, "fish")
    line = " ".join(["rknnlite", *words])
    environment = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    done = subprocess.run(
        ["fish", "-c", f"source {script}; complete -C '{line}'"],
        check=True, capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert {text.split("\t")[0] for text in done.stdout.splitlines()} == expected


@WORDS
def test_zsh_completion(words: list[str], expected: set[str], folder: Path) -> None:
    """Typed into a shell at a terminal: TAB completes one word, lists several, and rings the bell at none."""
    _script(folder, "zsh").rename(folder / "_rknnlite")
    environment = {**os.environ, "TERM": "dumb", "HOME": str(folder), "ZDOTDIR": str(folder)}
    setup = f"fpath=({folder} $fpath); autoload -U compinit; compinit -u -D; echo re''ady\n"
    ours, theirs = open_terminal()
    with subprocess.Popen(
        ["zsh", "-f", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    ) as shell:
        try:
            _typed(ours, setup, {"\nready"})
            shown = _typed(ours, " ".join(["rknnlite", *words]) + "\t", expected or {"\a"})
        finally:
            shell.kill()
    os.close(ours)
    os.close(theirs)
    last = words[-1]
    if last:
        found = {word for word in re.findall(r"[\w.-]+", shown) if word.startswith(last) and word != last}
        assert found == expected, shown


def _typed(terminal: int, text: str, expected: set[str]) -> str:
    """What the terminal shows until all of the expected is there."""
    os.write(terminal, text.encode())
    shown, end = "", time.monotonic() + 30
    while not all(word in shown for word in expected):
        assert time.monotonic() < end, shown
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 1 << 16).decode(errors="replace")
    return shown


def test_a_shell_that_an_old_shtab_does_not_know(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian 12's is one of them."""
    old = SimpleNamespace(SUPPORTED_SHELLS=["bash", "zsh"], __version__="1.5.5", FILE={})
    monkeypatch.setitem(sys.modules, "shtab", old)
    done = call("completion", "fish")
    assert done.code == Exit.UNAVAILABLE
    assert "shtab 1.5.5 knows bash, zsh; fish needs a newer one" in done.err


def test_completion_without_shtab(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    done = call("completion", "bash")
    assert done.code == Exit.UNAVAILABLE
    assert "pip install shtab (extra completion" in done.err and "python3-shtab" in done.err
