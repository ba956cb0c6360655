"""``--help`` is one screen that begins with the commonest use; ``--help-all``, manual pages and completion leave nothing out."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from rknnlite.cli.program import parser
from rknnlite.spi.command import Command

from .conftest import Call

COMMANDS = parser().commands
SCREEN = {80: 32, 40: 60}
"""Columns of a terminal -> lines that a help may have there."""


def help_of(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    return COMMANDS[name].format_help().splitlines()


@pytest.mark.parametrize("columns", SCREEN)
@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_one_screen(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = help_of(name, columns, monkeypatch)
    assert len(lines) <= SCREEN[columns]
    command = [f"  {line}" for line in COMMANDS[name].get_default("instance").examples]
    unbroken = (*command, *(option_line(action) for action in COMMANDS[name].declared))
    assert [line for line in lines if len(line) > columns and not line.startswith(unbroken)] == []


def option_line(action: argparse.Action) -> str:
    """The names of an option and its value, which are never broken."""
    value = action.metavar or "{" + ",".join(action.choices or ()) + "}"
    return "  " + ", ".join(f"{name} {value}" for name in action.option_strings)


@pytest.mark.parametrize("name", COMMANDS)
def test_it_begins_with_the_commonest_use(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = help_of(name, 80, monkeypatch)
    blank = lines.index("")
    assert lines[0].startswith(f"usage: rknnlite {name}") and lines[blank - 1].endswith("[options]")
    assert lines[blank + 1] == f"  {COMMANDS[name].get_default('instance').examples[0]}"


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_common_exists_and_the_rest_is_told_of(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    common = COMMANDS[name].get_default("instance").common
    options = {word: action for action in COMMANDS[name].declared for word in action.option_strings}
    assert set(common) <= set(options)
    left_out = (
        {id(a) for a in options.values() if a.help != argparse.SUPPRESS}
        - {id(options[word]) for word in (*common, "-h", "--help-all", "--json")}
        - {id(a) for a in options.values() if a.required or isinstance(a, argparse._HelpAction)}
    )
    text = "\n".join(help_of(name, 80, monkeypatch))
    said = f"{len(left_out)} more option{'s' * (len(left_out) > 1)}: rknnlite {name} --help-all"
    assert (said in text) is bool(common and left_out)


@pytest.mark.parametrize("name", COMMANDS)
def test_all_options_are_in_help_all(name: str) -> None:
    text = COMMANDS[name].format_help(everything=True)
    for action in COMMANDS[name].declared:
        if action.help != argparse.SUPPRESS:
            assert all(word in text for word in action.option_strings)
    assert all(line in text for line in COMMANDS[name].get_default("instance").examples)


def test_both_are_options(call: Call) -> None:
    assert "more options: rknnlite run --help-all" in call("run", "--help").out
    assert "--board-inputs" in call("run", "--help-all").out


def test_the_list_of_all_is_one_screen(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = call("--help").out.splitlines()
    assert len(lines) <= 46 and max(map(len, lines)) <= 80
    assert all(any(line.startswith(f"    {name} ") for line in lines) for name in COMMANDS)


class Odd(Command):
    """As a plugin may write one."""

    name = "odd"
    help = "do"

    def arguments(self, parser: Any) -> None:
        parser.add_argument("what", nargs="*", metavar="WHAT")
        parser.add_argument("--to", required=True, metavar="PLACE")

    def run(self, args: Any, console: Any) -> int:
        return 0


def test_a_command_without_examples_has_a_help_too(call: Call, install: Any) -> None:
    from .test_program import Offers

    install(mine=Offers(Odd()))
    assert call("odd", "--help").out.splitlines()[:3] == [
        "usage: rknnlite odd [WHAT ...] --to PLACE [options]",
        "",
        "Do.",
    ]
