"""Programs in C on our ``librknnrt.so``, computed by the machine: each checks itself against numbers of the same backend."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rknnlite
from tests.librknnrt import clients
from tests.librknnrt import test_programs as programs
from tests.librknnrt.clients import program, run
from tests.librknnrt.goldens import pixels, write
from tests.librknnrt.test_programs import (  # noqa: F401  collected here
    test_caches_that_the_program_keeps,
    test_common_path,
    test_liberties_that_programs_take,
    test_memory_shared_by_descriptor,
)
from tests.support.corpus import genuine

from .backend_name import BACKEND

pytestmark = pytest.mark.slow


def inferred(
    model: Any, inputs: Sequence[np.ndarray], **options: Any
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """As ``goldens.inferred``, on the machine."""
    given = {name: options.pop(name) for name in ("pass_through",) if name in options}
    with rknnlite.open(model, backend=BACKEND, **options) as context:
        floats = context.infer(list(inputs), **given)
        stored = [output.data for output in context.infer(list(inputs), raw=True, **given)]
    return floats, stored


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Programs and what they are held against. On the rig the library's Python is preloaded, as this one is."""
    if "LD_PRELOAD" in os.environ:
        python = tmp_path_factory.mktemp("rig") / "python3"
        python.write_text(
            f'#!/bin/sh\nLD_PRELOAD={os.environ["LD_PRELOAD"]} exec {clients.interpreter()} "$@"\n'
        )
        python.chmod(0o755)
        monkeypatch.setattr(clients, "interpreter", lambda: python)
    monkeypatch.setenv("RKNNLITE_BACKEND", BACKEND)
    monkeypatch.setattr(programs, "inferred", inferred)


def test_native_inputs(tmp_path: Path) -> None:
    programs.test_native_inputs(tmp_path, "conv_1x1.rk3588.i8")


def test_batches_duplicates_and_shared_weights(tmp_path: Path) -> None:
    batch, master, slave = (genuine(f"{name}.rk3588.i8") for name in ("batch_four", "kept", "removed"))
    images = write(tmp_path, "batch", pixels(0, 4, 20, 24, 3))
    write(tmp_path, "batch", inferred(batch, [images])[0][0])
    image = write(tmp_path, "master", pixels(1, 1, 12, 10, 3))
    write(tmp_path, "master", inferred(master, [image])[0][0])
    image = write(tmp_path, "slave", pixels(2, 1, 12, 10, 3))
    with rknnlite.open(master, backend=BACKEND) as owner:
        write(tmp_path, "slave", inferred(slave, [image], master=owner)[0][0])
    run([program("contexts.c"), batch, master, slave, tmp_path])
