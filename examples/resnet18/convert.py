#!/usr/bin/env python3
"""Convert the trained ONNX to int8 .rknn files and measure them on the vendor's simulator.

    python convert.py resnet18.onnx --check 360
    python convert.py dynamic.onnx --sizes 224 160 256 --samples 60 --out '../dynamic_shape/dynamic_for_{}.rknn'

Runs on a PC with rknn-toolkit2 (plus scikit-learn and opencv-python-headless); not needed to run test.py.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
from digits import SEED, load_split, pictures
from rknn.api import RKNN

MEAN, STD = [[123.675, 116.28, 103.53]], [[58.395, 57.12, 57.375]]
TARGETS = {"rk3588": "RK3588", "rk3566": "RK3566_RK3568", "rk3562": "RK3562", "rk3576": "RK3576"}


def calibration(folder: Path, size: int, count: int) -> Path:
    """Write pictures of training digits and the list that the converter reads."""
    digits, _, _, _ = load_split()
    names = []
    for n, picture in enumerate(pictures(digits[:count], size, SEED + 1)):
        names.append(f"{folder}/{n:03}.png")
        cv2.imwrite(names[-1], cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    listing = folder / "dataset.txt"
    listing.write_text("\n".join(names) + "\n")
    return listing


def build(onnx: str, platform: str, listing: Path, out: str, sizes: list[int]) -> RKNN:
    """Quantise, export, and return the toolkit object with its simulator ready."""
    rknn = RKNN(verbose=False)
    shapes = [[[1, 3, size, size]] for size in sizes]
    rknn.config(
        target_platform=platform,
        mean_values=MEAN,
        std_values=STD,
        **({"dynamic_input": shapes} if shapes else {}),
    )
    for step in (
        lambda: rknn.load_onnx(onnx),
        lambda: rknn.build(do_quantization=True, dataset=str(listing)),
        lambda: rknn.export_rknn(out),
        lambda: rknn.init_runtime(),
    ):
        if step() != 0:
            sys.exit(f"{platform}: the converter refused this model, see its messages above")
    return rknn


def check(rknn: RKNN, size: int, count: int) -> float:
    """Share of held-out pictures that the simulator names correctly."""
    _, _, digits, labels = load_split()
    hits = 0
    for picture, label in zip(pictures(digits[:count], size, SEED + 2), labels):
        hits += int(rknn.inference([picture[None]], data_format=["nhwc"])[0].argmax() == label)
    return hits / count


def golden(rknn: RKNN, picture: str, sizes: list[int], out: Path) -> None:
    """Save the simulator's answer to the picture: in0, out0 (s0_in0, s0_out0, ... with several sizes)."""
    image = cv2.cvtColor(cv2.imread(picture), cv2.COLOR_BGR2RGB)
    arrays = {}
    for n, size in enumerate(sizes or [224]):
        prefix = f"s{n}_" if sizes else ""
        x = cv2.resize(image, (size, size))[None]
        arrays[prefix + "in0"], arrays[prefix + "out0"] = x, rknn.inference([x], data_format=["nhwc"])[0]
        logits = arrays[prefix + "out0"].reshape(-1).astype(np.float64)
        scores = np.exp(logits - logits.max())
        scores /= scores.sum()
        top = ", ".join(f"{c} {scores[c]:.6f}" for c in (-scores).argsort(kind="stable")[:5])
        print(f"{out.stem} {size} px: top 5: {top}", flush=True)
    np.savez_compressed(out, **arrays)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("onnx")
    parser.add_argument("--out", default="resnet18_for_{}.rknn", help="name pattern of the files to write")
    parser.add_argument("--platforms", nargs="+", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--sizes", nargs="*", type=int, default=[], help="picture sizes of a dynamic model")
    parser.add_argument("--samples", type=int, default=100, help="training pictures for the calibration")
    parser.add_argument("--check", type=int, default=0, help="held-out pictures to run on the simulator")
    parser.add_argument("--picture", help="test picture, for --golden")
    parser.add_argument("--golden", type=Path, help="folder for the simulator's answers to the test picture")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        listing = calibration(Path(folder), max(args.sizes, default=224), args.samples)
        for platform in args.platforms:
            out = args.out.format(TARGETS[platform])
            rknn = build(args.onnx, platform, listing, out, args.sizes)
            print(f"{out}: {Path(out).stat().st_size} bytes", flush=True)
            for size in (args.sizes or [224]) if args.check else []:
                print(f"{out} {size} px: simulator accuracy {check(rknn, size, args.check):.4f}", flush=True)
            if args.golden:
                golden(rknn, args.picture, args.sizes, args.golden / (Path(out).stem + ".npz"))
            rknn.release()


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
