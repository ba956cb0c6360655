#!/usr/bin/env python3
"""Convert the detector twice: with its two heads as outputs, and with cstYoloDetect behind them.

python convert.py shapes.onnx       # on an x86-64 PC with rknn-toolkit2 and onnx; not needed to run test.py
"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from decode import MOST, cstYoloDetect
from onnx import TensorProto, helper
from rknn.api import RKNN
from shapes import EXAMPLE, compose

HERE = Path(__file__).resolve().parent


def with_detect(heads: str, out: Path) -> None:
    """Append the operator to the exported network."""
    model = onnx.load(heads)
    graph = model.graph
    results = {"boxes": [1, MOST, 4], "scores": [1, MOST], "classes": [1, MOST]}
    heads_out = [output.name for output in graph.output]
    graph.node.append(helper.make_node("cstYoloDetect", heads_out, list(results), name="detect"))
    del graph.output[:]
    graph.output.extend(
        helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in results.items()
    )
    onnx.save(model, out)


def convert(source: str, out: Path, listing: Path, answer: Path | None) -> None:
    rknn = RKNN(verbose=False)
    rknn.config(target_platform="rk3588", mean_values=[[0, 0, 0]], std_values=[[255, 255, 255]])
    if rknn.reg_custom_op(cstYoloDetect()) != 0:
        sys.exit("the toolkit refused the operator")
    for step in (
        lambda: rknn.load_onnx(source),
        lambda: rknn.build(do_quantization=True, dataset=str(listing)),
        lambda: rknn.export_rknn(str(out)),
        lambda: rknn.init_runtime(),
    ):
        if step() != 0:
            sys.exit("the converter refused this model, see its messages above")
    if answer is not None:  # what the simulator says about the example picture
        picture, _ = compose(np.random.default_rng(EXAMPLE))
        outputs = rknn.inference([picture[None]], data_format=["nhwc"])
        np.savez_compressed(answer, in0=picture[None], **{f"out{i}": o for i, o in enumerate(outputs)})
    rknn.release()


def main() -> None:
    answers = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for n in range(60):
            picture, _ = compose(np.random.default_rng(20_000_000 + n))
            names.append(f"{folder}/{n}.npy")
            np.save(names[-1], picture.transpose(2, 0, 1)[None])
        listing = Path(folder) / "dataset.txt"
        listing.write_text("\n".join(names))
        with_detect(sys.argv[1], Path(folder) / "detect.onnx")
        for source, name in ((sys.argv[1], "heads"), (f"{folder}/detect.onnx", "detect")):
            convert(
                source,
                HERE / f"shapes_{name}_for_RK3588.rknn",
                listing,
                answers and answers / f"shapes_{name}.npz",
            )


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
