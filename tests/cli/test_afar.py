"""``--device`` on a server that is really there: its CPU reference plays the board."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc")
pytest.importorskip("PIL")

from rknnlite_cpu.context import CpuContext

import rknnlite
from rknnlite import plugins
from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.spi.command import Exit
from tests.server.networks.conftest import Networks, board
from tests.support.corpus import genuine
from tests.support.onnx_twin import write_twin

from .conftest import DIGIT, RESNET, Call

__all__ = ["board"]

TWO = genuine("two_images.rk3588.i8")


def nobody() -> str:
    """An address at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture
def remotes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """``remotes(lab={"address": "..."})``: boards of the configuration."""

    def write(**entries: dict[str, str]) -> None:
        lines = ["remotes:"]
        for name, entry in entries.items():
            lines += [f"  {name}:", *(f"    {key}: {value!r}" for key, value in entry.items())]
        (tmp_path / "rknnlite.yaml").write_text("\n".join(lines) + "\n")
        monkeypatch.setenv("RKNNLITE_CONFIG", str(tmp_path / "rknnlite.yaml"))

    return write


def test_run_and_figures(board: Networks, call: Call) -> None:
    there = call("run", RESNET, DIGIT, "--device", board.grpc, "--json").data
    here = call("run", RESNET, DIGIT, "--backend", "cpu", "--json").data
    assert there["outputs"] == here["outputs"] and there["backend"] == "remote"
    (row,) = call("bench", RESNET, DIGIT, "--runs", 3, "--warmup", 1, "--device", board.grpc, "--json").data[
        "rows"
    ]
    assert row["run_us"] > 0 and row["outside_us"] == pytest.approx(row["mean_us"] - row["run_us"])


def test_perf_is_the_boards_table_of_a_run_that_is_warm(
    board: Networks, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    own = CpuContext.run

    def run(context: CpuContext) -> None:
        runs.append(id(context))
        own(context)

    monkeypatch.setattr(CpuContext, "run", run)
    there = call("perf", RESNET, DIGIT, "--device", board.grpc, "--json").data
    assert runs.count(runs[-1]) == 2, "the first run of a context takes longer than all that follow"
    here = call("perf", RESNET, DIGIT, "--backend", "cpu", "--json").data
    assert [row["name"] for row in there["layers"]] == [row["name"] for row in here["layers"]]
    assert there["measured_on"].startswith(f"{board.grpc}: RK3588, rknnlite CPU reference")
    assert there["total_us"] > 0 and there["memory"] == here["memory"]


def test_the_manuals_table(board: Networks, call: Call, tmp_path: Path) -> None:
    twin = write_twin(TWO, tmp_path / "twin.onnx")
    data = call("compare", TWO, twin, "--mode", "single", "--device", board.grpc, "--json").data
    assert data["board"]["single"] == "single" and not data["board"]["unseen"] and not data["board"]["notes"]
    assert len(data["tensors"]) == 7 and not data["board"]["differing"]
    for tensor in data["tensors"]:
        assert tensor["runtime_entire"] == tensor["entire"] and tensor["runtime_single"] == tensor["single"]
        assert tensor["entire"]["euclidean"] > 0
    assert data["board_verdict"] == data["verdict"]


@pytest.mark.parametrize("alone", [False, True], ids=["nothing", "no layer alone"])
def test_what_a_board_cannot_dump(
    alone: bool, board: Networks, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a server on the vendor's runtimes answers: librknnrt dumps nothing, librknn3_api takes no values."""
    own = CpuContext.dump

    def dump(context: CpuContext, directory: Any, golden: Any = None) -> Any:
        here = threading.current_thread() is threading.main_thread()
        if not here and not alone:
            raise RknnError("backend rknnrt cannot dump tensors")
        if not here and golden is not None:
            raise ParamInvalid("the coprocessor computes on its own values")
        return own(context, directory, golden)

    monkeypatch.setattr(CpuContext, "dump", dump)
    done = call(
        "compare", TWO, write_twin(TWO, tmp_path / "twin.onnx"), "--mode", "single", "--device", board.grpc
    )
    assert done.code == 0, done.err
    if alone:
        assert "single_sim" in done.out and "the coprocessor computes on its own values" in done.out
        assert "not dumped" not in done.out
    else:
        assert done.out.count(" not dumped") > 5 and "backend rknnrt cannot dump tensors" in done.out
        assert "the board has the simulator's values in 2 of 2 tensors" in done.out


def test_an_open_context_of_a_board_is_a_side(board: Networks, tmp_path: Path) -> None:
    import numpy as np

    twin = write_twin(TWO, tmp_path / "twin.onnx")
    with rknnlite.open(TWO, backend="remote", device_id=board.grpc) as context:
        images = [np.full(attr.dims, 7, np.uint8) for attr in context.inputs]
        found = rknnlite.compare(TWO, twin, images, "single", board=context, backend="cpu")
    assert found.board is not None and found.board.single == "single" and not found.board.differing


@pytest.mark.slow
def test_the_machine(board: Networks, call: Call) -> None:
    port = board.grpc.rpartition(":")[2]
    both = f"{board.grpc},localhost:{port}"
    done = call("doctor", RESNET, "--device", both, "--json")
    assert done.code == 0 and [one["device"] for one in done.data["devices"]] == both.split(",")
    texts = [finding["text"] for finding in done.data["devices"][0]["findings"]]
    assert any(text.startswith("cpu (best): CPU reference") for text in texts)
    assert any("resnet18_for_RK3588" in text and text.startswith("models:") for text in texts)
    (looks,) = [call("top", "--device", both, "--count", 1, "--json").data]
    assert [look["device"] for look in looks] == both.split(",") and looks[0]["memory"]["MemTotal"] > 0


@pytest.mark.slow
def test_boards_with_names(board: Networks, call: Call, remotes: Any) -> None:
    port = board.grpc.rpartition(":")[2]
    remotes(bench={"address": board.grpc}, pair={"address": f"{board.grpc},localhost:{port}"})
    remote = plugins.backend("remote")
    assert remote.boards("bench") == ["bench"]
    assert remote.boards("pair") == remote.boards("bench,pair")[1:] == [board.grpc, f"localhost:{port}"]
    assert remote.boards("bench,nobody") == remote.boards("nobody") == remote.boards("0001:11:00.0") == []
    assert call("run", RESNET, DIGIT, "--device", "bench").code == 0
    listed = [line for line in call("devices").out.splitlines() if line.startswith("remote: device")]
    ids = [f"bench, at {board.grpc}", f"pair, at {board.grpc}", f"pair, at localhost:{port}"]
    assert [line.split(": device ")[1].rpartition(", ")[0] for line in listed] == ids
    findings = call("doctor", "--json").data["findings"]
    told = [finding["text"] for finding in findings if finding["topic"] == "boards"]
    assert len(told) == 3 and told[0].startswith("bench: no Rockchip NPU is known there, rknnlite ")
    assert told[2].startswith(f"pair (localhost:{port}): ")


def test_a_part_of_a_named_pair_keeps_its_key(remotes: Any) -> None:
    from rknnlite_remote.boards import meant

    remotes(pair={"address": "10.1.1.1:8001,10.1.1.2:8001", "key": "secret", "key_without_tls": "true"})
    one, other = plugins.backend("remote").boards("pair")
    found = meant(other)
    assert found is not None and (found.addresses, found.key) == (("10.1.1.2:8001",), "secret")
    alien = meant("10.1.1.2:8001,10.9.9.9:8001")
    assert alien is not None and not alien.key, "a key goes to no address that it was not given for"
    assert one == "10.1.1.1:8001"


@pytest.mark.slow  # an address is tried for some seconds
@pytest.mark.parametrize("command", ["run", "bench", "perf", "compare", "doctor", "top"])
def test_nobody_answers(command: str, call: Call) -> None:
    words: list[Any] = {"doctor": [], "top": [], "compare": [RESNET, RESNET]}.get(command, [RESNET])
    address = nobody()
    done = call(command, *words, "--device", address)
    assert done.code == Exit.UNAVAILABLE and "Traceback" not in done.err
    (line,) = done.err.splitlines() if command != "doctor" else [done.out.splitlines()[-1]]
    assert f"board {address}: " in line and "Connection refused" in line


def test_a_mistyped_name_is_not_the_board_of_the_settings(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RKNNLITE_REMOTE", "127.0.0.1:9")
    done = call("run", RESNET, "--device", "bensch")
    assert done.code == Exit.UNAVAILABLE and "no device 'bensch' is known" in done.err


@pytest.mark.slow
def test_a_board_that_takes_the_call_and_says_nothing(call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        done = call("doctor", "--device", f"127.0.0.1:{mute.getsockname()[1]}")
    assert done.code == Exit.UNAVAILABLE and "not ready: board 127.0.0.1:" in done.out
