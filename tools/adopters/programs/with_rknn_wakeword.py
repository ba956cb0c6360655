"""rknn-wakeword's engine from a checkout, fed by its own log-mel filters; without one of its models, with one of ours."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from direct import DATA, demand, inference, seen

sys.path.insert(0, sys.argv[1])
from inference_rknn import LogMel, RKNNInferenceEngine

OURS = DATA / "mobilenetv2_like.rk3588.fp16.rknn"
theirs = sorted(Path(sys.argv[1]).glob("**/*.rknn"))[:1]
path = theirs[0] if theirs else OURS
engine = RKNNInferenceEngine(str(path), target="rk3588")
demand(engine.load_model(), f"{path.name} is not loaded")
sound = np.sin(np.arange(24000) * 0.05) * np.linspace(0, 1, 24000)
features = LogMel()(sound)[np.newaxis, np.newaxis]
demand(features.shape == (1, 1, 40, 151), f"features {features.shape}")
attr = engine.rknn.rknn_runtime.get_tensor_attr(0)
batch, height, width, channels = attr.dims[: attr.n_dims]
given = features if theirs else np.random.default_rng(1).random((batch, channels, height, width), np.float32)
probabilities = engine.infer(given)
(logits,) = inference(path, given, data_format="nchw")
weights = np.exp(logits - logits.max())
demand(np.array_equal(probabilities, weights / weights.sum(axis=-1, keepdims=True)), "probabilities")
engine.release()
seen(f"{path.name}: {probabilities.size} probabilities of an NCHW input {given.shape}, as of a plain program")
