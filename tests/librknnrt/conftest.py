"""A small model with its numbers, for programs that are about something else than numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.librknnrt.goldens import inferred, pixels, write
from tests.support.corpus import genuine


@pytest.fixture
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model, and the folder with in0.u8 and out0.f32."""
    folder, model = tmp_path_factory.mktemp("small"), genuine("conv_relu.rk3588.i8")
    image = write(folder, "in0", pixels(0, 1, 24, 24, 3))
    write(folder, "out0", inferred(model, [image])[0][0])
    return model, folder
