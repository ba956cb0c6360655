"""Programs that know nothing of the backend: the vendor's class, a pool."""

from __future__ import annotations

import pytest

import rknnlite
from rknnlite import Context
from rknnlite.formats import ModelFile
from rknnlite.spi import Backend

from .promises import given, promise, same

__all__: list[str] = []  # pytest collects what is here


api = pytest.importorskip("rknnlite.api")  # what programs import, and plugins do not


def test_a_program_for_the_vendors_class(
    context: Context, backend: Backend, model: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = given(context)
    expected = context.infer(arrays)
    monkeypatch.setenv("RKNNLITE_BACKEND", backend.name)
    rknn = api.RKNNLite()
    codes = rknn.load_rknn(str(model.path)), rknn.init_runtime()
    found = rknn.inference(inputs=arrays)
    rknn.release()
    promise(
        codes == (0, 0),
        f"load_rknn and init_runtime returned {codes}, the log says why; open takes the bytes of a file, too",
    )
    promise(
        found is not None and same(found, expected),
        "RKNNLite.inference gives other outputs than Context.infer, or none; the log says why",
    )


def test_a_pool_of_two_workers(context: Context, backend: Backend, model: ModelFile) -> None:
    frames = [given(context, seed) for seed in range(4)]
    expected = [context.infer(frame) for frame in frames]
    with rknnlite.Pool(model, workers=2, backend=backend.name) as pool:
        found = list(pool.map(frames))
    promise(
        len(found) == len(expected) and all(map(same, found, expected)),
        "a pool gives other outputs than one context; contexts share nothing that a run changes",
    )
