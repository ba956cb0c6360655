"""What is particular to librknnrt: declarations, what the library is told, errors, and that all is given back."""

from __future__ import annotations

import ctypes as ct
import gc
import json
import os
from pathlib import Path

import numpy as np
import pytest
from rknnlite_backend.abi import rknn_matmul

import rknnlite
from rknnlite import errors
from tests.doubles.double import Double, build
from tests.rknnrt import test_abi as declared

TABLE = json.loads((Path(declared.__file__).parent / "data" / "abi.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(rknn_matmul.STRUCTURES))
def test_structures(name: str) -> None:
    found = declared.layout(rknn_matmul.STRUCTURES[name])
    assert found == TABLE["structs"][name][declared.MODEL]


def test_everything_is_given_back(double: Double) -> None:
    multiply = rknnlite.Matmul(4, 64, 32)
    view = multiply.create_mem(64).ndarray
    multiply(np.ones((4, 64), np.int8), np.ones((64, 32), np.int8))
    assert double.live() == {"contexts": 1, "mems": 4}
    multiply.close()
    assert double.live()["contexts"] == 1  # a view is alive
    view[0] = 1
    del view
    assert double.live() == {}
    rknnlite.Matmul(4, 64, 32)
    gc.collect()
    assert double.live() == {}


@pytest.mark.parametrize(
    "function", ["rknn_matmul_create", "rknn_matmul_set_io_mem", "rknn_matmul_run", "rknn_create_mem"]
)
def test_faults(double: Double, function: str) -> None:
    double.fault(function, -1)
    with pytest.raises(errors.RknnError), rknnlite.Matmul(4, 64, 32) as multiply:
        multiply(np.ones((4, 64), np.int8), np.ones((64, 32), np.int8))
    assert double.live() == {}
    with rknnlite.Matmul(4, 64, 32) as multiply:
        assert (multiply(np.ones((4, 64), np.int8), np.ones((64, 32), np.int8)) == 64).all()


def test_unknown_options_are_refused(double: Double) -> None:
    with pytest.raises(
        errors.ParamInvalid, match="option thread is unknown to backend rknnrt; did you mean threads"
    ):
        rknnlite.Matmul(4, 64, 32, thread=1)
    assert double.live() == {}


def test_an_illegal_mask_at_the_start_leaves_nothing(double: Double) -> None:
    with pytest.raises(errors.RknnError):
        rknnlite.Matmul(4, 64, 32, core_mask=5)
    gc.collect()
    assert double.live() == {}


def test_b_stays_where_it_is_between_calls(double: Double) -> None:
    with rknnlite.Matmul(4, 64, 32) as multiply:
        a, b = np.ones((4, 64), np.int8), np.ones((64, 32), np.int8)
        multiply(a, b)
        double.reset()
        multiply(a)
        assert double.count("rknn_matmul_set_io_mem") == 2 and double.count("rknn_create_mem") == 0


def test_a_library_without_products(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    from rknnlite_rknnrt import loader

    class Without(loader.Library):
        def has(self, name: str) -> bool:
            return not name.startswith("rknn_matmul")

        def function(self, name: str) -> object:
            if name.startswith("rknn_matmul"):
                raise loader.FunctionMissing(f"{name} is not supported by this library version")
            return super().function(name)

    from rknnlite_rknnrt import backend

    monkeypatch.setattr(backend, "load", lambda *_: Without(build()))
    with pytest.raises(errors.RknnError, match="rknn_matmul_create is not supported"):
        rknnlite.Matmul(4, 64, 32)


def test_a_product_does_not_go_over_a_fork(double: Double) -> None:
    multiply = rknnlite.Matmul(4, 64, 32)
    child = os.fork()
    if child == 0:
        try:
            multiply.create_mem(64)
        except errors.ContextInvalid as error:
            os._exit(0 if "fork" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    multiply.close()


def test_sizes_of_the_structures() -> None:
    assert ct.sizeof(rknn_matmul.Info) == 64 and ct.sizeof(rknn_matmul.Io) == 996
