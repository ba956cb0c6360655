"""Which hosts are asked for somebody else: public ones, as looked up once, and those that the operator named."""

from __future__ import annotations

import ipaddress
import shutil
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rknnlite_llm import public_hosts
from rknnlite_llm.fetching import Fetch, fetch_model
from rknnlite_llm.public_hosts import is_public

from rknnlite.errors import BackendUnavailable, ModelInvalid, ParamInvalid
from tests.support.file_server import serving

TINY = Path(__file__).parents[2] / "examples" / "llm_chat" / "models" / "tiny.rknn"
OTHERS = (
    "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "224.0.0.1",
    "255.255.255.255", "240.0.0.1", "192.0.2.1", "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::1", "2001:0:1::1",
    "2001:db8::1", "::127.0.0.1",
)  # fmt: skip
PUBLIC = (
    "1.1.1.1",
    "8.8.8.8",
    "2606:4700:4700::1111",
    "::ffff:1.1.1.1",
    "64:ff9b::101:101",
    "2002:101:101::1",
)


@pytest.mark.parametrize("address", [*OTHERS, *PUBLIC])
def test_addresses(address: str) -> None:
    assert is_public(ipaddress.ip_address(address)) == (address in PUBLIC)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0"]
)
def test_this_machine_is_not_asked_by_any_of_its_names(tmp_path: Path, host: str) -> None:
    with serving(TINY.parent) as files:
        source = f"http://{host}:{files.server_port}/tiny.rknn"
        with pytest.raises((ParamInvalid, BackendUnavailable), match=r"no public address|nobody answers"):
            fetch_model(Fetch(source, hosts=()), tmp_path)
        assert files.asked == []


def test_redirections_lead_to_no_other_hosts(tmp_path: Path) -> None:
    with serving(TINY.parent) as files, serving(TINY.parent) as inner:
        files.moved["tiny.rknn"] = f"http://localhost:{inner.server_port}/tiny.rknn"
        with pytest.raises(ParamInvalid, match="--allow-pull"):
            fetch_model(Fetch(f"{files.url}/tiny.rknn", hosts=("127.0.0.1",)), tmp_path)
        assert inner.asked == [] and len(files.asked) == 1


def test_hosts_that_are_named_and_all_of_them(tmp_path: Path) -> None:
    with serving(TINY.parent) as files:
        for number, hosts in enumerate([("127.0.0.1",), ("*",), None]):
            fetch_model(Fetch(f"{files.url}/tiny.rknn", f"m{number}", hosts=hosts), tmp_path)
        with pytest.raises(ParamInvalid):
            fetch_model(Fetch(f"{files.url}/tiny.rknn", "x", hosts=("127.0.0.2",)), tmp_path)


def test_the_address_that_was_looked_at_is_the_one_that_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that answers with another address the next time (DNS rebinding) gains nothing; of several the public ones count."""
    asked, called = [], []

    def lookup(host: str, port: int, *args: Any, **options: Any) -> list[Any]:
        asked.append(host)
        found = ["169.254.169.254", "8.8.8.8"] if len(asked) == 1 else ["127.0.0.1"]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    class Socket:
        def __init__(self, *args: Any) -> None:
            pass

        def settimeout(self, seconds: float) -> None:
            pass

        def connect(self, target: Any) -> None:
            called.append(target)
            raise OSError("unreachable")

        def close(self) -> None:
            pass

    monkeypatch.setattr(public_hosts.socket, "getaddrinfo", lookup)
    monkeypatch.setattr(public_hosts.socket, "socket", Socket)
    with pytest.raises((BackendUnavailable, ParamInvalid)):
        fetch_model(Fetch("http://rebind.example/a.gguf", hosts=()), tmp_path)
    assert called == [("8.8.8.8", 80)]


def test_proxies_do_not_look_names_up_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(TINY.parent) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        with pytest.raises((ParamInvalid, BackendUnavailable)):
            fetch_model(Fetch("http://localhost:9/a.gguf", hosts=()), tmp_path)
        assert proxy.asked == []
        with pytest.raises(ModelInvalid):  # the operator's own call uses it
            fetch_model(Fetch("http://far.example/none.gguf"), tmp_path)
        assert [name for name, _ in proxy.asked] == ["none.gguf"]


def test_https_is_certified_by_the_name_and_never_becomes_http(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    words += [
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
    ]
    if (
        shutil.which("openssl") is None
        or subprocess.run(words, cwd=tmp_path, capture_output=True, check=False).returncode
    ):
        pytest.skip("openssl makes no such certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    folder = tmp_path / "models"
    folder.mkdir()
    with serving(TINY.parent) as files:
        files.socket = context.wrap_socket(files.socket, server_side=True)
        address = f"https://localhost:{files.server_port}/tiny.rknn"
        with pytest.raises(BackendUnavailable, match=r"(?i)certificate"):
            fetch_model(Fetch(address, hosts=("localhost",)), folder)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        fetch_model(Fetch(address, hosts=("localhost",)), folder)
        with pytest.raises(ParamInvalid, match="--allow-pull"):
            fetch_model(Fetch(address, "other", hosts=()), folder)
        with pytest.raises(BackendUnavailable, match=r"(?i)certificate"):
            fetch_model(
                Fetch(address.replace("localhost", "127.0.0.1"), "other", hosts=("127.0.0.1",)), folder
            )
        with serving(TINY.parent) as plain:
            files.moved["tiny.rknn"] = f"{plain.url}/tiny.rknn"
            with pytest.raises(ModelInvalid, match="not followed"):
                fetch_model(Fetch(address, "other", hosts=("*",)), folder)
            assert plain.asked == []
