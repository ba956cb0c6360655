"""Arrays in files: as large as the file says and holds; whatever else a file may be is a ValueError with a reason."""

from __future__ import annotations

import contextlib
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("hypothesis")

from hypothesis import given
from hypothesis import strategies as st

from rknnlite.errors import InputInvalid
from rknnlite.files.arrays import array_of, read_archive, read_array
from rknnlite.files.input_arrays import arrays_for
from rknnlite.tensor import DType, Layout, TensorAttr

ATTR = TensorAttr(0, "image", (1, 4, 6, 3), DType.INT8, Layout.NHWC)


def stored(array: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), **options)
    return file.getvalue()


def headed(text: str) -> bytes:
    """An array file with a header of our own."""
    header = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "float16", "float32", "float64", "int64", "bool", ">i4", "complex64"]
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 5), (2, 3, 4)])
def test_what_numpy_writes_is_read(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    for given_, version in ((array, (1, 0)), (np.asfortranarray(array), (1, 0)), (array, (2, 0))):
        found = array_of(stored(given_, version=version))
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "header cannot be read"),
        (b"PK\x03\x04" + bytes(100), "header cannot be read"),
        (
            headed("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"),
            "4000000000000 bytes, 0 follow",
        ),
        (
            headed("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1" + "0" * 30 + "), }"),
            "its shape cannot be",
        ),
        (headed("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"), "follow the header"),
        (headed("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"), "no numbers"),
        (headed("{'descr': '<U7', 'fortran_order': False, 'shape': (0,), }"), "no numbers"),
        (headed("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (0,), }"), "no numbers"),
        (headed("{'descr': '<f4', 'shape': (1,), "), "header cannot be read"),
        (headed("(" * 100), "header cannot be read"),
        (headed("{'descr': '<f4', 'fortran_order': False, 'shape': (1L,), }")[:-10], "header cannot be read"),
        (stored(np.zeros(3)) + b"x", "24 bytes, 25 follow"),
        (stored(np.zeros(3))[:-1], "24 bytes, 23 follow"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_damaged_arrays(data: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        array_of(data)


@pytest.mark.filterwarnings("ignore::UserWarning")
@given(at=st.integers(0, 151), value=st.integers(0, 255), size=st.integers(0, 152))
def test_any_byte_may_be_damaged(at: int, value: int, size: int) -> None:
    data = bytearray(stored(np.zeros(3)))
    data[at] = value
    for damaged in (data, data[:size]):
        with contextlib.suppress(ValueError):
            assert array_of(bytes(damaged)).nbytes <= len(damaged)


def archive(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


def inputs(path: Path) -> list[Any]:
    return arrays_for([str(path)], [ATTR])


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_archives(tmp_path: Path, method: int) -> None:
    image = np.arange(72, dtype=np.int8).reshape(ATTR.dims)
    path = archive(tmp_path / "in.npz", {"image.npy": stored(image), "other.npy": stored(image)}, method)
    np.testing.assert_array_equal(inputs(path)[0], image)
    data = bytearray(path.read_bytes())
    untyped = []
    for at in range(30, 160):  # name, data and their checksum
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        try:
            inputs(path)
        except InputInvalid as error:
            assert str(path) in str(error)
        except Exception as error:
            untyped.append((at, error))
    assert not untyped


def test_an_encrypted_archive_and_a_bomb(tmp_path: Path) -> None:
    path = archive(tmp_path / "in.npz", {"image.npy": stored(np.zeros(ATTR.dims, np.int8))})
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(InputInvalid, match=r"in\.npz is no \.npz file of numbers: 'image\.npy': .*encrypted"):
        inputs(path)
    bomb = archive(
        tmp_path / "bomb.npz", {"image.npy": stored(np.zeros(100 << 20, np.uint8))}, zipfile.ZIP_DEFLATED
    )
    with pytest.raises(InputInvalid, match="it has more than 67108864 bytes"):
        inputs(bomb)
    with pytest.raises(ValueError, match="no archive"):
        read_archive(archive(tmp_path / "in.npz", {}), lambda names: ["missing"], 100)
    (tmp_path / "one.npy").write_bytes(b"nothing")
    with pytest.raises(InputInvalid, match=r"one\.npy is no \.npy file of numbers: its header"):
        inputs(tmp_path / "one.npy")
    with pytest.raises(OSError, match="device"):
        read_array(Path("/dev/zero"))
