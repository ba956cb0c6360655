"""doctor, top and devices on machines made of files."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rknnlite_insight import health as machine_health
from rknnlite_insight.commands import top

from rknnlite import config
from rknnlite._faces import vendor_files
from rknnlite.cli import health
from rknnlite.cli.doctor import examine
from rknnlite.native.board import Board, Reading
from rknnlite.spi import Backend, Probe
from rknnlite.spi.command import Exit
from rknnlite.spi.finding import Finding, Level
from tests.support.corpus import genuine

from .conftest import BOARD, RESNET, Call, Offer

Machine = Callable[..., Path]
ALL = lambda _: True  # noqa: E731
NOBODY = lambda _: False  # noqa: E731


def by_text(found: list[Finding], text: str) -> Finding:
    matches = [finding for finding in found if text in finding.text]
    assert matches, f"no finding says {text!r}: {[f.text for f in found]}"
    return matches[0]


# -- the board -----------------------------------------------------------------------------------------------


def test_everything_that_a_board_tells(machine: Machine) -> None:
    board = Board(machine(BOARD), ALL)
    soc = board.soc()
    assert soc is not None
    assert soc.name == "rk3588"
    assert board.model() == "Test Board 5"
    assert board.driver() == Reading("0.9.8", "/sys/kernel/debug/rknpu/version")
    assert board.load().value == [12, 0, 97]
    clock = board.npu_clock()
    assert clock is not None
    assert (clock.current, clock.governor) == (10**9, "rknpu_ondemand")
    assert board.temperatures() == {"soc-thermal": 41.615, "npu-thermal": 91.0}
    assert board.memory()["MemAvailable"] == 6000000 * 1024
    sram = board.sram().value
    assert sram is not None
    assert sram.free == 974848
    (node,) = board.nodes()
    assert (node.path, node.exists, node.usable) == ("/dev/dri/renderD129", True, True)
    assert [clock.name for clock in board.cpu_clocks()] == ["CPU 4-5"]


def test_a_single_core_and_a_procfs_driver(machine: Machine) -> None:
    board = Board(
        machine({"proc/rknpu/load": "NPU load:  7%\n", "proc/rknpu/version": "RKNPU driver: v0.8.2\n"})
    )
    assert board.load() == Reading([7], "/proc/rknpu/load")
    assert board.driver().value == "0.8.2"


def test_an_empty_machine_has_nothing_and_raises_nothing(machine: Machine) -> None:
    board = Board(machine({}))
    assert board.soc() is None
    assert board.driver().problem == board.load().problem == board.sram().problem == "missing"
    assert (board.nodes(), board.cpu_clocks(), board.temperatures(), board.memory()) == ([], [], {}, {})
    assert board.npu_clock() is None


def test_garbage_in_the_kernels_files_is_no_value(machine: Machine) -> None:
    board = Board(machine(BOARD, **{
        "sys/kernel/debug/rknpu/load": "\x00\xff?", "sys/kernel/debug/rknpu/version": "none",
        "sys/class/devfreq/fdab0000.npu/cur_freq": "fast", "sys/class/thermal/thermal_zone0/temp": "",
    }))  # fmt: skip
    assert board.load().value is None
    assert board.driver().value is None
    clock = board.npu_clock()
    assert clock is not None
    assert clock.current is None
    assert "soc-thermal" not in board.temperatures()


# -- doctor --------------------------------------------------------------------------------------------------


def test_a_healthy_board(machine: Machine) -> None:
    found = examine(Board(machine(BOARD), ALL))
    assert by_text(found, "Test Board 5: RK3588, 3 NPU cores").level is Level.OK
    assert by_text(found, "RKNPU driver 0.9.8").remedy == ""
    assert (
        "echo performance | sudo tee /sys/class/devfreq/fdab0000.npu/governor"
        in by_text(found, "fdab0000").remedy
    )
    assert by_text(found, "dmc").level is Level.OK
    assert by_text(found, "npu-thermal is at 91 C").level is Level.WARN
    assert by_text(found, "SRAM").level is Level.OK
    assert by_text(found, "models run on the CPU reference").level is Level.WARN
    assert by_text(found, "NPU load: 12%, 0%, 97%").level is Level.OK


@pytest.mark.slow
def test_each_finding_that_is_not_good_has_a_remedy(machine: Machine) -> None:
    board = Board(machine(BOARD, **{"sys/kernel/debug/rknpu/version": "RKNPU driver: v0.8.2\n"}), NOBODY)
    empty = Board(board.root / "nothing")
    for found in (
        examine(board, None, RESNET), examine(board, "rknnrt", RESNET), examine(empty, "rknn3rt", RESNET),
        examine(empty, "nobody", RESNET), examine(empty, None, Path("no/such/file")),
    ):  # fmt: skip
        assert any(finding.level in (Level.WARN, Level.FAIL) for finding in found)
        for finding in found:
            assert finding.remedy or finding.level in (Level.OK, Level.INFO), finding
            assert "line above" not in finding.remedy


def test_a_board_without_its_library_says_how_to_get_it(machine: Machine) -> None:
    warning = by_text(examine(Board(machine(BOARD), ALL)), "models run on the CPU reference")
    assert "install the runtime of your board's SDK" in warning.remedy


def test_no_permission_names_the_group(machine: Machine) -> None:
    board = Board(machine(BOARD), NOBODY)
    node = next(f for f in machine_health.kernel(board) if "renderD129" in f.text)
    assert node.level is Level.FAIL
    assert "usermod" in node.remedy or "udev" in node.remedy


def test_debugfs_for_root_only(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board(machine(BOARD), ALL)
    real = Board._read

    def guarded(self: Board, file: Path) -> Reading[str]:
        return Reading(None, self._shown(file), "permission") if "debug" in str(file) else real(self, file)

    monkeypatch.setattr(Board, "_read", guarded)
    driver = by_text(list(machine_health.kernel(board)), "driver version")
    assert driver.level is Level.INFO
    assert driver.remedy == "sudo rknnlite doctor"
    assert (
        top.sample(board).note
        == "/sys/kernel/debug/rknpu/load may be read by root only: run sudo rknnlite top"
    )


def test_a_container_without_the_device(machine: Machine) -> None:
    files = {name: text for name, text in BOARD.items() if not name.startswith("dev/")}
    found = list(machine_health.kernel(Board(machine(files), ALL)))
    assert "--device" in by_text(found, "no device node").remedy


def test_a_container_that_covers_the_device_tree(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's link is there, what it leads to is not: what to set, and that it was set."""
    root = machine({"proc/version": "Linux\n"})
    (root / "proc/device-tree").symlink_to("/nowhere/devicetree/base")
    monkeypatch.delenv("RKNNLITE_SOC", raising=False)
    covered = by_text(list(machine_health.kernel(Board(root, ALL))), "what this container covers")
    assert covered.level is Level.WARN
    assert covered.remedy.startswith("set RKNNLITE_SOC=rk3588 (or what the board has)")
    assert "--security-opt systempaths=unconfined" in covered.remedy
    monkeypatch.setenv("RKNNLITE_SOC", "rk3576")
    told = by_text(list(machine_health.kernel(Board(root, ALL))), "what this container covers")
    assert told.level is Level.OK and told.text.endswith("RKNNLITE_SOC says rk3576")


def test_an_old_driver(machine: Machine) -> None:
    board = Board(machine(BOARD, **{"sys/kernel/debug/rknpu/version": "RKNPU driver: v0.8.2\n"}), ALL)
    driver = by_text(list(machine_health.kernel(board)), "0.8.2")
    assert driver.level is Level.WARN
    assert "0.9.2" in driver.remedy


def test_a_model_for_another_soc(machine: Machine) -> None:
    other = BOARD | {"proc/device-tree/compatible": "rockchip,rk3568\0"}
    found = examine(Board(machine(other), ALL), None, RESNET)
    assert by_text(found, "this board is an RK3568").remedy == "convert it with target_platform='rk3568'"


class Runtime(Backend):
    """A board's runtime of some version."""

    name = "runtime"

    def __init__(self, version: str, available: bool = True) -> None:
        reason = "there" if available else "no library"
        self._probe = Probe(available, reason, 100, library="libruntime.so", version=version)

    def probe(self) -> Probe:
        return self._probe

    def open(self, model: Any, options: Any) -> Any:
        raise NotImplementedError


@pytest.mark.slow
def test_the_row_of_model_and_runtime(call: Call, install: Any, machine: Machine) -> None:
    install(mine=Offer(Runtime("1.6.0 (9a7b5d24c@2023-12-13)")))
    root = machine({})
    old = call("doctor", RESNET, "--root", root)
    assert old.code == Exit.UNAVAILABLE
    assert "needs runtime 2.0.0 or newer" in old.out
    assert "-> update the runtime" in old.out
    install(mine=Offer(Runtime("2.5.0")))
    new = call("doctor", RESNET, "--root", root)
    assert new.code == 0
    assert "compatible" in new.out


@pytest.mark.slow
def test_a_model_that_does_not_open(call: Call, machine: Machine) -> None:
    done = call("doctor", genuine("removed.rk3588.i8"), "--root", machine({}))
    assert done.code == Exit.UNAVAILABLE
    assert "does not open it" in done.out
    assert "the weights were removed" in done.out
    assert "backend cpu opens it" in call("doctor", RESNET, "--root", machine({})).out


@pytest.mark.slow
def test_the_chosen_backend_decides_the_exit_code(call: Call, install: Any, machine: Machine) -> None:
    install(mine=Offer(Runtime("", available=False)))
    root = machine({})
    assert call("doctor", "--root", root).code == 0
    done = call("doctor", "--root", root, "--backend", "runtime", "--json")
    assert done.code == Exit.UNAVAILABLE
    assert not done.data["healthy"]
    assert call("doctor", "--root", root, "--backend", "nobody").code == Exit.UNAVAILABLE


def test_a_probe_that_raises_is_a_reason(call: Call, install: Any) -> None:
    class Bad(Runtime):
        def probe(self) -> Probe:
            raise OSError("half a library")

    install(mine=Offer(Bad("")))
    found = {entry["backend"]: entry for entry in call("devices", "--json").data}
    assert "half a library" in found["runtime"]["reason"]
    assert found["cpu"]["available"]


@pytest.mark.slow
def test_doctor_shows_settings_and_their_source(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: Machine
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("threads: 1\nspeling: 3\n")
    monkeypatch.setenv("RKNNLITE_CONFIG", str(file))
    monkeypatch.setenv("RKNNLITE_SOC", "rk3588")
    config._read.cache_clear()
    done = call("doctor", "--root", machine({}))
    assert f"threads = '1' (from {file})" in done.out
    assert "soc = 'rk3588' (from RKNNLITE_SOC)" in done.out
    assert "unknown key 'speling'" in done.out


@pytest.mark.slow
def test_doctor_goes_on_when_the_configuration_cannot_be_read(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: Machine
) -> None:
    """HOME of another user, which sudo keeps: not even a look whether the file is there is allowed."""

    def closed(look: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(path: Path, *args: Any, **options: Any) -> Any:
            if path.is_relative_to(tmp_path / "other"):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return look(path, *args, **options)

        return refuse

    for name in ("stat", "open", "is_file"):
        monkeypatch.setattr(Path, name, closed(getattr(Path, name)))
    monkeypatch.delenv("RKNNLITE_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other"))
    config._read.cache_clear()
    done = call("doctor", "--root", machine({}))
    assert "config.yaml (cannot be read)" in done.out
    assert "config.yaml cannot be read: Permission denied" in done.out and "sudo -H" in done.out
    assert "backends:" in done.out and "failures:" in done.out


def test_the_vendors_wheel_beside_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendor_files, "vendor_wheel", lambda: "rknn-toolkit-lite2")
    assert (
        "pip uninstall rknn-toolkit-lite2" in by_text(list(health.packages()), "beside this package").remedy
    )


# -- top -----------------------------------------------------------------------------------------------------


def test_top_takes_looks(call: Call, machine: Machine) -> None:
    root = machine(BOARD)
    done = call("top", "--count", 2, "--interval", 0, "--root", root, "--json")
    assert done.code == 0
    assert len(done.out.splitlines()) == 2
    assert done.data["load"] == [12, 0, 97]
    assert done.data["npu_hz"] == 10**9
    line = call("top", "--count", 1, "--root", root).out
    assert line == "core0 12%  core1 0%  core2 97%  1000 MHz  npu-thermal 91.0 C  memory 1953/7812 MiB\n"


def test_top_without_a_driver(call: Call, machine: Machine) -> None:
    done = call("top", "--root", machine({}))
    assert done.code == Exit.UNAVAILABLE
    assert "no RKNPU driver" in done.err


def test_the_screen_fits_any_width(machine: Machine) -> None:
    seen = top.sample(Board(machine(BOARD)))
    for width in (20, 80, 300):
        screen = top._screen(seen, width, 1.0)
        assert "NPU core 2 [" in screen
        assert " 97%" in screen
    assert "tells no load" not in top._screen(replace(seen, load=None), 80, 1.0)


def test_a_machine_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    found = by_text(list(health.packages()), "no C compiler (no-such-compiler)")
    assert found.level is Level.INFO
    assert "numpy multiplies the weights of language models" in found.text
    monkeypatch.setenv("CC", "sh")
    assert not [finding for finding in health.packages() if "no C compiler" in finding.text]
