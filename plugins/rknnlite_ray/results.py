"""Results that outlive the program: a folder of Parquet files in which each row stands once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.files.writing import writing

from .columns import column
from .fingerprint import check_same, facts_of_dataset
from .problems import warn

if TYPE_CHECKING:
    from ray.data import Dataset

__all__ = ["Results"]

Array = NDArray[Any]
_RUNNING, _DONE, _STRANGE = "running-", "done-", "other-columns-"
_FINGERPRINT, _LOCK = "fingerprint.json", "lock"


class Results:
    """A folder of Parquet files, written by Ray on the machine where the program runs; ``key`` names each row.

    A program that is killed and started again computes what is missing:

    >>> results = Results("results")                                                     # doctest: +SKIP
    >>> results.write(results.missing(dataset).map_batches(RknnPredictor, **arguments))  # doctest: +SKIP

    Each run writes to a folder of its own, which it holds as long as it lives. What is left of a killed one is renamed
    before anybody looks inside, so that it can add nothing behind the back of the next; files without an end are
    removed. Two programs at once may compute the same rows, of which one stays; the second one says so.

    ``fingerprint.json`` says what the rows were made of: the model's bytes and the arguments of ``RknnPredictor``.

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
            InputInvalid: a file without a column of that name; files with other columns than the first one, which are
                put aside.
        """
        with _held(self.folder):
            for folder in sorted(self.folder.glob(f"{_RUNNING}*")):
                if _left(folder):
                    (folder / _LOCK).unlink()
                    folder.rename(folder.with_name(_DONE + folder.name[len(_RUNNING) :]))
                else:
                    warn("%s: another program writes to this folder now", self.folder)
            seen: set[Any] = set()
            columns: list[str] = []
            for file in sorted(self.folder.glob(f"{_DONE}*/*.parquet"), key=_age):
                seen |= self._settled(file, seen, columns)
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
            ParamInvalid: the rows that are there are of another model, or were made with other options.
            What the workers raise, see ``typed_errors``; rows that were written until then stay.
        """
        facts = {"key": repr(self.key), **facts_of_dataset(dataset)}
        running = self.folder / f"{_RUNNING}{secrets.token_hex(8)}"
        with contextlib.ExitStack() as held:
            with _held(self.folder):
                check_same(self.folder / _FINGERPRINT, facts, any(self.folder.glob(f"{_DONE}*/*.parquet")))
                running.mkdir()
                held.enter_context(_held(running))
            dataset.write_parquet(str(running), try_create_dir=False, ray_remote_args=_here())
        return len(self.keys())

    def read(self) -> Dataset:
        """All rows of the result."""
        import pyarrow.parquet as parquet
        import ray

        with _held(self.folder):
            files = sorted(self.folder.glob(f"{_DONE}*/*.parquet"))
            return ray.data.from_arrow([parquet.read_table(file, partitioning=None) for file in files])

    def _settled(self, file: Path, seen: set[Any], columns: list[str]) -> set[Any]:
        """Keys of a file, from which rows are taken that were seen before; a file without an end goes.

        ``columns`` are those of all files, and empty before the first one.
        """
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
        columns += [] if columns else sorted(there)
        if sorted(there) != columns:
            aside = file.parent.with_name(_STRANGE + file.parent.name[len(_DONE) :])
            aside.mkdir(exist_ok=True)
            file.rename(aside / file.name)
            raise InputInvalid(
                f"{file.name} has the columns {sorted(there)}, but the result has {columns}; it was put aside into "
                f"{aside}, and its rows count as missing"
            )
        keys = parquet.read_table(file, columns=[self.key], partitioning=None)[self.key].to_pylist()
        fresh = list(_first_ones(keys, seen))
        if len(fresh) < len(keys):
            warn("%s: %d rows are in the result already and are dropped", file, len(keys) - len(fresh))
            if not fresh:
                file.unlink()
                return set()
            table = parquet.read_table(file, partitioning=None).take(fresh)
            with writing(file) as rewritten:
                parquet.write_table(table, rewritten)
        return set(keys)


def _lock(folder: Path) -> int:
    """A descriptor of the file that stands for a folder, as a folder itself cannot be locked on NFS."""
    file = folder / _LOCK
    file.touch()
    return os.open(file, os.O_RDWR | os.O_CLOEXEC)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """The folder for this program alone; the kernel takes that back from a dead one. Waits for others."""
    handle = _lock(folder)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _left(folder: Path) -> bool:
    """Whether the program that wrote to a folder is gone."""
    handle = _lock(folder)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def _age(file: Path) -> tuple[int, str]:
    """Files in the order in which they were written: of rows that are there twice the older ones stay."""
    return file.stat().st_mtime_ns, str(file)


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
