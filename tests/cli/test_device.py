"""``--device``: the commands on a board from afar, which a stand-in backend plays."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_insight.commands import top
from rknnlite_insight.dumps import Dump, DumpWriter
from rknnlite_protocol.board_facts import BackendFacts, Facts

from rknnlite import plugins
from rknnlite.errors import DeviceUnavailable
from rknnlite.native.board import Board
from rknnlite.spi import Backend, Context, Device, OpenOptions, Probe
from rknnlite.spi.command import Exit
from rknnlite.spi.terminal import render
from tests.support.corpus import EXAMPLES, genuine
from tests.support.needs import needs

from .conftest import BOARD, DIGIT, RESNET, Call, Offer

Machine = Callable[..., Path]
HERE, THERE, OFF = "bench:8001", "wall:8001", "off:8001"
TWO = genuine("two_images.rk3588.i8")
SPOILED = "/left/left.2/Relu_output_0"
AWAY_MS = 3.0


def facts_of(board: Board, **more: Any) -> Facts:
    """What a server on that machine tells."""
    soc = board.soc()
    runtime = Probe(True, "found", 100, library="/usr/lib/librknnrt.so", version="2.3.2")
    about: dict[str, Any] = {
        "soc": soc.name if soc else "", "model": board.model(), "kernel": board.kernel(), "driver": board.driver(),
        "load": board.load(), "sram": board.sram(), "npu_clock": board.npu_clock(), "memory_clock": board.memory_clock(),
        "cpu_clocks": tuple(board.cpu_clocks()), "temperatures": board.temperatures(), "memory": board.memory(),
        "nodes": tuple(board.nodes()), "backends": (BackendFacts("rknnrt", runtime), BackendFacts("cpu", Probe(True, "here"))),
        "models": ("resnet",), "uploads": True,
    }  # fmt: skip
    return Facts(**{"rknnlite": "1.0", **about, **more})


class Far(Backend):
    """Boards that are the CPU reference, a little away; the one on the wall computes a layer wrong."""

    name = "far"

    def __init__(self, told: dict[str, Facts]) -> None:
        self.told = told
        self.opened: list[OpenOptions] = []

    def devices(self) -> list[Device]:
        return [Device("bench", "RK3588")]

    def boards(self, device_id: str) -> list[str]:
        return device_id.split(",") if ":" in device_id else super().boards(device_id)

    def facts(self, device_id: str) -> Facts | None:
        if device_id == OFF:
            raise DeviceUnavailable(f"board {OFF}: nobody answers; is it on?")
        return self.told.get(device_id)

    def probe(self) -> Probe:
        return Probe(False, "no board is named")

    def probe_for(self, options: Any) -> Probe:
        return Probe(options.device_id is not None, "a board", 200)

    def open(self, model: Any, options: OpenOptions) -> Context:
        if options.device_id == OFF:
            raise DeviceUnavailable(f"board {OFF}: nobody answers; is it on?")
        self.opened.append(options)
        context = plugins.backend("cpu").open(model, OpenOptions(extra=options.extra))
        own: Any = type(context)

        class Away(own):  # type: ignore[misc]
            backend_name = "far"

            def run(self) -> None:
                super().run()
                time.sleep(AWAY_MS / 1000)

            def dump(self, directory: str | os.PathLike[str], golden: Dump | None = None) -> Dump:
                found = super().dump(directory, golden)
                return spoilt(found, Path(directory) / "there") if options.device_id == THERE else found

        context.__class__ = Away
        return context


def spoilt(dump: Dump, folder: Path) -> Dump:
    """A dump in which one layer's values are turned round."""
    writer = DumpWriter(folder, **dump.info)
    for entry in dump.tensors:
        value = dump.value(entry.name)
        value = value[..., ::-1] if entry.name == SPOILED else value
        writer.add(entry.name, np.ascontiguousarray(value), dtype=entry.dtype, op=entry.op, role=entry.role)
    return writer.close()


@pytest.fixture
def far(install: Any, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Far:
    monkeypatch.setenv("RKNNLITE_DISABLE", "remote")  # it knows the same addresses
    root = machine(BOARD)
    board = Board(root, lambda _: True)
    hot = facts_of(
        board,
        temperatures={"npu-thermal": 95.0},
        backends=(BackendFacts("cpu", Probe(True, "here")),),
        uploads=False,
    )
    backend = Far({HERE: facts_of(board), THERE: hot, "bench": facts_of(board)})
    install(far=Offer(backend))
    return backend


# -- what is meant -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("run", RESNET), ("compare", RESNET, RESNET), ("doctor",), ("top",)])
def test_an_unknown_device_is_never_this_machine(command: tuple[Any, ...], call: Call, far: Far) -> None:
    done = call(*command, "--device", "bensch")
    assert done.code == Exit.UNAVAILABLE and done.out == ""
    assert "no device 'bensch' is known (there: cpu, bench)" in done.err
    assert not far.opened


def test_a_device_that_another_backend_has(call: Call, far: Far) -> None:
    done = call("run", RESNET, "--backend", "cpu", "--device", HERE)
    assert done.code == Exit.UNAVAILABLE and f"no device '{HERE}' is known to backend cpu" in done.err


@pytest.mark.parametrize("command", ["run", "bench", "perf", "compare", "doctor", "top"])
def test_a_board_that_does_not_answer(command: str, call: Call, far: Far) -> None:
    words: list[Any] = {"doctor": [], "top": [], "compare": [RESNET, RESNET]}.get(command, [RESNET])
    done = call(command, *words, "--device", OFF)
    assert done.code == Exit.UNAVAILABLE
    assert (done.out + done.err).count("nobody answers") >= 1 and "Traceback" not in done.err
    if command != "doctor":
        assert len(done.err.splitlines()) == 1


def test_run_there(call: Call, far: Far) -> None:
    pytest.importorskip("PIL")
    done = call("run", RESNET, DIGIT, "--device", "bench", "--core-mask", "core_0", "--json")
    assert done.code == 0 and done.data["device"] == "bench" and done.data["backend"] == "far"
    (options,) = far.opened
    assert (options.device_id, options.core_mask) == ("bench", 1)
    here = call("run", RESNET, DIGIT, "--backend", "cpu", "--json").data
    assert done.data["outputs"] == here["outputs"] and here["device"] is None


# -- figures -------------------------------------------------------------------------------------------------


def test_bench_tells_what_the_way_costs(call: Call, far: Far) -> None:
    words = ("bench", TWO, "--runs", 3, "--device", HERE)
    (row,) = call(*words, "--json").data["rows"]
    assert row["outside_us"] == pytest.approx(row["mean_us"] - row["run_us"])
    assert row["outside_us"] >= 1000 * AWAY_MS
    text = call(*words).out
    assert "model ms" in text and "outside ms" in text and "the way there and back" in text
    assert "outside" not in call("bench", TWO, "--runs", 1, "--backend", "cpu").out


def test_perf_says_where_it_was_measured(call: Call, far: Far, tmp_path: Path) -> None:
    needs("jinja2")
    page = tmp_path / "page.html"
    done = call("perf", TWO, "--device", HERE, "--html", page)
    assert (
        f"measured on {HERE}: RK3588" in done.out.splitlines()[-1]
        and "Network Layer Information Table" in done.out
    )
    data = call("perf", TWO, "--device", HERE, "--json").data
    assert data["note"] == f"{HERE}: times of the CPU reference on this machine"
    assert data["device"] == HERE and data["measured_on"].startswith(f"{HERE}: RK3588")
    assert HERE in data["verdict"]["headline"] and "that machine's CPU" in data["verdict"]["lines"][0]
    assert HERE in page.read_text()


# -- accuracy ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_manuals_table_of_a_board(call: Call, far: Far, tmp_path: Path) -> None:
    needs("jinja2")
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    page, picture = tmp_path / "page.html", tmp_path / "layers.png"
    words = ("compare", TWO, TWO, "--float", TWO, "--mode", "single", "--device")
    done = call(*words, THERE, "--html", page, "--plot", picture)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    head = next(number for number, line in enumerate(lines) if "simulator_error" in line)
    assert lines[head].split() == ["simulator_error", "runtime_error"]
    assert lines[head + 1].split()[:5] == ["layer_name", "entire", "single", "entire", "single"]
    row = next(line for line in lines if SPOILED in line)
    assert row.split()[2:8] == ["1.00000", "|", "0", "1.00000", "|", "0"]
    assert row.split()[8] != "1.00000" and row.split()[11] != "1.00000"
    assert any(line.startswith(f"board: {THERE}: RK3588") for line in lines)
    assert any(line.startswith("on the simulator: Identical") for line in lines)
    assert any(line.startswith("on the board: ") and SPOILED in line for line in lines)
    assert "Simulator and board over depth" in page.read_text() and THERE in page.read_text()
    assert picture.stat().st_size > 10000
    data = call(*words, THERE, "--json").data
    wrong = next(tensor for tensor in data["tensors"] if tensor["name"] == SPOILED)
    assert wrong["entire"]["euclidean"] == 0 < wrong["runtime_entire"]["euclidean"]
    assert data["board"]["differing"] == [SPOILED] and data["board_verdict"]["born"] == [SPOILED]
    assert data["device"] == THERE and data["verdict"]["kind"] == "IDENTICAL"


def test_an_output_of_the_board_that_is_below(call: Call, far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("compare", TWO, TWO, "--min-cosine", "0.999", "--device")
    assert call(*words, HERE).code == 0
    monkeypatch.setattr("tests.cli.test_device.SPOILED", "out0")
    done = call(*words, THERE)
    assert done.code == Exit.BELOW and "on the board is below 0.999" in done.err


def test_operators_stay_here(call: Call, far: Far) -> None:
    dual, script = (
        EXAMPLES / "custom_op" / "dual_for_RK3588.rknn",
        EXAMPLES / "custom_op" / "dual_residual.py",
    )
    call("compare", dual, dual, "--custom-op", script, "--device", HERE)
    (options,) = far.opened
    assert not options.custom_ops, "the board's server has its own"


def test_only_a_file_runs_on_a_board(call: Call, far: Far, tmp_path: Path) -> None:
    done = call("compare", tmp_path, RESNET, "--device", HERE)
    assert done.code == Exit.USAGE and "--device runs MODEL on a board" in done.err


# -- the machine ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_doctor_looks_at_the_board(call: Call, far: Far) -> None:
    done = call("doctor", RESNET, "--device", HERE)
    assert done.code == 0, done.out
    for text in (
        "Test Board 5: RK3588, 3 NPU cores, kernel 6.1.75-rk", "RKNPU driver 0.9.8", "NPU load: 12%, 0%, 97%",
        "npu-thermal is at 91 C", "-> on that machine: cool it", "rknnrt (best): found", "models: resnet",
        "runtime 2.3.2 (backend rknnrt): compatible", f"ready on librknnrt 2.3.2, rk3588 on {HERE}, with 2 warnings above",
    ):  # fmt: skip
        assert text in done.out
    assert "numpy" not in done.out, "this machine is not what was asked for"


@pytest.mark.slow
def test_doctor_looks_at_several(call: Call, far: Far) -> None:
    data = call("doctor", "--device", f"{HERE},{THERE},{OFF}", "--json")
    assert data.code == Exit.UNAVAILABLE and not data.data["healthy"]
    assert [(one["device"], one["healthy"]) for one in data.data["devices"]] == [
        (HERE, True), (THERE, True), (OFF, False)
    ]  # fmt: skip
    done = call("doctor", "--device", f"{THERE},{OFF}")
    assert "it is an RK3588 with an NPU, but models run on the CPU reference" in done.out
    assert "takes no files" in done.out
    assert f"not ready: board {OFF}: nobody answers" in done.out


def test_doctor_and_a_model_for_another_soc(call: Call, far: Far) -> None:
    done = call("doctor", genuine("act_hardswish.rk3566.fp16"), "--device", HERE)
    assert done.code == Exit.UNAVAILABLE and "this board is an RK3588, the model runs on RK3566" in done.out


def test_top_shows_boards_side_by_side(call: Call, far: Far) -> None:
    done = call("top", "--device", f"{HERE},{THERE},{OFF}", "--count", 2, "--interval", 0)
    assert done.code == 0 and len(done.out.splitlines()) == 6
    assert done.out.splitlines()[0] == (
        f"{HERE}  core0 12%  core1 0%  core2 97%  1000 MHz  npu-thermal 91.0 C  memory 1953/7812 MiB"
    )
    assert "npu-thermal 95.0 C" in done.out.splitlines()[1]
    assert done.out.splitlines()[2] == f"{OFF}  board {OFF}: nobody answers; is it on?"
    looks = [json.loads(line) for line in call(
        "top", "--device", f"{HERE},{OFF}", "--count", 1, "--json"
    ).out.splitlines()]  # fmt: skip
    assert looks[0][0]["load"] == [12, 0, 97] and looks[0][1]["problem"].startswith(f"board {OFF}")


def test_the_screen_of_several_boards(far: Far) -> None:
    data, parts, _ = top.Boards(f"{HERE},{THERE}").look(True, 1.0)
    assert [one["device"] for one in data] == [HERE, THERE]
    text = render(tuple(parts), None)
    assert text.splitlines()[2].split() == [HERE, THERE]
    row = next(line for line in text.splitlines() if line.startswith("NPU core 2"))
    assert row.count("[#########") == 2 and row.count("97%") == 2
    assert "95.0 C" in next(line for line in text.splitlines() if line.startswith("npu-thermal"))


def test_a_machine_without_a_driver_is_shown_all_the_same(call: Call, far: Far, machine: Machine) -> None:
    far.told[HERE] = Facts("1.0", memory={"MemTotal": 2 << 30, "MemAvailable": 1 << 30})
    done = call("top", "--device", HERE, "--count", 1)
    assert done.code == 0 and done.out == f"{HERE}  memory 1024/2048 MiB  no load is told there\n"


@pytest.mark.slow
def test_doctor_says_whether_named_boards_answer(
    call: Call, far: Far, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = tmp_path / "rknnlite.yaml"
    settings.write_text(f"remotes:\n  bench:\n    address: {HERE}\n  cellar:\n    address: {OFF}\n")
    monkeypatch.setenv("RKNNLITE_CONFIG", str(settings))
    monkeypatch.setenv("RKNNLITE_REMOTE", OFF)
    findings = call("doctor", "--json").data["findings"]
    told = {finding["text"]: finding for finding in findings if finding["topic"] == "boards"}
    assert told["bench: RK3588, Test Board 5, rknnlite 1.0"]["level"] == "OK"
    off = told[f"board {OFF}: nobody answers"]
    assert (off["level"], off["remedy"]) == ("WARN", "is it on?")
    assert any("no device 'cellar' is known" in text for text in told)


def test_devices_lists_named_boards(call: Call, far: Far) -> None:
    assert "far: device bench, RK3588" in call("devices").out
