"""Which core mask each worker gets, by the SoC and by what was asked for."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rknnlite import socs
from rknnlite.errors import ParamInvalid, TargetPlatformUnmatch
from rknnlite.pool.core_masks import core_masks, mask_label


@pytest.mark.parametrize(
    ("soc", "workers", "cores", "masks"),
    [
        ("rk3588", 4, "spread", [1, 2, 4, 1]),
        ("rk3576", 3, "spread", [1, 2, 1]),
        ("rk3588", 1, "spread", [None]),
        ("rk3566", 2, "spread", [None, None]),
        ("rk3588", 2, "auto", [None, None]),
        ("rk3588", 2, "all", [0xFFFF, 0xFFFF]),
        ("rk3566", 1, "all", [None]),
        ("rk3588", 2, 4, [4, 4]),
        ("rk3588", 2, [3, 4], [3, 4]),
    ],
)
def test_masks(soc: str, workers: int, cores: Any, masks: list[Any]) -> None:
    assert core_masks(socs.get(soc), workers, cores) == masks


@pytest.mark.parametrize(
    ("soc", "cores", "kind", "message"),
    [
        ("rk3588", "all of them", ParamInvalid, "cores='all of them' is not 'spread'"),
        ("rk3588", [1], ParamInvalid, "1 core masks were given for 2 workers"),
        ("rk3576", 4, ParamInvalid, "core mask 0x4 is not legal on rk3576"),
        ("rk3566", 1, TargetPlatformUnmatch, "a single NPU core and takes no core mask"),
    ],
)
def test_masks_that_cannot_be(soc: str, cores: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        core_masks(socs.get(soc), 2, cores)


def test_labels() -> None:
    assert [mask_label(mask) for mask in (None, 0, 0xFFFF, 5, 2)] == ["auto", "auto", "all", "0,2", "1"]
