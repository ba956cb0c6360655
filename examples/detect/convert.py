#!/usr/bin/env python3
"""Convert the trained ONNX to int8 .rknn files.

    python convert.py detect.onnx SCENES          # SCENES is a folder that scenes.py --calibration has filled

Runs on an x86-64 PC with rknn-toolkit2; not needed to run test.py.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path

import numpy as np
from rknn.api import RKNN

HERE = Path(__file__).resolve().parent
TARGETS = {"rk3588": "RK3588", "rk3566": "RK3566_RK3568", "rk3562": "RK3562", "rk3576": "RK3576"}


def convert(onnx: str, listing: str, platform: str, answers: Path | None) -> None:
    """One file; with a folder for answers also what the simulator says about the first of the scenes."""
    rknn = RKNN(verbose=False)
    rknn.config(target_platform=platform, mean_values=[[0, 0, 0]], std_values=[[255, 255, 255]])
    out = HERE / f"detect_for_{TARGETS[platform]}.rknn"
    for step in (
        lambda: rknn.load_onnx(onnx),
        lambda: rknn.build(do_quantization=True, dataset=listing),
        lambda: rknn.export_rknn(str(out)),
        lambda: rknn.init_runtime(),
    ):
        if step() != 0:
            sys.exit(f"{platform}: the converter refused this model, see its messages above")
    print(f"{out.name}: {out.stat().st_size} bytes", flush=True)
    if answers is not None:
        square = np.load(answers / "square.npy")
        outputs = rknn.inference([square], data_format=["nhwc"])
        np.savez_compressed(
            answers / f"{out.stem}.npz", in0=square, **{f"out{n}": o for n, o in enumerate(outputs)}
        )
    rknn.release()


def main() -> None:
    scenes = sorted(Path(sys.argv[2]).resolve().glob("*.npy"))
    answers = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    with tempfile.TemporaryDirectory() as folder:
        listing = Path(folder) / "dataset.txt"
        listing.write_text("\n".join(map(str, scenes)) + "\n")
        for platform in TARGETS:
            convert(sys.argv[1], str(listing), platform, answers)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
