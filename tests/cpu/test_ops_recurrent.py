"""LSTM and GRU against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_graph.graph import RecurrentParams

from rknnlite.errors import ModelInvalid
from tests.support.graphs import constant, one_node, run, tensor

onnx = pytest.importorskip("onnx", reason="pip install onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="pip install onnxruntime")

rng = np.random.default_rng(31)
STEPS, BATCH, WIDTH, HIDDEN = 5, 2, 4, 3


def weights(gates: int, directions: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """w, r, w_bias, r_bias in ONNX gate order."""
    shapes = [(gates, HIDDEN, WIDTH), (gates, HIDDEN, HIDDEN), (gates, HIDDEN), (gates, HIDDEN)]
    w, r, wb, rb = (rng.uniform(-1, 1, (directions, *shape)).astype(np.float32) for shape in shapes)
    return w, r, wb, rb


def by_onnxruntime(
    op: str, x: np.ndarray, parts: tuple, direction: str, states: list, **attrs: object
) -> list:
    w, r, wb, rb = parts
    d = len(w)
    bias = np.concatenate([wb.reshape(d, -1), rb.reshape(d, -1)], axis=1)
    names = ["x", "w", "r", "b", "", *[f"s{i}" for i in range(len(states))]]
    outputs = ["y", "yh", *(["yc"] if op == "LSTM" else [])]
    node = onnx.helper.make_node(op, names, outputs, hidden_size=HIDDEN, direction=direction, **attrs)
    fixed = {"w": w.reshape(d, -1, WIDTH), "r": r.reshape(d, -1, HIDDEN), "b": bias}
    fixed |= {f"s{i}": s for i, s in enumerate(states)}
    kept = [onnx.numpy_helper.from_array(np.ascontiguousarray(v), k) for k, v in fixed.items()]
    info = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)
    graph = onnx.helper.make_graph([node], "g", [info], [onnx.ValueInfoProto(name=o) for o in outputs], kept)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 14)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})


@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "gates", "linear"), [("LSTM", 4, 0), ("GRU", 3, 0), ("GRU", 3, 1)])
def test_recurrent(op: str, gates: int, linear: int, direction: str, states: bool) -> None:
    d = 2 if direction == "bidirectional" else 1
    x = rng.uniform(-2, 2, (STEPS, BATCH, WIDTH)).astype(np.float32)
    parts = weights(gates, d)
    count = (2 if op == "LSTM" else 1) if states else 0
    initial = [rng.uniform(-1, 1, (d, BATCH, HIDDEN)).astype(np.float32) for _ in range(count)]
    attrs = {} if op == "LSTM" else {"linear_before_reset": linear}
    expected = by_onnxruntime(op, x, parts, direction, initial, **attrs)
    w, r, wb, rb = parts
    params = RecurrentParams(gates, HIDDEN, d, w, r, wb, rb, direction == "reverse", bool(linear))
    results = [tensor(f"y{i}", e.shape) for i, e in enumerate(expected)]
    live = [tensor("x", x.shape), None, *(tensor(f"s{i}", s.shape) for i, s in enumerate(initial))]
    plan = one_node(f"ex{op}", live, results, recurrent=params)
    for got, want in zip(run(plan, x, *initial), expected):
        assert got.shape == want.shape and np.allclose(got, want, atol=2e-6)


def test_rows_stop_at_their_length() -> None:
    x = rng.uniform(-2, 2, (STEPS, BATCH, WIDTH)).astype(np.float32)
    params = RecurrentParams(4, HIDDEN, 1, *weights(4, 1))
    lengths = np.array([2, STEPS], np.int32)
    operands = [tensor("x", x.shape), tensor("n", (BATCH,), value=lengths)]
    results = [
        tensor("y", (STEPS, 1, BATCH, HIDDEN)),
        tensor("h", (1, BATCH, HIDDEN)),
        tensor("c", (1, BATCH, HIDDEN)),
    ]
    y, h, _ = run(one_node("exLSTM", operands, results, recurrent=params), x)
    assert (y[2:, 0, 0] == 0).all() and (y[2:, 0, 1] != 0).any()
    assert np.array_equal(h[0, 0], y[1, 0, 0]) and np.array_equal(h[0, 1], y[-1, 0, 1])


@pytest.mark.parametrize("activation", ["Tanh", "Relu"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_plain_rnn(direction: str, activation: str) -> None:
    d = 2 if direction == "bidirectional" else 1
    x = rng.uniform(-2, 2, (STEPS, BATCH, WIDTH)).astype(np.float32)
    w, r, wb, rb = weights(1, d)
    initial = rng.uniform(-1, 1, (d, BATCH, HIDDEN)).astype(np.float32)
    activations = [activation] * d
    expected = by_onnxruntime("RNN", x, (w, r, wb, rb), direction, [initial], activations=activations)
    operands = [w[:, 0], r[:, 0], np.concatenate([wb[:, 0], rb[:, 0]], axis=1), None, initial]
    plan = one_node(
        "RNN", [tensor("x", x.shape), *(None if o is None else constant(o) for o in operands)],
        [tensor("y", expected[0].shape), tensor("h", expected[1].shape)],
        {"direction": direction, "activations": activations},
    )  # fmt: skip
    for found, wanted in zip(run(plan, x), expected):
        assert np.allclose(found, wanted, atol=1e-5)


def test_plain_rnn_with_an_activation_of_its_own() -> None:
    x, w, r = (
        np.zeros((2, 1, 3), np.float32),
        np.zeros((1, 4, 3), np.float32),
        np.zeros((1, 4, 4), np.float32),
    )
    plan = one_node(
        "RNN",
        [tensor("x", x.shape), constant(w), constant(r)],
        [tensor("y", (2, 1, 1, 4))],
        {"activations": ["Affine"]},
    )
    with pytest.raises(ModelInvalid, match="Affine"):
        run(plan, x)
