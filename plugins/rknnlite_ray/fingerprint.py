"""What rows of a result were made of: the facts about models and options by which two runs may share a folder."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from rknnlite.errors import ParamInvalid
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import open_file, read_text
from rknnlite.files.writing import write_text

from .predictor import RknnPredictor
from .problems import warn

if TYPE_CHECKING:
    from ray.data import Dataset

__all__ = ["check_same", "differences", "facts_of", "facts_of_dataset"]

_WITHOUT_EFFECT = ("cores", "threads", "trace", "traces")
"""Arguments of ``RknnPredictor`` that change where and how fast it computes, or who is told, not what."""

_BYTES = (bytes, bytearray, memoryview)


def facts_of(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Arguments of a ``RknnPredictor`` as facts: the model by its bytes, functions by their code, the rest by value."""
    facts = {
        name: _told(value)
        for name, value in arguments.items()
        if name not in ("model", *_WITHOUT_EFFECT) and value is not None
    }
    return {"model": _model(arguments["model"]), **facts}


def facts_of_dataset(dataset: Dataset) -> dict[str, str]:
    """The facts of all predictors that a dataset passes; none of what was computed already (``materialize``)."""
    facts: dict[str, str] = {}
    for number, arguments in enumerate(_predictors(dataset)):
        facts.update(
            {
                f"{name} of predictor {number}" if number else name: told
                for name, told in facts_of(arguments).items()
            }
        )
    return facts


def check_same(file: Path, facts: Mapping[str, str], others: bool) -> None:
    """Hold facts against those of a folder's file; write the file where there is none.

    ``others``: the folder has rows already, of which nobody knows what made them when the file is missing.

    Raises:
        ParamInvalid: something differs; the text names it.
    """
    try:
        there = parse_json(read_text(file))
    except FileNotFoundError:
        if others:
            warn(
                "%s: its rows do not say which model made them; they are taken for rows of this one",
                file.parent,
            )
        write_text(file, json.dumps(dict(facts), indent=1, sort_keys=True) + "\n")
        return
    except ValueError:
        raise ParamInvalid(f"{file}: is damaged; name another folder for the results") from None
    found = differences(there, facts)
    if found:
        raise ParamInvalid(
            f"{file.parent} has results of something else: {'; '.join(found)}. Rows of both would be mixed: name another "
            "folder, or remove this one to begin anew"
        )


def differences(there: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """What differs, a phrase for each fact."""
    return [
        f"{name} was {_short(there.get(name))}, now it is {_short(here.get(name))}"
        for name in sorted({*there, *here})
        if there.get(name) != here.get(name)
    ]


def _predictors(dataset: Dataset) -> Iterator[Mapping[str, Any]]:
    """Arguments of the predictors in a dataset's plan, for which Ray has no public word."""
    plan = getattr(dataset, "_logical_plan", None)
    if plan is None:
        warn("this version of Ray does not tell which model makes the rows; do not mix them yourself")
        return
    for operator in plan.dag.post_order_iter():
        kind = _attribute(operator, "fn")
        if isinstance(kind, type) and issubclass(kind, RknnPredictor):
            yield _attribute(operator, "fn_constructor_kwargs") or {}


def _attribute(operator: Any, name: str) -> Any:
    """Older versions of Ray have it with an underscore."""
    return getattr(operator, name, getattr(operator, f"_{name}", None))


def _model(model: Any) -> str:
    """The digest of a model's bytes, wherever they are; the path where only the nodes have the file."""
    digest = hashlib.sha256()
    if isinstance(model, (str, os.PathLike)):
        try:
            with open_file(Path(model)) as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        except OSError:
            return f"path {os.fspath(model)}"
    elif isinstance(model, _BYTES):
        digest.update(model)
    else:
        import ray

        held: Any = ray.get(model)
        digest.update(memoryview(held))
    return f"sha256 {digest.hexdigest()}"


def _told(value: Any) -> str:
    """A value as a text that is the same in the next run of the same program."""
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return repr(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype}{list(value.shape)} {_digest(np.ascontiguousarray(value).tobytes())}"
    if isinstance(value, _BYTES):
        return f"bytes {_digest(bytes(value))}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_told(key)}: {_told(item)}' for key, item in value.items())}}}"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(_told, value)))}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_told, value))}]"
    if isinstance(value, functools.partial):
        return f"partial({_told(value.func)}, {_told(value.args)}, {_told(value.keywords)})"
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        parts = [_code(value.__code__), _told(value.__defaults__), _told(value.__kwdefaults__), _told(cells)]
        return f"{value.__qualname__} {_digest(' '.join(parts).encode())}"
    if isinstance(value, type) or callable(value):
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    return type(value).__qualname__


def _code(code: CodeType) -> str:
    """Instructions and constants, without names of files and numbers of lines."""
    constants = [_code(item) if isinstance(item, CodeType) else _told(item) for item in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _short(told: Any) -> str:
    text = "not given" if told is None else str(told)
    return text if len(text) <= 60 else f"{text[:57]}..."
