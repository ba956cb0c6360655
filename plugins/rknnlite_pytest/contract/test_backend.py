"""What a backend promises before a model is open: probing, refusing, opening."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

import rknnlite
from rknnlite import socs
from rknnlite.errors import ModelInvalid, ParamInvalid, RknnError, TargetPlatformUnmatch
from rknnlite.formats import ModelFile
from rknnlite.spi import Backend, Device, OpenOptions, Probe

from .promises import MASK, promise, refused

__all__: list[str] = []  # pytest collects what is here

RUBBISH = (b"", b"\0" * 64, b"these bytes are no model")


def test_its_name_is_a_word(unopened: Backend) -> None:
    promise(
        re.fullmatch(r"[a-z][a-z0-9_-]*", unopened.name),
        f"Backend.name is {unopened.name!r}; take lower-case letters, digits, _ and -, as it is written in RKNNLITE_BACKEND",
    )


def test_its_generations_exist(unopened: Backend) -> None:
    known = {soc.generation for soc in socs.SOCS}
    promise(
        unopened.generations and set(unopened.generations) <= known,
        f"Backend.generations is {unopened.generations!r}; give some of {sorted(known)}",
    )


def test_its_suffixes_begin_with_a_dot(unopened: Backend) -> None:
    promise(
        isinstance(unopened.suffixes, tuple)
        and all(re.fullmatch(r"(\.\w+)+", one) for one in unopened.suffixes),
        f"Backend.suffixes is {unopened.suffixes!r}; give a tuple of ends of file names such as ('.rknn',)",
    )


def test_probe_answers_a_probe(unopened: Backend) -> None:
    for call, found in (
        ("probe()", unopened.probe()),
        ("probe_for(options)", unopened.probe_for(OpenOptions())),
    ):
        promise(
            isinstance(found, Probe) and isinstance(found.available, bool) and found.reason,
            f"{call} returned {found!r}; return Probe(available, reason), the reason as 'cause; remedy' where it is not",
        )


def test_probe_is_cheap(unopened: Backend) -> None:
    spans = []
    for _ in range(2):
        began = time.perf_counter()
        unopened.probe()
        spans.append(time.perf_counter() - began)
    promise(
        min(spans) < 1,
        f"probe() took {min(spans):.1f} s; every choice of a backend asks it: look for files and devices, load nothing",
    )


def test_devices_are_devices(unopened: Backend) -> None:
    found = unopened.devices()
    promise(
        isinstance(found, list) and all(isinstance(one, Device) for one in found),
        f"devices() returned {found!r}; return a list of rknnlite.spi.Device, empty without any",
    )


def test_an_unknown_device_stands_for_nothing(unopened: Backend) -> None:
    found = unopened.boards("no such device")
    promise(
        found == [], f"boards('no such device') returned {found!r}; return [] for an id that is not yours"
    )


@pytest.mark.parametrize("data", RUBBISH, ids=["empty", "zeros", "text"])
def test_refuses_answers_a_reason_or_none(backend: Backend, data: bytes) -> None:
    try:
        found = backend.refuses(ModelFile(data))
    except Exception as error:
        promise(
            False,
            f"refuses(model) raised {type(error).__name__} ({error}); return the reason as text, None for no reason",
        )
    else:
        promise(
            found is None or (isinstance(found, str) and found),
            f"refuses(model) returned {found!r}; return text or None",
        )


@pytest.mark.parametrize("data", RUBBISH, ids=["empty", "zeros", "text"])
def test_a_file_of_something_else_is_no_model(backend: Backend, data: bytes) -> None:
    remedy = "check every file before you use it"
    with refused(ModelInvalid, call=f"open of a file that is no model ({data[:8]!r})", remedy=remedy):
        rknnlite.open(data, backend=backend.name).close()


def test_a_file_that_is_not_there_is_no_model(backend: Backend, tmp_path: Path) -> None:
    remedy = "read it through ModelFile.data, which raises that"
    with refused(ModelInvalid, call="open of a file that does not exist", remedy=remedy):
        rknnlite.open(tmp_path / "absent", backend=backend.name).close()


def test_half_a_model_is_no_model(backend: Backend, model: ModelFile) -> None:
    half = bytes(model.data[: len(model.data) // 2])
    with refused(
        RknnError,
        call="open of half a model",
        remedy="check offsets and sizes, or turn your parser's errors into it",
    ):
        rknnlite.open(half, backend=backend.name).close()


def test_an_illegal_core_mask_does_not_open(backend: Backend, model: ModelFile) -> None:
    remedy = "call context.set_core_mask(options.core_mask) in open where it is not None"
    with refused(ParamInvalid, TargetPlatformUnmatch, call=f"open with core_mask={MASK:#x}", remedy=remedy):
        rknnlite.open(model, backend=backend.name, core_mask=MASK).close()
