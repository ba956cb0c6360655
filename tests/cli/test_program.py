"""The frame around commands: help, exit codes, errors as text and JSON, plugins' commands, Ctrl-C, closed pipes."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rknnlite_cpu.backend import CpuBackend

from rknnlite import errors, hookimpl
from rknnlite.cli.program import BUILT_IN, main, parser
from rknnlite.errors import visible
from rknnlite.spi.command import Command, Console, Exit
from tests.support.corpus import ROOT

from .conftest import RESNET, Call


def test_help_lists_every_command(call: Call) -> None:
    shown = call("--help")
    assert shown.code == 0
    for name in BUILT_IN:
        assert f"  {name}" in shown.out
    assert "exit codes" in shown.out


@pytest.mark.parametrize("name", BUILT_IN)
def test_help_of_each_command_has_an_example(call: Call, name: str) -> None:
    shown = call(name, "--help")
    assert shown.code == 0
    assert "--json" in shown.out
    assert f"\n  rknnlite {name}" in shown.out


def test_wrong_arguments_point_to_help(call: Call) -> None:
    for words in ([], ["nonsense"], ["info"], ["run", "m.rknn", "--core-mask", "core_9"]):
        done = call(*words)
        assert done.code == Exit.USAGE
        assert "--help" in done.err
        assert not done.out


@pytest.mark.parametrize(
    "words",
    [
        ("top", "--interval", "nan"), ("top", "--interval", "inf"), ("top", "--count", "-2"), ("top", "--count", "x"),
        ("compare", "a", "b", "--min-cosine", "2"), ("export-llm", "a", "b", "--core-num", "0"),
        ("run", RESNET, "--top", "-1"),
    ],
)  # fmt: skip
def test_numbers_have_limits(call: Call, words: Any) -> None:
    done = call(*words)
    assert done.code == Exit.USAGE
    assert " number from " in done.err


def test_options_may_stand_between_model_and_inputs(call: Call) -> None:
    done = call("run", RESNET, "--top", "1", ROOT / "missing.npy")
    assert "missing.npy cannot be read" in done.err
    assert done.code == Exit.DATA


class Raises(Command):
    """Raises what it was given."""

    name = "raises"
    help = "raise"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def run(self, args: Any, console: Console) -> int:
        raise self.error


class Offers:
    """A plugin with commands."""

    def __init__(self, *commands: Any) -> None:
        self._commands = commands

    @hookimpl
    def rknnlite_register_commands(self, register: Any) -> None:
        for command in self._commands:
            register(command)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ModelUnsupported("x"), Exit.MODEL),
        (errors.TargetPlatformUnmatch("x"), Exit.MODEL),
        (errors.BackendUnavailable("x"), Exit.UNAVAILABLE),
        (errors.InputInvalid("x"), Exit.DATA),
        (errors.ParamInvalid("x"), Exit.USAGE),
        (errors.RknnError("x"), Exit.FAILED),
        (PermissionError(13, "Permission denied", "/x"), Exit.FAILED),
        (ZeroDivisionError("x"), Exit.FAILED),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
    ],
)
def test_exit_codes(call: Call, install: Any, error: BaseException, code: int) -> None:
    install(mine=Offers(Raises(error)))
    done = call("raises")
    assert done.code == code
    assert done.err.startswith("rknnlite: ")
    assert "Traceback" not in done.err


def test_an_unexpected_error_asks_for_a_report(
    call: Call, install: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(mine=Offers(Raises(ZeroDivisionError("nought"))))
    assert "raises failed unexpectedly (ZeroDivisionError: nought); please report" in call("raises").err
    monkeypatch.setenv("RKNNLITE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        call("raises")


def test_errors_as_json(call: Call, install: Any) -> None:
    install(mine=Offers(Raises(errors.ModelInvalid("no model"))))
    done = call("raises", "--json")
    assert done.data == {"error": "no model", "name": "RKNN_ERR_MODEL_INVALID", "exit": 3}


class Greet(Command):
    """A command as a third party writes it."""

    name = "greet"
    help = "say hello"

    def arguments(self, parser: Any) -> None:
        parser.add_argument("who")

    def run(self, args: Any, console: Console) -> int:
        console.report({"hello": args.who}, f"hello {args.who}")
        return 0


def test_a_plugin_adds_a_command(call: Call, install: Any) -> None:
    install(mine=Offers(Greet()))
    assert call("greet", "you").out == "hello you\n"
    assert call("greet", "you", "--json").data == {"hello": "you"}
    assert "say hello" in call("--help").out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("help", "", "it has no help; give its class help = ..., one line for the list of commands"),
        ("help", " ", "it has no help"),
        ("help", None, "it has no help"),
        ("name", "", "it has no name; give its class name = ..., the word after rknnlite"),
    ],
)
def test_a_command_without_name_or_help_is_refused(
    call: Call, install: Any, field: str, value: Any, wanted: str
) -> None:
    bare = type("Bare", (Greet,), {"name": "bare", field: value})()
    install(mine=Offers(bare, Greet()))
    refused = f"its command {bare.name or 'Bare'} is skipped: {wanted}"
    done = call("bare")
    assert f"plugin mine: {refused}" in done.err and done.code == Exit.USAGE
    assert call("greet", "you").out == "hello you\n"
    listed = {entry["name"]: entry["problem"] for entry in call("plugins", "--json").data}
    assert refused in listed["mine"]


@pytest.mark.slow
def test_a_broken_plugin_is_named_and_the_rest_works(call: Call, install: Any) -> None:
    class Broken:
        @hookimpl
        def rknnlite_register_commands(self, register: Any) -> None:
            raise RuntimeError("half installed")

    install(gone=ImportError("no module named gone"), broken=Broken(), mine=Offers(Greet(), object()))
    done = call("greet", "you")
    assert done.out == "hello you\n"
    assert "plugin gone" in done.err
    assert "plugin broken: its commands are skipped: half installed" in done.err
    listed = call("plugins", "--json").data
    problems = {entry["name"]: entry["problem"] for entry in listed if entry["problem"]}
    assert "no module named gone" in problems["gone"]
    assert "half installed" in problems["broken"]
    assert "half installed" in call("doctor").out


@pytest.mark.slow
def test_a_plugin_that_exits_or_offers_the_wrong_thing_stops_nobody(call: Call, install: Any) -> None:
    class Wrong:
        @hookimpl
        def rknnlite_register_backends(self, register: Any) -> None:
            register("no backend")

        @hookimpl
        def rknnlite_register_op_hosts(self, register: Any) -> None:
            raise SystemExit("half\ninstalled")

    install(script=SystemExit("usage: script"), wrong=Wrong())
    done = call("run", RESNET, "--backend", "cpu")
    assert done.code == Exit.OK
    assert "plugin script" in done.err
    assert "'no backend' is no Backend" in done.err
    problems = {entry["name"]: entry["problem"] for entry in call("plugins", "--json").data}
    assert problems["script"] == "SystemExit: usage: script"
    assert problems["wrong"] == "its op hosts are skipped: SystemExit: half installed"


def test_a_plugin_cannot_replace_our_backend(call: Call, install: Any) -> None:
    class Impostor(CpuBackend):
        pass

    class Offer:
        @hookimpl
        def rknnlite_register_backends(self, register: Any) -> None:
            register(Impostor())

    install(mine=Offer())
    assert "plugin mine: its cpu is skipped: the name is taken" in call("devices").err


def test_a_plugin_cannot_replace_our_commands(call: Call, install: Any) -> None:
    class Info(Greet):
        name = "info"

    install(mine=Offers(Info()))
    assert "container" in call("info", RESNET).out


def test_names_from_files_do_not_drive_the_terminal() -> None:
    assert visible("a\033[2Jb\x07\u202ec\tdé\n") == "a\\x1b[2Jb\\x07\\u202ec\tdé\n"


def test_a_terminal_that_knows_ascii_only_gets_escapes() -> None:
    raw = io.BytesIO()
    console = Console(out=io.TextIOWrapper(raw, "ascii"))
    console.report({}, "größe")
    assert raw.getvalue() == b"gr\\xf6\\xdfe\n"


def test_json_is_strict() -> None:
    out = io.StringIO()
    Console(json=True, out=out).report({"x": float("nan"), "y": (1, 2), "z": Exit.OK})
    assert json.loads(out.getvalue()) == {"x": None, "y": [1, 2], "z": "OK"}


def test_a_progress_bar_appears_on_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rknnlite.spi.progress.AFTER", 0.0)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, drawn in ((io.StringIO(), False), (Terminal(), True)):
        environment = os.environ.get("TERM")
        os.environ["TERM"] = "xterm"
        try:
            with Console(err=stream).progress("work", 2) as bar:
                bar.step()
        finally:
            os.environ["TERM"] = environment or "dumb"
        assert ("50%" in stream.getvalue()) is drawn


def program(*words: Any, **options: Any) -> subprocess.Popen[str]:
    """The command as a shell starts it: streams are buffered, whatever the developer's shell says."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}", "PYTHONUNBUFFERED": ""}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [sys.executable, "-m", "rknnlite", *map(str, words)], env=environment, text=True, cwd=ROOT, **{**pipes, **options}
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_everything(number: int) -> None:
    with program("bench", RESNET, "--runs", "100000", "--workers", "2") as running:
        assert running.stderr is not None
        running.stderr.readline()  # which backend runs: the contexts are being opened
        running.send_signal(number)
        _, err = running.communicate(timeout=60)
    assert running.returncode == Exit.INTERRUPTED
    assert "interrupted" in err
    assert "Traceback" not in err


def test_an_interrupt_in_generated_code_has_the_exit_code_of_interrupts(tmp_path: Path) -> None:
    """As ``dataclass`` generates while modules are imported: ``python -m`` would end by SIGINT itself."""
    tmp_path.joinpath("program_of_test.py").write_text(
        "import sys; from rknnlite import cli; from rknnlite.cli import program\n"
        "program._run = lambda args: exec('raise KeyboardInterrupt')\n"
        "sys.argv = ['rknnlite', 'plugins']\n"
        "sys.exit(cli.main())"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}:{ROOT / 'plugins'}"}
    command = [sys.executable, "-m", "program_of_test"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == Exit.INTERRUPTED, done.stderr


def test_a_reader_that_leaves_is_no_error_message() -> None:
    with program("info", RESNET) as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.stderr is not None
        assert running.stderr.read() == ""
    assert running.returncode == Exit.FAILED


@pytest.mark.parametrize(
    "words",
    [
        ("info", RESNET),
        ("--help",),
        *(
            pytest.param(words, marks=pytest.mark.slow)
            for words in (("plugins", "--json"), ("info", "--help"), ("run", "--help"), ("--version",))
        ),
    ],
)
def test_a_full_disk_is_told(words: Any) -> None:
    with Path("/dev/full").open("w") as full, program(*words, stdout=full) as running:
        assert running.stderr is not None
        assert running.stderr.read() == "rknnlite: No space left on device\n"
    assert running.returncode == Exit.FAILED


def test_errors_that_cannot_be_written_leave_the_exit_code() -> None:
    with Path("/dev/full").open("w") as full, program("info", "--no-such-option", stderr=full) as running:
        pass
    assert running.returncode == Exit.USAGE


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_closed_streams_are_nowhere(monkeypatch: pytest.MonkeyPatch, closed: str) -> None:
    monkeypatch.setattr(sys, closed, None)
    assert main(["run", str(RESNET), "--backend", "cpu"]) == Exit.OK


def test_the_start_is_light() -> None:
    """``info`` loads nothing that takes time; of our plugins only those that know something of files."""
    code = (
        "import sys; from rknnlite.cli import main; main(['info', sys.argv[1]]); "
        "slow = ('cv2', 'PIL', 'matplotlib', 'onnx', 'onnxruntime', 'tokenizers', 'rknnlite_rknnrt', 'psutil'); "
        "print([m for m in slow if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(RESNET)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_version_is_in_one_place(call: Call) -> None:
    from rknnlite import __version__

    assert call("--version").out == f"rknnlite {__version__}\n"
    assert 'version = { attr = "rknnlite._version.__version__" }' in (ROOT / "pyproject.toml").read_text()


def test_info_reads_what_it_tells_and_no_weights(tmp_path: Path) -> None:
    """As many Python calls for a file of seven times the size."""
    large = tmp_path / "large.rknn"
    large.write_bytes(RESNET.read_bytes() + bytes(10 << 20))
    small, padded = _python_calls(RESNET), _python_calls(large)
    assert 0 < padded < 1.05 * small


def _python_calls(model: Path) -> int:
    """Calls of Python functions behind ``rknnlite info``, imports left out."""
    code = (
        "import sys\nfrom rknnlite.cli import main\ncalls = 0\n"
        "def count(frame, event, argument):\n    global calls\n    calls += event == 'call'\n"
        "main(['info', sys.argv[1]])\nsys.setprofile(count)\nmain(['info', sys.argv[1]])\n"
        "sys.setprofile(None)\nprint(calls)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(model)], capture_output=True, text=True, check=True
    )
    return int(done.stdout.splitlines()[-1])


def test_the_parser_knows_all() -> None:
    text = parser().format_help()
    assert all(name in text for name in BUILT_IN)
