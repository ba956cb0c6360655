"""The encoders as float16 ``.rknn`` files, by the vendor's PC toolkit: ``python convert.py FOLDER PLATFORM [NAME ...]``.

Run by a Python that has the toolkit. Beside every ``.rknn`` goes ``KIND.simulated.npz``: what the toolkit's simulator gave for the
first input.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from rknn.api import RKNN


def convert(onnx: Path, platform: str, first: np.ndarray) -> None:
    """One encoder."""
    rknn = RKNN(verbose=False)
    rknn.config(target_platform=platform)
    for step in (
        lambda: rknn.load_onnx(str(onnx)),
        lambda: rknn.build(do_quantization=False),
        lambda: rknn.export_rknn(str(onnx.with_suffix(".rknn"))),
        rknn.init_runtime,
    ):
        if step() != 0:
            sys.exit(f"{onnx}: the toolkit refused it, see its messages above")
    given = first.transpose(0, 2, 3, 1) if first.ndim == 4 else first
    outputs = rknn.inference([np.ascontiguousarray(given)], data_format=["nhwc"])
    np.savez_compressed(onnx.with_suffix(".simulated.npz"), **{f"out{i}": y for i, y in enumerate(outputs)})
    rknn.release()


def main() -> None:
    """Folder, platform, then names of cases."""
    root, platform, names = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    for onnx in sorted(root.glob("*/*.onnx")):
        if not names or onnx.parent.name in names:
            convert(onnx, platform, np.load(onnx.parent / "inputs.npz")[onnx.stem][0])
            print(onnx.parent.name, onnx.stem, "ok", flush=True)


if __name__ == "__main__":
    main()
