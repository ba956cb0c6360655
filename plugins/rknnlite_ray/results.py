"""Results that outlive the program: a folder of Parquet files in which each row stands once."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.files.writing import writing
from rknnlite.log import logger

from .columns import column

if TYPE_CHECKING:
    from ray.data import Dataset

__all__ = ["Results"]

Array = NDArray[Any]
_RUNNING, _DONE = "running-", "done-"


class Results:
    """A folder of Parquet files, written by Ray on the machine where the program runs; ``key`` names each row.

    A program that is killed and started again computes what is missing:

    >>> results = Results("results")                                                     # doctest: +SKIP
    >>> results.write(results.missing(dataset).map_batches(RknnPredictor, **arguments))  # doctest: +SKIP

    Each run writes to a folder of its own. The next one renames that before it looks inside, so that what is left of
    a killed run can add nothing behind its back; files without an end are removed. One program at a time.

    Raises:
        ParamInvalid: the folder is a file, or cannot be made.
    """

    def __init__(self, folder: Union[str, os.PathLike[str]], key: str = "id") -> None:
        self.folder, self.key = Path(folder).resolve(), key
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ParamInvalid(
                f"{self.folder}: cannot be made a folder of results: {error.strerror}"
            ) from None

    def keys(self) -> Array:
        """Keys of the rows that are in the result, sorted; ends what a killed program left unfinished.

        Raises:
            InputInvalid: a file without a column of that name.
        """
        for folder in sorted(self.folder.glob(f"{_RUNNING}*")):
            folder.rename(folder.with_name(_DONE + folder.name[len(_RUNNING) :]))
        seen: set[Any] = set()
        for file in sorted(self.folder.glob(f"{_DONE}*/*.parquet")):
            seen |= self._settled(file, seen)
        return np.array(sorted(seen))

    def missing(self, dataset: Dataset) -> Dataset:
        """The rows of a dataset whose keys are not in the result.

        Filter first and make pixels later: rows that are dropped here should not have cost anything.
        """
        done = self.keys()
        if not len(done):
            return dataset
        return dataset.map_batches(_without, batch_format="numpy", fn_kwargs={"key": self.key, "done": done})

    def write(self, dataset: Dataset) -> int:
        """Compute a dataset and add its rows to the result; how many rows the result has then.

        Raises:
            What the workers raise, see ``typed_errors``; rows that were written until then stay.
        """
        running = self.folder / f"{_RUNNING}{secrets.token_hex(8)}"
        running.mkdir()
        dataset.write_parquet(str(running), try_create_dir=False, ray_remote_args=_here())
        return len(self.keys())

    def read(self) -> Dataset:
        """All rows of the result."""
        import pyarrow.parquet as parquet
        import ray

        files = sorted(self.folder.glob(f"{_DONE}*/*.parquet"))
        return ray.data.from_arrow([parquet.read_table(file, partitioning=None) for file in files])

    def _settled(self, file: Path, seen: set[Any]) -> set[Any]:
        """Keys of a file, from which rows are taken that were seen before; a file without an end goes."""
        import pyarrow.parquet as parquet
        from pyarrow import ArrowInvalid

        try:
            with parquet.ParquetFile(file) as opened:
                there = opened.schema_arrow.names
        except ArrowInvalid:  # the end of a Parquet file says that it is one
            file.unlink()
            return set()
        if self.key not in there:
            raise InputInvalid(f"{file} has no column {self.key!r}, but {there}; name the key of its rows")
        keys = parquet.read_table(file, columns=[self.key], partitioning=None)[self.key].to_pylist()
        fresh = list(_first_ones(keys, seen))
        if len(fresh) < len(keys):
            logger.warning(
                "%s: %d rows are in the result already and are dropped", file, len(keys) - len(fresh)
            )
            table = parquet.read_table(file, partitioning=None).take(fresh)
            with writing(file) as rewritten:
                parquet.write_table(table, rewritten)
        return set(keys)


def _here() -> dict[str, Any]:
    """Arguments of tasks that are to run on the program's own machine, where the folder is, however busy that is."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    node = ray.get_runtime_context().get_node_id()
    return {"num_cpus": 0, "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}


def _first_ones(keys: list[Any], seen: set[Any]) -> Iterator[int]:
    """Numbers of the rows whose key did not come before."""
    known = set(seen)
    for number, key in enumerate(keys):
        if key not in known:
            known.add(key)
            yield number


def _without(batch: Mapping[str, Array], key: str, done: Array) -> dict[str, Array]:
    """The rows of a batch whose key is not among those."""
    wanted = ~np.isin(column(batch, key), done)
    return {name: values[wanted] for name, values in batch.items()}
