"""load_rknn only reads: bytes into rknn_data, 0 or -1, one E line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rknnlite.api import RKNNLite


@pytest.fixture
def rknn(capfd: pytest.CaptureFixture[str]) -> RKNNLite:
    face = RKNNLite()
    capfd.readouterr()
    return face


def test_content_is_kept_and_not_looked_at(rknn: RKNNLite, model_file: Path) -> None:
    assert rknn.load_rknn(str(model_file)) == 0
    assert rknn.rknn_data == b"any bytes"


def test_path_objects_and_keywords(rknn: RKNNLite, model_file: Path) -> None:
    assert rknn.load_rknn(path=model_file) == 0
    assert rknn.load_rknn(path=bytes(model_file)) == 0


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/no/such/model.rknn", "/no/such/model.rknn"),
        ("", "None"),
        (None, "None"),
        (7, "7"),
    ],
)
def test_bad_path_is_one_line(
    rknn: RKNNLite, capfd: pytest.CaptureFixture[str], path: object, shown: str
) -> None:
    assert rknn.load_rknn(path) == -1  # type: ignore[arg-type]
    assert capfd.readouterr().err == f"E Invalid RKNN model path: {shown}\n"


def test_a_path_with_a_null_byte_is_one_line(rknn: RKNNLite, capfd: pytest.CaptureFixture[str]) -> None:
    """The words in brackets are Python's, and each version's own."""
    assert rknn.load_rknn("a\0b") == -1
    assert re.fullmatch(
        r"E Invalid RKNN model path: 'a\\x00b' \(.*embedded null.*\)\n", capfd.readouterr().err
    )


def test_directory_is_one_line(rknn: RKNNLite, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert rknn.load_rknn(str(tmp_path)) == -1
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("E Invalid RKNN model path: ")


def test_failed_load_keeps_the_earlier_model(rknn: RKNNLite, model_file: Path) -> None:
    rknn.load_rknn(str(model_file))
    assert rknn.load_rknn("/no/such/file") == -1
    assert rknn.rknn_data == b"any bytes"


def test_loading_again_replaces_the_model(rknn: RKNNLite, model_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.rknn"
    other.write_bytes(b"other bytes")
    assert rknn.load_rknn(str(model_file)) == rknn.load_rknn(str(other)) == 0
    assert rknn.rknn_data == b"other bytes"


def test_key_of_an_encrypted_model(rknn: RKNNLite, model_file: Path, tmp_path: Path) -> None:
    key = tmp_path / "model_key.bin"
    key.write_bytes(b"envelope")
    assert rknn.load_rknn(str(model_file), str(key)) == 0
    assert rknn.rknn_user_key == b"envelope"
    assert rknn.load_rknn(str(model_file)) == 0
    assert rknn.rknn_user_key is None


def test_missing_key_leaves_the_model_loaded(
    rknn: RKNNLite, model_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert rknn.load_rknn(str(model_file), key_path="/no/such/key.bin") == -1
    assert rknn.rknn_data == b"any bytes" and rknn.rknn_user_key is None
    assert capfd.readouterr().err.startswith("E Invalid RKNN key path: /no/such/key.bin")
