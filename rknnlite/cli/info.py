"""``rknnlite info``: what a model file says about itself. No backend is asked and nothing is run."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from .. import socs
from ..errors import ModelInvalid
from ..formats import Model, ModelFile, guesses
from ..formats import llm as llm_package
from ..formats.tensor_attrs import default_attr
from ..graph import Graph, Guess, TensorRole
from ..socs import Soc
from ..spi.command import Column, Command, Console, Exit, Line, Part, Table, Tone
from ..tensor import TensorAttr
from .options import model_file

if TYPE_CHECKING:
    from .info_first_toolkit import FirstToolkit

__all__ = ["COMMAND", "is_package", "runs_on"]


@dataclass(frozen=True)
class Operators:
    """Nodes by type: on the NPU and on the CPU; ``problem`` where the graph cannot be read."""

    rows: tuple[tuple[str, int, int], ...] = ()
    weights: int = 0
    problem: str = ""

    @classmethod
    def of(cls, model: Model) -> Operators:
        """Count the nodes of the graph; nothing is decoded."""
        try:
            graph = model.graph(model.default_shape)
        except ModelInvalid as error:
            return cls(problem=str(error))
        npu = Counter(node.op for node in graph.nodes if node.on_npu)
        all_nodes = Counter(node.op for node in graph.nodes)
        rows = tuple((op, npu[op], count - npu[op]) for op, count in all_nodes.most_common())
        return cls(rows, _weights(graph))


def _weights(graph: Graph) -> int:
    return sum(tensor.nbytes for tensor in graph.tensors if tensor.role is TensorRole.CONST)


def is_package(file: ModelFile) -> bool:
    """Whether the file is the first one of a language model package."""
    return bytes(file.data[: len(llm_package.MAGIC)]) == llm_package.MAGIC


def runs_on(model: Model) -> list[str]:
    """SoCs that take the file, in capitals."""
    return [soc.name.upper() for soc in _socs(model)]


def _socs(model: Model) -> list[Soc]:
    accepted = {name.lower() for name in (*model.platforms, model.platform)}
    return [soc for soc in socs.table().values() if set(soc.accepts) & accepted]


class Info(Command):
    """See the module."""

    name = "info"
    help = "container, versions, inputs and outputs, operators and sizes of a model file"
    examples = ("rknnlite info model.rknn", "rknnlite info --json model.rknn | jq .inputs")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "model", type=Path, metavar="MODEL", help="a .rknn file, or a language model package"
        )
        parser.add_argument(
            "--check",
            action="store_true",
            help="also: patterns with reports of wrong results on boards, and what no verified file has had",
        )

    def run(self, args: argparse.Namespace, console: Console) -> int:
        file = model_file(args.model)
        if is_package(file):
            _show_llm(file, console)
            return Exit.OK
        model = file.model
        operators = Operators.of(model)
        soc = next(iter(_socs(model)), None)
        inputs = [default_attr(i, io, model.batch, True, soc) for i, io in enumerate(model.inputs)]
        outputs = [default_attr(i, io, model.batch, False, soc) for i, io in enumerate(model.outputs)]
        data = {
            "file": str(args.model), "bytes": len(file.data), "container": model.container,
            "toolkit": model.toolkit_version, "compiler": model.compiler_version,
            "platform": model.platform, "platforms": model.platforms, "runs_on": runs_on(model),
            "framework": model.framework, "batch": model.batch, "dynamic": model.dynamic,
            "shapes": model.shapes, "custom_string": model.custom_string, "custom_ops": model.custom_ops,
            "inputs": [{**_fields(attr), "mean": io.mean, "std": io.std} for attr, io in zip(inputs, model.inputs)],
            "outputs": [_fields(attr) for attr in outputs],
            "operators": [{"op": op, "npu": npu, "cpu": cpu} for op, npu, cpu in operators.rows],
            "weight_bytes": operators.weights, "graph_problem": operators.problem,
        }  # fmt: skip
        first = _first_toolkit(model)
        data.update(first.data if first else {})
        show = _attr_tables if console.room else _attr_lines
        parts = [*_facts(args.model, file, model, operators), *(first.lines if first else []), ""]
        parts += [*show(inputs, outputs, _means(model)), *(first.tensors if first else [])]
        parts += [*_shapes(model), "", _operators(model, operators)]
        if args.check:
            data["silicon"], told = _checked(model)
            data["guesses"], guessed = _guessed(model)
            parts += [f"\n{told}\n\n{guessed}"]
        console.report(data, *parts)
        return Exit.OK


def _first_toolkit(model: Model) -> Optional[FirstToolkit]:
    """What files of the first toolkit say beyond that; its reader is loaded for none else."""
    if model.generation != "rknpu1":
        return None
    from .info_first_toolkit import FirstToolkit

    return FirstToolkit.of(model)


def _checked(model: Model) -> tuple[list[dict[str, Any]], str]:
    """Patterns that have gone wrong on boards: as data, and as text."""
    from .health.silicon import silicon, suspicions

    found = [{**vars(one), "level": one.level.value} for one in suspicions(model)]
    lines = [str(finding) for finding in silicon(model)] or ["no pattern with reports of wrong results"]
    return found, "\n".join(["on boards:", *lines])


def _guessed(model: Model) -> tuple[list[dict[str, str]], str]:
    """What the reader is not sure of: as data, and as text with one line per fact."""
    found = _guesses(model)
    facts = dict.fromkeys(guess.fact for guess in found)
    lines = [
        f"  {guesses.text(fact, [guess.node for guess in found if guess.fact == fact])}" for fact in facts
    ] or ["  nothing: every pattern has been compared with the vendor's simulator"]
    return [vars(guess) for guess in found], "\n".join(["not verified:", *lines])


def _guesses(model: Model) -> list[Guess]:
    """Those of all shapes; none for a graph that cannot be read, which is told elsewhere."""
    try:
        graphs = [model.graph(index) for index in range(max(1, len(model.shapes)))]
    except ModelInvalid:
        return []
    reported = [Guess("", fact) for fact in guesses.about_strides(model.family)]
    return list(dict.fromkeys([*(guess for graph in graphs for guess in graph.guesses), *reported]))


def _fields(attr: TensorAttr) -> dict[str, Any]:
    return {
        "index": attr.index, "name": attr.name, "dims": attr.dims, "n_elems": attr.n_elems, "bytes": attr.size,
        "w_stride": attr.w_stride, "bytes_with_stride": attr.size_with_stride or attr.size,
        "layout": attr.layout.name, "type": attr.dtype.short,
        "scale": attr.quant.scale if attr.quant else None, "zero_point": attr.quant.zero_point if attr.quant else None,
    }  # fmt: skip


def _facts(path: Path, file: ModelFile, model: Model, operators: Operators) -> list[Part]:
    """One line each."""
    facts: list[tuple[str, Union[str, int]]] = [
        ("file", f"{path} ({_size(len(file.data))})"),
        (
            "container",
            f"version {model.container:#x}" if model.container > 9 else f"version {model.container}",
        ),
        ("toolkit", model.toolkit_version or "unknown"),
        (
            "ovxlib" if model.generation == "rknpu1" else "compiler",
            model.compiler_version or "unknown",
        ),
        ("made for", "/".join(model.platforms or (model.platform,))),
        ("runs on", ", ".join(runs_on(model)) or "no SoC known here"),
        ("framework", model.framework or "unknown"),
        ("batch", model.batch),
        ("shapes", f"{len(model.shapes)} sets" if model.dynamic else "static"),
    ]
    facts += [("custom string", model.custom_string)] if model.custom_string else []
    facts += [("custom ops", ", ".join(model.custom_ops))] if model.custom_ops else []
    facts += [("weights", _size(operators.weights))] if operators.weights else []
    return [Line(f"{name + ':':15}{value}", hang=15) for name, value in facts]


def _attr_lines(inputs: list[TensorAttr], outputs: list[TensorAttr], means: list[Part]) -> list[Part]:
    """Inputs and outputs as the runtime prints them."""
    told = [[f"  {attr}" for attr in attrs] for attrs in (inputs, outputs)]
    return ["inputs:", *told[0], *means, "outputs:", *told[1]]


_ATTR_COLUMNS = (
    Column("", True, drop=2), Column("name", least=12), Column("dims"), Column("type"), Column("fmt", drop=3),
    Column("scale", True, drop=1), Column("zp", True, drop=1), Column("bytes", True, drop=4), Column("w_stride", True, drop=5),
    Column("with stride", True, drop=6),
)  # fmt: skip


def _attr_tables(inputs: list[TensorAttr], outputs: list[TensorAttr], means: list[Part]) -> list[Part]:
    """The same as tables."""
    parts: list[Part] = []
    for title, attrs in (("inputs", inputs), ("outputs", outputs)):
        rows = [
            [
                str(attr.index), attr.name, str(list(attr.dims)), attr.dtype.short, attr.layout.name,
                f"{attr.quant.scale:.6g}" if attr.quant else "", str(attr.quant.zero_point) if attr.quant else "",
                str(attr.size), str(attr.w_stride or ""), str(attr.size_with_stride or attr.size),
            ]
            for attr in attrs
        ]  # fmt: skip
        parts += [Line(title, Tone.HEAD), Table(_ATTR_COLUMNS, rows, ""), ""]
    return [*parts[:2], *means, *parts[2:-1]]


def _means(model: Model) -> list[Part]:
    lines = [
        f"  mean={_numbers(io.mean)}, std={_numbers(io.std)} ({io.name})" for io in model.inputs if io.mean
    ]
    return [Line(line, hang=4) for line in lines]


def _shapes(model: Model) -> list[Part]:
    if not model.dynamic:
        return []
    lines = ["  " + "  ".join(str(list(shape)) for shape in shapes) for shapes in model.shapes]
    return ["", "shapes (logical order), one set per line:", *(Line(line, hang=4) for line in lines)]


def _operators(model: Model, operators: Operators) -> Part:
    if model.board_only:
        return f"operators: {model.board_only.replace('; ', '. To run it here: ')}"
    if operators.problem:
        return f"operators: the graph cannot be read: {operators.problem}"
    cells = [[op, str(npu + cpu), str(npu), str(cpu)] for op, npu, cpu in operators.rows]
    total = [sum(column) for column in zip(*((n + c, n, c) for _, n, c in operators.rows))]
    columns = [Column("operator", least=12), *(Column(head, True) for head in ("nodes", "NPU", "CPU"))]
    return Table(columns, [*cells, ["all", *map(str, total or [0, 0, 0])]], last=1)


def _numbers(values: tuple[float, ...]) -> str:
    return "[" + ", ".join(f"{value:g}" for value in values[:8]) + (", ...]" if len(values) > 8 else "]")


def _size(count: int) -> str:
    return f"{count} bytes" + (f", {count / 2**20:.2f} MiB" if count >= 2**20 else "")


def _show_llm(file: ModelFile, console: Console) -> None:
    model = file.llm
    arch = model.arch
    task = "score" if arch.scorer else "embedding" if model.embedding else "generate"
    facts = {
        "file": file.label, "kind": "language model package of rknnlite", "name": model.name, "family": arch.family,
        "layers": arch.layers, "hidden": arch.hidden, "heads": arch.heads, "kv_heads": arch.kv_heads,
        "vocabulary": arch.vocab_size, "weights": model.weights, "kv_cache": model.kv.dtype.name,
        "max_context": model.max_context, "cores": model.core_num, "task": task,
    }  # fmt: skip
    if model.embedding:
        facts.update(pooling=model.embedding.pooling.value, normalised=model.embedding.normalise)
    console.report(facts, "\n".join(f"{name + ':':15}{value}" for name, value in facts.items()))


COMMAND = Info()
