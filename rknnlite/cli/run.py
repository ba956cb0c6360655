"""``rknnlite run``: one inference on files, with the outputs as a summary, as ``.npy`` files, or both."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from ..commandline.options import add_inputs, add_isolation, add_model, between, open_context
from ..files.input_arrays import arrays_for
from ..files.writing import write_array
from ..spi import Context
from ..spi.command import Command, Console, Exit
from ..tensor import TensorAttr

__all__ = ["COMMAND"]

Array = NDArray[Any]
_LIST = 4096  # elements of an output that are still ranked as a list of scores


@dataclass(frozen=True)
class Result:
    """One output: what it is, what it holds, where it was written."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    minimum: float
    maximum: float
    mean: float
    top: list[tuple[int, float]]
    file: Optional[Path] = None
    scale: Optional[float] = None
    zero_point: Optional[int] = None

    @classmethod
    def of(cls, attr: TensorAttr, array: Array, top: int, file: Path | None, raw: bool) -> Result:
        """Sum an output up."""
        flat = array.reshape(-1)
        order = np.argsort(-flat.astype(np.float64), kind="stable")[:top] if flat.size <= _LIST else ()
        best = [(int(i), float(flat[i])) for i in order]
        low, high, mean = (
            (float(f(flat)) for f in (np.min, np.max, np.mean)) if flat.size else (0.0, 0.0, 0.0)
        )
        quant = attr.quant if raw and not attr.dtype.is_float else None
        scale, zero = (quant.scale, quant.zero_point) if quant else (None, None)
        return cls(attr.name, array.shape, str(array.dtype), low, high, mean, best, file, scale, zero)

    def __str__(self) -> str:
        quant = f", real = (x - {self.zero_point}) * {self.scale:g}" if self.scale is not None else ""
        head = (
            f"{self.name} {list(self.shape)} {self.dtype}: min {self.minimum:g}, max {self.maximum:g}, "
            f"mean {self.mean:g}{quant}"
        )
        lines = [head, *(f"  {index:5d}: {value:g}" for index, value in self.top)]
        return "\n".join([*lines, *([f"  written to {self.file}"] if self.file else [])])


class Run(Command):
    """See the module."""

    name = "run"
    help = "run a model once on files"
    examples = (
        "rknnlite run model.rknn picture.jpg",
        "rknnlite run model.rknn picture.jpg --device board:8001",
        "rknnlite run model.rknn --core-mask core_0 --out results input0.npy input1.npy",
    )
    common = ("--out", "--raw", "--top", "--bgr", "--backend", "--device")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add_model(parser)
        add_inputs(parser)
        add_isolation(parser)
        parser.add_argument("--out", type=Path, metavar="FOLDER", help="write every output there as .npy")
        parser.add_argument("--raw", action="store_true", help="outputs as stored (int8, ...), not float32")
        parser.add_argument(
            "--top",
            type=between(int, 0, _LIST),
            default=5,
            metavar="N",
            help="largest values to show (default: 5)",
        )

    def run(self, args: argparse.Namespace, console: Console) -> int:
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
        with console.progress("run"), open_context(args) as context:
            if not args.inputs:
                console.note("no input files: running on made-up data")
            arrays = arrays_for(args.inputs, context.inputs, args.bgr)
            outputs = context.infer(arrays, layout=args.layout, raw=args.raw)
            arrays = [output.data for output in outputs] if args.raw else outputs
            results = _results(context, arrays, args)
            data = {
                "model": str(args.model),
                "device": args.device,
                "backend": context.backend_name,
                "soc": context.soc.name,
                "run_us": context.last_run_us,
            }
        console.report({**data, "outputs": results}, "\n".join(map(str, results)))
        return Exit.OK


def _results(context: Context, arrays: list[Array], args: argparse.Namespace) -> list[Result]:
    results = []
    for attr, array in zip(context.outputs, arrays):
        file = None
        if args.out:
            file = args.out / f"{attr.index}_{re.sub(r'[^A-Za-z0-9._-]+', '_', attr.name)[:80]}.npy"
            write_array(file, array)
        results.append(Result.of(attr, array, args.top, file, args.raw))
    return results


COMMAND = Run()
