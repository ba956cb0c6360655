"""Models with several shapes: each array selects one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rknnlite.api import RKNNLite
from rknnlite.errors import ContextInvalid
from rknnlite.spi import Context

from .fake_backend import Bench, image_input

SIZES = (8, 4, 12)


@pytest.fixture
def dynamic(bench: Bench, capfd: pytest.CaptureFixture[str]) -> RKNNLite:
    bench.inputs = [image_input(dims=(1, 8, 8, 3))]
    bench.shapes = [[(1, size, size, 3)] for size in SIZES]
    rknn = RKNNLite()
    rknn.rknn_data = b"model"
    assert rknn.init_runtime() == 0
    capfd.readouterr()
    return rknn


def test_nchw_images_of_every_size(dynamic: RKNNLite, bench: Bench) -> None:
    for size in SIZES:
        image = np.ones((1, 3, size, size), np.uint8)
        assert dynamic.inference(inputs=[image], data_format=["nchw"])[0][0, 0] == image.sum()
        assert ("set_shapes", [(1, size, size, 3)]) in bench.calls
        assert dynamic.rknn_runtime.get_tensor_attr(0).dims == [1, size, size, 3]


def test_nhwc_and_images_without_batch_dimension(dynamic: RKNNLite) -> None:
    for size in SIZES:
        assert dynamic.inference([np.ones((1, size, size, 3), np.uint8)]) is not None
        assert dynamic.inference([np.ones((size, size, 3), np.uint8)]) is not None
        assert dynamic.inference([np.ones((1, 3, size, size), np.float32)]) is not None


def test_shape_is_set_when_it_changes_only(dynamic: RKNNLite, bench: Bench) -> None:
    for size in (8, 8, 4, 4, 8):
        dynamic.inference([np.ones((1, size, size, 3), np.uint8)])
    assert bench.names().count("set_shapes") == 3


def test_shapes_are_looked_at_once_per_frame(dynamic: RKNNLite, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    follow = Context.follow_shapes

    def counted(self: Context, *args: Any, **options: Any) -> None:
        looks.append(args)
        follow(self, *args, **options)

    monkeypatch.setattr(Context, "follow_shapes", counted)
    for size in (8, 8, 4):
        assert dynamic.inference([np.ones((1, size, size, 3), np.uint8)]) is not None
    assert len(looks) == 3


def test_data_that_is_passed_through_selects_the_shape_too(dynamic: RKNNLite, bench: Bench) -> None:
    for size in (8, 4):
        assert dynamic.inference([np.ones((1, size, size, 3), np.int8)], inputs_pass_through=[1]) is not None
    assert [call[1][0][1] for call in bench.calls if call[0] == "set_shapes"] == [8, 4]


def test_unsupported_shape_lists_the_legal_ones(dynamic: RKNNLite, capfd: pytest.CaptureFixture[str]) -> None:
    assert dynamic.inference([np.ones((1, 5, 5, 3), np.uint8)]) is None
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(
        "E Catch exception when setting inputs. Set input shape failed. error code: RKNN_ERR_FAIL. "
    )
    assert "[1, 5, 5, 3]" in line
    assert all(f"[1, {size}, {size}, 3]" in line for size in SIZES)
    assert dynamic.inference([np.ones((1, 4, 4, 3), np.uint8)]) is not None


def test_other_errors_of_set_shapes_keep_their_text(
    dynamic: RKNNLite, bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    bench.faults["set_shapes"] = ContextInvalid("closed")
    assert dynamic.inference([np.ones((1, 4, 4, 3), np.uint8)]) is None
    assert "closed (error code: RKNN_ERR_CTX_INVALID)" in capfd.readouterr().err
    assert dynamic.inference([np.ones((1, 4, 4, 3), np.uint8)]) is not None


def test_wrong_rank(dynamic: RKNNLite, capfd: pytest.CaptureFixture[str]) -> None:
    assert dynamic.inference([np.ones((5, 5), np.uint8)]) is None
    assert "The input[0] need 4dims input, but 2dims input buffer feed." in capfd.readouterr().err


def test_is_dynamic_shape(dynamic: RKNNLite, bench: Bench) -> None:
    assert dynamic.rknn_runtime.is_dynamic_shape is True
    bench.shapes = []
    dynamic.init_runtime()
    assert dynamic.rknn_runtime.is_dynamic_shape is False
