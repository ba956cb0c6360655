"""``rknnlite.Board``: a board tells of itself and of its networks what a context here tells."""

from __future__ import annotations

import gc
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc")

from rknnlite_insight.dumps import Dump
from rknnlite_protocol.board import Description, PerfFigures, attr_text, shapes_text
from rknnlite_protocol.board_facts import Facts
from rknnlite_protocol.grpc_codec import request_message
from rknnlite_protocol.grpc_messages import INFERENCE, message
from rknnlite_protocol.requests import InferRequest, Requested, Tensor
from rknnlite_server.networks import board_facts, board_rpc, folder_stream, inspection
from rknnlite_server.networks.board_facts import facts_of
from rknnlite_server.settings import ServerSettings

import rknnlite
from rknnlite.errors import InputInvalid, ParamInvalid, RknnError
from rknnlite.native.board import Board
from rknnlite.spi import AttrKind
from rknnlite.tensor import DType, Layout

from ..conftest import running, until
from .calling import Calls, calling, refused
from .conftest import DYNAMIC, MANY, RESNET, SOFT, Networks, inputs_of, local, path_of

OTHER = [(1, 16, 20, 3)]  # the second shape of DYNAMIC


@pytest.fixture(scope="module")
def calls(board: Networks) -> Iterator[Calls]:
    with calling(board.grpc) as made:
        yield made


def request_of(name: str, model: str = "", seed: int = 0, **parameters: Any) -> InferRequest:
    tensors = [Tensor(key, array) for key, array in inputs_of(name, seed).items()]
    return InferRequest(model or name, tensors, parameters=parameters)


def bytes_of(request: InferRequest) -> bytes:
    return bytes(request_message(request).SerializeToString())


# -- what a network is ------------------------------------------------------------------------------------


def told(context: Any, kind: AttrKind) -> Any:
    try:
        return list(context.attrs(kind))
    except RknnError as error:
        return type(error), str(error), error.code


def described(found: Description, kind: AttrKind) -> Any:
    try:
        return found.attributes(kind)
    except RknnError as error:
        return type(error), str(error), error.code


@pytest.mark.parametrize("name", [RESNET, DYNAMIC])
def test_a_description_is_what_a_context_here_tells(calls: Calls, name: str) -> None:
    found = calls.text(Description, "Describe", model_name=name)
    with rknnlite.open(path_of(name), backend="cpu") as context:
        for kind in AttrKind:
            assert described(found, kind) == told(context, kind), kind
        assert found.memory_size() == context.memory()
        assert found.versions == context.versions
        assert (found.backend, found.soc) == (context.backend_name, context.soc.name)
        assert (found.batch, found.core_num) == (context.batch, context.core_num)
        assert found.custom_string == context.custom_string
        assert [[*map(tuple, entry)] for entry in found.shapes] == context.shapes
        assert found.shape_chosen == (not context.shapes)


def test_what_a_backend_refuses_is_refused_with_its_own_words(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rknnlite_cpu.context import CpuContext

    def refuse(context: Any) -> Any:
        raise ParamInvalid("no native attributes for once")

    monkeypatch.setattr(CpuContext, "native_inputs", property(refuse))
    found = calls.text(Description, "Describe", model_name=RESNET)
    assert described(found, AttrKind.NATIVE_INPUT) == (ParamInvalid, "no native attributes for once", -5)
    assert len(found.attributes(AttrKind.NATIVE_OUTPUT)) == 1


def test_a_dynamic_shape_is_described_and_forgotten_again(calls: Calls) -> None:
    first = calls.text(Description, "Describe", model_name=DYNAMIC)
    found = calls.text(Description, "Describe", model_name=DYNAMIC, shapes=shapes_text(OTHER))
    with rknnlite.open(path_of(DYNAMIC), backend="cpu") as context:
        context.set_shapes(OTHER)
        for kind in AttrKind:
            assert described(found, kind) == told(context, kind), kind
    assert found.attrs != first.attrs
    assert calls.text(Description, "Describe", model_name=DYNAMIC) == first


@pytest.mark.parametrize(
    "name, shapes",
    [(DYNAMIC, "[[1,1,1,3]]"), (RESNET, "[[1,224,224,3]]"), (RESNET, "[["), (RESNET, '{"a":1}')],
)
def test_shapes_that_a_network_has_not_are_refused(calls: Calls, name: str, shapes: str) -> None:
    before = calls.text(Description, "Describe", model_name=name)
    with refused("INVALID_ARGUMENT", "shape"):
        calls.Describe(model_name=name, shapes=shapes)
    assert calls.text(Description, "Describe", model_name=name) == before


def test_a_network_that_is_not_here_is_not_found(calls: Calls) -> None:
    for name in ("nobody", "../resnet18_for_RK3588", "sha256-" + "0" * 64):
        with refused("NOT_FOUND"):
            calls.Describe(model_name=name)
        with refused("NOT_FOUND"):
            calls.Perf(request=bytes_of(InferRequest(name, [])))


# -- figures per layer ------------------------------------------------------------------------------------


def layers(rows: Any) -> list[Any]:
    return [(r.id, r.op, r.target, r.name, r.data_type, r.input_shape, r.output_shape, r.rw_kb) for r in rows]


def test_figures_are_those_of_a_run_here_but_for_the_times(calls: Calls) -> None:
    figures = calls.text(PerfFigures, "Perf", request=bytes_of(request_of(RESNET, core_mask=1)))
    with rknnlite.open(path_of(RESNET), backend="cpu", collect_perf=True, core_mask=1) as context:
        context.infer(inputs_of(RESNET))
        table = context.perf_table()
    found = figures.table()
    assert layers(found) == layers(table)
    assert (found.cores, found.timed_on, found.note) == (table.cores, table.timed_on, table.note)
    assert found.total_us > 0
    assert figures.run_us > 0


def test_two_runs_are_never_timed_at_once(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most, real = [], [], inspection.perf

    def watched(*arguments: Any) -> Any:
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.02)
        found = real(*arguments)
        inside.pop()
        return found

    monkeypatch.setattr(inspection, "perf", watched)
    request = bytes_of(request_of(DYNAMIC))
    threads = [threading.Thread(target=lambda: calls.Perf(request=request)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1, 1]


def test_figures_want_inputs_that_fit(calls: Calls) -> None:
    wrong = InferRequest(RESNET, [Tensor("input", np.zeros((1, 3), np.uint8))])
    with refused("INVALID_ARGUMENT", "input"):
        calls.Perf(request=bytes_of(wrong))
    with refused("INVALID_ARGUMENT"):
        calls.Perf(request=b"\xff\xff")


# -- dumps ------------------------------------------------------------------------------------------------


def temporary() -> set[str]:
    return {path.name for path in Path(tempfile.gettempdir()).glob("rknnlite-dump-*")}


@pytest.fixture
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A temporary directory that no other process writes to, and nothing of a dump there after the test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    until(lambda: not temporary())


def same_files(one: Path, other: Path) -> None:
    names = sorted(path.name for path in other.iterdir())
    assert sorted(path.name for path in one.iterdir()) == names
    for name in names:
        if name.endswith(".npy"):
            assert (one / name).read_bytes() == (other / name).read_bytes(), name
    assert Dump.read(one).names == Dump.read(other).names


@pytest.mark.usefixtures("nothing_left")
def test_a_dump_is_that_of_a_context_here(calls: Calls, tmp_path: Path) -> None:
    found = calls.dumped(request_of(DYNAMIC), tmp_path / "there")
    with rknnlite.open(path_of(DYNAMIC), backend="cpu") as context:
        context.infer(inputs_of(DYNAMIC))
        context.dump(tmp_path / "here")
    same_files(found, tmp_path / "here")


@pytest.mark.usefixtures("nothing_left")
def test_each_node_computes_on_a_golden_dump_that_comes_along(calls: Calls, tmp_path: Path) -> None:
    with rknnlite.open(path_of(DYNAMIC), backend="cpu") as context:
        context.infer(inputs_of(DYNAMIC, seed=1))
        golden = context.dump(tmp_path / "golden")
        context.infer(inputs_of(DYNAMIC))
        context.dump(tmp_path / "here", golden)
        plain = context.dump(tmp_path / "plain")
    files = sorted((tmp_path / "golden").iterdir())
    found = calls.dumped(request_of(DYNAMIC), tmp_path / "there", files)
    same_files(found, tmp_path / "here")
    last = plain.names[-1]
    assert (Dump.read(found).value(last) != plain.value(last)).any()


def golden(*pieces: tuple[str, bytes]) -> list[Any]:
    made = message("rknnlite.DumpRequest")
    first = made(request=bytes_of(request_of(DYNAMIC)))
    return [first, *(made(golden={"name": name, "data": data}) for name, data in pieces)]


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    "name", ["", "..", "../x.npy", "/etc/passwd", "a/b.npy", ".hidden", "a\0b", "x" * 300, "\\"]
)
def test_names_cannot_leave_the_folder(calls: Calls, name: str) -> None:
    with refused("INVALID_ARGUMENT", "no name"):
        list(calls.Dump(iter(golden((name, b"1")))))


@pytest.mark.usefixtures("nothing_left")
def test_golden_dumps_are_bounded_and_read_with_care(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused("INVALID_ARGUMENT", "twice"):
        list(calls.Dump(iter(golden(("a", b"1"), ("b", b"1"), ("a", b"1")))))
    with refused("INVALID_ARGUMENT", "manifest.json"):
        list(calls.Dump(iter(golden(("manifest.json", b"{")))))
    with refused("INVALID_ARGUMENT"):
        list(calls.Dump(iter([])))
    monkeypatch.setattr(folder_stream, "MOST_BYTES", 100)
    with refused("INVALID_ARGUMENT", "100 bytes"):
        list(calls.Dump(iter(golden(("a", b"1" * 60), ("a", b"1" * 60)))))
    monkeypatch.setattr(folder_stream, "MOST_FILES", 1)
    with refused("INVALID_ARGUMENT", "more than 1"):
        list(calls.Dump(iter(golden(("a", b"1"), ("b", b"1")))))


@pytest.mark.usefixtures("nothing_left")
def test_a_client_that_goes_away_leaves_no_folder(calls: Calls) -> None:
    asked = message("rknnlite.DumpRequest")(request=bytes_of(request_of(RESNET)))
    answers = calls.Dump(iter([asked]))
    next(answers)  # there are more than fit into buffers on the way
    assert temporary()
    answers.cancel()


@pytest.mark.usefixtures("nothing_left")
def test_a_client_that_sends_nothing_more_is_not_waited_for(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_rpc, "PIECE_SECONDS", 0.2)
    never = threading.Event()

    def stuck() -> Iterator[Any]:
        yield from golden(("a", b"1"))
        never.wait(30)

    try:
        with refused("DEADLINE_EXCEEDED", "0.2 s"):
            list(calls.Dump(stuck()))
    finally:
        never.set()


def test_a_folder_in_pieces_is_the_folder_again(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    for name, size in (("a.npy", 0), ("b.npy", 7), ("c.npy", 8)):
        (tmp_path / "from" / name).write_bytes(bytes(range(size)))
    pieces = list(folder_stream.pieces_of(tmp_path / "from", 4))
    assert [(name, len(piece)) for name, piece in pieces] == [
        ("a.npy", 0), ("b.npy", 4), ("b.npy", 3), ("c.npy", 4), ("c.npy", 4),
    ]  # fmt: skip
    writer = folder_stream.FolderWriter(tmp_path / "to")
    for name, piece in pieces:
        writer.add(name, piece)
    writer.close()
    for path in (tmp_path / "from").iterdir():
        assert (tmp_path / "to" / path.name).read_bytes() == path.read_bytes()
    with pytest.raises(InputInvalid, match="twice"):
        writer.add("a.npy", b"")


# -- facts ------------------------------------------------------------------------------------------------


def test_facts_are_those_of_the_kernel_and_of_the_backends(calls: Calls) -> None:
    found = calls.text(Facts, "Facts")
    here = Board()
    assert (found.kernel, found.model) == (here.kernel(), here.model())
    assert found.memory["MemTotal"] == here.memory()["MemTotal"]
    assert found.rknnlite == rknnlite.__version__
    assert {backend.name for backend in found.backends} >= {"cpu"}
    assert next(b for b in found.backends if b.name == "cpu").probe.available
    assert {RESNET, DYNAMIC} <= set(found.models)
    assert found.uploads


def test_facts_are_read_twice_a_second_at_most(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    monkeypatch.setattr(board_facts, "facts_of", lambda *about: read.append(1) or Facts("x"))
    monkeypatch.setattr(board_facts, "FRESH_SECONDS", 0.0)
    assert calls.text(Facts, "Facts").rknnlite == "x"
    monkeypatch.setattr(board_facts, "FRESH_SECONDS", 60.0)
    for _ in range(5):
        assert calls.text(Facts, "Facts").rknnlite == "x"
    assert len(read) == 1
    monkeypatch.undo()
    monkeypatch.setattr(board_facts, "FRESH_SECONDS", 0.0)
    assert calls.text(Facts, "Facts").rknnlite == rknnlite.__version__


def test_facts_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    class Broken(Board):
        def temperatures(self) -> Any:
            raise RuntimeError("a sensor from another world")

    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/model").write_bytes(b"A board\0")
    found = facts_of(Broken(tmp_path), ("a",), False)
    assert (found.model, found.temperatures, found.models) == ("A board", {}, ("a",))
    assert found.driver.problem == "missing"


def test_without_a_key_nothing_is_told(tmp_path: Path) -> None:
    settings = ServerSettings(
        grpc_port=0, allow_upload=True, upload_dir=str(tmp_path / "up"), api_keys=("secret",)
    )
    with running(settings) as served, calling(f"127.0.0.1:{served.state.rpc.port}") as calls:
        for call in (
            lambda: calls.Facts(),
            lambda: calls.Stored(sha256="0" * 64),
            lambda: calls.Upload(iter([])),
        ):
            with refused("UNAUTHENTICATED"):
                call()
        with refused("UNAUTHENTICATED"):
            list(calls.Dump(iter([])))
    assert not (tmp_path / "up").exists()


# -- bound memory -----------------------------------------------------------------------------------------


def bound_here(name: str, data: bytes, attrs_in: Any, attrs_out: Any, shapes: Any = None) -> list[bytes]:
    """What the zero-copy path gives here."""
    with rknnlite.open(path_of(name), backend="cpu") as context:
        if shapes:
            context.set_shapes(shapes)
        memories = []
        for attr in (*attrs_in, *attrs_out):
            memory = context.create_mem(
                max(attr.size, attr.size_with_stride) if attr in attrs_out else len(data)
            )
            context.bind(attr, memory)
            memories.append(memory)
        memories[0].ndarray[:] = np.frombuffer(data, np.uint8)
        context.sync(memories[0], "to_device")
        context.run()
        outputs = memories[len(attrs_in) :]
        for memory in outputs:
            context.sync(memory, "from_device")
        return [memory.ndarray.tobytes() for memory in outputs]


def bound_request(name: str, data: bytes, attrs_in: Any, attrs_out: Any, **parameters: Any) -> InferRequest:
    tensors = [
        Tensor(attr.name, np.frombuffer(data, np.uint8), {"attr": attr_text(attr)}) for attr in attrs_in
    ]
    wanted = [Requested(attr.name, {"attr": attr_text(attr)}) for attr in attrs_out]
    return InferRequest(name, tensors, wanted, parameters=parameters)


def natives(calls: Calls, name: str, **about: str) -> tuple[Any, Any]:
    found = calls.text(Description, "Describe", model_name=name, **about)
    return found.attributes(AttrKind.NATIVE_INPUT), found.attributes(AttrKind.NATIVE_OUTPUT)


def test_memory_is_bound_over_there_as_it_is_here(calls: Calls) -> None:
    attrs_in, attrs_out = natives(calls, RESNET)
    pixels = np.random.default_rng(3).integers(0, 256, attrs_in[0].dims, np.uint8).tobytes()
    from dataclasses import replace

    as_image = [replace(attrs_in[0], dtype=DType.UINT8)]
    as_float = [replace(attrs_out[0], dtype=DType.FLOAT32, size_with_stride=0)]
    for given, wanted in ((as_image, attrs_out), (as_image, as_float), (attrs_in, attrs_out)):
        (found,) = calls.infer(bound_request(RESNET, pixels, given, wanted)).outputs
        assert found.data.dtype == np.uint8
        assert [found.data.tobytes()] == bound_here(RESNET, pixels, given, wanted)
    (logits,) = calls.infer(bound_request(RESNET, pixels, as_image, as_float)).outputs
    (expected,) = local(RESNET, {"input": np.frombuffer(pixels, np.uint8).reshape(attrs_in[0].dims)}).values()
    assert (logits.data.view(np.float32) == expected.reshape(-1)).all()


def test_native_layouts_of_several_outputs_come_in_the_order_of_the_model(calls: Calls) -> None:
    name = calls.send(path_of(SOFT))
    attrs_in, attrs_out = natives(calls, name)
    assert attrs_in[0].layout is Layout.NC1HWC2
    data = np.random.default_rng(1).integers(0, 256, attrs_in[0].size_with_stride, np.uint8).tobytes()
    request = bound_request(name, data, attrs_in, attrs_out)
    expected = bound_here(SOFT, data, attrs_in, attrs_out)
    assert [t.data.tobytes() for t in calls.infer(request).outputs] == expected
    request.outputs = [*reversed(request.outputs)]
    found = {tensor.name: tensor.data.tobytes() for tensor in calls.infer(request).outputs}
    assert found == {attr.name: part for attr, part in zip(attrs_out, expected)}


def test_a_dynamic_shape_comes_with_the_memory(calls: Calls) -> None:
    shapes = shapes_text(OTHER)
    attrs_in, attrs_out = natives(calls, DYNAMIC, shapes=shapes)
    size = max(attrs_in[0].size, attrs_in[0].size_with_stride)
    data = np.random.default_rng(2).normal(size=size // 2).astype(np.float16).tobytes()
    request = bound_request(DYNAMIC, data, attrs_in, attrs_out, shapes=shapes)
    expected = bound_here(DYNAMIC, data, attrs_in, attrs_out, OTHER)
    assert [tensor.data.tobytes() for tensor in calls.infer(request).outputs] == expected
    first_in, first_out = natives(calls, DYNAMIC)  # another shape on the same contexts, and back
    most = max(first_in[0].size, first_in[0].size_with_stride)
    more = np.random.default_rng(4).normal(size=most // 2).astype(np.float16).tobytes()
    dims = [
        attr.dims
        for attr in calls.text(Description, "Describe", model_name=DYNAMIC).attributes(AttrKind.INPUT)
    ]
    other = bound_request(DYNAMIC, more, first_in, first_out, shapes=shapes_text(dims))
    assert [t.data.tobytes() for t in calls.infer(other).outputs] == bound_here(
        DYNAMIC, more, first_in, first_out, dims
    )
    assert [tensor.data.tobytes() for tensor in calls.infer(request).outputs] == expected
    request.parameters = {}
    with refused("INVALID_ARGUMENT", "shapes"):
        calls.infer(request)


def test_what_cannot_be_bound_is_refused_and_the_next_request_is_right(calls: Calls, board: Networks) -> None:
    attrs_in, attrs_out = natives(calls, RESNET)
    data = bytes(attrs_in[0].size)
    good = bound_request(RESNET, data, attrs_in, attrs_out)
    expected = calls.infer(good).outputs[0].data.tobytes()
    text = attr_text(attrs_out[0])
    damaged = [
        ("INVALID_ARGUMENT", "output", [Requested("output", {})]),
        ("INVALID_ARGUMENT", "all outputs", []),
        ("INVALID_ARGUMENT", "twice", [Requested("output", {"attr": text})] * 2),
        ("INVALID_ARGUMENT", "no output", [Requested("nothing", {"attr": text})]),
        ("INVALID_ARGUMENT", "attr", [Requested("output", {"attr": "{"})]),
        ("INVALID_ARGUMENT", "attr", [Requested("output", {"attr": True})]),
        ("INVALID_ARGUMENT", "bytes", [Requested("output", {"attr": text, "size": 1 << 40})]),
        ("INVALID_ARGUMENT", "bytes", [Requested("output", {"attr": text, "size": -1})]),
        ("INVALID_ARGUMENT", "bytes", [Requested("output", {"attr": text.replace("[1,10]", "[1,99999]")})]),
        (
            "INVALID_ARGUMENT",
            "",
            [Requested("output", {"attr": text.replace("[1,10]", f"[1,{1 << 39},{1 << 39}]")})],
        ),
        ("INVALID_ARGUMENT", "", [Requested("output", {"attr": text.replace("[1,10]", "[2,5]")})]),
        ("INVALID_ARGUMENT", "9 bytes", [Requested("output", {"attr": text, "size": 9})]),
    ]
    for code, word, outputs in damaged:
        with refused(code, word):
            calls.infer(InferRequest(RESNET, good.inputs, outputs))
    with refused("INVALID_ARGUMENT", "attr"):
        calls.infer(InferRequest(RESNET, [Tensor("input", good.inputs[0].data)], good.outputs))
    with refused("INVALID_ARGUMENT", "are needed"):
        short = [Tensor("input", good.inputs[0].data[:100], good.inputs[0].parameters)]
        calls.infer(InferRequest(RESNET, short, good.outputs))
    assert calls.infer(good).outputs[0].data.tobytes() == expected
    common = calls.infer(request_of(RESNET)).outputs[0].data
    assert (common == local(RESNET, inputs_of(RESNET))["output"]).all()


def test_contexts_for_bound_memory_are_as_many_as_workers(calls: Calls, board: Networks) -> None:
    from rknnlite_cpu.context import CpuContext

    attrs_in, attrs_out = natives(calls, DYNAMIC)
    dims = [
        attr.dims
        for attr in calls.text(Description, "Describe", model_name=DYNAMIC).attributes(AttrKind.INPUT)
    ]
    data = bytes(max(attrs_in[0].size, attrs_in[0].size_with_stride))
    request = bound_request(DYNAMIC, data, attrs_in, attrs_out, shapes=shapes_text(dims))
    calls.infer(request)
    gc.collect()
    before = sum(isinstance(thing, CpuContext) for thing in gc.get_objects())
    answers: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: answers.append(calls.infer(request).outputs[0].data.tobytes()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert len(set(answers)) == 1
    gc.collect()
    assert sum(isinstance(thing, CpuContext) for thing in gc.get_objects()) <= before


def test_who_goes_away_while_memory_is_bound_takes_no_context_along(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rknnlite_cpu.context import CpuContext

    attrs_in, attrs_out = natives(calls, RESNET)
    request = bound_request(RESNET, bytes(attrs_in[0].size), attrs_in, attrs_out)
    expected = calls.infer(request).outputs[0].data.tobytes()
    begun, go_on, real = threading.Event(), threading.Event(), CpuContext.run

    def slow(context: Any) -> None:
        begun.set()
        go_on.wait(30)
        real(context)

    monkeypatch.setattr(CpuContext, "run", slow)
    going = calls.channel.unary_unary(
        f"/{INFERENCE}/ModelInfer", request_serializer=lambda message: message.SerializeToString()
    ).future(request_message(request))
    begun.wait(30)
    going.cancel()
    go_on.set()
    monkeypatch.undo()
    opened: list[Any] = []
    monkeypatch.setattr(rknnlite, "open", lambda *given, **options: opened.append(given))
    assert calls.infer(request).outputs[0].data.tobytes() == expected
    assert not opened  # the context came back


def test_a_context_in_doubt_is_not_used_again(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    from rknnlite_cpu.context import CpuContext

    attrs_in, attrs_out = natives(calls, RESNET)
    request = bound_request(RESNET, bytes(attrs_in[0].size), attrs_in, attrs_out)
    expected = calls.infer(request).outputs[0].data.tobytes()
    seen: list[Any] = []

    def fails(context: Any) -> None:
        seen.append(context)
        raise RknnError("the NPU was reset")

    monkeypatch.setattr(CpuContext, "run", fails)
    with refused("INTERNAL", "reset"):
        calls.infer(request)
    monkeypatch.undo()
    assert [context.closed for context in seen] == [True]
    assert calls.infer(request).outputs[0].data.tobytes() == expected


# -- shapes of data that is passed through ------------------------------------------------------------------


def test_data_passed_through_names_its_shape(calls: Calls) -> None:
    array = np.random.default_rng(5).normal(size=(1, 16, 20, 3)).astype(np.float16)
    tensor = Tensor("in0", array, {"pass_through": True})
    found = calls.infer(InferRequest(DYNAMIC, [tensor], parameters={"shapes": shapes_text(OTHER)})).outputs
    with rknnlite.open(path_of(DYNAMIC), backend="cpu") as context:
        context.set_shapes(OTHER)
        expected = context.infer(array, pass_through=True)
    assert all((tensor.data == array).all() for tensor, array in zip(found, expected))
    with refused("INVALID_ARGUMENT", "shapes"):
        calls.infer(InferRequest(DYNAMIC, [tensor]))
    with refused("INVALID_ARGUMENT", "shapes"):
        calls.infer(InferRequest(DYNAMIC, [tensor], parameters={"shapes": 7}))


def test_many_outputs_and_inputs_keep_their_names(networks: Networks) -> None:
    with calling(networks.grpc) as calls:
        found = calls.text(Description, "Describe", model_name=MANY)
        with rknnlite.open(path_of(MANY), backend="cpu") as context:
            assert found.attributes(AttrKind.OUTPUT) == context.outputs
            assert found.attributes(AttrKind.INPUT) == context.inputs
