"""The command that tries programs of others: its rows, docs/adopting.md, and its mechanics on a made-up program."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.corpus import ROOT
from tools.adopters import __main__ as command
from tools.adopters import adopter_trial
from tools.adopters.adopter_rows import ADOPTERS, BOARD, Adopter
from tools.adopters.adopter_trial import PROGRAMS, Trial, TrialFailed

PAGE = (ROOT / "docs" / "adopting.md").read_text(encoding="utf-8")
PULL_REQUESTS = ROOT / "tools" / "adopters" / "pull_requests"
MADE_UP = Adopter("made-up", "someone/made-up", "MIT", (), "python greet.py", checkout=True)


@pytest.mark.parametrize("adopter", ADOPTERS, ids=lambda a: a.name)
def test_a_row(adopter: Adopter) -> None:
    assert re.fullmatch(r"[a-z0-9-]+", adopter.name) and adopter.licence
    assert (PROGRAMS / adopter.script).is_file()
    assert adopter.checkout == ("/" in adopter.source), "a repository is owner/name, a distribution is a name"
    if not adopter.checkout:
        pinned = re.search(rf"\b{re.escape(adopter.source)}==(\S+)", " ".join(adopter.install))
        assert pinned, f"which version of {adopter.source} was tried?"
        assert f"{pinned[1]}" in PAGE
    assert f"`{adopter.name}`" in PAGE


def test_names_are_used_once() -> None:
    assert len({adopter.name for adopter in ADOPTERS}) == len(ADOPTERS)
    assert {path.name for path in PROGRAMS.glob("*.py")} == {a.script for a in ADOPTERS} | {"direct.py"}


def test_programs_hold_nothing_of_the_adopters() -> None:
    """What is theirs stays with them: a program here is small, and compiles."""
    for path in PROGRAMS.glob("*.py"):
        text = path.read_text("utf-8")
        compile(text, str(path), "exec")
        assert len(text.splitlines()) < 90, path.name


def test_pull_requests_are_of_adopters_and_short() -> None:
    texts = sorted(PULL_REQUESTS.glob("*.md"))
    assert texts and {path.stem for path in texts} <= {adopter.name for adopter in ADOPTERS}
    for path in texts:
        text = path.read_text("utf-8")
        assert text.count("```") == 2 and "**Why.**" in text and "**Tested**" in text, path.name
        assert len(text.split()) < 180, path.name


# -- which are tried ---------------------------------------------------------------------------------------


def test_all_that_pypi_has_and_what_a_checkout_is_named_of(tmp_path: Path) -> None:
    names = command.chosen([], {"immich": tmp_path})
    assert "ultralytics" in names and "immich" in names and "frigate" not in names
    assert command.chosen(["frigate"], {}) == ["frigate"]
    with pytest.raises(SystemExit, match=r"no such adopter: nobody; there are ultralytics, "):
        command.chosen(["nobody"], {})


@pytest.mark.parametrize("text", ["immich", "immich=/nowhere/at/all"])
def test_a_checkout_is_a_folder(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--checkout", text])
    assert "is not NAME=FOLDER with a folder that is there" in capsys.readouterr().err


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(ADOPTERS)
    assert "rknncli: MIT, PyPI: rknncli; rknncli model.rknn" in lines
    assert "rapidocr: Apache-2.0, PyPI: rapidocr" in lines


# -- a trial -----------------------------------------------------------------------------------------------


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    """A trial of a checkout, in an environment that is this interpreter's; nothing is installed."""
    checkout, programs, wheel = tmp_path / "checkout", tmp_path / "programs", tmp_path / "x.whl"
    checkout.mkdir()
    programs.mkdir()
    wheel.write_bytes(b"a wheel")
    (checkout / "greeting.py").write_text("def greet(): return 'hello'\n")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\nfrom greeting import greet\nprint('seen:', greet())\n"
    )
    (programs / "with_made_up.py").write_text(program)
    monkeypatch.setattr(adopter_trial, "PROGRAMS", programs)
    trial = Trial(MADE_UP, tmp_path / "environments", wheel, checkout)
    trial.environment.mkdir(parents=True)
    trial.python = Path(sys.executable)
    return trial


@pytest.fixture
def asked(made_up: Trial, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What pip is asked for, one command a line."""
    lines: list[str] = []
    monkeypatch.setattr(made_up, "_pip", lambda *arguments: lines.append(" ".join(arguments)))
    return lines


def test_what_a_program_says_it_saw(made_up: Trial, asked: list[str]) -> None:
    outcome = made_up.run()
    assert outcome.good and outcome.seen == "hello" and outcome.version == "no commit"
    assert command.line(outcome).startswith("made-up no commit fine (")


def test_rknnlite_and_the_companion_come_before_the_adopter(made_up: Trial, asked: list[str]) -> None:
    made_up.adopter = replace(MADE_UP, install=("--no-deps greeting==1.0", "numpy"))
    made_up.prepare()
    assert asked == [
        f"--force-reinstall --no-deps {made_up.wheel} {ROOT / 'tools' / 'companion'}", str(made_up.wheel),
        "--no-deps greeting==1.0", "numpy",
    ]  # fmt: skip


def test_only_what_changed_is_installed_again(made_up: Trial, asked: list[str]) -> None:
    made_up.adopter = replace(MADE_UP, install=("greeting==1.0",))
    made_up.prepare()
    asked.clear()
    made_up.prepare()
    assert asked == []
    made_up.wheel.write_bytes(b"another wheel")
    made_up.prepare()
    assert asked and "greeting==1.0" not in asked


def test_a_program_that_fails_is_told_with_its_words(made_up: Trial, asked: list[str]) -> None:
    assert made_up.checkout
    (made_up.checkout / "greeting.py").write_text("raise SystemExit('no greeting today')\n")
    outcome = made_up.run()
    assert not outcome.good and "exit code 1" in outcome.seen and "no greeting today" in outcome.seen
    assert "FAILED" in command.line(outcome)


def test_a_program_that_saw_nothing_is_no_success(made_up: Trial, asked: list[str]) -> None:
    (adopter_trial.PROGRAMS / "with_made_up.py").write_text("print('all well')\n")
    outcome = made_up.run()
    assert not outcome.good and "said nothing of what it saw:\nall well" in outcome.seen


def test_without_a_checkout_it_says_which_to_name(made_up: Trial) -> None:
    made_up.checkout = None
    outcome = made_up.run()
    told = "made-up FAILED (0 s): no checkout: add --checkout made-up=FOLDER (someone/made-up)"
    assert not outcome.good and command.line(outcome) == told


def test_a_board_is_played_to_those_that_look_for_one(made_up: Trial) -> None:
    made_up.adopter = replace(MADE_UP, exec=BOARD)
    assert made_up.command()[1:8] == ["-m", "rknnlite", "exec", "--soc", "rk3588", "--", sys.executable]


def test_a_wheel_of_a_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a copy of what git would commit, without what lies about; the same tree is the same wheel."""
    root, copied = tmp_path / "root", []
    for name in ("rknnlite/a.py", "plugins/b.py", "pyproject.toml", "tests/c.py", "rknnlite/left.log"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / ".gitignore").write_text("*.log\n")
    subprocess.run(["git", "-C", str(root), "init", "-q"], check=True)
    genuine = adopter_trial.done

    def instead(words: list[str], **given: object) -> str:
        if words[0] == "git":
            return genuine(words)
        tree = Path(words[-1])
        copied.extend(sorted(path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()))
        folder = Path(words[words.index("--wheel-dir") + 1])
        folder.mkdir()
        (folder / "x.whl").touch()
        return ""

    monkeypatch.setattr(adopter_trial, "done", instead)
    assert adopter_trial.wheel_of(root, tmp_path).name == "x.whl"
    assert copied == ["plugins/b.py", "pyproject.toml", "rknnlite/a.py"]


def test_a_command_that_fails_says_how() -> None:
    with pytest.raises(TrialFailed, match=r"exit code 3\nfirst words$"):
        adopter_trial.done([sys.executable, "-c", "print('first words'); raise SystemExit(3)"])
