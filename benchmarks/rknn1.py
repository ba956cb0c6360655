"""A network of the first generation on the CPU reference beside OpenCV's dnn module on its source network.

    python benchmarks/rknn1.py FILE.rknn NETWORK.onnx [--rounds 5] [--threads 1] [--engine onnxruntime]

Both take turns in one process; what counts is the ratio of the minima. Ours includes the conversion of uint8 pixels.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import cv2
import numpy as np

import rknnlite


def main() -> None:
    """Measure and print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("network")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--engine")
    args = parser.parse_args()
    cv2.setNumThreads(args.threads)
    net = cv2.dnn.readNetFromONNX(args.network)
    options = {"engine": args.engine} if args.engine else {}
    with rknnlite.open(args.model, backend="cpu", threads=args.threads, **options) as model:
        shape = model.inputs[0].dims
        picture = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        blob = picture.transpose(0, 3, 1, 2).astype(np.float32) / 255
        names = net.getUnconnectedOutLayersNames()

        def theirs() -> None:
            net.setInput(blob)
            net.forward(names)

        times: dict[str, list[float]] = {"ours": [], "theirs": []}
        for _ in range(args.rounds + 1):
            for name, call in (("ours", lambda: model.infer([picture])), ("theirs", theirs)):
                start = perf_counter()
                call()
                times[name].append(perf_counter() - start)
    ours, other = (min(times[name][1:]) for name in ("ours", "theirs"))
    print(f"ours {1000 * ours:.1f} ms, OpenCV {1000 * other:.1f} ms, ratio {ours / other:.2f}")


if __name__ == "__main__":
    main()
