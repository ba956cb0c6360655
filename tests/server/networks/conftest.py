"""A server of networks for all tests of a process: REST and gRPC on free ports, over a handful of files."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc")

from rknnlite_server.settings import ServerSettings

import rknnlite

from ..conftest import Served, running

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data"
RESNET = "resnet18_for_RK3588"
BATCH = "batch_four.rk3588.i8"  # rows that may be batched
DYNAMIC = "dynamic_two.rk3588.fp16"  # two sets of shapes
MANY = "broadcast.rk3588.fp16"  # two inputs, twelve outputs
WHOLE = "embedding.rk3588.fp16"  # an input of INT64
SOFT = "softmaxes.rk3588.i8"  # quantised, four outputs
LOADED = (RESNET, BATCH, DYNAMIC, MANY, WHOLE, SOFT)
LATER = ("dense.rk3588.i8", "conv_1x1.rk3588.i8")
"""These lie in the repository and are not loaded: tests that load one unload it again."""


@dataclass
class Networks:
    """The server, and the same networks here."""

    served: Served
    folder: Path

    @property
    def url(self) -> str:
        """``http://127.0.0.1:PORT``."""
        return self.served.url

    @property
    def http(self) -> Any:
        """A client of httpx with that address."""
        return self.served.http

    @property
    def state(self) -> Any:
        """The server's own."""
        return self.served.state

    @property
    def grpc(self) -> str:
        """Address of the gRPC server."""
        return f"127.0.0.1:{self.state.rpc.port}"


@pytest.fixture(scope="session")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Networks]:
    folder = tmp_path_factory.mktemp("repository")
    for name in LATER:
        shutil.copy(path_of(name), folder)
    settings = ServerSettings(
        networks=tuple(str(path_of(name)) for name in LOADED), repository=str(folder), explicit=True, grpc_port=0, workers=2,
        backend="cpu", metrics=True,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as environment:  # as tests have it, which begin later
        environment.setenv("RKNNLITE_CONFIG", "")
        environment.setenv("RKNNLITE_ENGINE", "numpy")
        started = contextlib.ExitStack()
        served = started.enter_context(running(settings))
    with started:
        yield Networks(served, folder)


@pytest.fixture(scope="session")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Networks]:
    """A server that takes networks from clients, two of which may be open, and has two of its own."""
    folder = tmp_path_factory.mktemp("uploads")
    settings = ServerSettings(
        networks=(str(path_of(RESNET)), str(path_of(DYNAMIC))), grpc_port=0, workers=1, backend="cpu",
        allow_upload=True, upload_dir=str(folder), upload_bytes=50_000_000, upload_models=2,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RKNNLITE_CONFIG", "")
        environment.setenv("RKNNLITE_ENGINE", "numpy")
        started = contextlib.ExitStack()
        served = started.enter_context(running(settings))
    with started:
        yield Networks(served, folder)


def path_of(name: str) -> Path:
    """The file of one of the networks."""
    return ROOT / "examples" / "resnet18" / f"{name}.rknn" if name == RESNET else DATA / f"{name}.rknn"


def arrays_of(attrs: Any, seed: int = 0) -> dict[str, Any]:
    """Random inputs of what is declared: whole numbers of 0 to 4 for INT64 and the like, else float32."""
    drawn = np.random.default_rng(seed)
    return {
        attr.name: drawn.normal(scale=2, size=attr.dims).astype(np.float32)
        if attr.quant is not None or attr.dtype.is_float
        else drawn.integers(0, 5, attr.dims).astype(attr.dtype.numpy)
        for attr in attrs
    }


def inputs_of(name: str, seed: int = 0) -> dict[str, Any]:
    """``arrays_of`` for one of the networks."""
    with rknnlite.open(path_of(name), backend="cpu") as context:
        return arrays_of(context.inputs, seed)


def local(name: str, inputs: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """What a context here gives, by the names of its outputs; options are those of ``Context.infer``."""
    with rknnlite.open(path_of(name), backend="cpu") as context:
        arrays = context.infer(dict(inputs), **options)
        return {attr.name: array for attr, array in zip(context.outputs, arrays)}
