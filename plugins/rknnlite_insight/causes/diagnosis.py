"""Finding the cause: the model against its network on several inputs, and what each rounding does to the outputs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.graph import MARKERS

from rknnlite.errors import InputInvalid, ParamInvalid, RknnError
from rknnlite.runtime import resolve_ops
from rknnlite.spi.arguments import typed

from .calibration import set_ranges
from .cause import Diagnosis
from .edge import Edge
from .hybrid import harms_of, hybrid_steps
from .judging import Evidence, findings
from .layers import edges_of, weight_noise
from .preprocessing import Wanted, fitted, from_norms, norms_of, told_by
from .trial import Sample, Trial

__all__ = ["diagnose"]

Array = NDArray[Any]
_TRIED = 4  # samples of trials, of which there are many
_MOST_TRIALS = 64


@typed
def diagnose(
    model: str | os.PathLike[str],
    reference: str | os.PathLike[str],
    samples: Sequence[Any],
    *,
    network_inputs: Optional[Sequence[Mapping[str, Array]]] = None,
    layout: Optional[str] = None,
    hybrid: Optional[float] = None,
    calibration: Sequence[Any] = (),
    progress: Optional[Callable[[int, int, str], None]] = None,
    **options: Any,
) -> Diagnosis:
    """Why a model is far from its network.

    Args:
        model: a ``.rknn`` file. reference: the ``.onnx`` file that it was made of (extra ``fast``), or another ``.rknn`` file.
        samples: inputs of several runs, each as for ``Context.infer``: those with which the accuracy is gone.
        network_inputs: for each sample what the network got for it in training, by the name of the input, NCHW. Mean, deviation
            and order of colours of the file are judged by that; without, by the batch normalisations of the ONNX file.
        layout: of the samples, ``"nhwc"`` (default) or ``"nchw"``.
        hybrid: also try lists of layers in float16 until the cosine of every output is this.
        calibration: inputs that the converter was calibrated with: are they like the samples, is one of them odd?
        progress: called with what is done, of how much, and what comes next.
        options: for opening files, as for ``rknnlite.open``.

    Raises:
        ParamInvalid, InputInvalid, ModelInvalid, BackendUnavailable and the like.
    """
    if not samples:
        raise InputInvalid("no samples: give the inputs with which the accuracy is gone")
    if network_inputs is not None and len(network_inputs) != len(samples):
        raise InputInvalid(f"{len(samples)} samples, and the network's inputs for {len(network_inputs)}")
    path, network = Path(model), Path(reference)
    if path.suffix.lower() == ".onnx":
        raise ParamInvalid(f"{path} is no .rknn file; the model is what was converted")
    ops = resolve_ops(options.pop("custom_ops", ()))
    for name in ("backend", "fidelity", "engine"):
        options.pop(name, None)
    with Trial(path, network, layout, ops, options) as trial:
        taken = [
            Sample(_arrays(given), None if network_inputs is None else network_inputs[number])
            for number, given in enumerate(samples)
        ]
        counted = _Counted(progress, len(taken))
        evidence = _measured(trial, taken, counted)
        evidence.wanted = _wanted(trial, taken, network)
        few = taken[:_TRIED]
        laid = [edge for edge in edges_of(trial.graph) if edge.tensors & set(evidence.edges)]
        steps = []
        if evidence.quantised and (hybrid is not None or evidence.off > 0):
            counted.more(min(len(laid), _MOST_TRIALS) + 1)
            laid_tried = sorted(laid, key=lambda edge: -_lost(edge.tensors, evidence.edges))[:_MOST_TRIALS]
            evidence.harms, evidence.weights = harms_of(trial, few, evidence.edges, laid_tried, counted.next)
        if hybrid is not None and evidence.quantised:
            steps = hybrid_steps(
                trial, few, evidence.edges, laid, evidence.harms, hybrid, network, counted.one_more
            )
        counted.more(len(calibration))
        ranges = set_ranges(
            trial, [Sample(_arrays(each)) for each in calibration], evidence.edges, counted.next
        )
        found = findings(evidence)
        ends = [evidence.edges[name] for name in evidence.outputs]
        lost = evidence.lost
        return Diagnosis(
            path.name,
            network.name,
            len(taken),
            found[0].cause,
            tuple(
                dict.fromkeys(name for each in found if each.cause is found[0].cause for name in each.where)
            ),
            [each.why for each in found],
            found[0].remedy,
            math.inf if lost else max((edge.error("entire") for edge in ends), default=0.0),
            math.nan if lost else min((edge.cosine for edge in ends), default=1.0),
            evidence.edges,
            tuple(dict.fromkeys(each.cause for each in found if each.cause is not found[0].cause)),
            evidence.harms,
            evidence.weights,
            steps,
            hybrid,
            ranges,
        )


def _arrays(given: Any) -> list[Array]:
    return [np.asarray(each) for each in given] if isinstance(given, (list, tuple)) else [np.asarray(given)]


def _lost(names: frozenset[str], edges: Mapping[str, Edge]) -> float:
    return max((edges[name].error("lost") for name in names if name in edges), default=0.0)


def _measured(trial: Trial, samples: Sequence[Sample], counted: _Counted) -> Evidence:
    """All samples through both sides."""
    edges: dict[str, Edge] = {}
    largest: dict[str, float] = {}
    broken: list[str] = []
    outputs: list[str] = []
    inputs: list[str] = []
    halves: set[str] = set()
    for number, sample in enumerate(samples):
        counted.next(f"sample {number + 1}")
        golden = trial.golden(sample)
        runs = [trial.simulate(sample), trial.alone(sample, golden), trial.alone_in_float(sample, golden)]
        here = set(golden.names)
        for name in golden.names:
            value = golden.value(name)
            if value.size and value.dtype.kind == "f":
                largest[name] = max(largest.get(name, 0.0), float(np.abs(value).max()))
        for name in runs[0].names:
            entry = runs[0].entry(name)
            if entry.dtype.lower() in ("fp16", "float16"):
                halves.add(name)
            if name not in here:
                continue
            real, *values = golden.value(name), *(run.value(name) for run in runs)
            if name in golden.info.get("before_relu", ()):  # below zero nobody sees it
                values = [np.maximum(value, 0) for value in values]
            if real.size != values[0].size or real.dtype.kind != "f":
                continue
            if not np.isfinite(values[0]).all() and np.isfinite(real).all():
                broken.append(name)
                if entry.role == "output":
                    outputs.append(name)
                continue
            edges.setdefault(name, Edge(entry)).add(real, *values)
            if entry.role == "output":
                sample.golden[name] = real
                outputs.append(name)
            elif entry.role == "input":
                inputs.append(name)
            elif number < _TRIED:
                sample.golden[name] = real
        sample.weights = runs[2]
        for run in [golden, *runs[:2], *([runs[2]] if number >= _TRIED else [])]:
            trial.drop(run)
    if not edges and not broken:
        raise RknnError(
            "model and reference have no tensor of the same name and size; are they the same network?"
        )
    for name in broken:  # one sample with an infinity is enough
        edges.pop(name, None)
    ends = list(dict.fromkeys(name for name in outputs if name in edges))
    graph = trial.graph
    return Evidence(
        edges,
        list(dict.fromkeys(inputs)),
        ends or ([] if outputs else list(edges)[-1:]),
        any(edge.about.scale for edge in edges.values()),
        largest,
        frozenset(halves),
        list(dict.fromkeys(broken)),
        bool(set(outputs) & set(broken)),
        noise={name: weight_noise(graph, name, edges) for name in edges},
        sources={
            graph.tensors[node.outputs[0]].name: [graph.tensors[i].name for i in node.inputs if i >= 0]
            for node in graph.nodes
            if node.outputs and node.op not in MARKERS
        },
    )


def _wanted(trial: Trial, samples: Sequence[Sample], network: Path) -> Optional[Wanted]:
    """For models with one input that is a picture."""
    if len(trial.ins) != 1:
        return None
    told = told_by(trial.ins[0])
    if told is None:
        return None
    pixels = [trial.pixels(sample) for sample in samples]
    if samples[0].network is not None:
        return fitted(told, pixels, [next(iter((s.network or {}).values())) for s in samples])
    if network.suffix.lower() != ".onnx":
        return None
    norms = norms_of(network)
    name = trial.ins[0].name
    run = lambda value: trial.of_network({name: value})  # noqa: E731
    return from_norms(told, norms, pixels[:_TRIED], run, trial.drop) if norms else None


class _Counted:
    """Tells somebody who wants to know what is done and what comes next."""

    def __init__(self, tell: Optional[Callable[[int, int, str], None]], total: int) -> None:
        self._tell, self._total, self._begun = tell, total, 0

    def more(self, count: int) -> None:
        """So many more than was thought."""
        self._total += count

    def one_more(self, what: str) -> None:
        """One that nobody had counted is begun."""
        self.more(1)
        self.next(what)

    def next(self, what: str) -> None:
        """One is begun."""
        if self._tell is not None:
            self._tell(self._begun, self._total, what)
        self._begun += 1
