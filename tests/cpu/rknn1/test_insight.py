"""What is offered for every model works with those of the first toolkit: times, dumps, float, comparison, ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import Call, call
from tests.support.corpus import open_cpu
from tests.support.rknn1_files import File, u8
from tools.sweep1.cases import CASES

__all__ = ["call"]  # the fixture


def network() -> File:
    """Convolution and RELU, pool, addition of a branch, fully connected."""
    file = File("small", seed=5, mean_value=[128.0] * 3, std_value=[128.0] * 3, mean_value_chns=[3])
    x = file.input((1, 3, 16, 16), u8(1 / 128, 128))
    weights = {
        "ksize": [3, 3],
        "weights": 8,
        "stride": [1, 1],
        "pad": [1, 1, 1, 1],
        "group": 1,
        "dilation": [1, 1],
        "multiplier": 0,
    }
    kernel, bias = file.random((8, 3, 3, 3), u8(0.01, 128)), file.const(np.arange(-4, 4) * 500, CASE_BIAS)
    first = file.node("CONV2D", [x, kernel, bias], u8(0.1, 100), nn={"conv2d": weights})
    first = file.node("RELU", [first], u8(0.06))
    window = {"ksize": [2, 2], "stride": [2, 2], "pad": [0, 0, 0, 0], "round_type": "VSI_NN_ROUND_FLOOR"}
    pools = [
        file.node(
            "POOL",
            [first],
            u8(0.06),
            nn={"pool": {**window, "type": f"VX_CONVOLUTIONAL_NETWORK_POOLING_{kind}"}},
        )
        for kind in ("MAX", "AVG")
    ]
    joined = file.node("ADD", pools, u8(0.1))
    sums = file.node(
        "FCL", [joined, file.random((10, 512), u8(0.002, 128))], u8(0.4, 128), nn={"fcl": {"weights": 10}}
    )
    file.output(sums, (1, 10))
    return file


CASE_BIAS = {
    "vx_type": "VSI_NN_TYPE_INT32",
    "qnt_type": "VSI_NN_QNT_TYPE_AFFINE_ASYMMETRIC",
    "scale": 0.01 / 128,
    "zero_point": 0,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "small.rknn"
    made.write_bytes(network().data)
    return made


def picture(context: Any) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, context.inputs[0].dims, np.uint8)


def cosine(a: Any, b: Any) -> float:
    a, b = (np.asarray(each, np.float64).ravel() for each in (a, b))
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_times_and_dumps(path: Path, tmp_path: Path) -> None:
    with open_cpu(path, extra={"collect_perf": True}) as context:
        context.infer([picture(context)])
        table = context.perf_table()
        assert [row.op for row in table].count("ConvRelu") == 1
        assert table.total_us > 0 and 8 * 27 + 5120 < context.memory().weight < len(path.read_bytes())
        dump = context.dump(tmp_path / "dump")
        assert len(dump.tensors) >= len(context._shapes.current.plan.graph.nodes)  # type: ignore[attr-defined]


def test_in_float_it_is_near(path: Path) -> None:
    with open_cpu(path) as npu, open_cpu(path, extra={"fidelity": "float"}) as real:
        image = picture(npu)
        found, wanted = (np.asarray(each.infer([image])[0].data) for each in (npu, real))
        assert cosine(found, wanted) > 0.999 and not np.array_equal(found, wanted)


def test_compare_with_itself_in_float(path: Path, call: Call) -> None:
    done = call("compare", path, path, "--json")
    assert done.code == 0 and done.data


@pytest.mark.parametrize("form", ["float", "qdq"])
def test_export_onnx_is_near_the_float_network(form: str, path: Path, tmp_path: Path, call: Call) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    out = tmp_path / "small.onnx"
    done = call("export-onnx", path, out, "--form", form, "--json")
    assert done.code == 0 and done.data["not_written"] == []
    session = runtime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    with open_cpu(path, extra={"fidelity": "float" if form == "float" else "npu"}) as context:
        image = picture(context)
        wanted = np.asarray(context.infer([image])[0].data)
    (given,) = session.get_inputs()
    (found,) = session.run(None, {given.name: (image.transpose(0, 3, 1, 2).astype(np.float32) - 128) / 128})
    assert cosine(found, wanted) > (0.99999 if form == "float" else 0.999)


def test_doubts_are_told(tmp_path: Path, call: Call) -> None:
    made = tmp_path / "groups.rknn"
    made.write_bytes(CASES["conv_groups"]().data)
    assert "gives every group the channels of the first one" in call("info", "--check", made).out
