"""``rknnlite eval``: how good networks are on a dataset, side by side."""

from __future__ import annotations

import argparse
import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from rknnlite.commandline.options import add_isolation, add_opening, between, model_file
from rknnlite.errors import InputInvalid
from rknnlite.spi.command import Column, Command, Console, Exit, Line, Table, Tone

from ..evaluation.coco_json import is_coco, read_coco
from ..evaluation.labelled import read_folders, read_table
from ..evaluation.measuring import Measured, measure
from ..evaluation.truth import Labelled, Truth
from ..evaluation.yolo_labels import labels_beside, read_yolo
from ..heads.head import ASKED, Limits, Task
from .contestants import Contestant, channel_numbers, contestants

__all__ = ["COMMAND"]

_BOXES = frozenset(ASKED["detect"])
_ANSWERS = frozenset({Task.CLASSIFY, Task.READ})
_TABLES = (".csv", ".tsv", ".txt")
_MOST = 1 << 30
_SCORE, _OVERLAP = 0.001, 0.7
_SHOWN = 5


@dataclass(frozen=True)
class Row:
    """What was measured of one network in one place; ``count`` pictures."""

    entry: Contestant
    backend: str
    head: str
    count: int
    found: Measured

    @property
    def title(self) -> str:
        """Of its column."""
        return f"{self.entry.file.name} {self.entry.where or self.backend}"

    @property
    def fps(self) -> float:
        """Pictures per second, reading and decoding included."""
        return self.count / self.found.seconds

    @property
    def first(self) -> float:
        """The number that people mean: AP, top-1, words."""
        return next(iter(self.found.numbers.values()))

    @property
    def data(self) -> dict[str, Any]:
        """For ``--json``; what cannot be measured is null."""
        found = self.found
        return {
            "model": str(self.entry.file),
            "backend": self.backend,
            "device": self.entry.options.device,
            "fidelity": self.entry.options.fidelity,
            "head": self.head,
            "fps": self.fps,
            "scores": {_key(name): _told(number) for name, number in found.numbers.items()},
            "classes": [
                {"label": label, "ap": _told(ap), "ap50": _told(ap50)} for label, (ap, ap50) in found.classes
            ],
            "left_out": [{"source": name, "problem": why} for name, why in found.left_out.items()],
            "nan": found.odd,
            "unknown_labels": found.strange,
        }


class Eval(Command):
    """See the module."""

    name = "eval"
    help = "how good networks are on a dataset: mAP, top-1, words; side by side"
    examples = (
        "rknnlite eval yolo.onnx yolo.rknn instances_val2017.json --pictures val2017 --limit 500",
        "rknnlite eval yolo.rknn dataset/ --device board:8001 --classes",
        "rknnlite eval resnet.rknn pictures/ --labels labels.txt",
        "rknnlite eval text.rknn words.tsv --labels characters.txt",
    )
    common = ("--pictures", "--labels", "--limit", "--backend", "--device", "--float", "--classes")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "models", nargs="+", type=Path, metavar="MODEL", help=".rknn files, and .onnx files in float"
        )
        parser.add_argument(
            "dataset",
            type=Path,
            metavar="DATASET",
            help="boxes: COCO's .json, or a folder with images/ and labels/ (YOLO); classes: a folder for each, or a "
            ".csv of file,class; words: a .tsv of file, tab, text",
        )
        parser.add_argument(
            "--pictures", type=Path, metavar="FOLDER", help="where the dataset's pictures are"
        )
        parser.add_argument(
            "--labels",
            metavar="FILE",
            help="names of the model's classes, or coco; characters, of one that reads",
        )
        parser.add_argument("--limit", type=between(int, 1, _MOST), metavar="N", help="the first N pictures")
        parser.add_argument("--float", action="store_true", help="each .rknn file in float as well")
        parser.add_argument("--classes", action="store_true", help="AP and AP50 of each class, too")
        parser.add_argument("--ignore-case", action="store_true", help="of words")
        parser.add_argument(
            "--min",
            type=between(float, 0.0, 1.0),
            metavar="X",
            help="exit code 6 if the first number of a model is below",
        )
        add_opening(parser)
        _add_seeing(parser)
        add_isolation(parser)

    def run(self, args: argparse.Namespace, console: Console) -> int:
        for model in args.models:  # what is wrong is told before anything is measured
            model_file(model)
        dataset = _dataset(args).first(args.limit)
        entries = contestants(args)
        limits = Limits(args.score, args.overlap)
        tasks = _BOXES if isinstance(dataset, Truth) else _ANSWERS
        measured: list[Row] = []
        with console.progress("eval", len(entries) * len(dataset.pictures)) as bar:
            for entry in entries:
                with closing(entry.open(limits, tasks, len(dataset.pictures))) as looking:
                    if looking.model.head.task is Task.POSE and is_coco(args.dataset):
                        dataset = read_coco(args.dataset, args.pictures, keypoints=True).first(args.limit)
                    found = measure(looking, dataset, bar.step, args.ignore_case)
                    head = looking.model.head.family
                    measured.append(Row(entry, looking.backend, head, len(dataset.pictures), found))
        _notes(dataset, measured, console)
        _report(args, dataset, measured, console)
        below = args.min is not None and any(row.first < args.min for row in measured)
        return Exit.BELOW if below else Exit.OK


def _add_seeing(parser: argparse.ArgumentParser) -> None:
    """How pictures are put in, and what is kept of what is found."""
    parser.add_argument(
        "--score",
        type=between(float, 0.0, 1.0),
        default=_SCORE,
        metavar="S",
        help=f"least score (default: {_SCORE})",
    )
    parser.add_argument(
        "--overlap",
        type=between(float, 0.0, 1.0),
        default=_OVERLAP,
        metavar="IOU",
        help=f"of boxes that overlap more the best is kept (default: {_OVERLAP})",
    )
    parser.add_argument(
        "--fit", choices=("letterbox", "stretch", "crop"), help="how pictures go into the input"
    )
    parser.add_argument("--bgr", action="store_true", help="the model wants BGR (default: RGB)")
    parser.add_argument(
        "--hint",
        metavar="NAME",
        default="",
        help="what the outputs are, where that is not clear: yolov5, ...",
    )
    for name, default in (("mean", "0"), ("std", "255")):
        parser.add_argument(
            f"--{name}",
            type=channel_numbers,
            metavar="NUMBERS",
            help=f"of an ONNX file's input; by default those of the first .rknn file, without one {default}",
        )
    parser.add_argument(
        "--workers",
        type=between(int, 1, 64),
        metavar="N",
        help="pictures at once (default: one per NPU core)",
    )


def _dataset(args: argparse.Namespace) -> Union[Truth, Labelled]:
    path: Path = args.dataset
    if is_coco(path):
        return read_coco(path, args.pictures)
    folder = os.path.isdir(path)  # noqa: PTH112  names that no system takes are none
    if path.suffix.lower() in _TABLES and not folder:
        return read_table(path, args.pictures)
    if not folder:
        raise InputInvalid(
            f"{path} is no dataset: give COCO's .json, a folder, or a table ({', '.join(_TABLES)})"
        )
    return read_yolo(path) if labels_beside(path) else read_folders(path)


def _notes(dataset: Union[Truth, Labelled], measured: list[Row], console: Console) -> None:
    """What the numbers leave out, on stderr."""

    def some(names: list[str]) -> str:
        return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")

    if dataset.absent:
        absent = some(dataset.absent)
        console.note(f"{len(dataset.absent)} pictures of the dataset are not there and left out: {absent}")
    left_out = {name: why for row in measured for name, why in row.found.left_out.items()}
    for name, why in list(left_out.items())[:_SHOWN]:
        console.note(f"left out: {why if name in why else f'{name}: {why}'}")
    if len(left_out) > _SHOWN:
        console.note(f"left out: {len(left_out) - _SHOWN} pictures more")
    for row in measured:
        if row.found.strange:
            console.note(
                f"{row.title}: no class is called {some(row.found.strange)}; they count as never found"
            )
        if row.found.odd:
            console.note(
                f"{row.title}: {row.found.odd} detections without a score or place (NaN) are left out"
            )


def _report(
    args: argparse.Namespace, dataset: Union[Truth, Labelled], measured: list[Row], console: Console
) -> None:
    data: dict[str, Any] = {
        "dataset": str(args.dataset),
        "pictures": len(dataset.pictures),
        "absent": dataset.absent,
        "models": [row.data for row in measured],
    }
    columns = [Column("", least=6), *(Column(row.title, right=True) for row in measured)]
    names = list(measured[0].found.numbers)
    cells = [[name, *(_cell(row.found.numbers.get(name, -1)) for row in measured)] for name in names]
    cells.append(["per second", *(f"{row.fps:.1f}" for row in measured)])
    parts: list[Any] = [
        Line(f"{args.dataset}: {len(dataset.pictures)} pictures", Tone.HEAD),
        Table(columns, cells),
    ]
    kinds = [name for name, _ in measured[0].found.classes] if args.classes else []
    for place, what in enumerate(("AP", "AP50") if kinds else ()):
        each = [
            [name, *(_cell(row.found.classes[n][1][place]) for row in measured)]
            for n, name in enumerate(kinds)
        ]
        parts += [Line(""), Line(what, Tone.HEAD), Table(columns, each)]
    console.report(data, *parts)


def _cell(number: float) -> str:
    return "-" if number < 0 else f"{number:.4f}"


def _key(name: str) -> str:
    return name.lower().replace("-", "").replace(" ", "_")


def _told(number: float) -> Any:
    return None if number < 0 else number


COMMAND = Eval()
