"""A feature extractor of rk-transformers, from a folder with config.json and model.rknn as its exporter writes them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
from direct import DATA, demand, demand_equal, inference, seen
from rktransformers import RKModelForFeatureExtraction

MODEL = DATA / "embedding.rk3588.fp16.rknn"
LENGTH, WIDTH = 9, 12

folder = Path("embedding")
folder.mkdir()
shutil.copy(MODEL, folder / "model.rknn")
network = {"model_input_names": ["input_ids"], "max_seq_length": LENGTH, "batch_size": 1}
config = {
    "model_type": "bert",
    "hidden_size": WIDTH,
    "vocab_size": 100,
    "num_attention_heads": 1,
    "rknn": {"model.rknn": network},
}
(folder / "config.json").write_text(json.dumps(config))

model = RKModelForFeatureExtraction.from_pretrained(str(folder))
demand(model.platform == "rk3588", f"the platform is {model.platform}")
ids = np.array([[3, 1, 4, 1, 5, 2]])
got = model(input_ids=ids, attention_mask=np.ones_like(ids)).last_hidden_state
padded = np.pad(ids, ((0, 0), (0, LENGTH - ids.shape[1])))
demand_equal(got, inference(MODEL, padded)[0], "last_hidden_state")
seen(
    "RKModelForFeatureExtraction.from_pretrained on rk3588, token ids as int16: the numbers of a plain program"
)
