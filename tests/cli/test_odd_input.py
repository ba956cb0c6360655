"""Whatever a command is given in the place of a file: an exit code, a line that names it and what to do; never a traceback.

Pipes that nobody writes keep nobody, and endless devices fill no memory.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import pytest

from rknnlite.cli.program import parser
from tests.support.corpus import EXAMPLES
from tests.support.needs import skip_for_want

from .conftest import RESNET, Call

TINY = EXAMPLES / "llm_chat" / "models" / "tiny"
DETECT = EXAMPLES / "detect" / "detect_for_RK3588.rknn"
SCENE = EXAMPLES / "detect" / "scene.jpg"
FILE = "FILE"
NO_SERVER = ("--port", "0", "--grpc-port", "-1")
READ: dict[str, tuple[Any, ...]] = {
    "info": ("info", FILE),
    "info, second": ("info", RESNET, FILE),
    "check": ("check", FILE),
    "run": ("run", FILE),
    "run, input": ("run", RESNET, FILE),
    "run, --custom-op": ("run", RESNET, "--custom-op", FILE),
    "run, --attributes": ("run", RESNET, "--attributes", FILE),
    "bench": ("bench", FILE, "--runs", "1"),
    "perf": ("perf", FILE),
    "compare": ("compare", FILE, RESNET),
    "compare, reference": ("compare", RESNET, FILE),
    "compare, --pictures": ("compare", RESNET, RESNET, "--cause", "--pictures", FILE),
    "doctor": ("doctor", FILE),
    "chat": ("chat", FILE, "--ask", "x"),
    "chat, --messages": ("chat", TINY, "--ask", "x", "--messages", FILE),
    "chat, --tools": ("chat", TINY, "--ask", "x", "--tools", FILE),
    "chat, --json-schema": ("chat", TINY, "--ask", "x", "--json-schema", FILE),
    "chat, --grammar": ("chat", TINY, "--ask", "x", "--grammar", FILE),
    "bench-llm": ("bench-llm", FILE),
    "llm-eval": ("llm-eval", FILE, "--source", "."),
    "llm-eval, --source": ("llm-eval", TINY, "--source", FILE),
    "export-llm": ("export-llm", FILE, "out"),
    "export-onnx": ("export-onnx", FILE, "out.onnx"),
    "port": ("port", FILE, "--to", "rk3576", "--toolkit-python", sys.executable),
    "npu-plan": ("npu-plan", FILE, "--base", "weight=0x10000", "internal=0x20000"),
    "pull": ("pull", FILE, "--into", "models"),
    "pull, --sums": ("pull", "words.txt", "--into", "models", "--sums", FILE),
    "serve": ("serve", FILE, *NO_SERVER),
    "serve, --llm": ("serve", "--llm", FILE, *NO_SERVER),
    "serve, --params-file": ("serve", "--params-file", FILE),
    "serve, --api-key-file": ("serve", RESNET, "--api-key-file", FILE, *NO_SERVER),
    "top, --key-file": ("top", "localhost:1", "--once", "--key-file", FILE),
    "detect": ("detect", FILE, SCENE),
    "detect, picture": ("detect", DETECT, FILE),
    "detect, --labels": ("detect", DETECT, SCENE, "--labels", FILE),
    "classify": ("classify", FILE, SCENE),
    "eval": ("eval", FILE, "things.csv"),
    "eval, dataset": ("eval", DETECT, FILE),
    "eval, --labels": ("eval", DETECT, "things.csv", "--labels", FILE),
    "pose": ("pose", FILE, SCENE),
    "segment": ("segment", FILE, SCENE),
    "read": ("read", FILE, SCENE),
    "read, --detector": ("read", FILE, SCENE, "--detector", DETECT),
    "transcribe": ("transcribe", FILE, "--model", "."),
    "transcribe, --model": ("transcribe", "silence.wav", "--model", FILE),
}
"""Commands that read a file, whose place ``FILE`` is."""
WRITE: dict[str, tuple[Any, ...]] = {
    "export-onnx": ("export-onnx", RESNET, FILE, "--tries", "0"),
    "perf, --html": ("perf", RESNET, "--html", FILE),
    "run, --out": ("run", RESNET, "--out", FILE),
    "detect, --out": ("detect", DETECT, SCENE, "--out", FILE),
    "man": ("man", FILE),
    "new-plugin": ("new-plugin", "mine", "--kind", "python", "--output", FILE),
    "doctor, --report": ("doctor", "--report", FILE),
}
"""Commands that write one."""
TAKE_NO_FILE = {"completion", "devices", "exec", "fleet", "librknnrt", "plugins"}
SLOW = {"doctor", "doctor, --report", "compare, --pictures"}


def test_all_commands_are_tried() -> None:
    tried = {words[0] for words in (*READ.values(), *WRITE.values())}
    assert tried | TAKE_NO_FILE == set(parser().commands)


def cases(table: dict[str, tuple[Any, ...]]) -> list[Any]:
    return [
        pytest.param(words, id=name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name, words in table.items()
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: with a folder, a pipe, an empty file and one without the right to read it."""
    (tmp_path / "a folder").mkdir()
    (tmp_path / "models").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    (tmp_path / "words.txt").write_text("words\n")
    (tmp_path / "things.csv").write_text("cat.jpg,cat\n")
    (tmp_path / "cat.jpg").write_bytes(SCENE.read_bytes())
    with wave.open(str(tmp_path / "silence.wav"), "wb") as sound:
        sound.setparams((1, 2, 16000, 0, "NONE", ""))
        sound.writeframes(bytes(3200))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", None)
    monkeypatch.setenv("RKNNLITE_BACKEND", "cpu")
    return tmp_path


@contextlib.contextmanager
def bounded(seconds: int = 60, more: int = 2 << 30) -> Iterator[None]:
    """An error for what is not done in time, or takes more memory."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not done within {seconds} s")

    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + more, limits[1]))
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def refused(call: Call, words: tuple[Any, ...], file: str) -> None:
    with bounded():
        done = call(*(file if word == FILE else word for word in words))
    said = done.out + done.err
    skip_for_want(said)
    assert done.code in (1, 2, 3, 4, 5), said
    assert "Traceback" not in said and "unexpectedly" not in said and "[Errno" not in said, said
    assert "not done within" not in said, said
    assert Path(file).stem.splitlines()[0][:40] in said, said


@pytest.mark.parametrize("words", cases(READ))
def test_no_file(call: Call, folder: Path, words: tuple[Any, ...]) -> None:
    for file in ("missing.rknn", "no/such/folder.rknn", "two\nlines.rknn", "é漢.rknn", "n" * 300):
        refused(call, words, file)


@pytest.mark.parametrize("words", cases(READ))
def test_a_folder_and_streams(call: Call, folder: Path, words: tuple[Any, ...]) -> None:
    for file in ("a folder", "pipe", "/dev/null", "/dev/zero"):
        refused(call, words, file)


@pytest.mark.parametrize("words", cases({name: words for name, words in READ.items() if words[0] != "serve"}))
def test_an_empty_file(call: Call, folder: Path, words: tuple[Any, ...]) -> None:
    refused(call, words, "empty")


@pytest.mark.parametrize("words", cases(WRITE))
def test_where_nothing_can_be_written(call: Call, folder: Path, words: tuple[Any, ...]) -> None:
    for file in ("words.txt/below", "/proc/below"):
        refused(call, words, file)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
@pytest.mark.parametrize(
    "words", cases({name: words for name, words in READ.items() if name in ("info", "run, input", "compare")})
)
def test_a_file_that_the_user_may_not_read(call: Call, tmp_path: Path, words: tuple[Any, ...]) -> None:
    tmp_path.joinpath("closed").write_bytes(RESNET.read_bytes())
    tmp_path.joinpath("open").write_bytes(
        RESNET.read_bytes()
    )  # the checkout may lie where only root may look
    tmp_path.joinpath("closed").chmod(0o600)
    call("compare", RESNET, RESNET, "--backend", "cpu")  # modules and plugins are read by root
    for parent in (tmp_path, *tmp_path.parents):
        if parent.owner() == "root" and parent != Path("/") and "pytest" in str(parent):
            parent.chmod(0o755)
    os.seteuid(65534)
    try:
        places = {FILE: tmp_path / "closed", RESNET: tmp_path / "open"}
        done = call(*(places.get(word, word) for word in words))
    finally:
        os.seteuid(0)
    assert "closed" in done.err and "give this user the right to read it" in done.err and done.code in (3, 5)


def test_a_name_that_begins_with_a_dash(call: Call, folder: Path) -> None:
    folder.joinpath("-x.rknn").write_bytes(RESNET.read_bytes())
    done = call("info", "-x.rknn")
    assert done.code == 2 and "the file -x.rknn is named ./-x.rknn" in done.err
    assert call("info", "./-x.rknn").code == call("info", "--", "-x.rknn").code == 0


PLAIN = [
    ("info", RESNET),
    ("check", RESNET),
    ("run", RESNET, "--backend", "cpu"),
    ("plugins",),
    ("devices",),
    ("--help",),
]


@pytest.mark.parametrize("words", PLAIN, ids=lambda words: words[0])
@pytest.mark.parametrize("place", ["narrow", "no home", "nothing can be written here"])
def test_odd_places(call: Call, monkeypatch: pytest.MonkeyPatch, place: str, words: tuple[Any, ...]) -> None:
    if place == "narrow":
        monkeypatch.setenv("COLUMNS", "20")
    elif place == "no home":
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            monkeypatch.delenv(name, raising=False)
    else:
        monkeypatch.chdir("/proc")
    done = call(*words)
    assert done.code == 0 and done.out, done.err


@pytest.mark.parametrize("words", [("info",), ("check",), ("info", "no-such.rknn")])
def test_a_system_that_knows_ascii_only(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Nothing on stdin, no terminal, a name that the locale cannot write."""
    model = tmp_path / "é漢.rknn"
    model.write_bytes(RESNET.read_bytes())
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "rknnlite", *words, str(model)],
        env={**os.environ, **plain},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == (3 if "no-such.rknn" in words else 0), done.stderr
    assert done.stdout.isascii() and done.stderr.isascii() and b"Traceback" not in done.stderr


def test_help_fits_a_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    for command in parser().commands.values():
        assert command.format_help().startswith("usage:")
