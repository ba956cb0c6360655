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

QUANTISED = {"i8": "w8a8", "i16": "w16a16i_dfp", "w4a16": "w4a16", "w8a16": "w8a16"}
"""Type in a target's name -> the toolkit's ``quantized_dtype``."""


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
        if "inputs_yuv_fmt" in dict(case.config):
            feeds += yuv_planes(x)
            continue
        if x.ndim == 4:
            x = x.transpose(0, 2, 3, 1)
        feeds.append(np.ascontiguousarray(x.astype(np.uint8) if spec.is_pixels else x))
    return feeds


def yuv_planes(x: Array) -> list[Array]:
    """Brightness of every pixel and colours of every four, as the two inputs of a YUV model take them."""
    pixels = x.astype(np.uint8)
    colours = pixels[:, 1:, ::2, ::2].transpose(0, 2, 3, 1)
    n, h, w, _ = colours.shape
    return [np.ascontiguousarray(pixels[:, 0, :, :, None]), colours.reshape(n, h, 2 * w, 1)]


def check(status: int, step: str) -> None:
    """Raise when a toolkit call reports an error."""
    if status != 0:
        raise ConversionError(f"the toolkit refused: {step}")


def options(case: Case, soc: str, dtype: str) -> dict[str, object]:
    """What ``config`` is told."""
    chosen: dict[str, object] = {"target_platform": soc}
    norm = case.normalisation()
    if norm:
        chosen["mean_values"], chosen["std_values"] = norm
    if case.dynamic:
        chosen["dynamic_input"] = [[list(s) for s in shapes] for shapes in case.dynamic]
    if not case.multicore and soc in ("rk3588", "rk3576"):
        chosen["single_core_mode"] = True
    if dtype in QUANTISED:
        chosen["quantized_dtype"] = QUANTISED[dtype]
    if dtype == "bf16":
        chosen["float_dtype"] = "bfloat16"
    return chosen | dict(case.config)


def build(case: Case, soc: str, dtype: str, onnx: Path, folder: Path) -> RKNN:
    """A built model; in two steps when some layers are to compute in another type."""
    plan: dict[str, object] = {"do_quantization": dtype in QUANTISED}
    if case.batch > 1:
        plan["rknn_batch_size"] = case.batch
    if dtype in QUANTISED:
        plan["dataset"] = str(write_dataset(case, folder))
    rknn = RKNN(verbose=False)
    check(rknn.config(**options(case, soc, dtype)), "config")
    check(rknn.load_onnx(str(onnx)), "load_onnx")
    if not case.hybrid:
        check(rknn.build(**plan), "build")
        return rknn
    check(rknn.hybrid_quantization_step1(dataset=plan["dataset"]), "hybrid_quantization_step1")
    rknn.release()
    settings = Path(f"{onnx.stem}.quantization.cfg")
    layers = "".join(f"\n    {name}: {kind}" for name, kind in case.hybrid)
    text = settings.read_text().replace("custom_quantize_layers: {}", f"custom_quantize_layers:{layers}", 1)
    settings.write_text(text)
    rknn = RKNN(verbose=False)
    files = (f"{onnx.stem}.model", f"{onnx.stem}.data", str(settings))
    check(rknn.config(**options(case, soc, dtype)), "config")
    check(rknn.hybrid_quantization_step2(*files), "hybrid_quantization_step2")
    return rknn


def convert(case: Case, soc: str, dtype: str, onnx: Path, out: Path) -> None:
    """Convert, run the simulator and write ``<out>.rknn`` and ``<out>.npz``."""
    with tempfile.TemporaryDirectory() as folder:
        rknn = build(case, soc, dtype, onnx, Path(folder))
        check(rknn.export_rknn(f"{out}.rknn"), "export_rknn")
        if case.unusable:
            return
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
