"""What cannot cross a network is refused with the reason, as a typed error."""

from __future__ import annotations

from typing import Any

import pytest

import rknnlite
from rknnlite import errors
from rknnlite.formats import ModelFile
from rknnlite.spi import Context
from tests.custom_ops.models import FullDual

from .conftest import RESNET


def test_memory_descriptors(there: Context) -> None:
    for call in (
        lambda: there.import_mem(0, 10),
        lambda: there.import_fd(0),
        lambda: there.import_phys(4096, 10),
    ):
        with pytest.raises(errors.ParamInvalid, match="cannot cross a network"):
            call()


def test_memory_of_the_board(there: Context) -> None:
    mem = there.create_mem(1 << 20)
    for call in (there.set_weight_mem, there.set_internal_mem):
        with pytest.raises(errors.ParamInvalid, match="lies there"):
            call(mem)
    with pytest.raises(errors.ParamInvalid, match="another context"), there.dup() as twin:
        twin.bind(twin.native_inputs[0], mem)


def test_operators(there: Context, board: str) -> None:
    with pytest.raises(errors.ParamInvalid, match="install them on the board"):
        there.register_ops([FullDual()])
    with pytest.raises(errors.ParamInvalid, match="install them on the board"):
        there.register_postprocess("post.o")
    with pytest.raises(errors.ParamInvalid, match="install them on the board"):
        rknnlite.open(RESNET, device_id=board, custom_ops=[FullDual()])


@pytest.mark.parametrize(
    "option", [{"fidelity": "float"}, {"user_key": b"k"}, {"outside": "all"}, {"attributes": {"a": {"b": 1}}}]
)
def test_options(board: str, option: dict[str, Any]) -> None:
    with pytest.raises(errors.ParamInvalid, match=f"option {next(iter(option))} cannot cross a network"):
        rknnlite.open(RESNET, device_id=board, **option)


def test_options_that_change_nothing(board: str) -> None:
    rknnlite.open(RESNET, device_id=board, fidelity="npu", collect_perf=True, sram=False).close()
    with pytest.raises(errors.ParamInvalid, match="did you mean"):
        rknnlite.open(RESNET, device_id=board, colect_perf=True)


def test_weights_beside_the_model(board: str) -> None:
    with pytest.raises(errors.ParamInvalid, match="weights"):
        rknnlite.open(RESNET, device_id=board, weights=ModelFile(RESNET))


def test_what_is_no_model(board: str) -> None:
    with pytest.raises(errors.ModelInvalid):
        rknnlite.open(b"RKNN" + bytes(200), device_id=board)
