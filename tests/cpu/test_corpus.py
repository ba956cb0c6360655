"""Every genuine file of the repository against the outputs of the vendor's simulator.

int8: within 1 LSB, and within 2 where errors may add up or where the compiler fused what the simulator
quantises apart; fp16: within a thousandth of the output's largest magnitude. Cosine for both.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from rknnlite_graph.graph import Graph

from rknnlite.spi import Context
from rknnlite.tensor import DType, QuantParams
from tests.support.corpus import DATA, EXAMPLES, Golden, answers_of, goldens, open_cpu

FUSED_TAILS = (
    "Add", "AddRelu", "Mul", "ReluAdd", "ClipAdd", "LeakyReluAdd", "LeakyRelu", "PRelu", "ExSwish", "exSwish",
    "Sigmoid", "HardSigmoid", "HardSwish", "ExGelu", "exGelu", "ExMish", "exMish", "Tanh", "Elu", "Softplus",
)  # fmt: skip
FUSED = {f"{base}{tail}" for base in ("Conv", "ConvTranspose") for tail in FUSED_TAILS} | {
    "exMatMul",
    "exSDPAttention",
}
"""What may follow a convolution, said once more on purpose: a row of the product's table is no proof of itself."""
PLAIN_TAILS = ("", "Relu", "Clip")
LONG_CHAIN = 30
LEAST_COSINE = 0.9999
LOOSER = {"kept.rk3588.i8": 0.9997}
"""The simulator stores the depthwise convolution as int8 before its LeakyRelu, in a step that the file does not hold."""
HALF_PRECISION = 1e-3
INT16_STEPS = 6  # of 65536: single layers are within 1, chains add up


def cases() -> list[tuple[Path, Path]]:
    """(model, stored outputs) for every model that has them."""
    found = [(path, path.with_suffix(".npz")) for path in sorted(DATA.glob("*.rknn"))]
    found += [(path, answers_of(path)) for path in sorted(EXAMPLES.rglob("*.rknn"))]
    return [(model, archive) for model, archive in found if archive.exists()]


CASES = cases()


@lru_cache(maxsize=2)
def opened(path: Path) -> Context:
    return open_cpu(path)


def graph_of(context: Context) -> Graph:
    return context._shapes.current.plan.graph  # type: ignore[attr-defined, no-any-return]


def longest_chain(graph: Graph) -> int:
    """Most quantised layers that follow one another on a path from input to output."""
    length: dict[int, int] = {}
    for node in graph.nodes:
        before = max((length.get(index, 0) for index in node.inputs), default=0)
        quantised = any(graph.tensors[index].quant for index in node.outputs)
        length.update(dict.fromkeys(node.outputs, before + quantised))
    return max(length.values(), default=0)


def allowed_steps(graph: Graph) -> int:
    """1 LSB, or 2 where the simulator rounds at other places than the NPU's program."""
    if longest_chain(graph) > LONG_CHAIN or any(node.op in FUSED for node in graph.nodes):
        return 2
    return 1


def inherited(graph: Graph, output: int) -> float:
    """What a softmax on integers may be off: one allowed step d of its input is a relative change of 2 d."""
    makers = {index: node for node in graph.nodes for index in node.outputs}
    index = graph.outputs[output]
    after_softmax = False
    while graph.tensors[index].quant is None and index in makers and makers[index].inputs:
        after_softmax = after_softmax or makers[index].op in ("exSoftmax13", "Softmax")
        index = makers[index].inputs[0]
    quant = graph.tensors[index].quant
    return 2 * allowed_steps(graph) * quant.scale if quant and after_softmax else 0.0


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    size = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / size) if size else float(np.array_equal(a, b))


def steps_off(got: np.ndarray, expected: np.ndarray, quant: QuantParams) -> np.ndarray:
    """Distance in LSB per element."""
    return np.abs(np.rint((got.astype(np.float64) - expected) / quant.scale))


def infer(context: Context, golden: Golden) -> list[np.ndarray]:
    outputs = context.infer(golden.inputs)
    assert [o.shape for o in outputs] == [o.shape for o in golden.outputs]
    assert all(o.dtype == np.float32 for o in outputs)
    return outputs


def ids(case: tuple[Path, Path]) -> str:
    return case[0].stem


def test_the_corpus_covers_what_it_should() -> None:
    names = [model.name for model, _ in CASES]
    assert len(names) >= 40
    for part in ("rk3588", "rk3566", "rk3568", "rk3562", "rk3576", "rv1126b", ".i8", ".fp16", "dynamic", "batch_three",
                 "batch_four", "two_images", "mean_std"):  # fmt: skip
        assert any(part in name for name in names), f"no model for {part}"
    size = sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file())
    assert size < 12_200_000, f"tests/data holds {size} bytes, 12.2 MB are allowed"


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_outputs(case: tuple[Path, Path]) -> None:
    model, archive = case
    context = opened(model)
    assert not graph_of(context).has_coarse  # a warning here would be a false alarm
    for golden in goldens(archive):
        for attr, got, expected in zip(context.outputs, infer(context, golden), golden.outputs):
            if attr.quant is not None and not attr.dtype.is_float:
                fine = attr.dtype is DType.INT16
                worst = steps_off(got, expected, attr.quant).max()
                allowed = INT16_STEPS if fine else allowed_steps(graph_of(context))
                assert worst <= allowed, f"{attr.name} is {worst:.0f} LSB off"
            elif attr.dtype.is_float:
                largest = np.abs(expected).max()
                error = np.abs(got.astype(np.float64) - expected).max() / largest
                limit = HALF_PRECISION + inherited(graph_of(context), attr.index)
                assert error <= limit, f"{attr.name} is {error:.1e} of its range off"
            else:
                assert np.array_equal(got, expected), attr.name
            likeness = cosine(got, expected)
            assert likeness >= LOOSER.get(model.stem, LEAST_COSINE), f"{attr.name}: cosine {likeness:.6f}"


# -- single layers: nearly every byte --------------------------------------------------------------------------
# Not all: a file stores the multiplier of each channel with 16 bits, the simulator uses the exact scale, and
# sums that lie on the edge between two steps fall to one side or the other.


def single_convolution(path: Path) -> bool:
    """One int8 convolution and nothing else, without a tail that the simulator quantises apart."""
    if not path.name.endswith(".i8.rknn"):
        return False
    graph = graph_of(opened(path))
    nodes = [n for n in graph.nodes if n.op not in ("InputOperator", "OutputOperator", "Identity")]
    tails = [f"{base}{tail}" for base in ("Conv", "ConvTranspose") for tail in PLAIN_TAILS]
    return len(nodes) == 1 and nodes[0].op in tails and graph.tensors[nodes[0].outputs[0]].dtype is DType.INT8


def identical(path: Path, archive: Path) -> float:
    context = opened(path)
    (golden,) = goldens(archive)
    (got,), (expected,) = infer(context, golden), golden.outputs
    quant = context.outputs[0].quant
    assert quant is not None
    return float((steps_off(got, expected, quant) == 0).mean())


def test_single_layers_are_identical_but_for_ties() -> None:
    shares = {path.stem: identical(path, archive) for path, archive in CASES if single_convolution(path)}
    assert len(shares) >= 20
    assert np.mean(list(shares.values())) >= 0.999
    below = {name: round(share, 5) for name, share in shares.items() if share < 0.997}
    assert not below, f"less than 99.7 % of the bytes are identical: {below}"
