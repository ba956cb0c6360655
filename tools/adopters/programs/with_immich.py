"""Immich's RknnSession from a checkout: its pool of two contexts, NCHW floats, and outputs as the NPU stores them."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from direct import DATA, demand, demand_equal, inference, seen

sys.path.insert(0, str(Path(sys.argv[1]) / "machine-learning"))
from immich_ml.sessions import rknn as immich

MODEL = DATA / "mobilenetv2_like.rk3588.fp16.rknn"

demand(
    immich.is_available and immich.soc_name == "rk3588",
    f"is_available {immich.is_available}, soc_name {immich.soc_name}",
)
immich.settings.rknn_threads = 2
session = immich.RknnSession(MODEL)
shape = session.get_inputs()[0].shape
random = np.random.default_rng(1)
pictures = [random.random(shape, dtype=np.float32) for _ in range(6)]
with ThreadPoolExecutor(4) as threads:
    ran = list(threads.map(lambda p: session.run(None, {"input": np.transpose(p, (0, 3, 1, 2))}), pictures))
for picture, outputs in zip(pictures, ran):
    demand_equal(outputs[0], inference(MODEL, picture)[0], "outputs")
told = f"{len(ran)} pictures from four threads, as of a plain program"
pool = sys.modules[immich.RknnPoolExecutor.__module__]
if hasattr(pool, "native_outputs"):
    face = session.rknnpool.rknn_pool[0]
    expected = face.inference(inputs=[pictures[0]])
    native = pool.native_outputs(face)
    demand(native[0].dtype == np.float16, f"a native output is {native[0].dtype}")
    demand_equal(native[0], expected[0], "native outputs")
    told += "; native float16 outputs by rknn_outputs_get"
session.rknnpool.release()
seen(told)
