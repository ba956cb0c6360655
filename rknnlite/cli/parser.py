"""What ``rknnlite`` makes of the words of a command line, and the help that it gives: the common options, or all."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ..errors import plain, shown, visible
from ..spi.command import Command, Console, Exit

__all__ = ["Aligned", "HelpAll", "Parser", "help_texts"]

_MORE_EXAMPLES = 2  # below the options
_FEW = 6  # choices that are worth naming
_UNRECOGNISED = "unrecognized arguments: "


def help_texts(command: Command) -> dict[str, Any]:
    """What a parser is told about its command."""
    examples = "".join(f"\n  {line}" for line in command.examples)
    return {
        "description": command.help[:1].upper() + command.help[1:] + ".",
        "epilog": f"examples:{examples}" if examples else None,
        "formatter_class": Page,
    }


def _wrapped(text: str, width: int, hang: int = 0) -> str:
    return "\n".join(textwrap.wrap(text, width, subsequent_indent=" " * hang))


class Aligned(argparse.RawDescriptionHelpFormatter):
    """Commands and what they do side by side."""

    def __init__(self, prog: str, **kwargs: Any) -> None:
        super().__init__(prog, max_help_position=18, **kwargs)
        self._action_max_length = 15  # of export-onnx with its indent, which argparse reckons too small


class Page(argparse.RawDescriptionHelpFormatter):
    """Tells how wide it is, and what arguments take, for a usage of a few words."""

    @property
    def columns(self) -> int:
        """Of text."""
        return self._width

    def takes(self, action: argparse.Action) -> str:
        """``MODEL``, ``[INPUT ...]``, ``--to SOC``."""
        if not action.option_strings:
            return self._format_args(action, self._get_default_metavar_for_positional(action))
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{action.option_strings[0]} {value}"


class HelpAll(argparse.Action):
    """``--help-all``: everything that argparse knows to say."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> NoReturn:
        parser.print_all()
        raise SystemExit(Exit.OK)


class Parser(argparse.ArgumentParser):
    """Says where to find help, as every message here ends with what to do; and what there is, for what is made of it.

    Attributes:
        commands: of the parser of all commands, those of each.
        given: the words that are parsed.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.commands: dict[str, Parser] = {}
        self._common_usage = ""
        self.given: Sequence[str] = ()

    @property
    def declared(self) -> list[argparse.Action]:
        """All arguments; ``container.title`` is that of the group."""
        return self._actions

    def format_help(self, everything: bool = False) -> str:
        """One screen: the commonest use, what it does, arguments and common options; or all that there is."""
        command = self.get_default("instance")
        if everything or command is None:
            return super().format_help()
        told = [action for action in self._actions if not self._is_untold(action)]
        listed = [action for action in told if self._is_common(action, command)]
        formatter: Any = self._get_formatter()
        width = formatter.columns
        usage = _wrapped(f"usage: {self._common_usage}", width, 7)
        first, *others = (f"  {line}" for line in command.examples or ("",))
        fitting = [line for line in others if len(line) <= width][:_MORE_EXAMPLES]
        formatter.add_text(f"{usage}\n\n{first}" if first.strip() else usage)
        formatter.add_text(_wrapped((self.description or "").partition("\n\n")[0], width))
        for title, optional in (("arguments", False), ("options", True)):
            formatter.start_section(title)
            formatter.add_arguments([one for one in listed if bool(one.option_strings) is optional])
            formatter.end_section()
        more = len(told) - len(listed)
        if more:
            formatter.add_text(
                _wrapped(f"{more} more option{'s' * (more > 1)}: {self.prog} --help-all", width)
            )
        formatter.add_text("\n".join(["more examples:", *fitting]) if fitting else None)
        return str(formatter.format_help())

    def print_all(self) -> None:
        """``format_help`` of everything, on stdout."""
        self._print_message(self.format_help(everything=True), sys.stdout)

    @staticmethod
    def _is_untold(action: argparse.Action) -> bool:
        gives_help = bool(action.option_strings) and action.default == argparse.SUPPRESS
        return gives_help or action.help == argparse.SUPPRESS

    @staticmethod
    def _is_common(action: argparse.Action, command: Command) -> bool:
        """Whether ``--help`` lists it."""
        names = action.option_strings
        return (
            not names or action.required or not command.common or bool({*names} & {"--json", *command.common})
        )

    def filled(self, command: Command) -> Parser:
        """With all its arguments, those that must be there being its usage."""
        formatter: Any = self._get_formatter()
        # now: while argparse parses in any order, it hides how many words an argument takes
        words = [
            self.prog,
            *(formatter.takes(action) for action in self._actions if not action.option_strings),
        ]
        words += [
            formatter.takes(action) for action in self._actions if action.option_strings and action.required
        ]
        self._common_usage = " ".join([*words, "[options]"])
        self.set_defaults(instance=command)
        return self

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """As argparse's, which says the names of our functions for what a value is."""
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            if not error.message.startswith("invalid "):
                raise
            wanted = {int: "whole number", float: "number"}.get(action.type, "value for it")  # type: ignore[call-overload]
            raise argparse.ArgumentError(action, f"{shown(arg_string)} is no {wanted}") from None

    def split(self, words: Sequence[str]) -> tuple[list[str], list[str]]:
        """The options of a command with their values, and the words of the program that it runs."""
        valued = [name for name, action in self._option_string_actions.items() if action.nargs is None]
        at = 0
        while at < len(words) and words[at].startswith("-") and words[at] != "--":
            at += 1 + (words[at] in valued)
        return list(words[:at]), list(words[at + (words[at : at + 1] == ["--"]) :])

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As argparse's; of many choices the nearest is said."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        near = difflib.get_close_matches(str(value), choices, 1)
        hint = (
            f"did you mean {near[0]}?"
            if near
            else f"there are {', '.join(choices)}"
            if len(choices) <= _FEW
            else ""
        )
        raise argparse.ArgumentError(action, f"there is no {shown(value)}{'; ' if hint else ''}{hint}")

    def _too_much(self, words: Sequence[str]) -> str:
        """What to say of arguments that nobody takes."""
        word = words[0]
        if word.startswith("-"):
            near = difflib.get_close_matches(word.partition("=")[0], list(self._option_string_actions), 1)
            return f"there is no option {shown(word)}" + (f"; did you mean {near[0]}?" if near else "")
        takes = " ".join(str(action.metavar or action.dest) for action in self._get_positional_actions())
        return f"{shown(word)} is too much: it takes {takes or 'options only'}"

    def error(self, message: str) -> NoReturn:
        if message.startswith(_UNRECOGNISED):
            message = self._too_much(message[len(_UNRECOGNISED) :].split(" "))
        for word in self.given:
            if word.startswith("-") and Path(word).is_file():
                message += f"; the file {word} is named ./{word}"
        with contextlib.suppress(OSError):  # a full disk: the exit code says it
            self._print_message(
                visible(f"{self.prog}: {plain(message)}; see {self.prog} --help\n"), sys.stderr
            )
        self.exit(Exit.USAGE)

    def _print_message(self, message: str, file: Any = None) -> None:
        """As argparse's, which drops without a word what cannot be written."""
        stream = sys.stderr if file is None else file
        if not message or stream is None:
            return
        try:
            stream.write(message)
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            if stream is sys.stdout:  # of stderr the exit code tells
                Console().note(error.strerror or str(error))
                raise SystemExit(Exit.FAILED) from None
