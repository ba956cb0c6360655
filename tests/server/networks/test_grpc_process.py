"""``rknnlite serve`` with gRPC as a process: ports, what it says, its logs, and life without grpcio."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc")

import grpc
from rknnlite_protocol.grpc_messages import INFERENCE, methods
from rknnlite_server.arguments import settings_of_arguments
from rknnlite_server.command import COMMAND
from rknnlite_server.control import serve
from rknnlite_server.settings import ServerSettings

from rknnlite.errors import BackendUnavailable, ParamInvalid

from ..conftest import until
from ..test_control import child, ended
from .conftest import inputs_of, path_of
from .grpc_client import connected, request_of, told

DENSE = "dense.rk3588.i8"
NETWORK = path_of(DENSE)


@pytest.mark.slow
def test_both_addresses_are_told_and_sigterm_ends_both(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("secret-of-mine\n")
    with child(
        NETWORK, "--port", 0, "--grpc-port", 0, "--workers", 1, "--api-key-file", keys, "--log-level", 4
    ) as server:
        found = re.search(r"gRPC at (127\.0\.0\.1:\d+)", "".join(server.said))
        assert found and server.ready()
        with connected(found[1]) as client:
            infer, asked = client.prepared("ModelInfer"), request_of(DENSE, inputs_of(DENSE))
            assert infer(asked, metadata=(("authorization", "Bearer secret-of-mine"),), timeout=60).outputs
            for wrong in ("Bearer secret-of-mine2", "secret-of-mine"):
                with pytest.raises(grpc.RpcError) as caught:
                    infer(asked, metadata=(("authorization", wrong),), timeout=60)
                assert told(caught.value)[0] == "UNAUTHENTICATED"
            with pytest.raises(grpc.RpcError):  # unexpected bytes go to no log with the key beside them
                client.channel.unary_unary(methods(INFERENCE)["ModelInfer"].path)(
                    b"\xff" * 9, metadata=(("authorization", "Bearer secret-of-mine"),), timeout=60
                )
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(30) == 0
    assert "secret" not in "".join(server.said)


@pytest.mark.slow
def test_a_port_that_is_taken_is_told_before_the_server_says_that_it_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        status, said = ended(NETWORK, "--port", 0, "--grpc-port", port)
    assert status == 4 and f"gRPC: 127.0.0.1:{port} cannot be listened on" in said and "--grpc-port" in said
    assert "models are being loaded" not in said


def test_a_port_that_another_grpc_server_has_is_taken_too() -> None:
    other = grpc.server(None, options=[("grpc.so_reuseport", 1)])
    port = other.add_insecure_port("127.0.0.1:0")
    other.start()
    try:
        settings = ServerSettings(networks=(str(NETWORK),), port=0, grpc_port=port, backend="cpu")
        before = _sockets()
        with pytest.raises(BackendUnavailable, match=f"{port} cannot be listened on"):
            serve(settings)
        assert _sockets() == before  # that of HTTP was bound already, and is closed again
    finally:
        other.stop(None)


def _sockets() -> int:
    return sum(
        "socket" in str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()
    )


def test_the_two_ports_are_not_one() -> None:
    with pytest.raises(ParamInvalid, match="both 8000"):
        ServerSettings(networks=("x.rknn",), port=8000, grpc_port=8000).checked()


WITHOUT = """
import sys
sys.modules["grpc"] = None
sys.argv[0] = "rknnlite"
import runpy
runpy.run_module("rknnlite", run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
def test_without_grpcio_rest_is_served_and_a_note_says_so(tmp_path: Path) -> None:
    httpx = pytest.importorskip("httpx")
    said = tmp_path / "said"
    command = [
        sys.executable,
        "-c",
        WITHOUT,
        "serve",
        NETWORK,
        "--port",
        "0",
        "--workers",
        "1",
        "--backend",
        "cpu",
    ]
    with said.open("w") as stream:
        process = subprocess.Popen(command, stderr=stream)
    try:
        until(lambda: "ready: " in said.read_text() or process.poll() is not None)
        text = said.read_text()
        url = re.search(r"(http://\S+) \(models", text)
        assert url, text
        assert text.count("gRPC cannot be served") == 1 and "python3-grpcio" in text
        assert httpx.get(f"{url[1]}/v2/models/{DENSE}").json()["name"] == DENSE
    finally:
        process.terminate()
        assert process.wait(30) == 0
    done = subprocess.run([*command, "--grpc-port", "0"], stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 4 and "gRPC cannot be served" in done.stderr and "loaded" not in done.stderr


@pytest.mark.parametrize(
    ("words", "port", "needed"),
    [((), 8001, False), (("--grpc-port", "-1"), -1, False), (("--grpc-port", "9"), 9, True)],
)
def test_the_port_on_the_command_line(words: Any, port: int, needed: bool) -> None:
    import argparse

    parser = argparse.ArgumentParser()
    COMMAND.arguments(parser)
    settings = settings_of_arguments(parser.parse_args([str(NETWORK), *words]), [])
    assert (settings.grpc_port, settings.grpc_needed) == (port, needed)
