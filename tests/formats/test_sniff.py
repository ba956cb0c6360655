"""Every kind of file that is no usable model gets an error that says what it is and what to do."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from rknnlite_graph.read import read_graph

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.formats import ModelFile
from tests.support.classic import downgrade
from tests.support.corpus import FIXTURES, genuine, open_cpu
from tests.support.flat import build
from tests.support.handmade import container, one_node
from tests.support.rknn1_files import File

FILES: dict[str, tuple[bytes, type[ModelInvalid], str]] = {
    "empty": (b"", ModelInvalid, r"the file is empty; copy it again"),
    "one byte": (b"R", ModelInvalid, r"not an RKNN model: it starts with b'R'"),
    "magic only": (b"RKNN", ModelInvalid, r"truncated: 4 bytes cannot hold its header; copy it again"),
    "header only": (container(b"")[:63], ModelInvalid, r"truncated: 63 bytes cannot hold its header"),
    "encrypted": (
        b"CYPTRKNN" + bytes(100),
        ModelUnsupported,
        r"encrypted; only the vendor's runtime on a board",
    ),
    "rknn3": (
        b"RKNX" + bytes(100),
        ModelUnsupported,
        r"RKNN3 model \(RK1820/RK1828\); open it with rknn3lite",
    ),
    "toolkit 1": (
        File("compiled", pre_compile=1).data,
        ModelInvalid,
        r"its graph has no input or no output",
    ),
    "toolkit 1, second container": (
        b"RKNN\0\0\0\0"
        + struct.pack("<QQQ", 2, 0, 64)
        + b'{"network_platform": "caffe"}'.ljust(64)
        + bytes(8),
        ModelInvalid,
        r"its list of custom operators is no JSON",
    ),
    "version 2 without payload": (container(b"", version=2), ModelInvalid, r"identifier RKNN is missing"),
    "version 7": (
        container(b"", version=7),
        ModelUnsupported,
        r"container version 0x7 is unknown.*update rknnlite",
    ),
    "version 0": (container(b"", version=0), ModelUnsupported, r"container version 0x0 is unknown"),
    "version huge": (
        container(b"", version=(1 << 64) - 1),
        ModelUnsupported,
        r"0xffffffffffffffff is unknown",
    ),
    "other mini": (
        container(b"", version=0x1007),
        ModelUnsupported,
        r"0x1007 is a variant of the mini format",
    ),
    "random": (
        bytes(range(7, 247)),
        ModelInvalid,
        r"not an RKNN model: it starts with .*; convert the network again",
    ),
    "onnx": (b"\x08\x08\x12\x07pytorch" + bytes(99), ModelInvalid, r"not an RKNN model"),
    "payload cut": (
        one_node()[:300],
        ModelInvalid,
        r"truncated: its header promises \d+ bytes or more, there are 300",
    ),
    "json cut": (
        one_node()[:-5],
        ModelInvalid,
        r"truncated: its JSON part of \d+ bytes is cut; copy it again",
    ),
    "no flatbuffer": (container(bytes(200)), ModelInvalid, r"identifier RKNN is missing from the payload"),
    "bad json": (one_node()[:-1] + b"!", ModelInvalid, r"its JSON part cannot be read"),
    "no graph": (container(build({0: 6})), ModelInvalid, r"it holds no graph"),
}


@pytest.mark.parametrize("case", FILES)
def test_what_the_file_is(case: str, tmp_path: Path) -> None:
    data, kind, message = FILES[case]
    path = tmp_path / "some.rknn"
    path.write_bytes(data)
    for source, label in ((path, "some.rknn: "), (data, "model in memory: ")):
        with pytest.raises(ModelInvalid, match=f"{label}.*{message}") as caught:
            _ = ModelFile(source).model
        assert type(caught.value) is kind
        with pytest.raises(kind, match=message):
            open_cpu(source)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 0x1004])
def test_other_containers_are_read_or_refused_with_a_reason(version: int) -> None:
    """A genuine container-6 payload behind another version number: nothing but a typed error may come of it."""
    payload = build({0: 6})
    data = container(payload, version, gap=0 if version == 1 else 40)
    with pytest.raises(ModelInvalid, match="model in memory: "):
        open_cpu(data)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 0x1004])
def test_relabelled_genuine_file(version: int) -> None:
    data = bytearray(genuine("conv_1x1.rk3588.i8").read_bytes())
    struct.pack_into("<Q", data, 8, version)
    try:
        with open_cpu(bytes(data)) as context:
            context.infer(np.zeros(context.inputs[0].dims, np.uint8))
    except ModelInvalid as error:
        assert "model in memory" in str(error)


@pytest.mark.parametrize("version", [1, 2])
def test_early_files_of_rknpu2_are_not_taken_for_those_of_toolkit_1(version: int) -> None:
    for name in ("conv_relu.rk3588.i8", "depthwise_3x3.rk3562.i8"):
        assert ModelFile(downgrade(genuine(name), version)).model.container == version


def test_genuine_files_of_toolkit_1() -> None:
    found = sorted(FIXTURES.with_name(f"{FIXTURES.name}-rknn1").glob("*/*.rknn"))
    if not found:
        pytest.skip("no files of the first generation beside the folder of third-party files")
    for path in found:
        model = ModelFile(path).model
        assert (model.family, model.inputs != [], model.outputs != []) == ("RKNPU1", True, True)
        if path.stem.startswith(("nbg_", "custom_")):
            with pytest.raises(ModelUnsupported, match=r"pre-compiled|custom operators"):
                read_graph(model)
        else:
            assert read_graph(model).nodes


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelInvalid, match=r"gone.rknn: cannot be read: No such file or directory"):
        _ = ModelFile(tmp_path / "gone.rknn").model


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelInvalid, match="cannot be read: Is a directory"):
        _ = ModelFile(tmp_path).model


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelInvalid, match="pipe: cannot be read: it is a pipe"):
        _ = ModelFile(tmp_path / "pipe").model


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.rknn"
    path.write_bytes(one_node())

    def refuse(path: Path, *args: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("rknnlite.files.reading.os.open", refuse)  # root may read everything
    with pytest.raises(ModelInvalid, match="cannot be read: Permission denied"):
        _ = ModelFile(path).model


def test_impossible_path() -> None:
    with pytest.raises(ModelInvalid, match="cannot be read"):
        _ = ModelFile("with\0zero.rknn").model


def test_bytes_in_every_shape() -> None:
    data = one_node()
    doubled = memoryview(bytes(byte for byte in data for _ in range(2)))[::2]
    words = memoryview(np.frombuffer(data + bytes(-len(data) % 4), np.uint32))
    for source in (data, bytearray(data), memoryview(data), words, doubled):
        assert ModelFile(source).model.inputs[0].name == "x"
