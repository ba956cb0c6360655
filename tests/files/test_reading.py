"""A path is read when it is a file whose size is known; devices, pipes and what grows are refused, in every room that reads."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rknnlite.files import reading
from rknnlite.files.reading import MappedFile, open_file, read_bytes, read_text


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_bytes_and_text(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes("é\r\n".encode())
    assert read_bytes(tmp_path / "file") == "é\r\n".encode() and read_text(tmp_path / "file") == "é\n"
    (tmp_path / "empty").touch()
    assert read_bytes(tmp_path / "empty") == b""


@pytest.mark.parametrize("read", [open_file, read_bytes, read_text, MappedFile])
def test_what_is_no_file(read: object, tmp_path: Path, pipe: Path) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "door"))
        for path in (Path("/dev/zero"), Path("/dev/full"), Path("/dev/tty"), pipe, tmp_path / "door"):
            with pytest.raises(OSError, match="pipe, a socket or a device"):
                read(path)  # type: ignore[operator]
    with pytest.raises(IsADirectoryError):
        read(tmp_path)  # type: ignore[operator]


@pytest.mark.parametrize("read", [open_file, read_bytes, read_text, MappedFile])
def test_what_is_refused_leaves_no_descriptor(read: object, tmp_path: Path, pipe: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in (tmp_path, Path(), pipe, Path("/dev/zero"), tmp_path / "none"):
        with pytest.raises(OSError):
            read(path)  # type: ignore[operator]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_pipe_that_comes_into_the_place_of_a_file(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the opening: it is neither waited for nor read."""
    monkeypatch.setattr(reading, "check_file", lambda path: None)
    with pytest.raises(OSError, match="pipe, a socket or a device"):
        read_bytes(pipe)


def test_other_bytes_than_its_size_says(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"its size is 0 bytes, but it gave more than 0"):
        read_bytes(Path("/proc/self/maps"))


def test_more_than_may_be_read(tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(1 << 42)  # a hole
    with pytest.raises(OSError, match=r"it has 4398046511104 bytes, \d+ are free"):
        read_bytes(huge)
    with pytest.raises(OSError, match="it has 4398046511104 bytes, 100 may be read"):
        read_bytes(huge, 100)


LOADS = {
    "face": "from rknnlite.api import RKNNLite; sys.exit(RKNNLite().load_rknn(path) == 0)",
    "key": "from rknnlite.api import RKNNLite; sys.exit(RKNNLite().load_rknn(sys.argv[2], key_path=path) == 0)",
    "coprocessor's face": "from rknn3lite.api import RKNN3Lite; sys.exit(RKNN3Lite().load_rknn(path, path) == 0)",
    "open": "rknnlite.open(path)",
    "pool": "rknnlite.Pool(path)",
    "open_llm": "rknnlite.open_llm(path)",
    "plugin": "rknnlite.load_custom_ops(path)",
    "compare": "rknnlite.compare(path, path)",
    "to_onnx": "rknnlite.to_onnx(path)",
    "tokenizer": "from rknnlite_llm import Tokenizer; Tokenizer(path)",
}


@pytest.mark.parametrize("place", ["/dev/zero", "pipe", "/proc/self/maps", "folder"])
def test_every_door_refuses_what_is_no_file(place: str, pipe: Path, tmp_path: Path) -> None:
    """With a typed error, in little memory and time."""
    path = {"pipe": str(pipe), "folder": str(tmp_path)}.get(place, place)
    script = [
        "import sys, rknnlite",
        "path, refused = sys.argv[1], 0",
        f"for name, code in {LOADS!r}.items():",
        "    try:",
        "        exec(code)",
        "        print('taken:', name)",
        "    except (rknnlite.RknnError, SystemExit) as error:",
        "        refused += not getattr(error, 'code', 1) or isinstance(error, rknnlite.RknnError)",
        "print(refused)",
    ]
    model = Path(__file__).parents[2] / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"
    limited = ["sh", "-c", 'ulimit -v 4194304 && exec "$@"', "sh"]
    done = subprocess.run(
        [*limited, sys.executable, "-c", "\n".join(script), path, str(model)],
        env={**os.environ, "RKNN_LOG_LEVEL": "0", "RKNNLITE_BACKEND": "cpu"}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.stdout == f"{len(LOADS)}\n", done.stdout + done.stderr[-2000:]
