"""Readers that take bytes or a text by themselves: one row each, with seeds from which the damage goes on.

``use`` raises what the reader refuses with; a row names what that may be besides an ``RknnError``. Wires are read from a socket
whose other end has sent the damaged bytes and is closed, as a peer that fails would leave it.
"""

from __future__ import annotations

import io
import json
import math
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from rknnlite_cplugin.library import _check_header
from rknnlite_insight.onnx_run import dump_onnx
from rknnlite_librknnrt.context_thread import ContextThread
from rknnlite_librknnrt.open_contexts import OpenContexts
from rknnlite_librknnrt.protocol import Call, Wire
from rknnlite_llm import isolated_tokenizer
from rknnlite_llm.chat_template import JinjaTemplate
from rknnlite_llm.container.safetensors import SafeTensors
from rknnlite_llm.gbnf_lark import lark_of_gbnf
from rknnlite_llm.gguf import read_gguf
from rknnlite_llm.schemas import schema_text
from rknnlite_llm.template_budget import RenderStopped
from rknnlite_npu.machine.machine import Machine
from rknnlite_npu.machine.memory import Memory
from rknnlite_npu.placement import Bases
from rknnlite_npu.submission import plan
from rknnlite_protocol import grpc_codec, rest_codec
from rknnlite_protocol.grpc_messages import message
from rknnlite_protocol.requests import InferRequest, Tensor
from rknnlite_rkllm.model_file import RkllmFile
from rknnlite_rkllm.wire import Channel, Message
from rknnlite_server.settings import ServerSettings, settings_from_params
from rknnlite_speech.compressed import MEDIA, read_sound, sound_file
from rknnlite_speech.sound import Sound, wav_bytes

import rknnlite
from rknnlite.errors import RknnError
from rknnlite.extras import EXTRAS
from rknnlite.files.arrays import array_of, read_archive
from rknnlite.formats import ModelFile
from tests.support import damage, llm_damage, npu_damage
from tests.support.corpus import genuine
from tests.support.npu_damage import npu_files, use_plan
from tests.support.onnx_damage import edited_networks

__all__ = ["READERS", "Reader", "used"]

ROOT = Path(__file__).resolve().parents[2]
_MOST = 1 << 20
_PORTED = ("embedding.rk3588.i8", "product_tails.rk3588.i8", "per_tensor.rk3588.i8")
GBNF = 'root ::= item ("," ws item)* | "[" [a-z0-9^\\]]{2,5} "]"\nitem ::= "a" | number?\nnumber ::= [0-9]+\nws ::= " "*\n'
TEMPLATE = (
    "{% for m in messages %}{% if loop.first and m.role == 'system' %}{{ bos_token }}{% endif %}<|{{ m['role'] }}|>"
    "{{ m.content | trim }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SCHEMA: dict[str, Any] = {
    "type": "object", "required": ["a"], "additionalProperties": False,
    "properties": {"a": {"type": "string", "maxLength": 5, "pattern": "^x+$"}, "b": {"$ref": "#/$defs/n"}},
    "$defs": {"n": {"type": "array", "items": {"enum": [1, None, "z"]}, "minItems": 1, "maxItems": 3}},
}  # fmt: skip
BODY: dict[str, Any] = {
    "id": "7", "parameters": {"binary_data_output": True},
    "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [[1.5, 2]]},
        {"name": "y", "datatype": "UINT8", "shape": [3], "parameters": {"binary_data_size": 3}},
    ],
    "outputs": [{"name": "z", "parameters": {"binary_data": False}}],
}  # fmt: skip
SERVER: dict[str, Any] = {
    "host": "127.0.0.1", "port": 8080, "timeout": 600,
    "models": {
        "m": {
            "model": "m.rknn", "weight": "m.weight", "vocab": "m.gguf", "embed": "m.bin", "ctx-size": 1024, "predict": 64, "temp": 0.7,
            "top-k": 40, "top-p": 0.9, "repeat-penalty": 1.1, "img-width": 448, "embedding": False, "qwenvl": 0,
        },
        "n": {"model": "n.rknn", "alias": "other", "draft": "d.rknn", "lora": "l", "device-id": "1", "chat-template-file": "t.jinja"},
    },
}  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """One row. ``edits`` gives damage behind the first check, of seeds that are described by JSON."""

    seeds: Callable[[], Sequence[bytes]]
    use: Callable[[bytes, Path], object]
    refusals: tuple[type[BaseException], ...] = ()
    edits: Callable[[], st.SearchStrategy[bytes]] | None = None
    allowance: int = 64 << 20
    """Bytes that may be allocated whatever is read."""

    def inputs(self) -> st.SearchStrategy[bytes]:
        """Damaged seeds."""
        ways = [llm_damage.blind(seed) for seed in self.seeds()]
        return st.one_of([*ways, self.edits()] if self.edits is not None else ways)


def used(reader: Reader, data: bytes, folder: Path) -> bool:
    """Whether the reader takes these bytes; raises for what is no refusal, or leaves descriptors open whenever it is used."""
    before = _descriptors()
    taken = _taken(reader, data, folder)
    between = _descriptors()
    if between > before:  # what is opened once stays open: a library that came with it, say
        _taken(reader, data, folder)
        assert _descriptors() <= between, (
            f"{_descriptors()} descriptors are open, {between} and {before} were before"
        )
    return taken


def _taken(reader: Reader, data: bytes, folder: Path) -> bool:
    try:
        with llm_damage.damage.limits(llm_damage.SECONDS, reader.allowance + llm_damage.PER_BYTE * len(data)):
            reader.use(data, folder)
    except RknnError as error:
        llm_damage.told(error)
        return False
    except reader.refusals:
        return False
    return True


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# -- files ---------------------------------------------------------------------------------------------------


def _npy() -> list[bytes]:
    made = []
    for array in (
        np.arange(6, dtype=np.float16).reshape(2, 3),
        np.asfortranarray(np.ones((2, 2), ">i4")),
        np.array(1),
    ):
        file = io.BytesIO()
        np.save(file, array)
        made.append(file.getvalue())
    return made


def _npz() -> list[bytes]:
    made = []
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, x=np.arange(6.0), y=np.zeros((2, 3), np.uint8))
        made.append(file.getvalue())
    return made


def _use_npz(data: bytes, folder: Path) -> object:
    path = folder / "arrays.npz"
    path.write_bytes(data)
    return read_archive(path, lambda names: names, _MOST)


def _sounds() -> list[bytes]:
    """All kinds that are read here."""
    sound = Sound(np.sin(np.arange(800, dtype=np.float32)), 16_000)
    packed = [] if EXTRAS["sound"].lacking else [sound_file(sound, form) for form in MEDIA]
    return [wav_bytes(sound), *packed]


def _safetensors() -> list[bytes]:
    return [_safetensors_of({"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
                             "b": {"dtype": "BF16", "shape": [4], "data_offsets": [16, 24]}, "__metadata__": {"k": "v"}})]  # fmt: skip


def _safetensors_of(header: Any) -> bytes:
    text = llm_damage.dumped(header)
    return struct.pack("<Q", len(text)) + text + bytes(24)


def _use_safetensors(data: bytes, folder: Path) -> object:
    file = SafeTensors(memoryview(data))
    return [file.float32(name) for name in file.names]


def _gguf() -> list[bytes]:
    return [(ROOT / "examples/llm_chat/models/tiny.tokenizer.gguf").read_bytes()]


def _rkllm() -> list[bytes]:
    """A head as it has been seen, numbers behind it, and what the toolkit writes at the end."""
    return [b"RKLL" + struct.pack("<IQQ", 3, 12, 40) + bytes(4096) + b'{"toolkit_version": "1.2.1b1"}']


def _elf() -> list[bytes]:
    libraries = Path(np.__file__).parent.rglob("*.so")
    return [min(libraries, key=lambda path: path.stat().st_size).read_bytes()]


def _use_elf(data: bytes, folder: Path) -> object:
    path = folder / "plugin.so"
    path.write_bytes(data)
    return _check_header(path)


@cache
def _onnx() -> list[bytes]:
    """Networks of our own in the form that the toolkit gets: tokens, products with roundings inside, weights as a whole."""
    return [rknnlite.to_onnx(genuine(name), "qdq").SerializeToString() for name in _PORTED]


def _onnx_edits() -> st.SearchStrategy[bytes]:
    return st.one_of([edited_networks(seed) for seed in _onnx()])


def _use_onnx(data: bytes, folder: Path) -> object:
    """As ``port`` prepares it for the toolkit."""
    from onnx import ModelProto
    from rknnlite_onnx.toolkit_network import for_the_toolkit

    network = ModelProto.FromString(data)
    return for_the_toolkit(network, [_onnx_feeds(network)])


def _onnx_feeds(network: Any) -> dict[str, Any]:
    from onnx import TensorProto

    random, feeds = np.random.default_rng(0), {}
    for each in network.graph.input:
        shape = [dim.dim_value for dim in each.type.tensor_type.shape.dim]
        kind = np.int64 if each.type.tensor_type.elem_type == TensorProto.INT64 else np.float32
        if min(shape, default=1) >= 0 and math.prod(shape) <= _MOST:
            feeds[each.name] = random.integers(0, 8, shape).astype(kind)
    return feeds


def _use_onnx_file(data: bytes, folder: Path) -> object:
    """As ``compare`` runs a source network; what it is fed does not depend on the damage."""
    from onnx import ModelProto

    path, seed = folder / "network.onnx", _onnx()[0]
    path.write_bytes(data)
    with tempfile.TemporaryDirectory(dir=folder) as dump:
        return dump_onnx(path, _onnx_feeds(ModelProto.FromString(seed)), Path(dump) / "dump")


# -- texts ---------------------------------------------------------------------------------------------------


def _use_template(data: bytes, folder: Path) -> object:
    from rknnlite.spi.llm import MessagesInput

    template = JinjaTemplate(data.decode("utf-8", "replace"), "<s>", "</s>")
    return template.conversation(MessagesInput([{"role": "user", "content": "hi"}]), [])


def _json(data: bytes) -> Any:
    """What a server has read before: a text that is no JSON is refused there."""
    return json.loads(data.decode("utf-8", "replace"))


def _use_server(data: bytes, folder: Path) -> object:
    path = folder / "params.json"
    path.write_bytes(data)
    return settings_from_params(str(path), ServerSettings())


# -- requests ------------------------------------------------------------------------------------------------


def _body(fields: Any) -> bytes:
    return llm_damage.dumped(fields) + b"\1\2\3"


def _use_rest(data: bytes, folder: Path) -> object:
    return rest_codec.parse_request("m", data, str(len(data) - 3))


def _grpc() -> list[bytes]:
    tensors = [Tensor("x", np.ones((1, 2), np.float32)), Tensor("y", np.arange(3, dtype=np.uint8))]
    return [grpc_codec.request_message(InferRequest("m", tensors, [])).SerializeToString()]


def _use_grpc(data: bytes, folder: Path) -> object:
    return grpc_codec.parse_request(message("inference.ModelInferRequest").FromString(data))


def _no_message() -> tuple[type[BaseException], ...]:
    from google.protobuf.message import DecodeError

    return (DecodeError,)  # gRPC itself answers it


# -- wires ---------------------------------------------------------------------------------------------------


@contextmanager
def _sent(data: bytes) -> Iterator[socket.socket]:
    """The end of a socket whose other one has sent this and is closed."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            theirs.settimeout(5)
            theirs.sendall(data[: 1 << 16])
        yield ours


def _recorded(send: Callable[[socket.socket], object]) -> bytes:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send(ours)
        return theirs.recv(1 << 16)


def _tokenizer_wire() -> list[bytes]:
    return [
        _recorded(lambda sock: isolated_tokenizer.send(sock, {"step": "encode", "argument": ["text", False]}))
    ]


def _use_tokenizer_wire(data: bytes, folder: Path) -> object:
    with _sent(data) as sock:
        return isolated_tokenizer.receive(sock)


def _rkllm_wire() -> list[bytes]:
    from rknnlite_rkllm.requests import CallbackResult

    from rknnlite.spi.llm import CallState

    request = (1, "run", np.arange(6, dtype=np.float32).reshape(2, 3), b"bytes", CallState.NORMAL)
    return [
        _recorded(lambda sock: Channel(sock).send(Message.REQUEST, request)),
        _recorded(
            lambda sock: Channel(sock).send_token(CallbackResult(CallState.WAITING, 2, 7, b"\xf0\x9f"))
        ),
    ]


def _use_rkllm_wire(data: bytes, folder: Path) -> object:
    with _sent(data) as sock:
        return Channel(sock).receive()


def _library_wire() -> list[bytes]:
    model = str(ROOT / "examples/resnet18/resnet18_for_RK3588.rknn").encode()
    calls = [(Call.INIT, model), (Call.QUERY, bytes(64)), (Call.INPUTS, bytes(128)), (Call.MATMUL, bytes(64))]
    one = [_call(call, bytes(16)) for call in Call]
    return [b"".join(_call(*call) for call in calls), *one]


def _call(call: Call, payload: bytes) -> bytes:
    return _recorded(lambda sock: Wire(sock).ask(call, payload, range(5)))


def _use_library_wire(data: bytes, folder: Path) -> object:
    """Served to its end: the thread of a context outlives no program. A program may ask for memory, and gets it."""
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=ContextThread(OpenContexts(), 1, Wire(theirs)).serve, daemon=True)
    thread.start()
    with ours:
        ours.sendall(data[: 1 << 14])
        ours.shutdown(socket.SHUT_WR)
        ours.settimeout(llm_damage.SECONDS)
        while ours.recv(1 << 16):
            pass
    thread.join(llm_damage.SECONDS)
    assert not thread.is_alive(), "the thread of a context goes on without its program"
    return None


def _machine_files() -> list[bytes]:
    names = ("act_silu.rk3588.i8", "conv_uneven.rk3588.fp16", "packed_mixed.rk3588.i8", "unet_like.rk3588.i8")
    return [(ROOT / "tests/data" / f"{name}.rknn").read_bytes() for name in names]


def _use_machine(data: bytes, folder: Path) -> object:
    """All tasks of one core on buffers as large as the file asks for, if that is not much."""
    found = plan(ModelFile(data).model, Bases(weight=1 << 28, internal=1 << 29))
    memory, image = Memory(), found.weight_image()
    memory.map(1 << 28, image)
    memory.map(1 << 29, np.zeros(min(found.program.internal_size, 1 << 24), np.uint8))
    Machine(found.program.family).run(memory, [found.tasks[i] for job in found.jobs() for i in job.cores[0]])
    return None


READERS: dict[str, Reader] = {
    "elf": Reader(_elf, _use_elf),
    "gbnf": Reader(lambda: [GBNF.encode()], lambda data, _: lark_of_gbnf(data.decode("utf-8", "replace"))),
    "gguf": Reader(_gguf, lambda data, _: read_gguf(data, "damaged.gguf")),
    "grpc": Reader(_grpc, _use_grpc, _no_message()),
    "library-wire": Reader(_library_wire, _use_library_wire, allowance=1 << 30),
    "npy": Reader(_npy, lambda data, _: array_of(data), (ValueError,)),
    "npu-machine": Reader(
        _machine_files, _use_machine, (), lambda: st.one_of(list(map(damage.mixed, _machine_files()))), allowance=1400 << 20
    ),
    "npu-plan": Reader(npu_files, use_plan, (), lambda: st.one_of(list(map(npu_damage.damaged, npu_files())))),
    "npz": Reader(_npz, _use_npz, (ValueError, OSError)),
    "onnx": Reader(_onnx, _use_onnx, _no_message(), _onnx_edits),
    "onnx-file": Reader(lambda: _onnx()[:1], _use_onnx_file, (), lambda: edited_networks(_onnx()[0])),
    "rest": Reader(lambda: [_body(BODY)], _use_rest, (), lambda: llm_damage.edited(BODY).map(_body)),
    "rkllm-file": Reader(_rkllm, lambda data, folder: RkllmFile.of(folder / "m.rkllm", memoryview(data))),
    "rkllm-wire": Reader(_rkllm_wire, _use_rkllm_wire, (EOFError,)),
    "safetensors": Reader(
        _safetensors, _use_safetensors, (),
        lambda: llm_damage.edited(json.loads(_safetensors()[0][8:-24])).map(_safetensors_of),
    ),
    "schema": Reader(
        lambda: [llm_damage.dumped(SCHEMA)], lambda data, _: schema_text(_json(data)), (json.JSONDecodeError,),
        lambda: llm_damage.edited(SCHEMA).map(llm_damage.dumped),
    ),
    "server-config": Reader(
        lambda: [llm_damage.dumped(SERVER)], _use_server, (), lambda: llm_damage.edited(SERVER).map(llm_damage.dumped),
    ),
    "sound": Reader(_sounds, lambda data, _: read_sound(data), allowance=1 << 30),
    "template": Reader(lambda: [TEMPLATE.encode()], _use_template, (RenderStopped,)),
    "tokenizer-wire": Reader(_tokenizer_wire, _use_tokenizer_wire, (EOFError,)),
}  # fmt: skip
"""Each reader and what of its own it refuses with, besides an RknnError."""
