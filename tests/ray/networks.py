"""Machines with a network of their own, for faults of nodes and links: ``unshare ... python -m tests.ray.networks FAULT FOLDER``.

A bridge, and on it a network name space for each machine: a head, the one where the program runs, and boards. All are
processes of one process name space and end with it. What is seen is printed as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.ray import evaluation
from tests.ray.conftest import BOARD, ENVIRONMENT, STORE, until
from tests.support.corpus import ROOT

ENTER = [
    "unshare",
    "--user",
    "--map-root-user",
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
]
"""Into name spaces where links may be made, and from which no process is left."""

PORT = 6379
BRIDGE = "10.77.0.254"
SETTINGS = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "0123456789abcdef0123456789abcdef",
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "8",
}
"""Deaths are noticed in seconds; Ray's own settings take up to a minute."""


def sh(line: str) -> None:
    subprocess.run(line, shell=True, check=True)


class Machine:
    """A network name space with the address 10.77.0.NUMBER, and what runs in it."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number, self.address = number, f"10.77.0.{number}"
        self._folder, self._temporary = folder / f"m{number}", folder / "ray"
        for made in (self._folder, self._temporary):
            made.mkdir(exist_ok=True)
        # All nodes of Ray have their files under the head's name for them: each sees a folder of its own there.
        keep = f"mount --bind {self._folder} {self._temporary} && exec sleep infinity"
        self._keeper = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", keep])
        own = Path("/proc/self/ns/net").readlink()
        until(lambda: Path(f"/proc/{self._keeper.pid}/ns/net").readlink() != own, 10)
        sh(f"ip link add v{number} type veth peer name e0 netns {self._keeper.pid}")
        sh(f"ip link set v{number} master br0 up")
        for line in (
            "ip link set lo up",
            f"ip addr add {self.address}/24 dev e0",
            "ip link set e0 up",
            f"ip route add default via {BRIDGE}",
        ):
            sh(f"nsenter --net --target {self._keeper.pid} {line}")
        until(lambda: Path(f"/proc/{self._keeper.pid}/comm").read_text().strip() == "sleep", 10)

    def popen(self, command: list[str], **options: Any) -> subprocess.Popen[str]:
        """Run something on the machine."""
        words = ["nsenter", "--net", "--mount", f"--target={self._keeper.pid}", f"--wdns={ROOT}", *command]
        environment = {**os.environ, **ENVIRONMENT, **SETTINGS, "RAY_TMPDIR": str(self._temporary)}
        return subprocess.Popen(words, env=environment, cwd=ROOT, text=True, **options)

    def ray(self, *words: str, resources: Any = None, cpus: int = 1) -> None:
        """``ray start`` as docs/fleet.md has it."""
        command = [
            str(Path(sys.executable).with_name("ray")),
            "start",
            *words,
            f"--node-ip-address={self.address}",
        ]
        command += [
            f"--num-cpus={cpus}",
            f"--resources={json.dumps(resources or {})}",
            "--disable-usage-stats",
        ]
        with (self._folder / "start").open("w") as log:
            done = self.popen([*command, f"--object-store-memory={STORE}"], stdout=log, stderr=log).wait(120)
        assert done == 0, (self._folder / "start").read_text()

    def processes(self) -> Iterator[Path]:
        """Every process of the machine, as its folder in /proc."""
        space = Path(f"/proc/{self._keeper.pid}/ns/net").readlink()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (
                    process.joinpath("ns", "net").readlink() == space
                    and int(process.name) != self._keeper.pid
                ):
                    yield process

    def signal(self, number: int) -> None:
        """Send a signal to every process of the machine."""
        for process in self.processes():
            with contextlib.suppress(OSError):
                os.kill(int(process.name), number)

    def has_ray(self) -> bool:
        """Whether its node of Ray lives."""
        names = []
        for process in self.processes():
            with contextlib.suppress(OSError):
                names.append(process.joinpath("comm").read_text().strip())
        return "raylet" in names

    def link(self, up: bool) -> None:
        """Plug the cable in, or pull it out."""
        sh(f"ip link set v{self.number} {'up' if up else 'down'}")


class Fleet:
    """A head, a machine for the program, and two boards."""

    def __init__(self, folder: Path) -> None:
        sh(
            f"ip link set lo up && ip link add br0 type bridge && ip link set br0 up && ip addr add {BRIDGE}/24 dev br0"
        )
        self._folder = folder
        self.head, self.desk, *self.boards = [Machine(number, folder) for number in (1, 2, 3, 4)]
        self.start()

    def start(self) -> None:
        """Start Ray on all machines."""
        self.head.ray("--head", f"--port={PORT}", "--include-dashboard=false")
        self.join(self.desk, cpus=2)
        for board in self.boards:
            self.join(board, resources=BOARD)

    def join(self, machine: Machine, **options: Any) -> None:
        """Let a machine join the cluster."""
        machine.ray(f"--address={self.head.address}:{PORT}", **options)

    def program(self, workers: int = 2) -> subprocess.Popen[str]:
        """The evaluation, on the machine of the program."""
        address = f"{self.head.address}:{PORT}"
        command = [sys.executable, "-m", "tests.ray.evaluation", address, str(self._folder), str(workers)]
        os.environ["EVALUATION_INIT"] = json.dumps({"_node_ip_address": self.desk.address})
        return self.desk.popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def written(self) -> int:
        """Files of results that there are."""
        return len(list(self._folder.glob("result/*/*.parquet")))


def ended(program: subprocess.Popen[str], seconds: float = 240) -> dict[str, Any]:
    """What a program told, and how long that took."""
    begun = time.monotonic()
    out, error = program.communicate(timeout=seconds)
    told = re.findall(r"^(\d+) \d+$", out, re.MULTILINE)
    return {
        "code": program.returncode,
        "rows": int(told[0]) if told else None,
        "seconds": round(time.monotonic() - begun, 1),
        "said": f"{out}\n{error}",
    }


@contextlib.contextmanager
def half_done(fleet: Fleet, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A program in the middle of its work, which goes on afterwards."""
    half = folder / "half"
    half.touch()
    program = fleet.program()
    until(lambda: fleet.written() >= 2 or program.poll() is not None, 120)
    assert program.poll() is None, program.communicate()[1][-3000:]
    yield program
    half.unlink()


def head_dies(fleet: Fleet, folder: Path) -> Any:
    """The power of the head fails; the cluster and the program are started anew."""
    with half_done(fleet, folder) as program:
        fleet.head.signal(signal.SIGKILL)
    first = ended(program)
    for machine in (fleet.desk, *fleet.boards):
        machine.signal(signal.SIGKILL)
    fleet.start()
    return [first, ended(fleet.program())]


def network_splits(fleet: Fleet, folder: Path) -> Any:
    """The cable of a board is out until it counts as dead; the program goes on with the other."""
    with half_done(fleet, folder) as program:
        fleet.boards[0].link(up=False)
    found = ended(program)
    fleet.boards[0].link(
        up=True
    )  # Ray has ended there, if it did not reach the head for long enough; else it ends now
    until(lambda: not fleet.boards[0].has_ray(), 60)
    assert fleet.boards[1].has_ray()
    return [found, ended(fleet.program())]


def network_blinks(fleet: Fleet, folder: Path) -> Any:
    """The cable of a board is out for a second."""
    with half_done(fleet, folder) as program:
        fleet.boards[0].link(up=False)
        time.sleep(1)
        fleet.boards[0].link(up=True)
    return [ended(program)]


def node_slows(fleet: Fleet, folder: Path) -> Any:
    """All of a board runs a tenth of the time."""
    over = threading.Event()

    def slow() -> None:
        while not over.is_set():
            fleet.boards[0].signal(signal.SIGSTOP)
            over.wait(0.18)
            fleet.boards[0].signal(signal.SIGCONT)
            over.wait(0.02)

    with half_done(fleet, folder) as program:
        brake = threading.Thread(target=slow)
        brake.start()
    try:
        return [ended(program)]
    finally:
        over.set()
        brake.join()


def fewer_boards(fleet: Fleet, folder: Path) -> Any:
    """A board is switched off between two runs, and the second asks for as many workers as the first."""
    with half_done(fleet, folder) as program:
        program.kill()
        program.communicate()
    fleet.boards[0].signal(signal.SIGKILL)
    time.sleep(6)
    return [ended(fleet.program())]


FAULTS: dict[str, Callable[[Fleet, Path], Any]] = {
    fault.__name__: fault for fault in (head_dies, network_splits, network_blinks, node_slows, fewer_boards)
}

if __name__ == "__main__":
    place = Path(sys.argv[2])
    told = FAULTS[sys.argv[1]](Fleet(place), place)
    print(json.dumps({"runs": told, "computed": evaluation.computed(place)}))
    sys.stdout.flush()
