"""Samples from folders and from the converter's list."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rknnlite_insight.causes.samples import network_inputs_of, sample_files

from rknnlite.errors import InputInvalid


def test_a_folder_and_a_list(tmp_path: Path) -> None:
    for name in ("b.npy", "a.npy"):
        np.save(tmp_path / name, np.zeros(2, np.float32))
    a, b = str(tmp_path / "a.npy"), str(tmp_path / "b.npy")
    assert sample_files(tmp_path) == [[a], [b]]
    listing = tmp_path / "dataset.txt"
    listing.write_text(f"b.npy a.npy\n\n{a} b.npy\n")
    assert sample_files(listing) == [[b, a], [a, b]]
    assert sample_files(tmp_path / "a.npy") == [[a]]


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(InputInvalid, match="has no files"):
        sample_files(tmp_path)
    with pytest.raises(InputInvalid, match="cannot be read"):
        sample_files(tmp_path / "gone.txt")


def test_what_a_network_got(tmp_path: Path) -> None:
    np.save(tmp_path / "0.npy", np.ones((1, 3, 2, 2), np.float32))
    (given,) = network_inputs_of(tmp_path, ["x"])
    assert given["x"].shape == (1, 3, 2, 2)
    (tmp_path / "0.npy").unlink()
    np.savez(tmp_path / "0.npz", x=np.ones(2), y=np.zeros(2))
    (given,) = network_inputs_of(tmp_path, ["y", "x"])
    assert sorted(given) == ["x", "y"]
    with pytest.raises(InputInvalid, match="the network's inputs are z"):
        network_inputs_of(tmp_path, ["z"])
    (tmp_path / "0.npz").write_bytes(b"none")
    with pytest.raises(InputInvalid, match=r"no \.npy or \.npz"):
        network_inputs_of(tmp_path, ["z"])
