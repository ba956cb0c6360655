"""How results look: on terminals of several widths with and without rich, in a pipe, and the verdicts at their ends."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rknnlite.cli import main
from rknnlite.cli.program import BUILT_IN
from rknnlite.commandline.options import core_mask, mask_name
from rknnlite.commandline.readiness import brief, ready
from rknnlite.socs import get
from rknnlite.spi import Backend, Device, Probe
from rknnlite.spi.command import Column, Console, Exit, Line, Progress, Table, Tone
from rknnlite.spi.progress import duration
from rknnlite.spi.terminal import shortened, width_of
from tests.support.brothers import slow_unless
from tests.support.corpus import ROOT, genuine, golden_of
from tests.support.onnx_twin import write_twin
from tests.support.terminals import open_terminal

from .conftest import BOARD, RESNET, Call, Offer

WIDTHS = (60, 80, 120, 200)
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
TWO = "two_images.rk3588.i8"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


Show = Callable[..., str]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Show:
    """``show(80, "perf", model)``: what a terminal of 80 columns gets on stdout."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("RKNNLITE_BACKEND", "cpu")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def run(width: int, *words: Any) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        stream = Terminal()
        monkeypatch.setattr(sys, "stdout", stream)
        main([str(word) for word in words])
        return stream.getvalue()

    return run


@pytest.fixture
def without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that does not have it."""
    for name in [name for name in sys.modules if name.split(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "rknnlite_pages.rich_terminal", raising=False)
    monkeypatch.setitem(sys.modules, "rich", None)


# -- tables ----------------------------------------------------------------------------------------------------


def table(**more: Any) -> Table:
    columns = (Column("id", True), Column("name", least=10), Column("shape", drop=1), Column("note", drop=2))
    rows = [["7", "/model.10/cv2/conv/Conv_output_0", "(1,64,80,80)", ""], ["12", "b", "(1,2)", "x"]]
    return Table(columns, rows, **more)


def test_a_table_without_a_width_is_whole() -> None:
    assert table().lines(None) == [
        "id  name                              shape         note",
        " 7  /model.10/cv2/conv/Conv_output_0  (1,64,80,80)",
        "12  b                                 (1,2)         x",
    ]


def test_names_lose_their_middle_and_then_columns_go() -> None:
    assert table().lines(50)[1] == " 7  /model.10/…v/Conv_output_0  (1,64,80,80)"
    assert table().lines(24) == [
        "id  name            note", " 7  /model…utput_0", "12  b               x", "(no room for: shape)",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [20, 23, 30, 40, 46, 60])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert all(width_of(line) <= width for line in table().lines(width))


def test_a_column_without_data_is_left_out() -> None:
    columns, rows = [Column("a"), Column("b"), Column("c")], [["1", "\\", "\\"], ["2", "\\", "3"]]
    assert Table(columns, rows, empty="\\").lines(None) == ["a  c", "1  \\", "2  3"]
    assert Table(columns, rows).lines(None)[0] == "a  b  c"


def test_sums_are_behind_a_rule_on_a_terminal() -> None:
    sums = Table([Column("op"), Column("n", True)], [["Conv", "3"], ["all", "3"]], last=1)
    assert sums.lines(80) == ["op    n", "Conv  3", "-------", "all   3"]
    assert sums.lines(None) == ["op    n", "Conv  3", "all   3"]


def test_wide_characters_take_two_columns() -> None:
    assert (width_of("層a"), width_of("e\u0301"), shortened("層層層層層", 7)) == (3, 1, "層…層")
    assert all(width_of(line) <= 12 for line in Table([Column("n", least=4)], [["層" * 20]]).lines(12))


def test_names_do_not_drive_the_terminal(without_rich: None) -> None:
    console = Console(out=Terminal())
    console.report({}, Table([Column("n")], [["\033[2J"]]), Line("\033[2J"), "\033[2J")
    assert "\033" not in console.out.getvalue()  # type: ignore[attr-defined]


def test_a_long_line_goes_on_below() -> None:
    assert Line("      -> install the runtime", hang=9).lines(20) == [
        "      -> install the",
        "         runtime",
    ]
    assert Line("a " * 50).lines(None) == ["a " * 50]


# -- commands on terminals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", slow_unless(lambda width: width == WIDTHS[0], WIDTHS))
@pytest.mark.parametrize("command", ["info", "perf", "bench", "doctor", "devices", "plugins", "compare"])
def test_commands_fit(show: Show, without_rich: None, command: str, width: int) -> None:
    model = genuine("resnet_like.rk3588.i8")
    words: dict[str, list[Any]] = {"info": [model], "perf": [model]}
    words["bench"] = [model, "--runs", 1, "--warmup", 0, "--core-masks", "auto,core_0_1_2"]
    words["compare"] = [model, model, "--float", model, "--mode", "single"]
    lines = show(width, command, *words.get(command, ())).splitlines()
    assert lines and max(map(width_of, lines)) <= width
    assert not any("\033" in line for line in lines)


@pytest.mark.parametrize("width", slow_unless(lambda width: width == WIDTHS[1], WIDTHS))
@pytest.mark.parametrize("command", ["perf", "doctor", "compare", "info"])
def test_rich_paints_and_changes_no_letter(
    show: Show, monkeypatch: pytest.MonkeyPatch, command: str, width: int
) -> None:
    pytest.importorskip("rich")
    model = genuine("resnet_like.rk3588.i8")
    words = {"doctor": [], "compare": [model, model, "--float", model]}.get(command, [model])
    painted = show(width, command, *words)
    monkeypatch.setenv("NO_COLOR", "1")
    plain = show(width, command, *words)
    assert "\033[" in painted and "\033" not in plain
    numbers = re.compile(r"[\d.]+ *")  # times differ from run to run, and so does the width of their column
    bare = [numbers.sub("", ESCAPES.sub("", text)).replace(" ", "") for text in (painted, plain)]
    assert bare[0] == bare[1] or command == "perf"
    assert max(map(width_of, ESCAPES.sub("", painted).splitlines())) <= width


@pytest.mark.slow
def test_a_dumb_terminal_gets_no_colours(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert "\033" not in show(80, "doctor")


AT_ONCE = """
import runpy, sys
from rknnlite.spi import progress
progress.AFTER = 0.0  # else a quick machine shows no bar
runpy.run_module("rknnlite", run_name="__main__", alter_sys=True)
"""


def run_on_a_pty(width: int, folder: Path, *words: Any) -> str:
    """The command as a person starts it, both streams on a terminal; packages in ``folder`` come first."""
    environment = {
        **os.environ, "TERM": "xterm", "COLUMNS": str(width), "RKNNLITE_BACKEND": "cpu",
        "PYTHONPATH": f"{folder}:{ROOT}:{ROOT / 'plugins'}",
    }  # fmt: skip
    environment.pop("NO_COLOR", None)
    ours, theirs = open_terminal()
    command = [sys.executable, "-c", AT_ONCE, *map(str, words)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=ROOT):
        os.close(theirs)
        read = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the last one has closed it
                break
            if not piece:
                break
            read += piece
    os.close(ours)
    return read.decode()


@pytest.mark.slow
@pytest.mark.parametrize("rich", [True, False])
def test_a_real_terminal(tmp_path: Path, rich: bool) -> None:
    """A bar that is written over and taken away, then a table that fits; nothing of the bar is left beside it."""
    if rich:
        pytest.importorskip("rich")
    else:
        (tmp_path / "rich").mkdir()
        (tmp_path / "rich" / "__init__.py").write_text("raise ImportError('not here')")
    text = run_on_a_pty(80, tmp_path, "compare", RESNET, RESNET, "--float", RESNET)
    assert ("\033[" in text) is rich
    lines = ESCAPES.sub("", text).replace("\r\n", "\n").split("\n")
    bars = [piece for piece in lines[0].split("\r") if piece.startswith("compare ")]
    assert bars and all(width_of(bar) <= 79 for bar in bars)
    assert lines[0].split("\r")[-1].startswith("model: "), "the bar is gone"
    assert max(map(width_of, lines[1:])) <= 80
    assert "Identical" in lines and "All 25 tensors are the same on both sides, number for number." in lines


# -- pipes -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("command", ["info", "devices", "plugins", "doctor"])
def test_a_pipe_has_no_width(call: Call, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    words = [RESNET] if command == "info" else []
    texts = []
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERM", "xterm")
        texts.append(call(command, *words).out)
    assert len(set(texts)) == 1 and "\033" not in texts[0] and "…" not in texts[0]


def test_programs_that_read_the_manuals_tables_go_on_to_do_so(call: Call) -> None:
    done = call("perf", genuine("conv_1x1.rk3588.i8"), "--backend", "cpu")
    assert "Network Layer Information Table" in done.out and "MacUsage(%)" in done.out
    done = call("compare", genuine(TWO), genuine(TWO), "--backend", "cpu", "--float", genuine(TWO))
    assert "layer_name" in done.out and "cos | euc" in done.out


@pytest.mark.slow
def test_rich_is_imported_for_terminals_only() -> None:
    code = (
        "import sys; from rknnlite.cli import main; main(['info', sys.argv[1]]); main(['plugins']); "
        "print('rich' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(RESNET)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "False"


# -- perf ------------------------------------------------------------------------------------------------------


def test_perf_shows_what_carries_something(show: Show, without_rich: None) -> None:
    """Off the board cycles, loads and tasks have no data; the manual's table has them."""
    text = show(200, "perf", RESNET)
    assert text.splitlines()[0] == "layers: times of the CPU reference on this machine"
    head = text.splitlines()[1].split()
    assert head == [
        "ID", "OpType", "DataType", "Target", "InputShape", "OutputShape", "Time(us)", "RW(KB)", "FullName",
    ]  # fmt: skip
    last = text.splitlines()[-5:]
    assert re.search(r"^[\d.]+ ms per run on the CPU reference$", last[0])
    assert last[1].startswith("These are times of this machine's CPU, not of the NPU")
    assert re.search(r"^Costliest layers: \S+ [\d.]+ [mu]s \(\d+ %\), ", last[2])
    narrow = show(60, "perf", RESNET)
    assert narrow.splitlines()[1].split() == ["ID", "OpType", "Target", "Time(us)", "FullName"]
    assert "(no room for: DataType, InputShape, OutputShape, RW(KB))" in narrow
    vendor = show(60, "perf", RESNET, "--vendor-table")
    assert "NPUCycles" in vendor and "WorkLoad(0/1/2)" in vendor and "Memory Profile" in vendor


# -- compare ---------------------------------------------------------------------------------------------------


def test_compare_says_identical(call: Call, show: Show) -> None:
    done = call("compare", genuine(TWO), genuine(TWO), "--backend", "cpu")
    same = "All 7 tensors are the same on both sides, number for number."
    assert done.out.splitlines()[-2:] == ["Identical", same]
    assert "1.00000" not in done.out
    data = call("compare", genuine(TWO), genuine(TWO), "--backend", "cpu", "--json").data
    assert data["verdict"]["kind"] == "IDENTICAL" and data["verdict"]["quantisation"] is None
    assert data["verdict"]["headline"] == "Identical" and data["verdict"]["lines"] == [same]
    assert same in show(80, "compare", genuine(TWO), genuine(TWO))


def test_is_it_the_quantisation(call: Call, tmp_path: Path) -> None:
    import numpy as np

    model = genuine(TWO)
    twin = write_twin(model, tmp_path / "twin.onnx")
    inputs = []
    for number, array in enumerate(golden_of(TWO).inputs):
        inputs.append(tmp_path / f"{number}.npy")
        np.save(inputs[-1], array)
    without = call("compare", model, twin, *inputs, "--backend", "cpu")
    assert without.out.splitlines()[-1] == "Is it the quantisation? --quantisation tells."
    done = call("compare", model, twin, *inputs, "--backend", "cpu", "--quantisation")
    last = done.out.splitlines()[-1]
    found = re.fullmatch(
        r"The rounding of activations is 100 % of the error: output \w+ is (\S+) from the source network, (\S+) with the same "
        r"file computed in float\.",
        last,
    )
    assert found, last
    data = call("compare", model, twin, *inputs, "--backend", "cpu", "--quantisation", "--json").data
    measured = data["verdict"]["quantisation"]
    assert f"{measured['stored']:.4g}" == found[1] and f"{measured['in_float']:.4g}" == found[2]
    (tensor,) = (t for t in data["tensors"] if t["name"] == measured["name"])
    assert measured["stored"] == tensor["entire"]["euclidean"]
    assert measured["in_float"] == tensor["reference_to_float"]["euclidean"]


def test_quantisation_is_asked_of_a_model(call: Call, tmp_path: Path) -> None:
    for model in (tmp_path / "a.onnx", tmp_path):
        done = call("compare", model, RESNET, "--quantisation", "--backend", "cpu")
        assert done.code == Exit.USAGE and "is no .rknn file" in done.err
    assert (
        "not allowed with" in call("compare", RESNET, RESNET, "--quantisation", "--float", "a.onnx", "x").err
    )


# -- top -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, *WIDTHS])
def test_top_is_aligned_and_fits(show: Show, machine: Any, width: int) -> None:
    lines = show(width, "top", "--root", machine(BOARD), "--count", 1).splitlines()
    assert max(map(width_of, lines[1:])) <= width  # the first one clears the screen
    bars = [line for line in lines if "[" in line[1:] and "]" in line]
    assert [line.split("[")[0].strip() for line in bars] == [
        "NPU core 0",
        "NPU core 1",
        "NPU core 2",
        "memory",
        "SRAM",
    ]
    assert len({(line.index("["), line.index("]")) for line in bars}) == 1
    assert re.search(r"\] +25% 1953/7812 MiB$", bars[3]) and re.search(r"\] +0% 4/956 KiB$", bars[4])


# -- verdicts on machines --------------------------------------------------------------------------------------


class Runtime(Backend):
    """A vendor's runtime that is there, or says why not."""

    name = "vendors"
    generation = "rknpu2"

    def __init__(self, reason: str = "", devices: tuple[Device, ...] = ()) -> None:
        self._reason, self._devices = reason, devices

    def probe(self) -> Probe:
        if self._reason:
            return Probe(False, self._reason)
        return Probe(True, "there", 100, ("npu",), "/usr/lib/librknnrt.so", "2.3.0")

    def devices(self) -> list[Device]:
        return list(self._devices)

    def open(self, model: Any, options: Any) -> Any:
        raise NotImplementedError


@pytest.fixture
def anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RKNNLITE_BACKEND", raising=False)


@pytest.mark.slow
def test_ready_on_the_cpu_reference(call: Call, anybody: None, machine: Any) -> None:
    assert call("devices", "--json").code == 0
    assert call("devices").out.splitlines()[-1] == "ready on the CPU reference"
    assert call("doctor", "--root", machine({})).out.splitlines()[-1] == "ready on the CPU reference"


@pytest.mark.slow
def test_ready_on_a_board(call: Call, install: Any, anybody: None, machine: Any) -> None:
    install(mine=Offer(Runtime()))
    assert ready(soc=get("rk3588")).text == "ready on librknnrt 2.3.0, rk3588"
    last = call("doctor", "--root", machine(BOARD)).out.splitlines()[-1]
    assert re.fullmatch(r"ready on librknnrt 2\.3\.0, rk3588(, with \d+ warnings? above)?", last)
    assert ready("cpu", get("rk3588")).text == "ready on the CPU reference"
    assert ready(warnings=1).tone is Tone.WARN and "with 1 warning above" in ready(warnings=1).text


def test_ready_on_a_coprocessor(install: Any, anybody: None) -> None:
    install(mine=Offer(Runtime(devices=(Device("0", "rk1820"),))))
    assert ready().text == "ready on librknnrt 2.3.0, rk1820"


@pytest.mark.slow
def test_not_ready(call: Call, install: Any, anybody: None, machine: Any) -> None:
    install(mine=Offer(Runtime("no librknnrt.so in /a, /b/c, /d, /e; install it")))
    done = call("doctor", "--backend", "vendors", "--root", machine({}))
    assert done.code == Exit.UNAVAILABLE
    assert done.out.splitlines()[-1] == "not ready: vendors (chosen): no librknnrt.so in 4 folders"
    assert "      -> install it" in done.out
    assert call("doctor", "--root", machine({})).out.splitlines()[-1] == "ready on the CPU reference"
    assert ready("vendors").text == "not ready: no librknnrt.so in 4 folders; install it"


@pytest.mark.slow
def test_a_board_that_is_not_ready_has_the_cpu(call: Call, anybody: None, machine: Any) -> None:
    bare = {name: text for name, text in BOARD.items() if name != "dev/dri/renderD129"}
    done = call("doctor", "--root", machine(bare))
    assert done.code == Exit.UNAVAILABLE
    last = done.out.splitlines()[-1]
    assert last == "not ready: no device node of the NPU; until then models run on the CPU reference"


@pytest.mark.slow
def test_a_missing_library_is_one_line(call: Call, install: Any, anybody: None, machine: Any) -> None:
    install(mine=Offer(Runtime("no librknnrt.so in /a, /b/c, /d, /e; install it")))
    lines = call("doctor", "--root", machine({})).out.splitlines()
    (place,) = (number for number, line in enumerate(lines) if "vendors" in line)
    assert lines[place] == "info  vendors: no librknnrt.so in 4 folders"
    assert not any("install it" in line for line in lines)
    assert "/b/c" in call("doctor", "--json", "--root", machine({})).out


@pytest.mark.slow
def test_extras_take_a_line_each(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "matplotlib" else found(name, *a)
    )
    lines = call("doctor").out.splitlines()
    (line,) = (line for line in lines if "matplotlib" in line)
    assert line.split("  ")[0] == "plot" and "matplotlib" in line and "python3-matplotlib" in line


def test_only_long_lists_of_folders_are_counted() -> None:
    assert brief("no x.so in /a, /b, /c; do") == "no x.so in /a, /b, /c; do"
    assert brief("no x.so in /a, /b, /c, /d/e-f.g; do") == "no x.so in 4 folders; do"


# -- progress --------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """``clock[0]`` is the time."""
    now = [100.0]
    monkeypatch.setattr("rknnlite.spi.progress.time.monotonic", lambda: now[0])
    monkeypatch.setattr("rknnlite.spi.progress.AFTER", 0.0)  # bars come with their first step
    return now


def drawn(width: int = 80, total: int = 10) -> tuple[Progress, list[str]]:
    """A bar and what it writes."""
    written: list[str] = []
    return Progress(written.append, lambda: width, "work", total), written


def test_rate_and_time_left(clock: list[float]) -> None:
    bar, written = drawn()
    bar.step(item="conv1")
    assert written[-1].strip().startswith("work [###") and "10%  conv1" in written[-1]
    clock[0] += 20
    bar.step(item="conv2")
    assert "20% 0.1/s 1:20 left  conv2" in written[-1]
    clock[0] += 1
    bar.step(8)
    assert "100%" in written[-1] and "left" not in written[-1]
    assert all(width_of(text.lstrip("\r")) == 79 for text in written)


@pytest.mark.parametrize("width", [20, 30, 40, 60, 200])
def test_a_bar_is_as_wide_as_the_terminal(clock: list[float], width: int) -> None:
    for total in (10, 0):
        bar, written = drawn(width, total)
        clock[0] += 5
        bar.step(3, "/model.10/cv2/conv/Conv_output_0")
        bar.clear()
        assert [width_of(text.strip("\r")) for text in written] == [width - 1] * 2


def test_a_bar_comes_after_two_seconds_and_goes_at_the_end(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rknnlite.spi.progress.AFTER", 2.0)
    bar, written = drawn()
    with bar:
        clock[0] += 1.9
        bar.step()
        assert not written, "what is done soon needs no bar"
        clock[0] += 0.2
        bar.step()
        assert "20%" in written[-1]
    assert not written[-1].strip()


def test_a_long_step_has_its_time_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rknnlite.spi.progress.AFTER", 0.0)
    monkeypatch.setattr("rknnlite.spi.progress._TICK", 0.01)
    seen = threading.Event()
    written: list[str] = []

    def write(text: str) -> None:
        written.append(text)
        seen.set()

    with Progress(write, lambda: 40, "opening", 0):
        assert seen.wait(60), "nothing was done, and still it is told"
    assert written[0].strip() == "opening 0:00"


def test_a_bar_is_drawn_ten_times_a_second(clock: list[float]) -> None:
    bar, written = drawn(total=1000)
    for _ in range(100):
        clock[0] += 0.01
        bar.step()
    assert 9 <= len(written) <= 11
    few, written = drawn(total=3)
    for done in range(3):
        few.to(done, 3, f"run {done}")
    assert len(written) == 3, "of a few long steps each is shown"


def test_a_remark_takes_the_place_of_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one of another console, as those of the library's log."""
    monkeypatch.setattr("rknnlite.spi.progress.AFTER", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    with Console(err=stream).progress("work", 2) as bar:
        bar.step()
        Console(err=stream).note("hello")
    assert "\r" + " " * 39 + "\rrknnlite: hello\n" in stream.getvalue()


def test_durations() -> None:
    assert [duration(s) for s in (0.4, 59.6, 725, 3723)] == ["0:00", "1:00", "12:05", "1:02:03"]


def test_compare_tells_what_it_does() -> None:
    import rknnlite

    told: list[tuple[int, int, str]] = []
    model = genuine(TWO)
    rknnlite.compare(
        model, model, golden_of(TWO).inputs, "single", floating=model, backend="cpu",
        progress=lambda *step: told.append(step),
    )  # fmt: skip
    runs, tensors = told[:4], told[4:]
    assert [(done, total) for done, total, _ in runs] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert [done for done, _, _ in tensors] == list(range(tensors[0][1])) and tensors[-1][2].startswith("out")


# -- help and names --------------------------------------------------------------------------------------------


def test_bare_rknnlite_shows_help(call: Call) -> None:
    done = call()
    assert done.code == Exit.USAGE and not done.out
    assert all(re.search(rf"^    {name} ", done.err, re.MULTILINE) for name in BUILT_IN)
    assert max(map(len, done.err.splitlines())) <= 80


@pytest.mark.parametrize(
    ("mask", "name"),
    [
        (0, "NPU_CORE_AUTO"), (1, "NPU_CORE_0"), (4, "NPU_CORE_2"), (3, "NPU_CORE_0_1"), (7, "NPU_CORE_0_1_2"),
        (0xFFFF, "NPU_CORE_ALL"), (6, "NPU_CORE_1_2"),
    ],
)  # fmt: skip
def test_masks_have_the_vendors_names(mask: int, name: str) -> None:
    from rknnlite.api import RKNNLite

    assert mask_name(mask) == name
    assert getattr(RKNNLite, name, mask) == mask
    if mask != 6:
        assert core_mask(name) == mask


def test_chat_tells_its_speed_on_a_terminal_only() -> None:
    from rknnlite_llm.commands.chat import _speed

    data = {"decode_tokens": 12, "tokens_per_s": 34.56, "first_token_us": 123000}
    told = _speed(data, Console(out=Terminal()))
    assert told == ["", Line("(12 tokens, 34.6/s, the first after 0.12 s)", Tone.QUIET)]
    assert _speed(data, Console(out=io.StringIO())) == [""]
