"""The predictor as an object: rows in, rows out, by the context's own numbers. tests/ray/test_cluster.py has it in actors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_ray import RknnPredictor, opening
from rknnlite_ray.cores import claim

import rknnlite
from rknnlite.errors import ContextInvalid, InputInvalid, ModelInvalid, ParamInvalid, TargetPlatformUnmatch
from tests.support.corpus import genuine

CONV = genuine("conv_1x1.rk3588.i8")


def rows_for(model: Path, count: int) -> dict[str, np.ndarray]:
    """Columns named as the inputs, without the leading axis, and the number of each row."""
    draw = np.random.default_rng(0)
    with rknnlite.open(model, backend="cpu") as context:
        columns = {
            attr.name: draw.integers(0, 255, (count, *bare(attr.dims, context.batch))).astype(np.uint8)
            for attr in context.inputs
        }
    return {"id": np.arange(count), **columns}


def bare(dims: tuple[int, ...], batch: int) -> tuple[int, ...]:
    return dims[1:] if dims[0] == batch else dims


@pytest.mark.parametrize(
    "name",
    [
        "conv_1x1.rk3588.i8", "batch_four.rk3588.i8", "batch_three.rk3576.i8", "image_and_vector.rk3588.i8",
        "three_outputs.rk3588.i8", "lstm.rk3588.fp16", "dense_rows.rk3588.fp16",
    ],
)  # fmt: skip
def test_rows_are_those_of_a_local_context(name: str) -> None:
    """Seven rows: neither a multiple of three nor of four."""
    model, count = genuine(name), 7
    columns = rows_for(model, count)
    found = RknnPredictor(model, backend="cpu")(columns)
    with rknnlite.open(model, backend="cpu") as context:
        assert list(found) == ["id", *(attr.name for attr in context.outputs)]
        for row in range(count):
            given = [
                np.stack([columns[attr.name][row]] * context.batch) if attr.dims[0] == context.batch else columns[attr.name][row]
                for attr in context.inputs
            ]  # fmt: skip
            for attr, output in zip(context.outputs, context.infer(*given)):
                expected = output[0] if output.shape[0] == context.batch else output
                assert found[attr.name][row].tobytes() == expected.tobytes(), (attr.name, row)
                assert (
                    found[attr.name].dtype == expected.dtype and found[attr.name][row].shape == expected.shape
                )


def image_rows(count: int, name: str = "image") -> dict[str, np.ndarray]:
    columns = rows_for(CONV, count)
    ids, pixels = columns.values()
    return {"id": ids, name: pixels}


def test_columns_and_functions_are_the_callers() -> None:
    columns = image_rows(3)
    plain = RknnPredictor(CONV, backend="cpu", inputs="image", outputs="scores")(columns)
    encoded = {
        "id": columns["id"],
        "file": np.array([pixels.tobytes() for pixels in columns["image"]], object),
    }
    shape = columns["image"].shape[1:]
    predict = RknnPredictor(
        CONV.read_bytes(),
        backend="cpu",
        inputs=["file"],
        outputs="best",
        keep=["file"],
        pre=lambda data: np.frombuffer(data, np.uint8).reshape(shape),
        post=lambda outputs: int(outputs[0].argmax()),
    )
    found = predict(encoded)
    assert list(found) == ["file", "best"]
    assert found["best"].tolist() == [int(scores.argmax()) for scores in plain["scores"]]
    several = RknnPredictor(
        CONV, backend="cpu", inputs="image", post=lambda outputs: {"most": outputs[0].max(), "raw": [1]}
    )(columns)
    assert list(several) == ["id", "most", "raw"] and several["most"].shape == (3,)


def test_the_only_column_belongs_to_the_only_input() -> None:
    pixels = image_rows(2)["image"]
    assert len(RknnPredictor(CONV, backend="cpu")({"whatever": pixels})) == 1


def test_options_reach_the_model() -> None:
    columns = image_rows(2)
    turned = {"id": columns["id"], "image": columns["image"].transpose(0, 3, 1, 2).copy()}
    plain = RknnPredictor(CONV, backend="cpu", inputs="image")(columns)
    nchw = RknnPredictor(CONV, backend="cpu", inputs="image", infer={"layout": "nchw"})(turned)
    floats = RknnPredictor(CONV, backend="cpu", inputs="image", fidelity="float")(columns)
    (name,) = set(plain) - {"id"}
    assert (plain[name] == nchw[name]).all() and (plain[name] != floats[name]).any()


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"picture": np.zeros((2, 4, 4, 3), np.uint8), "id": np.arange(2)}, r"no column 'image'; .* have \['id', 'picture'\]"),
        ({"image": np.zeros((2, 4, 5, 3), np.uint8)}, r"column image, row 0 of the batch: .*expected shape"),
        ({"image": np.array(["a", "b"], object)}, r"column image, row 0 of the batch: .*element type"),
    ],
    ids=["missing", "shape", "type"],
)  # fmt: skip
def test_rows_that_do_not_fit_are_named(columns: dict[str, Any], text: str) -> None:
    with pytest.raises(InputInvalid, match=text) as caught:
        RknnPredictor(CONV, backend="cpu", inputs="image")(columns)
    assert type(caught.value) is InputInvalid  # which another process can read


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"model": "/no/such.rknn"}, ModelInvalid, r"cannot be opened .*/no/such\.rknn"),
        ({"model": b"no model"}, ModelInvalid, "cannot be opened"),
        ({"inputs": ["a", "b"]}, ParamInvalid, r"inputs has the columns \['a', 'b'\]"),
        ({"outputs": {"none": "x"}}, ParamInvalid, r"outputs has \['none'\]"),
        ({"cores": "every"}, ParamInvalid, "cores='every'"),
        ({"cores": 9}, ParamInvalid, "core mask 0x9 is not legal on rk3588"),
        ({"soc": "rk3566"}, TargetPlatformUnmatch, "rk3566"),
    ],
    ids=["path", "bytes", "inputs", "outputs", "cores", "mask", "soc"],
)
def test_a_model_that_cannot_be_opened_is_said_with_the_first_batch(
    arguments: dict[str, Any], error: Any, text: str
) -> None:
    predict = RknnPredictor(**{"model": CONV, "backend": "cpu", **arguments})
    for _ in range(2):
        with pytest.raises(error, match=text):
            predict(image_rows(1))


def test_post_without_a_name_for_its_value() -> None:
    model = genuine("three_outputs.rk3588.i8")
    with pytest.raises(ParamInvalid, match="post returned a float; return a mapping"):
        RknnPredictor(model, backend="cpu", post=lambda outputs: 1.0)(rows_for(model, 1))


def test_a_closed_predictor_says_so() -> None:
    predict = RknnPredictor(CONV, backend="cpu")
    predict.close()
    predict.close()
    with pytest.raises(ContextInvalid, match="closed"):
        predict(image_rows(1))


def test_each_worker_of_a_node_takes_a_core_of_its_own() -> None:
    node = f"claims-{os.getpid()}"
    first, second = claim(2, node), claim(2, node)
    assert first is not None and second is not None
    assert (first.number, second.number) == (0, 1)
    assert claim(2, node) is None
    assert claim(2, node + "b") is not None
    first.release()
    again = claim(2, node)
    assert again is not None and again.number == 0
    second.release()
    again.release()


def test_a_predictor_spreads_and_gives_its_core_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a node that no other test knows."""
    monkeypatch.setattr(opening, "_node", lambda: f"test-{os.getpid()}")
    masks: list[int] = []
    kind = type(rknnlite.open(CONV, backend="cpu"))
    monkeypatch.setattr(kind, "set_core_mask", lambda self, mask: masks.append(mask))
    workers = [RknnPredictor(CONV, backend="cpu") for _ in range(4)]  # a core too few
    assert masks == [1, 2, 4]
    workers[1].close()
    RknnPredictor(CONV, backend="cpu").close()
    assert masks == [1, 2, 4, 2]
    for worker in workers:
        worker.close()
