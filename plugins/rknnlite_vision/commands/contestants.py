"""Networks that are compared: ``.rknn`` files on backends and devices, ONNX files in float."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite.commandline.options import model_file
from rknnlite.errors import InputInvalid, RknnError

from ..before.preparation import Preparation, Way
from ..evaluation.onnx_network import OnnxNetwork
from ..heads.head import Limits, Task
from ..heads.recognise import recognise
from ..model import VisionModel, way_of
from ..results import Result
from .looker import Looker, Seen, check_task, open_looker

__all__ = ["Contestant", "channel_numbers", "contestants"]

Array = NDArray[Any]
Item = tuple[int, Union[Array, RknnError]]
Looked = tuple[int, Union[Result, RknnError]]
FLOAT = "float"


@dataclass(frozen=True)
class Contestant:
    """One network in one place: its file, and where it runs, as far as that is known before; ``options``: of the command."""

    file: Path
    where: str
    options: argparse.Namespace

    @property
    def is_onnx(self) -> bool:
        """By its name."""
        return self.file.suffix.lower() == ".onnx"

    def open(self, limits: Limits, tasks: frozenset[Task], count: int) -> Looking:
        """Open it, for so many pictures."""
        if not self.is_onnx:
            return Looking(open_looker(self.options, limits, tasks, count), None, limits)
        args = self.options
        network: Any = OnnxNetwork(self.file)
        head = recognise(network.inputs, network.outputs, args.hint, name=self.file.name, tasks=tasks)
        steps = {name: value for name, value in (("mean", args.mean), ("std", args.std)) if value}
        preparation = Preparation.of(
            network, way=Way(args.fit) if args.fit else way_of(head), bgr=args.bgr, **steps
        )
        model = VisionModel(network, head, preparation, args.labels)
        check_task(model, tasks, self.file)
        return Looking(None, model, limits)


class Looking:
    """An open contestant: results of pictures, in their order."""

    def __init__(self, looker: Optional[Looker], model: Optional[VisionModel], limits: Limits) -> None:
        self._looker, self._limits = looker, limits
        found = looker.model if looker else model
        assert found is not None
        self.model: VisionModel = found
        self.backend = looker.pool.backend_name if looker else "onnxruntime"
        """What runs it."""

    def results(self, items: Iterable[Item]) -> Iterator[Looked]:
        """What is found in each picture, or why it cannot be looked at."""
        if self._looker is None:
            for number, picture in items:
                yield number, picture if isinstance(picture, RknnError) else self._see(picture)
            return
        with closing(self._looker.look_all(items)) as looked:
            for number, seen in looked:
                yield number, seen.result if isinstance(seen, Seen) else seen

    def _see(self, picture: Array) -> Union[Result, RknnError]:
        try:
            return self.model.see(picture, self._limits)
        except InputInvalid as error:  # of this picture alone
            return error

    def close(self) -> None:
        """Close the network."""
        if self._looker is not None:
            self._looker.close()
        else:
            self.model.close()


def contestants(args: argparse.Namespace) -> list[Contestant]:
    """All that the arguments name: each ``.rknn`` file here, and on the device; ONNX files once.

    An ONNX file gets pixels less the mean, by the deviation, of the first ``.rknn`` file, unless they are given.
    """
    files: Sequence[Path] = args.models
    steps = _steps(args, files)
    found = []
    for file in files:
        if file.suffix.lower() == ".onnx":
            found.append(
                Contestant(
                    file,
                    FLOAT,
                    argparse.Namespace(**{**vars(args), **steps, "device": None, "fidelity": FLOAT}),
                )
            )
            continue
        for device in (None, args.device) if args.device else (None,):
            options = {
                **vars(args),
                "model": file,
                "device": device,
                "backend": None if device else args.backend,
            }
            found.append(Contestant(file, device or "", argparse.Namespace(**options)))
        if args.float:
            options = {**vars(args), "backend": "cpu", "device": None, "model": file, "fidelity": FLOAT}
            found.append(Contestant(file, FLOAT, argparse.Namespace(**options)))
    return found


def _steps(args: argparse.Namespace, files: Sequence[Path]) -> dict[str, Any]:
    """Mean and deviation for ONNX files."""
    if args.mean or args.std:
        return {"mean": args.mean or (0.0,), "std": args.std or (1.0,)}
    rknn = next((file for file in files if file.suffix.lower() != ".onnx"), None)
    if rknn is None or all(file.suffix.lower() != ".onnx" for file in files):
        return {"mean": (), "std": ()}
    inputs = model_file(rknn).model.inputs
    return {"mean": inputs[0].mean, "std": inputs[0].std} if inputs else {"mean": (), "std": ()}


def channel_numbers(text: str) -> tuple[float, ...]:
    """``123.675,116.28,103.53`` or one number for all channels, for argparse."""
    try:
        values = tuple(float(word) for word in text.split(","))
    except ValueError:
        values = ()
    if len(values) not in (1, 3) or not np.isfinite(values).all():
        raise argparse.ArgumentTypeError(f"{text!r}: give one number, or three with commas")
    return values
