"""One conversion with the vendor's PC toolkit: an ONNX file to ``.rknn`` and the simulator's answers.

Runs in a process of its own, because the toolkit ends the process when it gives up on a model:

    python convert.py REGISTRY.py CASE SOC.DTYPE MODEL.onnx OUT_PREFIX
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from case import Array, Case, load_registry
from rknn.api import RKNN


class ConversionError(Exception):
    """The toolkit refused a step."""


def write_dataset(case: Case, folder: Path) -> Path:
    """Write the calibration samples and the list file that names them."""
    shapes = largest(case)
    lines = []
    for n in range(case.samples):
        rng, names = case.rng(f"calibration{n}"), []
        for i, (spec, shape) in enumerate(zip(case.inputs, shapes, strict=True)):
            names.append(str(folder / f"{n}_{i}.npy"))
            np.save(names[-1], spec.sample(rng, shape))
        lines.append(" ".join(names))
    listing = folder / "dataset.txt"
    listing.write_text("\n".join(lines) + "\n")
    return listing


def largest(case: Case) -> list[tuple[int, ...]]:
    """The shapes of the largest shape set (the declared shapes for a static case)."""
    sets = [list(shapes) for shapes in case.dynamic] or [[spec.shape for spec in case.inputs]]
    return max(sets, key=lambda shapes: sum(int(np.prod(s)) for s in shapes))


def feeds_of(case: Case, shapes: list[tuple[int, ...]], purpose: str) -> list[Array]:
    """Inputs as the simulator takes them: pixels as NHWC uint8, everything else as it is."""
    rng, feeds = case.rng(purpose), []
    for spec, shape in zip(case.inputs, shapes, strict=True):
        x = spec.sample(rng, (shape[0] * case.batch, *shape[1:]))
        if x.ndim == 4:
            x = x.transpose(0, 2, 3, 1)
        feeds.append(np.ascontiguousarray(x.astype(np.uint8) if spec.is_pixels else x))
    return feeds


def check(status: int, step: str) -> None:
    """Raise when a toolkit call reports an error."""
    if status != 0:
        raise ConversionError(f"the toolkit refused: {step}")


def convert(case: Case, soc: str, dtype: str, onnx: Path, out: Path) -> None:
    """Convert, run the simulator and write ``<out>.rknn`` and ``<out>.npz``."""
    config: dict[str, object] = {}
    norm = case.normalisation()
    if norm:
        config["mean_values"], config["std_values"] = norm
    if case.dynamic:
        config["dynamic_input"] = [[list(s) for s in shapes] for shapes in case.dynamic]
    if not case.multicore and soc in ("rk3588", "rk3576"):
        config["single_core_mode"] = True
    build: dict[str, object] = {"do_quantization": dtype == "i8"}
    if case.batch > 1:
        build["rknn_batch_size"] = case.batch
    with tempfile.TemporaryDirectory() as folder:
        if dtype == "i8":
            build["dataset"] = str(write_dataset(case, Path(folder)))
        rknn = RKNN(verbose=False)
        check(rknn.config(target_platform=soc, **config), "config")
        check(rknn.load_onnx(str(onnx)), "load_onnx")
        check(rknn.build(**build), "build")
        check(rknn.export_rknn(f"{out}.rknn"), "export_rknn")
        check(rknn.init_runtime(), "init_runtime")
        arrays: dict[str, Array] = {}
        sets = [list(shapes) for shapes in case.dynamic] or [[spec.shape for spec in case.inputs]]
        for n, shapes in enumerate(sets):
            prefix = f"s{n}_" if case.dynamic else ""
            feeds = feeds_of(case, shapes, f"run{n}")
            outputs = rknn.inference(feeds, data_format=["nhwc"] * len(feeds))
            if outputs is None:
                raise ConversionError("the simulator returned nothing")
            arrays |= {f"{prefix}in{i}": x for i, x in enumerate(feeds)}
            arrays |= {f"{prefix}out{i}": y for i, y in enumerate(outputs)}
        rknn.release()
    np.savez_compressed(f"{out}.npz", **arrays)


def main() -> None:
    """Convert the one case named on the command line."""
    registry, name, target, onnx, out = sys.argv[1:6]
    soc, dtype = target.split(".")
    convert(load_registry(Path(registry))[name], soc, dtype, Path(onnx), Path(out))


if __name__ == "__main__":
    main()
