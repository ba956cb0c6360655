"""Networks that clients send: in pieces, kept under their hash, opened when they are asked for."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc")

from rknnlite_protocol.board import PIECE, Description, digest_of, stored_name
from rknnlite_protocol.board_facts import Facts
from rknnlite_protocol.grpc_messages import message
from rknnlite_protocol.requests import InferRequest, Tensor
from rknnlite_server.networks import board_rpc, inspection, uploaded_networks, uploads
from rknnlite_server.networks.network import ServedNetwork
from rknnlite_server.networks.uploads import Uploads
from rknnlite_server.settings import ServerSettings

from rknnlite.errors import InputInvalid, OutOfMemory, ParamInvalid
from rknnlite.files.writing import GrowingFile

from ..conftest import running, until
from .calling import Calls, calling, digest, pieces, refused
from .conftest import RESNET, SOFT, WHOLE, Networks, inputs_of, local, path_of

SMALL = ("dense.rk3588.i8", "conv_1x1.rk3588.i8", "softmaxes.rk3588.i8")


@pytest.fixture(scope="module")
def calls(board: Networks) -> Iterator[Calls]:
    with calling(board.grpc) as made:
        yield made


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Any]:
    """Starts servers of this test's own: settings in, calls out."""
    with ExitStack() as stack:

        def begin(**settings: Any) -> Calls:
            given = {"allow_upload": True, "upload_dir": str(tmp_path / "up"), "backend": "cpu", "workers": 1}
            served = stack.enter_context(running(ServerSettings(grpc_port=0, **{**given, **settings})))
            calls = stack.enter_context(calling(f"127.0.0.1:{served.state.rpc.port}"))
            calls.state = served.state
            return calls

        yield begin


def request_of(name: str, model: str) -> InferRequest:
    return InferRequest(model, [Tensor(key, array) for key, array in inputs_of(name).items()])


def check(calls: Calls, name: str, model: str) -> None:
    """The network answers as one here."""
    expected = local(name, inputs_of(name))
    found = calls.infer(request_of(name, model))
    assert found.model_name == model
    assert [tensor.name for tensor in found.outputs] == list(expected)
    for tensor in found.outputs:
        assert np.array_equal(tensor.data, expected[tensor.name], equal_nan=True)


def unlike(data: bytes, number: int = 0) -> bytes:
    """Other bytes that nobody sent before."""
    return data + b"\0" * number + os.urandom(8)


# -- on the way -------------------------------------------------------------------------------------------


def test_a_network_travels_once_and_answers_as_one_here(calls: Calls, board: Networks) -> None:
    name = calls.send(path_of(SOFT))
    assert name == stored_name(digest(path_of(SOFT).read_bytes()))
    check(calls, SOFT, name)
    metadata = calls.ModelMetadata(name=name)
    assert (metadata.name, metadata.inputs[0].name) == (name, "in0")
    assert calls.ModelReady(name=name).ready
    assert name in calls.text(Facts, "Facts").models
    answer = calls.Upload(iter(pieces(path_of(SOFT).read_bytes())[:1]))  # again: nothing need come
    assert answer.complete


def test_a_network_that_was_sent_answers_rest_too(calls: Calls, board: Networks) -> None:
    name = calls.send(path_of(SOFT))
    (array,) = inputs_of(SOFT).values()
    tensor = {"name": "in0", "datatype": "FP32", "shape": list(array.shape), "data": array.ravel().tolist()}
    answer = board.http.post(f"/v2/models/{name}/infer", json={"inputs": [tensor]})
    assert answer.status_code == 200, answer.text
    expected = local(SOFT, inputs_of(SOFT))
    for output in answer.json()["outputs"]:
        assert output["data"] == expected[output["name"]].ravel().tolist()
    assert board.http.get(f"/v2/models/{name}").json()["name"] == name
    assert board.http.get(f"/v2/models/{name}/ready").status_code == 200
    unknown = board.http.get(f"/v2/models/{stored_name('3' * 64)}")
    assert (unknown.status_code, "send its file" in unknown.text) == (404, True)
    # it is nobody's business what others sent
    assert name not in board.http.post("/v2/repository/index").text


def test_who_goes_away_while_a_network_is_opened_harms_nobody(
    own: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = own(networks=())
    model = calls.send(path_of(SMALL[0]))
    begun, go_on, opened = threading.Event(), threading.Event(), []
    real = uploaded_networks.ServedNetwork

    def slow(*given: Any) -> Any:
        opened.append(given)
        begun.set()
        go_on.wait(30)
        return real(*given)

    monkeypatch.setattr(uploaded_networks, "ServedNetwork", slow)
    going = calls.channel.unary_unary("/inference.GRPCInferenceService/ModelMetadata").future(
        message("inference.ModelMetadataRequest")(name=model).SerializeToString()
    )
    begun.wait(30)
    going.cancel()
    go_on.set()
    check(calls, SMALL[0], model)
    assert len(opened) == 1


def test_an_upload_goes_on_where_it_ended(calls: Calls) -> None:
    data = unlike(bytes(3 * PIECE))
    sha256 = digest(data)
    assert not calls.Stored(sha256=sha256).size
    first = calls.Upload(iter(pieces(data)[:1]))
    assert (first.size, first.complete) == (PIECE, False)
    stored = calls.Stored(sha256=sha256, size=len(data))
    assert (stored.size, stored.complete) == (PIECE, False)
    rest = calls.Upload(iter(pieces(data, PIECE)))
    assert (rest.size, rest.complete) == (len(data), True)
    assert calls.Stored(sha256=sha256).complete


def test_all_bytes_and_no_answer_is_made_good_by_an_empty_piece(calls: Calls, board: Networks) -> None:
    data = unlike(b"all of it")
    (board.folder / f"{digest(data)}.part").write_bytes(data)  # killed before it was put into place
    with refused("NOT_FOUND"):
        calls.infer(InferRequest(stored_name(digest(data)), []))
    assert calls.Upload(iter(pieces(data, len(data)))).complete
    assert (board.folder / f"{digest(data)}.rknn").read_bytes() == data


@pytest.mark.parametrize("offset", [1, 5, 1 << 40])
def test_an_offset_that_is_not_the_end_is_refused(calls: Calls, offset: int) -> None:
    data = unlike(b"offsets")
    made = message("rknnlite.UploadPiece")
    with refused("INVALID_ARGUMENT", "at byte 0", f"not at {offset}"):
        calls.Upload(iter([made(sha256=digest(data), total=len(data), offset=offset, data=data)]))
    assert calls.Stored(sha256=digest(data)).size == 0


def test_other_bytes_than_announced_are_never_kept(calls: Calls, board: Networks) -> None:
    data = unlike(b"wrong")
    wrong = "0" * 63 + "1"
    with refused("INVALID_ARGUMENT", digest(data), wrong):
        calls.Upload(iter(pieces(data, sha256=wrong)))
    assert calls.Stored(sha256=wrong).size == 0
    assert not list(board.folder.glob(f"{wrong}*"))
    with refused("NOT_FOUND"):
        calls.infer(InferRequest(stored_name(wrong), []))


def test_more_bytes_than_announced_are_refused(calls: Calls, board: Networks) -> None:
    data = unlike(b"more")
    made = message("rknnlite.UploadPiece")
    sent = [made(sha256=digest(data), total=len(data), data=data), made(data=b"1")]
    with refused("INVALID_ARGUMENT", "more came"):
        calls.Upload(iter(sent))
    assert not list(board.folder.glob(f"{digest(data)}*"))


@pytest.mark.parametrize("total", [0, 50_000_001, (1 << 64) - 1])
def test_a_size_that_cannot_be_kept_is_refused_at_once(calls: Calls, board: Networks, total: int) -> None:
    made = message("rknnlite.UploadPiece")
    with refused("INVALID_ARGUMENT", str(total), "--upload-bytes"):
        calls.Upload(iter([made(sha256="1" * 64, total=total, data=b"1")]))
    assert not list(board.folder.glob("1111*"))


@pytest.mark.parametrize(
    "name", ["", "0" * 63, "0" * 65, "A" * 64, "../" + "0" * 61, "0" * 63 + "/", "0" * 63 + "\n"]
)
def test_what_is_no_hash_is_refused(calls: Calls, board: Networks, name: str) -> None:
    made = message("rknnlite.UploadPiece")
    before = sorted(board.folder.iterdir())
    with refused("INVALID_ARGUMENT", "SHA-256"):
        calls.Stored(sha256=name)
    with refused("INVALID_ARGUMENT", "SHA-256"):
        calls.Upload(iter([made(sha256=name, total=1, data=b"1")]))
    with refused("NOT_FOUND"):
        calls.infer(InferRequest(f"sha256-{name}", []))
    assert sorted(board.folder.iterdir()) == before


def test_an_empty_stream_is_no_upload(calls: Calls) -> None:
    with refused("INVALID_ARGUMENT", "without a piece"):
        calls.Upload(iter([]))


def test_two_clients_may_send_the_same_file_at_once(calls: Calls, board: Networks) -> None:
    data = unlike(bytes(2 * PIECE))
    halfway, go_on = threading.Event(), threading.Event()

    def slowly() -> Iterator[Any]:
        first, *rest = pieces(data)
        yield first
        halfway.set()
        go_on.wait(30)
        yield from rest

    found: list[Any] = []
    one = threading.Thread(target=lambda: found.append(calls.Upload(slowly())))
    one.start()
    halfway.wait(30)
    until(lambda: calls.Stored(sha256=digest(data)).size == PIECE)
    other = threading.Thread(target=lambda: found.append(calls.Upload(iter(pieces(data)))))
    other.start()
    time.sleep(0.2)
    assert not found  # the second one waits
    go_on.set()
    one.join(30)
    other.join(30)
    assert [(answer.complete, answer.size) for answer in found] == [(True, len(data))] * 2
    assert (board.folder / f"{digest(data)}.rknn").read_bytes() == data


def test_a_client_that_holds_a_file_is_not_waited_for_without_end(
    calls: Calls, board: Networks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_rpc, "_OTHERS_SECONDS", 0.1)
    data = unlike(b"held")
    part = GrowingFile(board.folder / f"{digest(data)}.part")
    try:
        with refused("UNAVAILABLE", "another client"):
            calls.Upload(iter(pieces(data)))
    finally:
        part.close()
    assert calls.Upload(iter(pieces(data))).complete


def test_a_client_that_stops_sending_is_let_go_and_may_go_on(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_rpc, "PIECE_SECONDS", 0.2)
    data, never = unlike(bytes(PIECE)), threading.Event()

    def stuck() -> Iterator[Any]:
        yield pieces(data)[0]
        never.wait(30)

    try:
        with refused("DEADLINE_EXCEEDED", "0.2 s"):
            calls.Upload(stuck())
    finally:
        never.set()
    assert calls.Upload(iter(pieces(data, PIECE))).complete


def test_a_client_of_a_byte_a_second_is_let_go(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_rpc, "PIECE_SECONDS", 0.3)
    monkeypatch.setattr(board_rpc, "SLOWEST", 1 << 20)
    data = unlike(b"slow" * 5)

    def slowly() -> Iterator[Any]:
        for piece in pieces(data, size=1):
            yield piece
            time.sleep(0.05)

    with refused("DEADLINE_EXCEEDED", "slower than"):
        calls.Upload(slowly())
    kept = calls.Stored(sha256=digest(data)).size
    assert 0 < kept < len(data)
    assert calls.Upload(iter(pieces(data, kept))).complete


def test_a_client_that_goes_away_lets_the_file_go(calls: Calls, board: Networks) -> None:
    data, never = unlike(bytes(PIECE)), threading.Event()

    def stuck() -> Iterator[Any]:
        yield pieces(data)[0]
        never.wait(30)

    with calling(board.grpc) as other:
        failed: list[Any] = []

        def send() -> None:
            try:
                other.Upload(stuck())
            except Exception as error:  # the channel is closed
                failed.append(error)

        thread = threading.Thread(target=send)
        thread.start()
        until(lambda: calls.Stored(sha256=digest(data)).size == PIECE)
    never.set()
    thread.join(30)
    assert failed
    assert calls.Upload(iter(pieces(data, PIECE))).complete


def test_a_full_disk_is_told_and_leaves_nothing(
    calls: Calls, board: Networks, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, real = unlike(b"full"), GrowingFile.append

    def full(part: GrowingFile, piece: bytes) -> None:
        real(part, piece[:2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(GrowingFile, "append", full)
    with refused("RESOURCE_EXHAUSTED", "No space left", "--upload-dir"):
        calls.Upload(iter(pieces(data)))
    assert not list(board.folder.glob(f"{digest(data)}*"))
    monkeypatch.undo()
    assert calls.Upload(iter(pieces(data))).complete


# -- who may ------------------------------------------------------------------------------------------------


def test_without_permission_nothing_is_taken(networks: Networks, tmp_path: Path) -> None:
    data = path_of("dense.rk3588.i8").read_bytes() + b"1"
    with calling(networks.grpc) as calls:
        for call in (
            lambda: calls.Upload(iter(pieces(data))),
            lambda: calls.Upload(iter([])),
            lambda: calls.Stored(sha256=digest(data)),
        ):
            with refused("PERMISSION_DENIED", "--allow-upload"):
                call()
        with refused("NOT_FOUND"):
            calls.infer(InferRequest(stored_name(digest(data)), []))
        assert not calls.text(Facts, "Facts").uploads


@pytest.mark.parametrize("name", [SOFT, "conv_1x1.rk3588.i8"])
def test_a_file_that_the_server_has_itself_need_not_travel(networks: Networks, name: str) -> None:
    """One that it serves, and one that lies in its repository and is not loaded."""
    data = path_of(name).read_bytes()
    with calling(networks.grpc) as calls:
        stored = calls.Stored(sha256=digest(data), size=len(data))
        assert (stored.size, stored.complete) == (len(data), True)
        check(calls, name, stored_name(digest(data)))
        loaded = [network.name for network in networks.state.repository.uploaded.loaded]
        assert (stored_name(digest(data)) in loaded) == (name != SOFT)


def test_each_file_of_the_server_is_hashed_once(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = own(networks=(str(path_of(SOFT)), str(path_of(WHOLE))), allow_upload=False)
    read, real = [], uploaded_networks.digest_of_file
    monkeypatch.setattr(
        uploaded_networks, "digest_of_file", lambda path: read.append(path.name) or real(path)
    )
    data = path_of(SOFT).read_bytes()
    assert not read
    for _ in range(3):
        assert calls.Stored(sha256=digest(data), size=len(data)).complete
    assert read == [f"{SOFT}.rknn"]  # the other one has another size
    for _ in range(3):
        with refused("PERMISSION_DENIED"):
            calls.Stored(sha256="2" * 64)
    assert sorted(read) == sorted([f"{SOFT}.rknn", f"{WHOLE}.rknn"])


def test_a_file_that_was_replaced_no_longer_stands_for_its_old_content(own: Any, tmp_path: Path) -> None:
    place = tmp_path / "served.rknn"
    shutil.copy(path_of("dense.rk3588.i8"), place)
    old, new = (path_of(name).read_bytes() for name in ("dense.rk3588.i8", "conv_1x1.rk3588.i8"))
    calls = own(networks=(str(place),), allow_upload=False)
    check(calls, "dense.rk3588.i8", stored_name(digest(old)))
    (tmp_path / "fresh").write_bytes(new)
    (tmp_path / "fresh").replace(place)
    with refused("NOT_FOUND"):
        calls.infer(InferRequest(stored_name(digest(old)), []))
    check(calls, "conv_1x1.rk3588.i8", stored_name(digest(new)))
    check(calls, "dense.rk3588.i8", "served")  # it was opened as that


# -- what is kept -------------------------------------------------------------------------------------------


def receive(kept: Uploads, data: bytes) -> str:
    receiving = kept.receive(digest(data), len(data), 0)
    try:
        receiving.append(data)
        assert receiving.finish().complete
    finally:
        receiving.close()
    return digest(data)


def aged(folder: Path, sha256: str, seconds: float) -> None:
    then = time.time() - seconds
    for path in folder.glob(f"{sha256}*"):
        os.utime(path, (then, then))


def test_files_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    sha256 = receive(Uploads(str(folder), 1000), b"private")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / f"{sha256}.rknn").stat().st_mode & 0o777 == 0o600


def test_a_folder_of_others_is_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(ParamInvalid, match="written by other users"):
        receive(Uploads(str(tmp_path), 1000), b"public")
    with pytest.raises(ParamInvalid, match="--upload-dir"):
        Uploads("/proc/nowhere", 1000).stored("0" * 64)


def test_without_a_folder_it_is_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path / "cache"))
    sha256 = receive(Uploads("", 1000), b"cached")
    assert (tmp_path / "cache" / "uploads" / f"{sha256}.rknn").read_bytes() == b"cached"


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    kept = Uploads(str(tmp_path), 100)
    one, two, three = (receive(kept, bytes([number]) * 30) for number in range(3))
    for number, sha256 in enumerate((one, two, three)):
        aged(tmp_path, sha256, 100 - number)
    held = kept.hold(one)
    assert held is not None
    held.close()  # used just now
    four = receive(kept, b"4" * 30)
    assert [kept.stored(sha256).complete for sha256 in (one, two, three, four)] == [True, False, True, True]
    receive(kept, b"5" * 100)
    assert [path.suffix for path in tmp_path.iterdir()] == [".rknn"]


def test_what_is_in_use_stays(tmp_path: Path) -> None:
    kept, other = Uploads(str(tmp_path), 100), Uploads(str(tmp_path), 100)  # another server's
    one = receive(kept, b"1" * 60)
    held = other.hold(one)
    assert held is not None
    with pytest.raises(OutOfMemory, match=r"60 bytes of 100 .*--upload-bytes"):
        receive(kept, b"2" * 60)
    assert [path.name for path in tmp_path.iterdir()] == [f"{one}.rknn"]
    held.close()
    receive(kept, b"2" * 60)
    assert kept.hold(one) is None


def test_files_on_their_way_are_counted_as_a_whole(tmp_path: Path) -> None:
    kept = Uploads(str(tmp_path), 100)
    receiving = kept.receive(digest(b"1" * 60), 60, 0)
    with pytest.raises(OutOfMemory, match=r"0 bytes of 100 .* 120 are"):
        kept.receive(digest(b"2" * 60), 60, 0)
    receiving.append(b"1" * 60)
    receiving.close()
    part = tmp_path / f"{digest(b'1' * 60)}.part"
    assert part.stat().st_size == 60
    receive(kept, b"2" * 60)  # the part makes room
    assert not part.exists()


def test_the_number_of_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MOST_FILES", 3)
    kept = Uploads(str(tmp_path), 1000)
    for number in range(6):
        aged(tmp_path, receive(kept, bytes([number])), 100 - number)
    assert len(list(tmp_path.iterdir())) == 3
    assert kept.stored(digest(bytes([5]))).complete


def test_parts_go_after_a_day(tmp_path: Path) -> None:
    kept = Uploads(str(tmp_path), 1000)
    for data, age in ((b"old", 25 * 3600), (b"new", 23 * 3600)):
        receiving = kept.receive(digest(data), 100, 0)
        receiving.append(data)
        receiving.close()
        aged(tmp_path, digest(data), age)
    aged(tmp_path, receive(kept, b"whole"), 1e6)
    (tmp_path / "something else").write_bytes(b"1")
    assert kept.stored(digest(b"old")).size == 0  # whoever asks, old parts go
    assert not (tmp_path / f"{digest(b'old')}.part").exists()
    assert kept.stored(digest(b"new")).size == 3
    assert kept.stored(digest(b"whole")).complete
    assert (tmp_path / "something else").exists()


def test_a_part_that_is_too_long_begins_anew(tmp_path: Path) -> None:
    kept = Uploads(str(tmp_path), 1000)
    (tmp_path / f"{digest(b'abc')}.part").write_bytes(b"abcdef")
    with pytest.raises(ParamInvalid, match="begins anew"):
        kept.receive(digest(b"abc"), 3, 6)
    receive(kept, b"abc")


def test_a_damaged_part_is_noticed_at_its_end(tmp_path: Path) -> None:
    """Blocks that never reached the disk before the power went."""
    kept = Uploads(str(tmp_path), 1000)
    (tmp_path / f"{digest(b'abcdef')}.part").write_bytes(b"\0\0\0")
    receiving = kept.receive(digest(b"abcdef"), 6, 3)
    receiving.append(b"def")
    with pytest.raises(InputInvalid, match="send the file again"):
        receiving.finish()
    receiving.close()
    assert not list(tmp_path.iterdir())


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"abc")
    folder = tmp_path / "up"
    kept = Uploads(str(folder), 1000)
    assert not kept.stored("0" * 64).size
    (folder / f"{digest(b'abc')}.rknn").symlink_to(target)
    (folder / f"{digest(b'abcd')}.part").symlink_to(target)
    assert kept.hold(digest(b"abc")) is None
    with pytest.raises(OutOfMemory, match="cannot be kept"):
        kept.receive(digest(b"abcd"), 4, 3)
    assert target.read_bytes() == b"abc"


def test_nothing_stays_open(tmp_path: Path) -> None:
    kept = Uploads(str(tmp_path), 100)

    def everything() -> int:
        sha256 = receive(kept, b"1" * 60)
        held = kept.hold(sha256)
        assert held is not None
        for data, offset, total in ((b"2" * 60, 0, 60), (b"3", 1, 1), (b"4", 0, 101)):
            with pytest.raises((ParamInvalid, OutOfMemory)):
                kept.receive(digest(data), total, offset)
        held.close()
        held.close()
        part = kept.receive(digest(b"5"), 1, 0)
        with pytest.raises(BlockingIOError):
            kept.receive(digest(b"5"), 1, 0)
        part.close()
        assert kept.hold(digest(b"5")) is None
        return len(list(Path("/proc/self/fd").iterdir()))

    before = everything()
    assert everything() <= before
    assert [path.suffix for path in tmp_path.iterdir()] == [".rknn"]


# -- what is open -------------------------------------------------------------------------------------------


def test_two_are_open_at_a_time_and_the_one_unused_for_longest_is_closed(
    calls: Calls, board: Networks
) -> None:
    names = {name: calls.send(path_of(name)) for name in SMALL}
    for name in (*SMALL, SMALL[0]):
        check(calls, name, names[name])
    loaded = {network.name for network in board.state.repository.uploaded.loaded}
    assert loaded == {names[SMALL[2]], names[SMALL[0]]}
    assert sum(thread.name.startswith("rknnlite-pool-") for thread in threading.enumerate()) >= 4


def test_when_all_are_busy_the_client_is_sent_away(
    calls: Calls, board: Networks, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [calls.send(path_of(name)) for name in SMALL]
    for name, model in zip(SMALL[:2], names):
        check(calls, name, model)
    monkeypatch.setattr(ServedNetwork, "idle", property(lambda network: False))
    with refused("RESOURCE_EXHAUSTED", "2 networks", "--upload-models"):
        calls.infer(request_of(SMALL[2], names[2]))
    monkeypatch.undo()
    check(calls, SMALL[2], names[2])


def test_a_busy_network_is_not_idle(calls: Calls, board: Networks, monkeypatch: pytest.MonkeyPatch) -> None:
    model = calls.send(path_of(SMALL[0]))
    check(calls, SMALL[0], model)
    network = next(n for n in board.state.repository.uploaded.loaded if n.name == model)
    assert network.idle
    begun, go_on, real = threading.Event(), threading.Event(), inspection.describe

    def slow(*arguments: Any) -> Any:
        begun.set()
        go_on.wait(30)
        return real(*arguments)

    monkeypatch.setattr(inspection, "describe", slow)
    asker = threading.Thread(target=lambda: calls.Describe(model_name=model))
    asker.start()
    begun.wait(30)
    assert not network.idle
    go_on.set()
    asker.join(30)
    until(lambda: network.idle)


def test_after_ten_idle_minutes_a_network_is_closed(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploaded_networks, "_LOOK_SECONDS", 0.05)
    calls, before = own(networks=()), set(threading.enumerate())
    model = calls.send(path_of(SMALL[0]))
    check(calls, SMALL[0], model)
    kept = calls.state.repository.uploaded
    workers = {thread for thread in set(threading.enumerate()) - before if "pool" in thread.name}
    assert workers
    time.sleep(0.2)
    assert len(kept.loaded) == 1
    monkeypatch.setattr(uploaded_networks, "IDLE_SECONDS", 0.0)
    until(lambda: not kept.loaded)
    until(lambda: not any(thread.is_alive() for thread in workers))
    monkeypatch.undo()
    check(calls, SMALL[0], model)


def test_a_network_that_was_damaged_on_the_disk_is_asked_for_again(own: Any, tmp_path: Path) -> None:
    calls = own(networks=())
    model = calls.send(path_of(SMALL[0]))
    file = tmp_path / "up" / f"{digest_of(model)}.rknn"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with refused("NOT_FOUND", "send its file"):
        calls.infer(request_of(SMALL[0], model))
    assert not file.exists()
    assert calls.send(path_of(SMALL[0])) == model
    check(calls, SMALL[0], model)


def test_what_is_no_network_is_told_and_never_run(calls: Calls) -> None:
    import pickle

    class Hostile:
        def __reduce__(self) -> Any:
            return os.system, ("touch /tmp/rknnlite-was-here",)

    for data in (
        unlike(b"no network"),
        pickle.dumps(Hostile()) + os.urandom(4),
        unlike(path_of(SMALL[0]).read_bytes()[:3000]),
    ):
        assert calls.Upload(iter(pieces(data))).complete
        with refused("FAILED_PRECONDITION"):
            calls.infer(InferRequest(stored_name(digest(data)), []))
        assert not calls.ModelReady(name=stored_name(digest(data))).ready
    assert not Path("/tmp/rknnlite-was-here").exists()


def test_another_server_on_the_same_folder_goes_on(own: Any) -> None:
    first = own(networks=())
    model = first.send(path_of(SOFT))
    check(first, SOFT, model)
    second = own(networks=())
    check(second, SOFT, model)
    assert second.text(Description, "Describe", model_name=model).model_name == model


# -- a server that is killed ----------------------------------------------------------------------------------


@contextmanager
def process(tmp_path: Path, *arguments: str) -> Iterator[tuple[Any, str]]:
    """``rknnlite serve`` in a process of its own, and the address of its gRPC."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable, "-m", "rknnlite", "serve", "--port", "0", "--grpc-port", str(port), "--backend", "cpu",
        "--workers", "1", "--allow-upload", "--upload-dir", str(tmp_path / "up"), *arguments,
    ]  # fmt: skip
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        with calling(f"127.0.0.1:{port}") as calls:

            def ready() -> bool:
                try:
                    return bool(calls.ServerReady().ready)
                except Exception:
                    assert server.poll() is None, server.stderr.read()
                    return False

            until(ready)
        yield server, f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.communicate()


@pytest.mark.slow
def test_a_server_killed_during_an_upload_goes_on_with_it(tmp_path: Path) -> None:
    data = unlike(bytes(4 * PIECE))
    with process(tmp_path) as (server, address), calling(address) as calls:

        def stuck() -> Iterator[Any]:
            yield from pieces(data)[:2]
            until(lambda: server.poll() is not None)

        failure: list[Any] = []

        def send() -> None:
            with refused("UNAVAILABLE"):
                calls.Upload(stuck())
            failure.append(True)

        sender = threading.Thread(target=send)
        sender.start()
        with calling(address) as other:
            until(lambda: other.Stored(sha256=digest(data)).size == 2 * PIECE)
        server.send_signal(signal.SIGKILL)
        server.wait()
        sender.join(30)
        assert failure
    with process(tmp_path) as (_, address), calling(address) as calls:
        with refused("NOT_FOUND"):
            calls.infer(InferRequest(stored_name(digest(data)), []))
        stored = calls.Stored(sha256=digest(data))
        assert (stored.size, stored.complete) == (2 * PIECE, False)
        assert calls.Upload(iter(pieces(data, 2 * PIECE))).complete
    assert [path.name for path in (tmp_path / "up").iterdir()] == [f"{digest(data)}.rknn"]


@pytest.mark.slow
def test_a_server_killed_during_inference_answers_again_without_an_upload(tmp_path: Path) -> None:
    resnet = path_of(RESNET)
    with process(tmp_path) as (server, address), calling(address) as calls:
        model = calls.send(resnet)
        check(calls, RESNET, model)
        request, outcomes = request_of(RESNET, model), []

        def ask() -> None:
            try:
                while True:
                    outcomes.append(calls.infer(request).outputs[0].data.tobytes())
            except Exception as error:
                outcomes.append(error.code().name)  # type: ignore[attr-defined]

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(outcomes) > 4)
        server.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join(30)
    expected = local(RESNET, inputs_of(RESNET))["output"].tobytes()
    assert set(outcomes) == {expected, "UNAVAILABLE"}
    assert outcomes.count("UNAVAILABLE") == 4
    with process(tmp_path) as (_, address), calling(address) as calls:
        assert calls.Stored(sha256=digest(resnet.read_bytes())).complete
        check(calls, RESNET, model)
