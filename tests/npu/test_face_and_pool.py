"""The vendor's face, pools and calls that do not wait: the tests of the CPU reference, on the NPU's words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite import plugins
from rknnlite.api import RKNNLite
from rknnlite.formats import ModelFile
from rknnlite.spi import Context, OpenOptions
from tests.api.test_genuine import (  # noqa: F401  collected here
    test_attributes_describe_what_comes_back,
    test_integer_tokens,
    test_nhwc_nchw_and_mapping_agree,
)
from tests.pool import test_cpu as rules
from tests.pool.test_cpu import (  # noqa: F401  collected here
    test_a_bad_model_raises_at_once,
    test_a_callback_may_close_the_context,
    test_an_async_call_waits_for_whoever_holds_the_context,
    test_async_inputs_are_watched_on_request,
    test_async_mode_answers_with_the_frame_before,
    test_bytes_will_do,
    test_closing_waits_for_the_call_under_way_and_cancels_the_others,
    test_infer_async,
)
from tests.support.corpus import genuine, golden_of

from .backend_name import BACKEND

Pool = rknnlite.Pool


@pytest.fixture(autouse=True)
def on_the_npu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What those tests open."""

    def opened(source: Any, **options: Any) -> Context:
        model = source if isinstance(source, ModelFile) else ModelFile(source)
        return plugins.backend(BACKEND).open(model, OpenOptions(**options))

    def pool(*args: Any, **options: Any) -> rknnlite.Pool:
        return Pool(*args, **{**options, "backend": BACKEND})

    monkeypatch.setenv("RKNNLITE_BACKEND", BACKEND)
    monkeypatch.setattr(rules, "open_cpu", opened)
    monkeypatch.setattr(rknnlite, "Pool", pool)


def infer(name: str) -> list[np.ndarray]:
    """The outputs of one context."""
    with rknnlite.open(genuine(name), backend=BACKEND) as context:
        return context.infer(*golden_of(name).inputs)


@pytest.mark.parametrize("name", ["mean_std.rk3588.i8", "batch_four.rk3588.i8", "vit_like.rk3588.i8"])
def test_a_pool_gives_what_a_context_gives(name: str) -> None:
    expected = infer(name)
    with rknnlite.Pool(genuine(name), 3) as pool:
        for outputs in pool.map([golden_of(name).inputs] * 8):
            assert all(np.array_equal(a, b) for a, b in zip(outputs, expected))


@pytest.mark.parametrize("name", ["two_images.rk3588.i8", "dynamic_three.rk3588.i8", "vit_like.rk3588.i8"])
def test_the_face_gives_what_a_context_gives(name: str) -> None:
    rknn = RKNNLite()
    assert rknn.load_rknn(str(genuine(name))) == 0 and rknn.init_runtime() == 0
    for a, b in zip(rknn.inference(golden_of(name).inputs), infer(name)):
        assert np.array_equal(a, b)
    rknn.release()


def test_the_face_takes_every_shape() -> None:
    rknn = RKNNLite()
    assert rknn.load_rknn(str(genuine("dynamic_three.rk3588.i8"))) == 0 and rknn.init_runtime() == 0
    for shapes in rknn.rknn_runtime._shapes:
        assert rknn.inference([np.ones(shape, np.uint8) for shape in shapes]) is not None
        assert [tuple(attr.dims) for attr in rknn.rknn_runtime.get_inputs()] == [
            tuple(shape) for shape in shapes
        ]
    rknn.release()


def test_a_pool_of_a_custom_operator_has_operators_of_its_own() -> None:
    rules.test_custom_operators_get_nodes_of_their_own()


@pytest.mark.parametrize("name", ["mean_std.rk3588.i8", "pooling.rk3588.i8"])
def test_a_duplicate_gives_the_same(name: str) -> None:
    with rknnlite.open(genuine(name), backend=BACKEND) as context, context.dup() as twin:
        inputs = golden_of(name).inputs
        for a, b in zip(context.infer(*inputs), twin.infer(*inputs)):
            assert (a == b).all()
