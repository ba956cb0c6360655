"""Arguments that several commands share, and what they open."""

from __future__ import annotations

import argparse
import contextlib
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from .. import config
from .._faces.toolkit import toolkit_names
from ..errors import ModelInvalid
from ..files.json_text import parse_json
from ..files.reading import is_stream, open_file, read_text
from ..formats import ModelFile
from ..runtime import open_model
from ..spi import Context
from .devices import DEVICE, reaching

__all__ = [
    "add_inputs",
    "add_isolation",
    "add_model",
    "add_opening",
    "between",
    "core_mask",
    "isolation",
    "mask_name",
    "model_file",
    "open_context",
    "opening",
    "output_file",
]

Number = TypeVar("Number", int, float)
_KINDS: dict[type, str] = {int: "whole number", float: "number"}
_MASKS = {
    "auto": 0,
    "0": 1,
    "1": 2,
    "2": 4,
    "0_1": 3,
    "0_1_2": 7,
    "all": 0xFFFF,
}


def core_mask(text: str) -> int:
    """``auto``, ``all``, ``core_0_1`` (as the vendor names them) or a number such as ``0x3``, for argparse."""
    word = text.strip().lower()
    for prefix in ("npu_core_", "core_"):
        if word.startswith(prefix) and word[len(prefix) :] in _MASKS:
            return _MASKS[word[len(prefix) :]]
    if word in ("auto", "all"):
        return _MASKS[word]
    try:
        value = int(word, 0)
    except ValueError:
        value = -1
    if not 0 <= value <= 0xFFFF:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no core mask; give auto, all, core_0, core_0_1, ... or a number such as 0x3"
        )
    return value


def between(kind: type[Number], low: Number, high: Number) -> Callable[[str], Number]:
    """A number with limits, for argparse; NaN is none."""

    def parse(text: str) -> Number:
        with contextlib.suppress(ValueError):
            value = kind(text)
            if low <= value <= high:
                return value
        raise argparse.ArgumentTypeError(f"{text!r} is no {_KINDS[kind]} from {low} to {high}")

    return parse


def mask_name(mask: int) -> str:
    """What the vendor calls a core mask: ``NPU_CORE_AUTO``, ``NPU_CORE_0_1``, ``NPU_CORE_ALL``."""
    if mask in (0, _MASKS["all"]):
        return "NPU_CORE_ALL" if mask else "NPU_CORE_AUTO"
    return "NPU_CORE_" + "_".join(str(core) for core in range(mask.bit_length()) if mask >> core & 1)


def _operators(path: str) -> list[Any]:
    """The path of a compiled operator, or an instance of every operator class that a Python file defines."""
    if is_stream(Path(path)):
        raise argparse.ArgumentTypeError(f"{path} is a pipe, a socket or a device; give a file")
    if not path.endswith(".py"):
        return [path]
    try:
        with toolkit_names():
            found = runpy.run_path(path, run_name="rknnlite_custom_op")
    except Exception as error:
        raise argparse.ArgumentTypeError(f"{path} cannot be run: {type(error).__name__}: {error}") from None
    own = [v for v in found.values() if isinstance(v, type) and v.__module__ == "rknnlite_custom_op"]
    classes = [cls for cls in own if hasattr(cls, "op_type")]
    if not classes:
        raise argparse.ArgumentTypeError(f"{path} defines no class with an op_type")
    return [cls() for cls in classes]


def _attributes(text: str) -> dict[str, Any]:
    """``{node or type: {name: value}}`` from JSON, or from a file of it; what is in it is checked when a model is opened."""
    try:
        given = parse_json(text if text.lstrip().startswith("{") else read_text(Path(text)))
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is neither JSON nor a file of it: {error}") from None
    if not isinstance(given, dict):
        raise argparse.ArgumentTypeError(
            f"{text!r} must be {{node or type: {{name: value}}}}, not {type(given).__name__}"
        )
    return given


def add_model(parser: argparse.ArgumentParser) -> None:
    """MODEL and how it is opened."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="a .rknn file")
    add_opening(parser)


def add_opening(parser: argparse.ArgumentParser) -> None:
    """How a ``.rknn`` file is opened."""
    group = parser.add_argument_group("how the model is opened")
    group.add_argument(
        "--backend", metavar="NAME", help="cpu, rknnrt, ...; the best one available by default"
    )
    group.add_argument("--device", metavar="NAME", help=f"run on {DEVICE}")
    group.add_argument(
        "--soc", metavar="NAME", help="SoC to play on the CPU reference; the model's by default"
    )
    group.add_argument(
        "--core-mask", type=core_mask, metavar="MASK", help="auto, all, core_0, core_0_1, 0x3, ..."
    )
    group.add_argument(
        "--custom-op",
        action="append",
        default=[],
        type=_operators,
        metavar="FILE",
        help="a compiled custom operator (librkcst_*.so), or a Python file with classes of them; may be repeated",
    )
    group.add_argument(
        "--postprocess",
        metavar="FILE",
        help="a post-process plugin for RK1820/RK1828 (libpostprocess_*.so), whose results take the place of the outputs",
    )
    group.add_argument(
        "--attributes",
        type=_attributes,
        metavar="JSON",
        help="attributes that the container leaves out, {node or type: {name: value}}; JSON, or a file of it",
    )
    group.add_argument(
        "--fidelity",
        choices=("simulator", "npu", "table", "silicon", "float"),
        help="CPU reference: the simulator's numbers (npu: the same), by the file's tables, a chip's, or the network in float",
    )
    help_text = "CPU reference: convert uint8 pixels as the runtime has the NPU do it"
    group.add_argument("--board-inputs", action="store_const", const="board", help=help_text)


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Files with inputs and how they lie."""
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help="one file per input, or NAME=FILE: .npy, .npz, a picture, or .bin/.raw (bytes as they are); "
        "without any, fixed pseudo-random data",
    )
    parser.add_argument("--layout", choices=("nhwc", "nchw"), help="layout of rank-4 arrays (default: nhwc)")
    parser.add_argument("--bgr", action="store_true", help="keep pictures in BGR order (default: RGB)")


def add_isolation(parser: argparse.ArgumentParser) -> None:
    """Where compiled operators run."""
    parser.add_argument(
        "--no-isolate",
        action="store_true",
        help="compiled operators in this process: faster, and a crash of one is the end of the command",
    )


def isolation(args: argparse.Namespace) -> contextlib.AbstractContextManager[None]:
    """Compiled operators that are loaded in this block run in a process of their own, unless told otherwise."""
    wanted = "0" if args.no_isolate else config.get("isolate_plugins") or "auto"
    return config.overriding("isolate_plugins", wanted)


def open_context(args: argparse.Namespace, **extra: Any) -> Context:
    """Open MODEL as the arguments say."""
    with isolation(args):
        return open_model(model_file(args.model), **opening(args), **extra)


def opening(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of ``add_opening`` as options of ``rknnlite.open``; raises BackendUnavailable for an unknown device."""
    operators = [operator for file in args.custom_op for operator in file]
    backend = reaching(args.device, args.backend).name if args.device else args.backend
    options = {"backend": backend, "soc": args.soc, "core_mask": args.core_mask, "custom_ops": operators}
    further = {
        "device_id": args.device,
        "fidelity": args.fidelity,
        "inputs": args.board_inputs,
        "postprocess": args.postprocess,
        "attributes": args.attributes,
    }
    return {**options, **{name: value for name, value in further.items() if value}}


def model_file(path: Path) -> ModelFile:
    """The file, or an error that says what the path is instead."""
    try:
        open_file(path).close()
    except (OSError, ValueError) as error:
        raise ModelInvalid(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return ModelFile(path)


def output_file(path: Path) -> Path:
    """A file that is to be written; its folder must exist, which is told before any work is done."""
    if not path.parent.is_dir():
        raise FileNotFoundError(
            2, f"there is no folder {path.parent}; make it, or name a file elsewhere", str(path)
        )
    if path.is_dir():
        raise IsADirectoryError(21, "is a folder; name a file", str(path))
    return path
