"""From ``sys.argv`` to a command, and from what goes wrong to a line on stderr and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from .. import config, libraries, plugins
from .._faces import vendor_files
from .._version import __version__
from ..errors import (
    BackendUnavailable,
    DeviceUnavailable,
    InputInvalid,
    ModelInvalid,
    OutputInvalid,
    ParamInvalid,
    RknnError,
    TargetPlatformUnmatch,
)
from ..extras import OWN_PLUGINS
from ..log import level, logger
from ..spi.command import Command, Console, Exit
from .parser import Aligned, HelpAll, Parser, help_texts

__all__ = ["BUILT_IN", "main", "parser"]

BUILT_IN = {
    "info": "info",
    "run": "run",
    "doctor": "doctor",
    "devices": "devices",
    "plugins": "plugin_list",
}
"""The commands of everybody and the modules that hold them; a module is imported when its command is called."""

_EPILOGUE = """\
exit codes: 0 done; 1 failed; 2 wrong arguments; 3 the model cannot be used;
4 no backend, device or extra; 5 inputs do not fit; 6 a result misses what was
asked for; 130 interrupted.
'rknnlite COMMAND --help' shows arguments and examples; 'rknnlite doctor' says
what is wrong with an installation."""

_CODES: tuple[tuple[type[Exception], Exit], ...] = (
    (ModelInvalid, Exit.MODEL),
    (TargetPlatformUnmatch, Exit.MODEL),
    (DeviceUnavailable, Exit.UNAVAILABLE),
    (InputInvalid, Exit.DATA),
    (OutputInvalid, Exit.DATA),
    (ParamInvalid, Exit.USAGE),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code. Without ``argv`` this is the process: signals and streams are handled, too."""
    if argv is not None:
        return _answer(argv)
    _own_process()
    code = _answer(sys.argv[1:])
    if code == Exit.INTERRUPTED:
        _forget_interrupt()
    return _flushed(code)


def _answer(given: Sequence[str]) -> int:
    try:
        with _log_lines(Console()):
            if given[:1] != ["doctor"] and _unusable():
                return Exit.UNAVAILABLE
            return _run(_parse(given))
    except KeyboardInterrupt:  # before the command began
        return Exit.INTERRUPTED
    except SystemExit as stop:  # argparse has said why
        return stop.code if isinstance(stop.code, int) else Exit.USAGE
    except BackendUnavailable as error:  # the plugin that brings the command
        return _fail(Console(json="--json" in given), error, Exit.UNAVAILABLE)
    except BrokenPipeError:  # whoever read our output has had enough
        return Exit.FAILED


def _unusable() -> bool:
    """Say so where another package's files have replaced those that plugins need: they would complain one after the other."""
    mixed = vendor_files.mixture() if vendor_files.replaced() else None
    if mixed:
        Console().note(". Run: ".join(mixed))
    return mixed is not None


def _forget_interrupt() -> None:
    """Have the exit code count: ``python -m`` ends by SIGINT once an interrupt has left code that was given as text.

    ``dataclass`` and ``namedtuple`` run such code whenever a module is imported, and the interpreter does not see that
    the interrupt was caught later. The next code given as text makes it forget.
    """
    exec("")


def _flushed(code: int) -> int:
    """The exit code once everything is written; what cannot be is dropped, lest the interpreter try again at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if code == Exit.OK and not isinstance(error, BrokenPipeError):  # else it has been told
                Console().note(error.strerror or str(error))
            code = code or Exit.FAILED
    return code


def _parse(given: Sequence[str]) -> argparse.Namespace:
    """The arguments of one command, which may come in any order. Without any words the help of all is shown, on stderr and as
    an error, lest a script that lost its words take it for a result.

    A command of our own is looked up without loading other plugins.
    """
    if not given:
        parser().print_help(Console().err)
        raise SystemExit(Exit.USAGE)
    word = given[0]
    command = (
        _load(word)
        if word in BUILT_IN
        else libraries.command(word) or plugins.commands().get(word)
        if word[:1] not in ("", "-")
        else None
    )
    if command is None:
        _say_who_brings(given)
        return parser().parse_args(given)
    takes = _fill(Parser(prog=f"rknnlite {word}", **help_texts(command)), command)
    own, rest = takes.split(given[1:]) if command.rest else (list(given[1:]), [])
    takes.given = own
    parse = takes.parse_args if "--" in own else takes.parse_intermixed_args  # which lets -- not count
    args = parse(own)
    args.rest = rest
    return args


def _say_who_brings(given: Sequence[str]) -> None:
    """Of a command that a plugin of ours has, which is not here: what to install."""
    for name in (plugin.name for plugin in OWN_PLUGINS.values() if given[0] in plugin.commands):
        error = libraries.missing_library(
            name, f"the plugin {name} is not here, which has the command {given[0]}"
        )
        raise SystemExit(_fail(Console(json="--json" in given), error, Exit.UNAVAILABLE))


def parser() -> Parser:
    """The parser of all commands, for help, manual pages and completion."""
    top = Parser(
        prog="rknnlite",
        usage="rknnlite [-h] [--version] COMMAND ...",
        add_help=False,  # its usage line names the options
        description="Run, measure and look into Rockchip .rknn models, on the NPU or the CPU.",
        epilog=_EPILOGUE,
        formatter_class=Aligned,
    )
    top.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    top.add_argument("--version", action="version", version=f"rknnlite {__version__}", help=argparse.SUPPRESS)
    subs = top.add_subparsers(
        title="commands", prog="rknnlite", dest="command", metavar="COMMAND", required=True
    )
    for command in _all():
        sub = top.commands[command.name] = subs.add_parser(
            command.name, help=command.help, **help_texts(command)
        )
        _fill(sub, command)
    return top


def _load(name: str) -> Command:
    module = importlib.import_module(f".{BUILT_IN[name]}", __package__)
    command: Command = module.COMMAND
    return command


def _all() -> list[Command]:
    own = [_load(name) for name in BUILT_IN]
    return [*own, *(command for name, command in sorted(plugins.commands().items()) if name not in BUILT_IN)]


def _fill(sub: Parser, command: Command) -> Parser:
    sub.add_argument("--help-all", action=HelpAll, help="show every option, not only the common ones")
    sub.add_argument("--json", action="store_true", help="print the result as JSON, one document per line")
    try:
        command.arguments(sub)
    except Exception as error:
        if command.name in BUILT_IN:
            raise
        logger.warning("the arguments of the command %s of a plugin are broken: %s", command.name, error)
    sub.set_defaults(command=command.name, all_commands=parser)
    return sub.filled(command)


def _painter(columns: int) -> Any:
    """What paints on a terminal; None where the library pages or the extra rich is not installed."""
    with contextlib.suppress(BackendUnavailable, ImportError):
        return libraries.library("pages").painter(columns)
    return None


def _run(args: argparse.Namespace) -> int:
    console = Console(json=args.json, painter=_painter)
    try:
        return int(args.instance.run(args, console))
    except KeyboardInterrupt:
        console.note("interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        raise
    except RknnError as error:
        return _fail(
            console, error, next((code for kind, code in _CODES if isinstance(error, kind)), Exit.FAILED)
        )
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        return _fail(console, OSError(what), Exit.FAILED)
    except MemoryError as error:
        return _fail(
            console, error, Exit.FAILED, "out of memory; close other programs or use a smaller model"
        )
    except Exception as error:
        if (config.get("debug") or "0") != "0":
            raise
        what = f"{args.command} failed unexpectedly ({type(error).__name__}: {error})"
        return _fail(
            console,
            error,
            Exit.FAILED,
            f"{what}; please report it with the traceback that RKNNLITE_DEBUG=1 shows",
        )


def _fail(console: Console, error: Exception, code: Exit, text: str = "") -> int:
    text = text or str(error)
    if console.json:
        name = error.name if isinstance(error, RknnError) else type(error).__name__
        with contextlib.suppress(OSError):  # a full disk is what is to be told
            console.report({"error": text, "name": name, "exit": int(code)})
    console.note(text)
    return code


@contextlib.contextmanager
def _log_lines(console: Console) -> Iterator[None]:
    """Warnings of the library on stderr, unless RKNN_LOG_LEVEL or the application says otherwise."""
    if level() is not None or logger.handlers[1:]:
        yield
        return
    handler = _Lines(console)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Lines(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text not in self._said:  # a command may open a model several times
            self._said.add(text)
            self._console.note(text)


def _own_process() -> None:
    """A polite end on SIGTERM, too: contexts are closed, workers are ended."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, stop)
