"""What can be wrong on the way to a board, each a typed error with what to do."""

from __future__ import annotations

import socket
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from rknnlite_remote.boards import Board
from rknnlite_remote.errors import error_of

import rknnlite
from rknnlite import errors
from tests.support.corpus import genuine, golden_of

from .conftest import RESNET, served


def test_nobody_answers() -> None:
    with pytest.raises(errors.DeviceUnavailable, match=r"127.0.0.1:9.*is the board on"):
        rknnlite.open(RESNET, device_id="127.0.0.1:9")


def test_an_unknown_host() -> None:
    with pytest.raises(errors.DeviceUnavailable, match=r"nobody\.invalid"):
        rknnlite.open(RESNET, device_id="nobody.invalid:8001")
    with pytest.raises(errors.DeviceUnavailable, match=r"nobody\.invalid:8001"):
        rknnlite.open(RESNET, device_id="nobody.invalid:8001,nobody.invalid:8002")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n"])
def test_a_port_of_something_else(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_answer, args=(listening, answer), daemon=True).start()
        with pytest.raises(errors.DeviceUnavailable):
            rknnlite.open(RESNET, device_id=f"127.0.0.1:{listening.getsockname()[1]}")


def _answer(listening: socket.socket, answer: bytes) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection:
            connection.sendall(answer)


@pytest.mark.slow
def test_a_port_that_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, pytest.raises(errors.DeviceUnavailable):
        rknnlite.open(RESNET, device_id=f"127.0.0.1:{listening.getsockname()[1]}")


def test_keys(tmp_path: Path, remotes: Any) -> None:
    with served(tmp_path / "up", api_keys=("right",)) as address:
        remotes(f"remotes:\n  desk: {{address: '{address}', key: wrong}}\n")
        with pytest.raises(errors.DeviceUnavailable, match="give the server's key in remotes") as caught:
            rknnlite.open(RESNET, device_id="desk")
        assert "wrong" not in str(caught.value)
        remotes(f"remotes:\n  desk: {{address: '{address}', key: right}}\n")
        with rknnlite.open(RESNET, device_id="desk") as context:
            context.infer(np.zeros(context.inputs[0].dims, np.uint8))
            context.start()
            context.get_outputs()


def test_certificates(tmp_path: Path, remotes: Any) -> None:
    good, key = certificate(tmp_path / "good", 2)
    other, _ = certificate(tmp_path / "other", 2)
    with served(tmp_path / "up", tls_cert=str(good), tls_key=str(key)) as address:
        port = address.rpartition(":")[2]
        remotes(
            f"remotes:\n  desk: {{address: 'localhost:{port}', ca: {good}}}\n"
            f"  named: {{address: '127.0.0.1:{port}', ca: {good}, server_name: localhost}}\n"
            f"  wrong: {{address: 'localhost:{port}', ca: {other}}}\n  gone: {{address: 'localhost:{port}', ca: {good}.not}}\n"
        )
        for name in ("desk", "named"):
            rknnlite.open(RESNET, device_id=name).close()
        with pytest.raises(errors.DeviceUnavailable, match="certificate"):
            rknnlite.open(RESNET, device_id="wrong")
        with pytest.raises(errors.ParamInvalid, match=r"its certificate .* cannot be read"):
            rknnlite.open(RESNET, device_id="gone")
        remotes("")
        with pytest.raises(errors.DeviceUnavailable):  # not encrypted
            rknnlite.open(RESNET, device_id=address)


def test_an_expired_certificate(tmp_path: Path, remotes: Any) -> None:
    old, key = certificate(tmp_path / "old", -1)
    with served(tmp_path / "up", tls_cert=str(old), tls_key=str(key)) as address:
        remotes(f"remotes:\n  desk: {{address: 'localhost:{address.rpartition(':')[2]}', ca: {old}}}\n")
        with pytest.raises(errors.DeviceUnavailable, match=r"certificate.*still valid"):
            rknnlite.open(RESNET, device_id="desk")


def test_an_encrypted_board_asks_for_its_certificate_whatever_grpc_heard_last() -> None:
    """Of the numbers of a host gRPC tells about one: the board may have refused at one and not listen at the other."""

    class Refused:
        def code(self) -> Any:
            return grpc.StatusCode.UNAVAILABLE

        def details(self) -> str:
            return "last error: ipv6:[::1]:8001: Connection refused"

        def trailing_metadata(self) -> None:
            return None

    open_way, encrypted = (
        error_of(Refused(), Board(("desk:8001",), tls=tls), "asking") for tls in (False, True)
    )
    assert "certificate" not in str(open_way)
    for said in (str(open_way), str(encrypted)):
        assert "Connection refused; is the board on" in said
    assert "certificate" in str(encrypted) and "still valid" in str(encrypted)


def certificate(folder: Path, days: int) -> tuple[Path, Path]:
    """One for localhost that is its own authority, valid for so many days from now; of -1 it has ended."""
    folder.mkdir()
    (folder / "names").write_text("subjectAltName=DNS:localhost\n")
    openssl(
        folder,
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=localhost",
        "-keyout",
        "key.pem",
        "-out",
        "asked",
    )
    openssl(
        folder, "x509", "-req", "-in", "asked", "-signkey", "key.pem", "-days", str(days), "-extfile", "names",
        "-out", "cert.pem",
    )  # fmt: skip
    return folder / "cert.pem", folder / "key.pem"


def openssl(folder: Path, *words: str) -> None:
    made = subprocess.run(["openssl", *words], cwd=folder, capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"openssl makes no such certificate: {made.stderr[-200:]!r}")


def test_a_board_that_takes_no_models(tmp_path: Path) -> None:
    path = genuine("dense.rk3588.i8")
    with served(tmp_path / "up", allow_upload=False, networks=(str(RESNET),)) as address:
        with rknnlite.open(RESNET, device_id=address) as context:  # it has that one of its own
            assert context.infer(np.zeros(context.inputs[0].dims, np.uint8))
        with pytest.raises(errors.DeviceUnavailable, match=r"takes no models.*--allow-upload"):
            rknnlite.open(path, device_id=address)


def test_a_model_that_went_away_is_sent_again(tmp_path: Path) -> None:
    path, others = genuine("dense.rk3588.i8"), ("conv_1x1.rk3588.i8", "softmaxes.rk3588.i8")
    golden = golden_of("dense.rk3588.i8")
    with ExitStack() as stack:
        address = stack.enter_context(served(tmp_path / "up", upload_models=1))
        context = stack.enter_context(rknnlite.open(path, device_id=address))
        wanted = context.infer(*golden.inputs)
        for asking in (lambda: context.infer(*golden.inputs), lambda: streamed(context)):
            for other in others:  # there is room for one
                rknnlite.open(genuine(other), device_id=address).close()
            for file in (tmp_path / "up").glob("*.rknn"):
                file.unlink()
            assert all(np.array_equal(a, b) for a, b in zip(asking(), wanted))


def streamed(context: Any) -> Any:
    context.start()
    return context.get_outputs()
