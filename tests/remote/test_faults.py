"""Boards that die, come back, are full, or are several: no answer is lost, crossed or made up."""

from __future__ import annotations

import re
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_remote import upload
from rknnlite_remote.boards import Board
from rknnlite_remote.channel import Channel

import rknnlite
from rknnlite import errors
from rknnlite.formats import ModelFile
from rknnlite.spi import Context, Input
from tests.support.corpus import genuine, golden_of
from tests.support.served import Server, serve, stand_in_path

from .conftest import RESNET, served

pytestmark = pytest.mark.slow
ROWS = (1, 64)


@pytest.fixture
def stand_in(tmp_path: Path) -> Any:
    """Starts a server whose network gives its input back after some milliseconds, which the first call chooses."""
    from tests.doubles.stand_in.rknnlite_stand_in import write_model

    model = tmp_path / "model.rknn"
    with ExitStack() as stack:

        def start(latency_ms: float = 5, grpc: int = 0) -> Server:
            if not model.exists():
                write_model(model, input=ROWS, output=list(ROWS), latency_ms=latency_ms)
            words = (model, "--backend", "stand_in", "--workers", 1)
            return stack.enter_context(serve(*words, path=stand_in_path(tmp_path), grpc=grpc))

        start.model = lambda: model  # type: ignore[attr-defined]
        yield start


def row(number: int) -> Any:
    return np.full(ROWS, number % 100, np.float32)


def port(server: Server) -> int:
    return int(server.grpc.rpartition(":")[2])


def kill(server: Server) -> None:
    server.process.kill()
    server.process.wait()


def test_a_board_that_dies_and_comes_back(stand_in: Any) -> None:
    server = stand_in()
    with rknnlite.open(stand_in.model(), device_id=server.grpc) as context:
        assert np.array_equal(context.infer(row(1))[0], row(1))
        kill(server)
        with pytest.raises(errors.DeviceUnavailable, match=f"{server.grpc}.*is the board on"):
            context.infer(row(2))
        stand_in(grpc=port(server))
        assert np.array_equal(context.infer(row(3))[0], row(3))


def test_a_board_that_is_away_for_a_moment_is_not_noticed(stand_in: Any, tmp_path: Path) -> None:
    with served(tmp_path / "here") as address:
        number = int(address.rpartition(":")[2])
        context = rknnlite.open(RESNET, device_id=address)
        image = np.zeros(context.inputs[0].dims, np.uint8)
        (wanted,) = context.infer(image)
    with served(tmp_path / "here", grpc_port=number):
        assert np.array_equal(context.infer(image)[0], wanted)
        context.set_inputs([Input(0, image)])
        context.wait(context.start(), 20_000)
        assert np.array_equal(context.get_outputs()[0], wanted)
    context.close()


def test_a_board_that_dies_during_inference(stand_in: Any) -> None:
    server = stand_in(latency_ms=3000)
    with rknnlite.open(stand_in.model(), device_id=server.grpc) as context:
        threading.Timer(0.5, kill, [server]).start()
        with pytest.raises(errors.DeviceUnavailable, match=server.grpc):
            context.infer(row(1))


def test_a_stream_whose_board_dies_goes_on_where_it_comes_back(stand_in: Any) -> None:
    server = stand_in(latency_ms=300)
    with rknnlite.open(stand_in.model(), device_id=server.grpc) as context:
        numbers = []
        for number in range(4):
            context.set_inputs([Input(0, row(number))])
            numbers.append(context.start())
        context.wait(numbers[0])
        kill(server)
        stand_in(grpc=port(server))
        for number in numbers:
            context.wait(number, 30_000)
        assert np.array_equal(context.get_outputs()[0], row(3))


def test_a_stream_whose_board_stays_away(stand_in: Any) -> None:
    server = stand_in(latency_ms=2000)
    with rknnlite.open(stand_in.model(), device_id=server.grpc) as context:
        context.set_inputs([Input(0, row(1))])
        number = context.start()
        kill(server)
        with pytest.raises(errors.DeviceUnavailable):
            context.wait(number, 60_000)
        with pytest.raises(errors.ContextInvalid, match="run the model before"):
            context.get_outputs()


def test_an_upload_goes_on_where_it_broke_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The server is killed behind the first piece, and another one is started on the same folder."""
    caplog.set_level("INFO", "rknnlite")
    model = ModelFile(RESNET.read_bytes())
    words = ("--repository", tmp_path, "--backend", "cpu", "--allow-upload", "--upload-dir", tmp_path / "up")
    sent: list[int] = []
    real = upload._pieces
    monkeypatch.setattr(upload, "PIECE", 1 << 20 if len(model.data) > 8 << 20 else len(model.data) // 8)
    with ExitStack() as stack:
        (tmp_path / "up").mkdir()
        (tmp_path / "dense.rknn").write_bytes(genuine("dense.rk3588.i8").read_bytes())
        server = stack.enter_context(serve(tmp_path / "dense.rknn", *words))

        def pieces(model: Any, sha256: str, offset: int) -> Any:
            for piece in real(model, sha256, offset):
                yield piece
                sent.append(len(piece.data))
                if len(sent) == 3:
                    time.sleep(0.5)
                    kill(server)
                    stack.enter_context(serve(tmp_path / "dense.rknn", *words, grpc=port(server)))
                    return

        monkeypatch.setattr(upload, "_pieces", pieces)
        channel = Channel(Board((server.grpc,)))
        upload.send(channel, model, upload.sha256_of(model))
        channel.close()
    begun = [
        int(match[1]) for match in map(re.compile(r"from byte (\d+) on").search, caplog.messages) if match
    ]
    assert begun[0] == 0 and 0 < begun[-1] < len(model.data)
    assert [path.read_bytes() == RESNET.read_bytes() for path in (tmp_path / "up").glob("*.rknn")] == [True]


def test_a_full_queue_is_waited_for(stand_in: Any, tmp_path: Path) -> None:
    from tests.doubles.stand_in.rknnlite_stand_in import write_model

    model = write_model(tmp_path / "slow.rknn", input=ROWS, output=list(ROWS), latency_ms=100)
    words = (model, "--backend", "stand_in", "--workers", 1, "--queue", 1)
    found: list[Any] = []
    with serve(*words, path=stand_in_path(tmp_path)) as server:

        def ask(number: int) -> None:
            with rknnlite.open(model, device_id=server.grpc) as context:
                for _ in range(3):
                    try:
                        found.append(np.array_equal(context.infer(row(number))[0], row(number)))
                    except errors.DeviceUnavailable as error:
                        found.append(str(error))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found.count(True) >= 8 and False not in found
    assert all("try again" in text for text in found if text is not True)


def test_two_boards_one_of_which_dies_under_load(stand_in: Any) -> None:
    servers = [stand_in(latency_ms=5), stand_in(latency_ms=5)]
    where = ",".join(server.grpc for server in servers)
    wrong: list[Any] = []
    asked = [0]
    end = time.monotonic() + 8

    def ask(worker: int) -> None:
        with rknnlite.open(stand_in.model(), device_id=where) as context:
            while time.monotonic() < end:
                asked[0] += 1
                number = asked[0] + worker * 7
                try:
                    (got,) = context.infer(row(number))
                except errors.RknnError as error:
                    wrong.append(error)
                else:
                    if not np.array_equal(got, row(number)):
                        wrong.append((number, got))

    threads = [threading.Thread(target=ask, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    kill(servers[0])
    time.sleep(2)
    stand_in(grpc=port(servers[0]))
    for thread in threads:
        thread.join()
    assert not wrong and asked[0] > 200, (asked, wrong[:3])


def test_requests_are_spread_over_the_boards(stand_in: Any) -> None:
    servers = [stand_in(latency_ms=1), stand_in(latency_ms=1)]
    where = ",".join(server.grpc for server in servers)
    with rknnlite.open(stand_in.model(), device_id=where) as context:
        for number in range(40):
            assert np.array_equal(context.infer(row(number))[0], row(number))
    counted = []
    for server in servers:
        channel = Channel(Board((server.grpc,)))
        found = channel.call("inference.GRPCInferenceService", "ModelStatistics", 5, "counting")
        channel.close()
        counted.append(sum(model.inference_count for model in found.model_stats))
    assert sum(counted) == 40 and min(counted) >= 10, counted


def test_one_of_several_is_away(stand_in: Any, caplog: pytest.LogCaptureFixture) -> None:
    server = stand_in()
    with rknnlite.open(stand_in.model(), device_id=f"127.0.0.1:9,{server.grpc}") as context:
        for number in range(6):
            assert np.array_equal(context.infer(row(number))[0], row(number))
    assert "127.0.0.1:9" in caplog.text and "go on without it" in caplog.text


def test_boards_of_different_socs() -> None:
    model = genuine("conv_relu.rk3566.i8")  # runs on both
    with ExitStack() as stack:
        addresses = []
        for soc in ("rk3566", "rk3568"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("RKNNLITE_SOC", soc)
                addresses.append(stack.enter_context(serve(model, "--backend", "cpu", "--workers", 1)).grpc)
        for address in addresses:
            rknnlite.open(model, device_id=address).close()
        with pytest.raises(errors.TargetPlatformUnmatch) as caught:
            rknnlite.open(model, device_id=",".join(addresses))
    assert all(word in str(caught.value) for word in (*addresses, "rk3566", "rk3568"))


def test_nothing_is_left_of_contexts(tmp_path: Path) -> None:
    import gc

    import psutil

    golden = golden_of("dense.rk3588.i8")
    process = psutil.Process()

    def cycle(times: int, context: Context | None = None) -> tuple[int, int, int]:
        for number in range(times):
            context = rknnlite.open(genuine("dense.rk3588.i8"), device_id=address)
            context.infer(*golden.inputs)
            if number % 4 == 0:
                context.start()
                context.get_outputs()
            if number % 2:
                context.close()
            del context  # or dropped
        gc.collect()
        time.sleep(0.5)
        return process.memory_info().rss, len(list(Path("/proc/self/fd").iterdir())), threading.active_count()

    words = (genuine("dense.rk3588.i8"), "--backend", "cpu")
    with serve(*words) as server:
        address = server.grpc
        cycle(40)
        before = cycle(40)
        after = cycle(200)
    assert after[1] <= before[1] + 4 and after[2] <= before[2] + 1, (before, after)
    assert after[0] - before[0] < 8 << 20, (before, after)
