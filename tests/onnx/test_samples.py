"""Samples of a model's inputs: made up, from a folder, and as a written network takes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rknnlite_onnx.samples import made_up_samples, network_feeds, samples_of

from rknnlite.errors import InputInvalid
from rknnlite.formats import ModelFile
from tests.support.corpus import genuine


def test_pixels_and_rectangles_in_turns() -> None:
    model = ModelFile(genuine("mean_std.rk3588.i8")).model
    noise, pictures, more, _ = ([array] for (array,) in made_up_samples(model, 4))
    (noise,), (pictures,), (more,) = noise, pictures, more
    assert noise.dtype == pictures.dtype == np.uint8 and noise.shape == pictures.shape
    assert not np.array_equal(noise, more)

    def edges(array: np.ndarray) -> float:
        return float((np.diff(array.astype(int), axis=2) != 0).any(axis=-1).mean())

    assert edges(noise) > 0.9 and edges(pictures) < 0.5, "plain areas"
    again = made_up_samples(model, 2)
    assert np.array_equal(again[1][0], pictures), "the same every time"


def test_tokens_are_rows_of_their_table() -> None:
    """20 rows; zeros would try one of them."""
    model = ModelFile(genuine("embedding.rk3588.i8")).model
    tokens = np.concatenate([array for (array,) in made_up_samples(model, 20)])
    assert tokens.dtype == np.int64 and tokens.shape == (20, 9)
    assert set(tokens.ravel()) == set(range(20))


def test_what_a_network_takes() -> None:
    (io,) = ModelFile(genuine("mean_std.rk3588.i8")).model.inputs
    _, channels, height, width = io.shape
    pixels = np.arange(2 * height * width * channels, dtype=np.uint8).reshape(2, height, width, channels)
    real, plain = (network_feeds([io], [pixels], 1, normalise)[io.name] for normalise in (False, True))
    assert (
        real.shape == plain.shape == (1, channels, height, width) and real.dtype == plain.dtype == np.float32
    )
    numbers = [np.array(each, np.float32).reshape(1, -1, 1, 1) for each in (io.mean, io.std)]
    assert np.array_equal(plain[0, :, 0, 0], pixels[0, 0, 0]) and np.allclose(
        real, (plain - numbers[0]) / numbers[1]
    )
    assert network_feeds([io], [pixels], 2)[io.name].shape[0] == 2
    scalar = io._replace(shape=())
    assert network_feeds([scalar], [np.array(3.0)])[io.name] == 3


def test_a_folder(tmp_path: Path) -> None:
    model = ModelFile(genuine("embedding.rk3588.i8")).model
    with pytest.raises(InputInvalid, match="has no files"):
        samples_of(model, tmp_path, False, 8)
    for number in (2, 1):
        np.save(tmp_path / f"{number}.npy", np.full((1, 9), number))
    (tmp_path / ".hidden").touch()
    assert [int(array[0, 0]) for (array,) in samples_of(model, tmp_path, False, 8)] == [1, 2]
    assert len(samples_of(model, None, False, 8)) == 8
