"""The probe of insightface-orangepi-rknn from a checkout: float32 NCHW without a data format, a summary as JSON."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

from direct import DATA, DIGIT, demand, inference, seen

MODEL = DATA / "mobilenetv2_like.rk3588.fp16.rknn"
SIZE = (40, 40)

runtime = Path(sys.argv[1]).resolve() / "runtime"
words = {
    "--rknn-path": MODEL, "--input-image": DIGIT, "--model-kind": "recognition", "--input-size": "{},{}".format(*SIZE),
    "--output-json": "probe.json",
}  # fmt: skip
command = [
    sys.executable,
    str(runtime / "probe_rknn_lite2.py"),
    *(str(word) for pair in words.items() for word in pair),
]
subprocess.run(command, check=True)

sys.path.insert(0, str(runtime))
picture = importlib.import_module("probe_rknn_lite2").prepare_image(DIGIT, "recognition", SIZE)
(expected,) = inference(MODEL, picture)
(told,) = json.loads(Path("probe.json").read_text())["outputs"]
demand(told["shape"] == list(expected.shape), f"shape {told['shape']}")
demand((told["min"], told["max"]) == (float(expected.min()), float(expected.max())), f"{told}")
seen(f"an output {told['shape']} between the bounds of a plain program's, from float32 NCHW {picture.shape}")
