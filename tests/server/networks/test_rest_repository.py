"""The folder of networks over REST: what is in it, loading and unloading, and names that lead nowhere else."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rknnlite_server.settings import ServerSettings

from ..conftest import Served, running
from .conftest import LATER, LOADED, SOFT, Networks, inputs_of, path_of
from .test_rest import tensors

KEY = "secret-of-mine"
DENSE = LATER[0]


def states(http: Any, **asked: Any) -> dict[str, str]:
    answer = http.post("/v2/repository/index", json=asked)
    assert answer.status_code == 200, answer.text
    return {line["name"]: line["state"] for line in answer.json()}


def test_the_index(networks: Networks) -> None:
    everything = states(networks.http)
    assert set(everything) >= {*LOADED, *LATER} and all(everything[name] == "READY" for name in LOADED)
    assert set(states(networks.http, ready=True)) == {
        n for n, state in everything.items() if state == "READY"
    }
    assert networks.http.post("/v2/repository/index").status_code == 200  # as Triton's clients do: no body
    for wrong in ({"ready": "yes"}, {"ready": 1}):
        assert networks.http.post("/v2/repository/index", json=wrong).status_code == 400


def test_a_network_is_loaded_and_unloaded(networks: Networks) -> None:
    given = {"inputs": tensors(inputs_of(DENSE))}
    infer, base = f"/v2/models/{DENSE}/infer", f"/v2/repository/models/{DENSE}"
    before = networks.http.post(infer, json=given)
    assert before.status_code == 404 and "is not loaded" in before.json()["error"]
    assert networks.http.get(f"/v2/models/{DENSE}/ready").status_code == 404
    try:
        for body in (b"", b"{}", b'{"parameters": {}}'):  # a second time it is loaded anew
            assert networks.http.post(f"{base}/load", content=body).status_code == 200
            assert states(networks.http)[DENSE] == "READY"
            assert networks.http.post(infer, json=given).status_code == 200
    finally:
        assert networks.http.post(f"{base}/unload", json={}).status_code == 200
    assert states(networks.http)[DENSE] == "UNAVAILABLE"
    assert networks.http.post(infer, json=given).status_code == 404


@pytest.mark.parametrize("parameters", [{"config": "{}"}, {"file:1/model.rknn": "AAAA"}])
def test_a_network_is_loaded_as_its_file_is(networks: Networks, parameters: dict[str, str]) -> None:
    """Triton's clients can send configurations and files: taken without a word they would be believed."""
    answer = networks.http.post(f"/v2/repository/models/{DENSE}/load", json={"parameters": parameters})
    assert answer.status_code == 501 and next(iter(parameters)) in answer.json()["error"]
    assert states(networks.http)[DENSE] == "UNAVAILABLE"


@pytest.mark.parametrize("body", [b"[]", b"{", b"5", b'{"parameters": 3}', b"\xff"])
def test_bodies_that_make_no_sense(networks: Networks, body: bytes) -> None:
    answer = networks.http.post(f"/v2/repository/models/{DENSE}/load", content=body)
    assert answer.status_code == 400 and isinstance(answer.json()["error"], str)
    big = networks.http.post(f"/v2/repository/models/{DENSE}/load", content=b" " * 100_000)
    assert big.status_code == 413


NAMES = [
    "none", "..", "../secret", "..%2fsecret", "%2e%2e%2fsecret", "%2e%2e", "..%5csecret", "/etc/passwd", "%2fetc%2fpasswd",
    "%00", f"{SOFT}%00", f"{SOFT}.rknn", "secret%00.rknn", "%ff%fe", "%ed%a0%80", "link", "linked", "~root",
    "a%20b", "-x", "a" * 5000,
    "*", "%2a", "[a-z]", "C:%5cx", "%252e%252e%252fsecret", "folder%2fsecret", ".hidden",
]  # fmt: skip


@pytest.mark.parametrize("path", ["/v2/models/{}", "/v2/models/{}/infer", "/v2/repository/models/{}/load"])
def test_names_lead_out_of_no_folder(locked: Served, path: str) -> None:
    """Sent as they are: clients of their own accord would resolve or quote some of them."""
    for name in NAMES:
        status, text = raw(locked.url, "GET" if path.endswith("{}") else "POST", path.format(name))
        assert status == 404, (name, status, text)
        assert "root:" not in text
    assert set(states(locked.http)) == {"inside"}


def raw(url: str, method: str, path: str) -> tuple[int, str]:
    host, port = url.rpartition("/")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=30) as made:
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n"
        made.sendall(f"{head}Authorization: Bearer {KEY}\r\n\r\n".encode())
        data = b"".join(iter(lambda: made.recv(65536), b""))
    return int(data.split(b" ", 2)[1]), data.decode("utf-8", "replace")


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with keys, over a folder from which links lead out."""
    outside = tmp_path_factory.mktemp("outside")
    folder = outside / "folder"
    (folder / "folder").mkdir(parents=True)
    secret = outside / "secret.rknn"
    shutil.copy(path_of(DENSE), secret)
    for copied in ("inside", ".hidden", "-x", "folder/secret"):
        shutil.copy(path_of(DENSE), folder / f"{copied}.rknn")
    (folder / "link.rknn").symlink_to(secret)
    (folder / "linked.rknn").symlink_to(Path(os.pardir) / "secret.rknn")
    (folder / "loop.rknn").symlink_to("loop.rknn")
    (folder / "gone.rknn").symlink_to(outside / "gone")
    settings = ServerSettings(
        repository=str(folder), explicit=True, api_keys=(KEY,), grpc_port=-1, workers=1, backend="cpu"
    )
    with running(settings) as served:
        served.http.headers["Authorization"] = f"Bearer {KEY}"
        yield served


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2"),
        ("GET", "/v2/models/inside"),
        ("GET", "/v2/models/inside/ready"),
        ("GET", "/v2/models/inside/config"),
        ("POST", "/v2/models/inside/infer"),
        ("POST", "/v2/models/inside/versions/1/infer"),
        ("POST", "/v2/repository/index"),
        ("POST", "/v2/repository/models/inside/load"),
        ("POST", "/v2/repository/models/inside/unload"),
        ("GET", "/v2/logging"),
        ("GET", "/v2/health/live/x"),
        ("GET", "/openapi.json"),
        ("GET", "//v2/health/live"),
    ],
)
@pytest.mark.parametrize("given", ["", "Bearer wrong", f"Bearer {KEY}x", f"Basic {KEY}"])
def test_all_but_health_wants_a_key(locked: Served, method: str, path: str, given: str) -> None:
    answer = locked.http.request(method, path, headers={"Authorization": given})
    assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
    said = answer.json()["error"]
    assert (said if path.startswith("/v2") else said["message"]) == "Invalid API Key"


def test_health_wants_none(locked: Served) -> None:
    for path in ("/v2/health/live", "/v2/health/ready", "/health", "/"):
        assert locked.http.get(path, headers={"Authorization": ""}).status_code == 200


def test_files_that_come_go_and_are_broken(locked: Served) -> None:
    folder = Path(locked.state.settings.repository)
    load = "/v2/repository/models/{}/load"
    (folder / "broken.rknn").write_bytes(b"RKNN" + bytes(100))
    (folder / "folder.rknn").mkdir()
    try:
        assert states(locked.http)["broken"] == "UNAVAILABLE"
        answer = locked.http.post(load.format("broken"))
        assert answer.status_code == 422 and answer.headers["rknnlite-error"] == "ModelUnsupported"
        index = {line["name"]: line for line in locked.http.post("/v2/repository/index").json()}
        assert index["broken"]["reason"] == answer.json()["error"]
        assert locked.http.post(load.format("folder")).status_code in (404, 422)
    finally:
        (folder / "broken.rknn").unlink()
        (folder / "folder.rknn").rmdir()
    assert locked.http.post(load.format("broken")).status_code == 404
    assert set(states(locked.http)) == {"inside"}


def test_a_repository_is_loaded_at_start_and_one_that_cannot_be_keeps_nothing_from_it(tmp_path: Path) -> None:
    (tmp_path / "good.rknn").write_bytes(path_of(LATER[0]).read_bytes())
    (tmp_path / "bad.rknn").write_bytes(b"RKNN and nothing else")
    settings = ServerSettings(repository=str(tmp_path), grpc_port=-1, workers=1, backend="cpu")
    with running(settings) as served:
        index = {entry["name"]: entry for entry in served.post("/v2/repository/index").json()}
        assert index["good"]["state"] == "READY"
        assert index["bad"]["state"] == "UNAVAILABLE" and "truncated" in index["bad"]["reason"]
