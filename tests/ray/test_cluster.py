"""The predictor in actors of a local cluster: numbers, placement, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

ray = pytest.importorskip("ray")

from rknnlite_ray import RknnPredictor, map_arguments, typed_errors  # noqa: E402

import rknnlite  # noqa: E402
from rknnlite.errors import InputInvalid, ModelInvalid, TargetPlatformUnmatch  # noqa: E402
from tests.ray.conftest import BOARD, add_board, meet  # noqa: E402
from tests.support.corpus import genuine  # noqa: E402

pytestmark = pytest.mark.slow
CONV = genuine("conv_1x1.rk3588.i8")


def images(model: Path, count: int) -> np.ndarray:
    with rknnlite.open(model, backend="cpu") as context:
        dims = context.inputs[0].dims[1:]
    return np.random.default_rng(1).integers(0, 255, (count, *dims)).astype(np.uint8)


def dataset(model: Path, count: int = 24) -> Any:
    pixels = images(model, count)
    return ray.data.from_items([{"id": i, "image": pixels[i]} for i in range(count)], override_num_blocks=6)


def arguments(model: Any, **options: Any) -> dict[str, Any]:
    """On a board's core, by the CPU reference: what is no board cannot do it with another backend."""
    return map_arguments(
        model, backend="cpu", **{"resources": BOARD, "num_cpus": 0, "batch_size": 4, **options}
    )


@pytest.mark.parametrize("name", ["conv_1x1.rk3588.i8", "batch_three.rk3588.fp16"])
def test_rows_are_those_of_a_local_predictor(cluster: Any, name: str) -> None:
    model = genuine(name)
    found = {
        row["id"]: row["scores"]
        for row in dataset(model)
        .map_batches(RknnPredictor, **arguments(model, workers=3, inputs="image", outputs="scores"))
        .take_all()
    }
    local = RknnPredictor(model, backend="cpu", inputs="image", outputs="scores")
    expected = local({"id": np.arange(24), "image": images(model, 24)})["scores"]
    assert sorted(found) == list(range(24))
    assert all(found[i].tobytes() == expected[i].tobytes() for i in range(24))


class Where(RknnPredictor):
    """Says on which node it is, once three workers have a batch, who meet in a folder."""

    def __init__(self, folder: Path, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._folder = folder

    def __call__(self, batch: Any) -> Any:
        runtime = ray.get_runtime_context()
        meet(self._folder, runtime.get_actor_id(), 3)
        found = super().__call__(batch)
        found["node"] = np.array([runtime.get_node_id()] * len(found["id"]))
        return found


def rows_of_three(kind: type[Where], folder: Path, **options: Any) -> list[Any]:
    """The rows of three workers. One who waits for the others has one task, so that there are some for the last."""
    given = arguments(CONV, workers=3, inputs="image", folder=folder, **options)
    assert (given["compute"].min_size, given["compute"].max_size) == (3, 3)
    given["compute"] = ray.data.ActorPoolStrategy(size=3, max_tasks_in_flight_per_actor=1)
    return list(dataset(CONV, 48).map_batches(kind, **given).take_all())


def test_three_workers_are_on_three_boards(cluster: Any, tmp_path: Path) -> None:
    assert arguments(CONV)["resources"] == BOARD
    rows = rows_of_three(Where, tmp_path)
    assert {row["node"] for row in rows} == {board.node_id for board in cluster.boards}


class Numbered(Where):
    """Says which core it has."""

    def __call__(self, batch: Any) -> Any:
        found = super().__call__(batch)
        found["core"] = np.full(len(found["id"]), self._opened.core.number)
        return found


def test_three_workers_of_one_board_have_three_cores(cluster: Any, tmp_path: Path) -> None:
    board = add_board(cluster, resources={"rknpu_core": 3, "wide": 3})
    cluster.wait_for_nodes()
    rows = rows_of_three(Numbered, tmp_path, resources={"rknpu_core": 1, "wide": 1})
    cluster.remove_node(board)
    assert {row["node"] for row in rows} == {board.node_id}
    assert {row["core"] for row in rows} == {0, 1, 2}


def test_resources_come_from_the_file(cluster: Any) -> None:
    assert map_arguments(CONV)["resources"] == {"rknpu_core": 1, "rk3588": 1}
    assert map_arguments(CONV, backend="cpu")["resources"] == {}
    assert map_arguments(CONV, backend="cpu")["num_cpus"] == 1


def test_a_file_for_another_soc_is_refused_at_once(cluster: Any) -> None:
    with pytest.raises(TargetPlatformUnmatch, match=r"resource rk3576, .*offer rknpu_core: 3, rk3588: 3"):
        map_arguments(genuine("conv_1x1.rk3576.i8"))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"inputs": "picture"}, InputInvalid, r"a batch failed .*no column 'picture'; the rows have \['id', 'image'\]"),
        ({"inputs": "image", "infer": {"layout": "nchw"}}, InputInvalid, r"column image, row 0 of the batch: .*NCHW shape"),
        ({"ship": False}, ModelInvalid, r"cannot be opened .*gone\.rknn: cannot be read: No such file"),
    ],
    ids=["column", "shape", "missing on a node"],
)  # fmt: skip
def test_errors_of_workers_are_typed_and_name_the_place(
    cluster: Any, tmp_path: Path, options: dict[str, Any], error: Any, text: str
) -> None:
    model = tmp_path / "gone.rknn"
    model.write_bytes(CONV.read_bytes())
    given = arguments(model, **options)
    model.unlink()
    with pytest.raises(error, match=text), typed_errors():
        dataset(CONV, 4).map_batches(RknnPredictor, **given).take_all()


def test_other_errors_of_ray_stay_what_they_are(cluster: Any) -> None:
    with pytest.raises(ray.exceptions.RayTaskError), typed_errors():
        ray.get(ray.remote(lambda: 1 / 0).remote())


def test_what_the_environment_asks_for_is_an_npu_that_is_not_there(cluster: Any) -> None:
    from rknnlite.errors import BackendUnavailable

    given = map_arguments(CONV, backend="rknnrt", inputs="image")
    with pytest.raises(BackendUnavailable, match="rknnrt"), typed_errors():
        dataset(CONV, 4).map_batches(RknnPredictor, **given).take_all()
