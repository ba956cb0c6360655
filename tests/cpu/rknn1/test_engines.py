"""Files of the first toolkit on an engine: the same bytes as on the numpy kernels, with exact products and early zero points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.support.corpus import open_cpu
from tools.sweep1.sequences_and_regions import CASES

NAMES = [
    "conv", "conv_uneven", "conv_first_layer", "depthwise", "depthwise_2", "grouped_conv2d", "conv_i8", "conv_relu", "fcl_relu",
    "deconv_io_4", "deconv_depthwise", "max_pool", "avg_pool_pad", "add", "subtract_channels", "multiply", "maximum", "divide",
    "concat", "pad", "relu", "relu6", "clip", "resize_bilinear", "resize_nearest_half", "reduce_mean_hw", "batch_norm",
    "conv1d_relu", "grouped_conv1d", "upsample_2", "roi_pool", "leaky_relu", "conv_leaky",
]  # fmt: skip


def outputs(name: str, engine: str) -> tuple[list[np.ndarray], int]:
    """Stored outputs, and how many groups of nodes an engine computed."""
    file = CASES[name]()
    with open_cpu(file.data, extra={"engine": engine}) as context:
        inputs: list[Any] = []
        for attr, x in zip(context.inputs, file.stored_inputs()):
            inputs.append(np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if x.ndim == 4 else x)
            assert tuple(attr.dims) == inputs[-1].shape
        for _ in range(3):
            found = [np.asarray(answer.data) for answer in context.infer(inputs, raw=True)]
        accelerator = context._shapes.current.plan._accelerator  # type: ignore[attr-defined]
        return found, len(accelerator._islands) if accelerator is not None else 0


@pytest.mark.parametrize("name", NAMES)
def test_same_bytes(name: str) -> None:
    plain, _ = outputs(name, "numpy")
    fast, _ = outputs(name, "onnxruntime")
    assert all(np.array_equal(a, b) for a, b in zip(plain, fast))


def test_convolutions_are_on_the_engine() -> None:
    """They are lowered exactly, else the proof of each node would leave them to numpy."""
    assert outputs("conv_relu", "onnxruntime")[1] == 1
