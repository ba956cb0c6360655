"""rkvoice-stream: the holder of its speech models on one core. Its own models are not on PyPI; a network of ours stands in."""

from __future__ import annotations

import numpy as np
from direct import DATA, demand_equal, inference, seen
from rkvoice_stream.backends.asr.paraformer_rknn import _RknnRuntime

MODEL = DATA / "mobilenetv2_like.rk3588.fp16.rknn"

sound = np.random.default_rng(1).random((1, 40, 40, 3), np.float32)
runtime = _RknnRuntime(str(MODEL), "NPU_CORE_0")
demand_equal(runtime.inference([sound])[0], inference(MODEL, sound)[0], "outputs")
runtime.release()
seen("the holder of its speech models, on NPU_CORE_0: the numbers of a plain program")
