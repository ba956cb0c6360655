"""What boards offer and what models ask for, and ``rknnlite fleet resources``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rknnlite_ray import CORE, check_offered, offered, wanted
from rknnlite_ray.placement import _present

from rknnlite import socs
from rknnlite.cli import main
from rknnlite.errors import DeviceUnavailable, ModelInvalid, ParamInvalid, TargetPlatformUnmatch
from rknnlite.native.board import Board
from rknnlite.spi.command import Exit
from tests.support.corpus import EXAMPLES, genuine

RESNET = EXAMPLES / "resnet18"


def test_a_board_offers_its_cores_for_every_platform_that_it_runs() -> None:
    assert offered(socs.get("rk3588")) == {"rknpu_core": 3, "rk3588": 3}
    assert offered(socs.get("rk3568")) == {"rknpu_core": 1, "rk3566": 1, "rk3568": 1}
    assert offered(socs.get("rk1820"), 2) == {"rknpu_core": 2, "rk1820": 2}
    with pytest.raises(ParamInvalid, match=r"rk3588 has 3 NPU cores to offer; 4 cannot be"):
        offered(socs.get("rk3588"), 4)


@pytest.mark.parametrize("file", sorted(RESNET.glob("*.rknn")), ids=lambda file: file.stem)
def test_work_is_placed_on_exactly_the_boards_that_run_the_file(file: Path) -> None:
    asked = wanted(file)
    assert asked.pop(CORE) == 1
    able = {soc.name for soc in socs.SOCS if asked.items() <= offered(soc, 1).items()}
    assert able == {name.lower() for name in file.stem.partition("for_")[2].split("_")}


def test_the_cpu_reference_needs_no_board() -> None:
    assert wanted(RESNET / "resnet18_for_RK3588.rknn", "cpu") == {}
    assert wanted(genuine("conv_1x1.rk3576.i8").read_bytes(), "rknnrt") == {CORE: 1, "rk3576": 1}


def test_a_file_that_is_no_model_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "model.rknn").write_bytes(b"no model at all")
    for backend in (None, "cpu"):
        with pytest.raises(ModelInvalid, match=r"model\.rknn"):
            wanted(tmp_path / "model.rknn", backend)
    with pytest.raises(ModelInvalid, match="cannot be read"):
        wanted(tmp_path / "none.rknn")


class Cluster:
    """Stands for what ``ray`` says of a cluster."""

    def __init__(self, **resources: float) -> None:
        self.cluster_resources = lambda: resources


@pytest.mark.parametrize(
    ("there", "workers", "error", "text"),
    [
        ({"rknpu_core": 3, "rk3576": 3}, 1, TargetPlatformUnmatch, r"need 1 of the resource rk3588, .* rk3576: 3; .* convert"),
        ({"rknpu_core": 3, "rk3588": 3}, 4, DeviceUnavailable, r"4 workers need 4 of the resource rknpu_core, .* fewer workers"),
        ({"CPU": 8}, 1, DeviceUnavailable, r"offer no NPU; .*rknnlite fleet resources.*backend='cpu'"),
        ({"rknpu_core": 3, "rk3588": 3}, 3, None, ""),
    ],
)  # fmt: skip
def test_what_no_node_has_is_said_at_once(
    there: dict[str, float], workers: int, error: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", Cluster(**there))
    asked = wanted(RESNET / "resnet18_for_RK3588.rknn")
    if error is None:
        check_offered(asked, workers)
    else:
        with pytest.raises(error, match=text):
            check_offered(asked, workers)


def test_fewer_cores_than_workers_are_used_with_a_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", Cluster(rknpu_core=3, rk3588=2))
    asked = {CORE: 1.0, "rk3588": 1.0}
    assert _present(asked, 2) == 2 and not caplog.text
    assert _present(asked, 12) == 2
    assert "12 workers were asked for and the cluster has cores for 2" in caplog.text
    assert _present({}, 12) == 12
    with pytest.raises(TargetPlatformUnmatch):
        _present({CORE: 1.0, "rk3576": 1.0}, 2)


def test_the_command_prints_what_ray_start_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "resources", "--soc", "RK3588S"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == {"rknpu_core": 3, "rk3588": 3}
    assert main(["fleet", "resources", "--soc", "rk3588", "--cores", "2", "--json"]) == Exit.OK
    told = json.loads(capsys.readouterr().out)
    assert told["resources"] == {"rknpu_core": 2, "rk3588": 2}
    assert told["argument"] == """--resources='{"rknpu_core": 2, "rk3588": 2}'"""


def test_the_command_looks_at_the_board(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Board, "soc", lambda board: socs.get("rk3576"))
    assert main(["fleet", "resources"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == {"rknpu_core": 2, "rk3576": 2}
    monkeypatch.setattr(Board, "soc", lambda board: None)
    assert main(["fleet", "resources"]) == Exit.UNAVAILABLE
    assert "no NPU known here" in capsys.readouterr().err
    assert main(["fleet", "resources", "--soc", "rk3566", "--cores", "2"]) == Exit.USAGE
    assert "rk3566 has 1 NPU core to offer; 2 cannot be" in capsys.readouterr().err
