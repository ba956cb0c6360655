"""The board: driver, device nodes, and what decides how fast it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rknnlite_backend import versions

from rknnlite import config
from rknnlite.native.board import Board, Clock
from rknnlite.spi.finding import Finding, Level

__all__ = ["kernel", "speed"]


def kernel(board: Board) -> Iterator[Finding]:
    """Board, driver, device nodes."""
    topic, soc = "board", board.soc()
    if board.tree_is_covered():
        yield _covered(topic)
    elif soc is None:
        yield Finding(
            topic, Level.INFO, f"no Rockchip NPU is known here (kernel {board.kernel() or 'unknown'})"
        )
    else:
        name = board.model() or "unnamed board"
        yield Finding(
            topic, Level.OK, f"{name}: {soc.name.upper()}, {soc.cores} NPU cores, kernel {board.kernel()}"
        )
        if soc.generation == "rknpu1":
            yield _first_generation(topic, board)
            return
    driver, nodes = board.driver(), board.nodes()
    if soc is not None and driver.value is None and not nodes and (board.root / "dev/accel").is_dir():
        text = "mainline Linux's way to an NPU, /dev/accel, is here: see backend npu"
        yield Finding(topic, Level.OK, text)
        return
    if soc is None and driver.value is None and not nodes:
        return
    if driver.value is None:
        forbidden = driver.problem == "permission"
        yield Finding(
            topic,
            Level.INFO if forbidden or nodes else Level.FAIL,
            f"driver version: {driver.file} may be read by root only"
            if forbidden
            else "no RKNPU driver in the kernel",
            "sudo rknnlite doctor"
            if forbidden
            else "use the board vendor's kernel; look at dmesg | grep -i rknpu",
        )
    else:
        old = versions.version_numbers(driver.value) < versions.version_numbers(versions.OLDEST_DRIVER)
        remedy = f"update the kernel: {versions.OLDEST_DRIVER} or newer is recommended" if old else ""
        yield Finding(
            topic, Level.WARN if old else Level.OK, f"RKNPU driver {driver.value} ({driver.file})", remedy
        )
    if not nodes:
        yield Finding(
            topic,
            Level.FAIL,
            "no device node of the NPU",
            "in a container add --device (see docs/docker.md); else load the driver: dmesg | grep -i rknpu",
        )
    for node in nodes:
        if node.usable:
            yield Finding(topic, Level.OK, f"{node.path} (group {node.group}) can be used")
        elif node.exists:
            root_only = node.group in ("root", "0")
            yield Finding(
                topic,
                Level.FAIL,
                f"{node.path} (group {node.group}) cannot be opened by this user",
                f'add a udev rule: SUBSYSTEM=="drm", KERNEL=="{Path(node.path).name}", GROUP="render", MODE="0660"'
                if root_only
                else f"sudo usermod -aG {node.group} $USER, then log in again",
            )
        else:
            yield Finding(
                topic,
                Level.FAIL,
                f"{node.path} is missing",
                f"give it to the container: --device {node.path}",
            )


def _covered(topic: str) -> Finding:
    """A container whose runtime covers the device tree: who computes must be told the SoC."""
    named = config.get("soc")
    text = "/proc/device-tree leads to what this container covers (/sys/firmware), so programs cannot learn the SoC"
    if named:
        return Finding(topic, Level.OK, f"{text}; RKNNLITE_SOC says {named}")
    remedy = (
        "set RKNNLITE_SOC=rk3588 (or what the board has); for other programs start the container with "
        "--security-opt systempaths=unconfined (Podman: unmask=/sys/firmware), see docs/docker.md"
    )
    return Finding(topic, Level.WARN, text, remedy)


def _first_generation(topic: str, board: Board) -> Finding:
    """The NPUs of RK1808, RV1109 and RV1126 have a driver of their own, galcore."""
    if (board.root / "dev/galcore").exists():
        return Finding(topic, Level.OK, "/dev/galcore is there, the NPU's device node")
    remedy = "in a container add --device /dev/galcore; else load the driver: dmesg | grep -i galcore"
    return Finding(topic, Level.WARN, "no /dev/galcore, the device node of this generation's NPU", remedy)


def speed(board: Board) -> Iterator[Finding]:
    """Frequencies and governors, load, temperatures, memory, SRAM."""
    topic = "speed"
    clocks = [clock for clock in (board.npu_clock(), board.memory_clock()) if clock]
    if not clocks and board.soc() is None:
        return
    for clock in (*clocks, *board.cpu_clocks()):
        yield _clock(topic, clock)
    load = board.load()
    if load.value is not None:
        yield Finding(topic, Level.OK, f"NPU load: {', '.join(f'{percent}%' for percent in load.value)}")
    elif load.problem == "permission":
        yield Finding(
            topic, Level.INFO, f"NPU load: {load.file} may be read by root only", "sudo rknnlite top"
        )
    hot = {name: value for name, value in board.temperatures().items() if value >= 85}
    for name, value in hot.items():
        yield Finding(
            topic,
            Level.WARN,
            f"{name} is at {value:.0f} C",
            "cool it: the kernel lowers frequencies when it is hot",
        )
    memory = board.memory()
    if memory:
        text = ", ".join(f"{name} {size / 2**20:.0f} MiB" for name, size in memory.items())
        yield Finding(topic, Level.OK, f"memory: {text}")
    sram = board.sram().value
    if sram is not None:
        yield Finding(
            topic, Level.OK, f"SRAM for the NPU: {sram.free // 1024} of {sram.total // 1024} KiB free"
        )


def _clock(topic: str, clock: Clock) -> Finding:
    now = f"{clock.current / 1e6:.0f} MHz" if clock.current else "unknown"
    most = f" of {clock.highest / 1e6:.0f} MHz" if clock.highest else ""
    text = f"{clock.name}: {now}{most}, governor {clock.governor or 'unknown'}"
    if "performance" in clock.governors and clock.governor != "performance":
        return Finding(
            topic, Level.INFO, text, f"for steady times: echo performance | sudo tee {clock.set_by}"
        )
    return Finding(topic, Level.OK, text)
