"""Shared memory: mapped by the library, or created and bound; the double sees only what was synchronised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rknnlite.errors import ContextInvalid, InputInvalid, ParamInvalid
from rknnlite.spi import Input
from tests.doubles.rknn1.double1 import Double1
from tests.support.rknn1_files import F32, u8

from .conftest import picture, scores

Start = Callable[..., Any]


def stored(image: Any) -> Any:
    """A picture as the elements of the input tensor lie."""
    return (image.transpose(0, 3, 1, 2).astype(np.int64) * 2 + 128).clip(0, 255).astype(np.uint8).reshape(-1)


def real(memory: Any) -> Any:
    """The output's memory as real numbers."""
    return (memory.ndarray.astype(np.float32) - 100) * 0.5


def test_mapped_inputs_and_outputs(start: Start, double: Double1) -> None:
    context = start()
    (given,), (got,) = context.map_inputs(), context.map_outputs()
    assert given.size == 72 and given.fd == 100 and given.phys == 0x1000 and given.mapped
    for seed in range(3):
        image = picture(seed)
        given.ndarray[:] = stored(image)
        context.run()
        np.testing.assert_array_equal(real(got)[None], scores(image))
    assert double.count("rknn_inputs_sync") == double.count("rknn_outputs_sync") == 3
    assert double.count("rknn_inputs_set") == double.count("rknn_outputs_get") == 0
    assert context.frame_id == 3 and context.last_run_us > 0


def test_one_side_only(start: Start) -> None:
    """Inputs by the common path, outputs mapped: as programs in the field do."""
    context, image = start(), picture()
    (got,) = context.map_outputs()
    context.set_inputs([Input(0, image)])
    context.run()
    np.testing.assert_array_equal(real(got)[None], scores(image))
    with pytest.raises(ContextInvalid, match="must not be mixed"):
        context.get_outputs()


def test_mapped_inputs_with_fetched_outputs(start: Start) -> None:
    context, image = start(), picture()
    (given,) = context.map_inputs()
    given.ndarray[:] = stored(image)
    context.run()
    np.testing.assert_array_equal(context.get_outputs()[0], scores(image))
    with pytest.raises(ContextInvalid, match="must not be mixed"):
        context.set_inputs([Input(0, image)])


def test_unmapping_leads_back_to_the_common_path(start: Start, double: Double1) -> None:
    context, image = start(inputs=(((1, 3, 4, 6), u8(0.5, 128)), ((1, 2), F32))), picture()
    first, second = context.map_inputs()
    with pytest.raises(ContextInvalid, match="have memory already"):
        context.map_inputs()
    view = first.ndarray
    first.close()
    assert second.closed, "what was mapped together goes together"
    with pytest.raises(ContextInvalid, match="still alive"):
        context.map_inputs()
    view[:] = 0
    del view
    assert double.live() == {"contexts": 1}
    (out,) = context.infer([image, np.zeros((1, 2), np.float32)])
    np.testing.assert_array_equal(out, scores(image))
    context.map_inputs()


def test_created_and_bound(start: Start) -> None:
    context, image = start(), picture()
    given, got = (
        context.create_mem(attrs[0].size_with_stride)
        for attrs in (context.native_inputs, context.native_outputs)
    )
    with pytest.raises(ContextInvalid, match="set inputs"):
        context.run()
    context.bind(context.native_inputs[0], given)
    context.bind(context.native_outputs[0], got)
    given.ndarray[:] = stored(image)
    context.run()
    np.testing.assert_array_equal(real(got)[None], scores(image))
    given.close()
    with pytest.raises(ContextInvalid, match="set inputs"):
        context.run()


def test_what_bind_refuses(start: Start) -> None:
    context, other = start(), start()
    (attr,) = context.native_inputs
    with pytest.raises(InputInvalid, match="has 71 bytes, 72 are needed"):
        context.bind(attr, context.create_mem(71))
    with pytest.raises(ParamInvalid, match="belongs to another context"):
        context.bind(attr, other.create_mem(72))
    with pytest.raises(ParamInvalid, match="native_inputs and native_outputs as it is"):
        context.bind(replace(attr, dims=(1, 4, 6, 3)), context.create_mem(72))
    (mapped,) = context.map_outputs()
    with pytest.raises(ParamInvalid, match="bound already"):
        context.bind(attr, mapped)
    with pytest.raises(ParamInvalid, match="takes none"):
        context.create_mem(72, flags=1)
    with pytest.raises(ParamInvalid, match="0 bytes"):
        context.create_mem(0)


def test_some_tensors_only(start: Start) -> None:
    context = start(inputs=(((1, 3, 4, 6), u8(0.5, 128)), ((1, 2), F32)))
    context.bind(context.native_inputs[0], context.create_mem(72))
    with pytest.raises(ContextInvalid, match="some inputs only; bind in1"):
        context.run()


def test_sync(start: Start, double: Double1) -> None:
    context = start()
    (given,), loose = context.map_inputs(), context.create_mem(8)
    context.sync(given, "to_device")
    context.sync(given, "from_device")  # nothing comes from the device to inputs
    context.sync(given, "both")
    assert double.count("rknn_inputs_sync") == 2
    (got,) = context.map_outputs()
    context.run()
    context.sync(got, "from_device")  # run has waited already
    assert double.count("rknn_outputs_sync") == 1
    context.start()
    context.sync(got, "both")
    assert double.count("rknn_outputs_sync") == 2
    with pytest.raises(ParamInvalid, match="bound to no tensor"):
        context.sync(loose, "both")
    with pytest.raises(ParamInvalid, match="direction"):
        context.sync(given, "up")
