"""Two servers of networks as processes of their own, and a real proxy before them with a configuration of examples/fronts."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.support.needs import needs

from ..conftest import until
from ..test_control import certificate
from .conftest import ROOT

__all__ = ["KEY", "Front", "front", "servers"]

CONFIGURATIONS = ROOT / "examples" / "fronts"
KEY = {"authorization": "Bearer of-the-client"}
_PROGRAMS = {
    "nginx": "nginx-light",
    "haproxy": "haproxy",
}  # what Debian calls the package


@dataclass
class Server:
    """``rknnlite serve`` on two fixed ports; may be killed, ended and started again."""

    arguments: tuple[str, ...]
    port: int
    grpc_port: int
    log: Path
    process: Any = None

    def start(self) -> None:
        """Returns once it is ready."""
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}", "RKNNLITE_BACKEND": "cpu"}
        words = [
            sys.executable, "-m", "rknnlite", "serve", *self.arguments, "--port", str(self.port), "--grpc-port",
            str(self.grpc_port),
        ]  # fmt: skip
        with self.log.open("a") as log:
            self.process = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
        until(self._ready)

    def _ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/v2/health/ready").status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        """As a power failure would."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """By SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return int(self.process.wait(60))


@contextlib.contextmanager
def servers(folder: Path, *arguments: object) -> Iterator[tuple[Server, Server]]:
    """Two that are ready, with a key."""
    keys = folder / "keys"
    keys.write_text(KEY["authorization"].split()[1])
    given = (*map(str, arguments), "--api-key-file", str(keys))
    made = tuple(Server(given, *_free_ports(2), folder / f"server{number}.log") for number in (1, 2))
    try:
        for server in made:
            server.start()
        yield made[0], made[1]
    finally:
        for server in made:
            if server.process is not None:
                server.kill()


@dataclass
class Front:
    """A proxy that runs. ``folder`` has its control socket, ``cert`` is who it says it is."""

    name: str
    port: int
    folder: Path
    cert: Path
    process: Any
    configuration: Path
    trusted: ssl.SSLContext = field(init=False)

    def __post_init__(self) -> None:
        self.trusted = ssl.create_default_context(cafile=str(self.cert))

    @property
    def url(self) -> str:
        """Of REST."""
        return f"https://127.0.0.1:{self.port}"

    def channel(self, options: Any = ()) -> Any:
        """Of gRPC."""
        import grpc

        credentials = grpc.ssl_channel_credentials(self.cert.read_bytes())
        return grpc.secure_channel(f"127.0.0.1:{self.port}", credentials, options=list(options))

    def told(self, command: str) -> str:
        """HAProxy's answer on its control socket."""
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(self.folder / "admin.sock"))
            control.sendall(f"{command}\n".encode())
            return b"".join(iter(lambda: control.recv(65536), b"")).decode()

    def change(self, old: str, new: str) -> None:
        """Another configuration from now on, ``old`` being a pattern; nginx finishes what runs by the one before."""
        text, count = re.subn(old, new, self.configuration.read_text())
        assert count
        made = self.configuration.with_suffix(".new")
        made.write_text(text)
        made.replace(self.configuration)  # nginx never sees half of it
        self.process.send_signal(signal.SIGHUP)


@contextlib.contextmanager
def front(name: str, folder: Path, behind: tuple[Server, Server]) -> Iterator[Front]:
    """nginx or haproxy on a free port, with the configuration of examples/fronts for other addresses."""
    needs(_PROGRAMS[name])
    folder.mkdir()
    cert, key = certificate(folder)
    both = folder / "rknnlite.pem"
    both.write_text(cert.read_text() + key.read_text())
    (port,) = _free_ports(1)
    suffix = {"nginx": "conf", "haproxy": "cfg"}[name]
    text = (CONFIGURATIONS / f"{name}.{suffix}").read_text("utf-8")
    places = {
        "127.0.0.1:8000": f"127.0.0.1:{behind[0].port}", "127.0.0.2:8000": f"127.0.0.1:{behind[1].port}",
        "127.0.0.1:8001": f"127.0.0.1:{behind[0].grpc_port}", "127.0.0.2:8001": f"127.0.0.1:{behind[1].grpc_port}",
        "/etc/ssl/certs/rknnlite.pem": str(cert), "/etc/ssl/private/rknnlite.key": str(key),
        "/etc/haproxy/rknnlite.pem": str(both), "/run/haproxy/admin.sock": str(folder / "admin.sock"),
        "listen 8443": f"listen 127.0.0.1:{port}", "bind :8443": f"bind 127.0.0.1:{port}",
    }  # fmt: skip
    text = re.sub("|".join(map(re.escape, places)), lambda found: places[found[0]], text)
    configuration = folder / f"{name}.{suffix}"
    configuration.write_text(text)
    program = shutil.which(name) or f"/usr/sbin/{name}"
    command = [program, "-db", "-f", str(configuration)]
    if name == "nginx":
        command = [program, "-p", str(folder), "-c", str(_around(folder, configuration))]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    made = Front(name, port, folder, cert, process, configuration)
    try:
        until(lambda: process.poll() is not None or _listens(port), 20)
        assert process.poll() is None, (folder / "log").read_text()
        yield made
    finally:
        process.terminate()
        process.wait(30)


def _around(folder: Path, site: Path) -> Path:
    """What Debian's /etc/nginx/nginx.conf has around a site, for a process of its own in the foreground."""
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = folder / "main.conf"
    main.write_text(
        f"daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log warn; worker_processes 2;\n"
        f"events {{ worker_connections 512; }}\nhttp {{ access_log off; {temporary}\ninclude {site};\n}}\n"
    )
    return main


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in made]
