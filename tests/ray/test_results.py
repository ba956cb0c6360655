"""A result has each row once, whoever is killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ray = pytest.importorskip("ray")
parquet = pytest.importorskip("pyarrow.parquet")

import pyarrow  # noqa: E402
from rknnlite_ray import Results, RknnPredictor, map_arguments  # noqa: E402
from rknnlite_ray.results import _held  # noqa: E402

from rknnlite.errors import InputInvalid, ParamInvalid  # noqa: E402
from tests.ray import evaluation  # noqa: E402
from tests.ray.conftest import BOARD, add_board, until  # noqa: E402
from tests.support.corpus import ROOT, genuine  # noqa: E402

slow = pytest.mark.slow


def put(file: Path, **columns: list[Any]) -> Path:
    """A file as Ray writes them."""
    file.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table(columns), file)
    return file


def rows(folder: Path) -> dict[int, Any]:
    """The rows of a result by key, after a look that each is there once."""
    found = [
        row for file in sorted((folder).glob("*/*.parquet")) for row in parquet.read_table(file).to_pylist()
    ]
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row for row in found}


# -- folders of files, without Ray ---------------------------------------------------------------------------


def test_a_new_result_is_empty(tmp_path: Path) -> None:
    assert len(Results(tmp_path / "new").keys()) == 0
    (tmp_path / "file").touch()
    with pytest.raises(ParamInvalid, match="file: cannot be made a folder"):
        Results(tmp_path / "file")


def test_what_a_killed_program_wrote_counts_and_what_it_did_not_end_goes(tmp_path: Path) -> None:
    put(tmp_path / "done-1" / "a.parquet", id=[3, 1], y=[30, 10])
    whole = put(tmp_path / "running-2" / "b.parquet", id=[5], y=[50])
    torn = whole.with_name("c.parquet")
    torn.write_bytes(whole.read_bytes()[:-20])
    (whole.with_name("d.parquet")).touch()
    assert Results(tmp_path).keys().tolist() == [1, 3, 5]
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/*")) == [
        "done-1/a.parquet", "done-2/b.parquet",
    ]  # fmt: skip


def test_rows_that_were_written_twice_stay_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(tmp_path / "done-1" / "a.parquet", id=["x", "y"], n=[1, 2])
    put(tmp_path / "running-2" / "b.parquet", id=["y", "z", "z"], n=[3, 4, 5])
    results = Results(tmp_path)
    assert results.keys().tolist() == ["x", "y", "z"]
    assert "2 rows are in the result already and are dropped" in caplog.text
    assert {key: row["n"] for key, row in rows(tmp_path).items()} == {"x": 1, "y": 2, "z": 4}
    caplog.clear()
    assert len(results.keys()) == 3 and not caplog.text


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "done-1" / "a.parquet", number=[1])
    with pytest.raises(InputInvalid, match=r"a\.parquet has no column 'id'"):
        Results(tmp_path).keys()
    assert Results(tmp_path, key="number").keys().tolist() == [1]


def test_a_file_whose_rows_are_all_known_goes(tmp_path: Path) -> None:
    put(tmp_path / "done-1" / "a.parquet", id=[1, 2, 3], n=[1, 2, 3])
    known = put(tmp_path / "running-2" / "b.parquet", id=[2, 3], n=[5, 6])
    results = Results(tmp_path)
    for _ in range(2):
        assert results.keys().tolist() == [1, 2, 3]
    assert not known.exists() and [row["n"] for row in rows(tmp_path).values()] == [1, 2, 3]


def test_of_rows_that_are_there_twice_the_older_stay(tmp_path: Path) -> None:
    old = put(tmp_path / "done-b" / "a.parquet", id=[1, 2], n=[1, 2])
    os.utime(old, (1, 1))
    put(tmp_path / "done-a" / "a.parquet", id=[2, 3], n=[5, 6])
    assert Results(tmp_path).keys().tolist() == [1, 2, 3]
    assert {key: row["n"] for key, row in rows(tmp_path).items()} == {1: 1, 2: 2, 3: 6}


def test_files_with_other_columns_are_put_aside_once(tmp_path: Path) -> None:
    put(tmp_path / "done-1" / "a.parquet", id=[1], n=[1])
    put(tmp_path / "running-2" / "b.parquet", id=[2], m=[1])
    results = Results(tmp_path)
    with pytest.raises(
        InputInvalid, match=r"b\.parquet has the columns \['id', 'm'\], .*other-columns-2, and its rows"
    ):
        results.keys()
    assert results.keys().tolist() == [1]
    assert (tmp_path / "other-columns-2" / "b.parquet").exists()


def test_a_folder_to_which_a_living_program_writes_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path / "done-1" / "a.parquet", id=[1])
    theirs = put(tmp_path / "running-2" / "b.parquet", id=[2])
    with _held(theirs.parent):
        assert Results(tmp_path).keys().tolist() == [1] and theirs.exists()
        assert "another program writes to this folder now" in caplog.text
    assert Results(tmp_path).keys().tolist() == [1, 2] and not theirs.exists()
    assert sorted(path.name for path in (tmp_path / "done-2").iterdir()) == ["b.parquet"]


# -- on a cluster --------------------------------------------------------------------------------------------


def expected() -> dict[int, bytes]:
    """What a local predictor makes of all rows."""
    ids = np.arange(evaluation.ROWS)
    predict = RknnPredictor(evaluation.MODEL, backend="cpu", inputs="image", outputs="scores")
    found = predict(evaluation.pixels({"id": ids}))
    return {int(i): row.tobytes() for i, row in zip(ids, found["scores"])}


def scores(folder: Path) -> dict[int, bytes]:
    """What the result has of all rows."""
    found = Results(folder).read().take_all()
    assert len(found) == len(rows(folder))
    return {row["id"]: row["scores"].tobytes() for row in found}


def written(folder: Path) -> int:
    """Rows that are on disk, of which some may be in files without an end."""
    return len(list(folder.glob("result/*/*.parquet")))


@slow
def test_a_second_run_computes_nothing(cluster: Any, tmp_path: Path) -> None:
    assert evaluation.evaluate(tmp_path) == evaluation.ROWS
    assert sorted(evaluation.computed(tmp_path)) == list(range(evaluation.ROWS))
    assert evaluation.evaluate(tmp_path) == evaluation.ROWS
    assert len(evaluation.computed(tmp_path)) == evaluation.ROWS
    assert scores(tmp_path / "result") == expected()


@slow
def test_rows_of_another_model_are_refused(cluster: Any, tmp_path: Path) -> None:
    """Also of the same one with other arguments; where the model lies and who computes it is no matter."""
    model, another = evaluation.MODEL, genuine("batch_three.rk3588.fp16")

    def write(model: Any, rows: int = 10, **options: Any) -> int:
        given = map_arguments(
            model,
            backend="cpu",
            resources=BOARD,
            num_cpus=0,
            **{"inputs": "image", "outputs": "scores", **options},
        )
        results = Results(tmp_path / "result")
        found = results.missing(ray.data.range(rows)).map_batches(evaluation.pixels)
        return results.write(found.map_batches(RknnPredictor, **given))

    assert write(model, post=lambda outputs: outputs[0] * 2) == 10
    before = scores(tmp_path / "result")
    for made_with, options, text in (
        (another, {"post": lambda outputs: outputs[0] * 2}, r"result has results of something else: model was sha256 "),
        (model, {"post": lambda outputs: outputs[0] * 3}, "post was .*lambda"),
        (model, {}, "post was .*lambda.*, now it is not given"),
        (model, {"post": lambda outputs: outputs[0] * 2, "outputs": "y"}, "outputs was 'scores', now it is 'y'"),
    ):  # fmt: skip
        with pytest.raises(ParamInvalid, match=text):
            write(made_with, 20, **options)
    assert scores(tmp_path / "result") == before
    copied = model.read_bytes()
    assert write(copied, 20, post=lambda outputs: outputs[0] * 2, cores="auto", batch_size=3) == 20


@slow
def test_two_programs_on_one_folder_write_each_row_once(cluster: Any, tmp_path: Path) -> None:
    """Both compute what was missing when they began."""
    command = [sys.executable, "-m", "tests.ray.evaluation", cluster.address, str(tmp_path), "1"]
    both = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    told = [program.communicate(timeout=600) for program in both]
    assert all(program.returncode == 0 for program in both), told[0][1][-2000:] + told[1][1][-2000:]
    assert len(Results(tmp_path / "result").keys()) == evaluation.ROWS
    assert scores(tmp_path / "result") == expected()


@slow
def test_a_killed_program_goes_on_where_it_was(cluster: Any, tmp_path: Path) -> None:
    """The cluster outlives it, as one of boards does."""
    command = [sys.executable, "-m", "tests.ray.evaluation", cluster.address, str(tmp_path)]
    half = tmp_path / "half"
    half.touch()
    driver = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    until(lambda: written(tmp_path) >= 2 or driver.poll() is not None)
    driver.send_signal(signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL
    half.unlink()
    before = Results(tmp_path / "result").keys().tolist()
    assert 0 < len(before) < evaluation.ROWS
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[0] == str(evaluation.ROWS)
    assert scores(tmp_path / "result") == expected()
    counted = evaluation.computed(tmp_path)
    assert set(counted) == set(range(evaluation.ROWS))
    assert all(counted.count(number) == 1 for number in before), "rows of the result were computed again"


@slow
def test_a_node_that_dies_loses_no_row(cluster: Any, tmp_path: Path) -> None:
    board = add_board(cluster)
    cluster.wait_for_nodes()
    half = tmp_path / "half"
    half.touch()

    def kill() -> None:
        try:
            until(lambda: written(tmp_path) >= 2)
            cluster.remove_node(board)
        finally:
            half.unlink()

    killer = threading.Thread(target=kill)
    killer.start()
    assert evaluation.evaluate(tmp_path, workers=4) == evaluation.ROWS
    killer.join()
    assert scores(tmp_path / "result") == expected()
    assert len(evaluation.computed(tmp_path)) >= evaluation.ROWS
