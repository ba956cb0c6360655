"""Which board is meant: by device_id, RKNNLITE_REMOTE and the names of the configuration; which boards are there."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
import rknnlite_remote
from rknnlite_remote.boards import Board, configured, meant

import rknnlite
from rknnlite import errors, plugins
from rknnlite.api import RKNNLite
from rknnlite.choosing import choose_backend, devices
from rknnlite.cli import main
from rknnlite.formats import ModelFile
from rknnlite.spi.types import Options

from .conftest import RESNET


def chosen(**options: Any) -> str:
    return choose_backend(ModelFile(RESNET), options=Options(**options)).name


def test_addresses_and_names_choose_it(remotes: Any) -> None:
    remotes("remotes:\n  kitchen: {address: 'a.local:8001'}\n")
    assert chosen(device_id="board:8001") == "remote"
    assert chosen(device_id="[::1]:8001,10.0.0.2:8001") == "remote"
    assert chosen(device_id="kitchen") == "remote"
    assert chosen(device_id="kitchen", soc="rk3588") == "remote"
    for other in (
        "a1b2c3d4",
        "192.168.1.20:5555",
        "0001:11:00.0",
        "",
        None,
        "board:0",
        "board:99999",
        "a b:80",
    ):
        assert chosen(device_id=other) == "cpu", other


def test_the_setting_chooses_it(remotes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    remotes("remotes:\n  kitchen: {address: 'a.local:8001'}\nremote: kitchen\n")
    assert chosen() == "remote"
    assert meant("a1b2c3d4") == meant(None) == Board(("a.local:8001",), "kitchen")
    monkeypatch.setenv("RKNNLITE_REMOTE", "other:1")
    assert meant(None) == Board(("other:1",))
    assert meant("kitchen") == Board(("a.local:8001",), "kitchen")
    monkeypatch.setenv("RKNNLITE_REMOTE", "cellar")
    with pytest.raises(errors.ParamInvalid, match=r"neither HOST:PORT nor among remotes \(there: kitchen\)"):
        rknnlite.open(RESNET)


def test_nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.BackendUnavailable, match="no board is named"):
        rknnlite.open(RESNET, backend="remote")
    with pytest.raises(errors.BackendUnavailable, match="'xyz' names no board"):
        rknnlite.open(RESNET, backend="remote", device_id="xyz")


def test_a_missing_package_names_the_extra_and_nothing_else_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rknnlite_remote, "_lacking", lambda: True)
    with pytest.raises(errors.BackendUnavailable, match=r"need grpcio.*\(extra remote;"):
        rknnlite.open(RESNET, device_id="board:8001")
    probe = plugins.probe(plugins.backend("remote"), Options(device_id="board:8001"))
    assert probe.available and "grpcio" in probe.reason
    assert plugins.backend("remote").devices() == []


def test_nothing_of_grpc_is_loaded_without_a_board() -> None:
    assert "rknnlite_remote" in sys.modules
    assert not plugins.probe(plugins.backend("remote")).available


def test_keys(remotes: Any, tmp_path: Any) -> None:
    file = tmp_path / "key"
    file.write_text("secret\n")
    remotes(
        f"remotes:\n  far: {{address: ['a:1', 'b:2'], key_file: {file}}}\n  near: {{address: '127.0.0.1:1', key: k}}\n"
        f"  sure: {{address: 'c:3', key: k, tls: true, server_name: d}}\n  gone: {{address: 'e:1', key_file: {file}.not}}\n"
        "  open: {address: 'f:1', key: k, key_without_tls: true}\n  broken: {address: nowhere}\n"
    )
    far = meant("far")
    assert far is not None and far.key == "secret" and "secret" not in repr(far)
    with pytest.raises(errors.ParamInvalid, match="its key would go to a:1 unencrypted"):
        far.check_key()
    for name in ("near", "sure", "open"):
        found = meant(name)
        assert found is not None
        found.check_key()
    part = meant("b:2")
    assert part is not None and part.key == "secret", "one address of an entry has its key"
    with pytest.raises(errors.ParamInvalid, match="cannot be read: No such file"):
        meant("gone")
    with pytest.raises(errors.ParamInvalid, match="must be HOST:PORT"):
        meant("broken")
    assert [board.name for board in configured()] == ["far", "near", "sure", "open"]
    with pytest.raises(errors.ParamInvalid, match="unencrypted"):
        rknnlite.open(RESNET, device_id="far")


def test_boards_that_answer_are_listed(
    board: str, remotes: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    remotes(f"remotes:\n  desk: {{address: '{board}'}}\n  gone: {{address: '127.0.0.1:9'}}\n")
    (found,) = devices()["remote"]
    assert (found.id, found.address) == ("desk", board) and found.memory_total > 0
    assert RKNNLite().list_devices() == (["desk"], [])
    assert f"at {board}" not in capsys.readouterr().err
    main(["devices", "--json"])
    entry = next(e for e in json.loads(capsys.readouterr().out) if e["backend"] == "remote")
    assert entry["coprocessors"][0]["id"] == "desk"
    backend = plugins.backend("remote")
    assert backend.boards("desk") == ["desk"] and backend.boards("a:1,b:2") == ["a:1", "b:2"]
    assert backend.boards("serial") == []
    facts = backend.facts("desk")
    assert facts is not None and facts.uploads
    monkeypatch.setenv("RKNNLITE_REMOTE", "nobody.invalid:1")
    assert [device.id for device in backend.devices()] == ["desk"]
