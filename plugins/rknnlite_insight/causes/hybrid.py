"""Which layers to keep in float16: lists for the converter's hybrid quantisation that were tried, fewest layers first.

A tensor stays in the steps of the file unless all layers on both sides of it are in float16; so both sides are tried together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .cause import Harm, HybridStep
from .edge import Edge
from .layers import LaidEdge
from .trial import Sample, Trial

__all__ = ["converter_names", "harms_of", "hybrid_steps"]

_TRIED = 4
_MOST_STEPS = 12
_LEAST = 0.02  # of what is left: less is no gain
_NAMED = (
    "Add", "BatchNormalization", "Clip", "Conv", "ConvTranspose", "Gemm", "LeakyRelu", "MatMul", "PRelu", "Relu"
)  # fmt: skip
"""Operators of a fused layer that the converter's list knows by their own names."""
Tell = Callable[[str], None]


def harms_of(
    trial: Trial, samples: Sequence[Sample], edges: Mapping[str, Edge], laid: Sequence[LaidEdge], tell: Tell
) -> tuple[list[Harm], float]:
    """The harm of each edge by itself, the largest first, and that of the weights."""
    layers = frozenset().union(*(edge.layers for edge in laid))
    found = []
    for edge in laid:
        names = [name for name in edge.tensors if name in edges and edges[name].about.scale]
        if not names:
            continue
        tell(f"only {names[0]} rounded")
        error = trial.rounded(samples, edges, edge.tensors, layers).error
        beyond = any(edges[name].clipped.any() for name in names)
        clipped = trial.rounded(samples, edges, edge.tensors, layers, clip=True).error if beyond else 0.0
        order = list(edges)
        found.append(Harm(tuple(sorted(names, key=order.index)), tuple(sorted(edge.layers)), error, clipped))
    tell("only the weights rounded")
    weights = trial.rounded(samples, edges, frozenset(), frozenset()).error
    return sorted(found, key=lambda harm: -harm.outputs), weights


def hybrid_steps(
    trial: Trial,
    samples: Sequence[Sample],
    edges: Mapping[str, Edge],
    laid: Sequence[LaidEdge],
    harms: Sequence[Harm],
    target: float,
    network: Path,
    tell: Tell,
) -> list[HybridStep]:
    """Steps until the cosine of every output is ``target``, or nothing gains any more; the first one has no layers."""
    names = converter_names(network, [name for edge in laid for name in edge.tensors])
    order = list(edges)
    every = frozenset().union(*(edge.tensors for edge in laid))

    def step(layers: frozenset[str], added: frozenset[str]) -> HybridStep:
        free = frozenset().union(*(edge.tensors for edge in laid if edge.layers <= layers))
        tell(f"{len(layers)} layers in float16")
        outputs = trial.rounded(samples, edges, every - free, layers)
        sort = sorted(layers, key=lambda name: order.index(name) if name in order else len(order))
        told = tuple(dict.fromkeys(each for name in sort for each in names.get(name, (name,))))
        return HybridStep(
            tuple(sort), tuple(n for n in sort if n in added), told, outputs.cosine, outputs.error
        )

    best = step(frozenset(), frozenset())
    found = [best]
    heavy = sorted(
        (edge for edge in edges if edges[edge].error("weights") > 0),
        key=lambda name: -edges[name].error("weights"),
    )
    makers = frozenset().union(*(edge.layers for edge in laid))
    while best.cosine < target and len(found) <= _MOST_STEPS:
        now = frozenset(best.layers)
        wanted = [frozenset(harm.layers) for harm in harms if not frozenset(harm.layers) <= now][:_TRIED]
        wanted += [frozenset([name]) for name in heavy if name in makers and name not in now][:1]
        tried = [step(now | layers, layers - now) for layers in dict.fromkeys(wanted)]
        # by what a layer gains; a list that reaches the target goes before
        tried.sort(key=lambda each: (each.cosine < target, -(each.cosine - best.cosine) / len(each.added)))
        if not tried or tried[0].error > (1 - _LEAST) * best.error:
            break
        best = tried[0]
        found.append(best)
    return found


def converter_names(network: Path, tensors: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Per tensor of the model, the tensors of the network that the layer behind it made one of: the converter wants all of them.

    A fused layer has the name of its last tensor in the file; what is named of it alone is torn out of it. Tensors within what
    the converter sees as one operator (a Sigmoid of Swish, a convolution before its batch normalisation) have no name there.
    """
    if network.suffix.lower() != ".onnx":
        return {}
    import onnx

    graph: Any = onnx.load(str(network), load_external_data=False).graph
    makers = {output: node for node in graph.node for output in node.output}
    normed = {name for node in graph.node if node.op_type == "BatchNormalization" for name in node.input}
    kept = set(tensors)
    found: dict[str, tuple[str, ...]] = {}
    for name in tensors:
        inside, waiting = [name], [name]
        while waiting:
            node = makers.get(waiting.pop())
            for source in node.input if node is not None else ():
                if source in makers and source not in kept and source not in inside:
                    inside.append(source)
                    waiting.append(source)
        named = [
            each for each in inside if each == name or (makers[each].op_type in _NAMED and each not in normed)
        ]
        found[name] = tuple(reversed(named))
    return found
