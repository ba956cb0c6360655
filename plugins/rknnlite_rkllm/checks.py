"""What is looked at before the library is asked for anything: it says little, late, or computes garbage.

Each check is a finding of ``rknnlite doctor``; one that fails is the error of ``open_llm``, with the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Optional

from rknnlite_backend.versions import version_numbers

from rknnlite.errors import (
    DeviceUnmatch,
    ModelInvalid,
    OutOfMemory,
    ParamInvalid,
    RknnError,
    TargetPlatformUnmatch,
)
from rknnlite.formats import ModelFile
from rknnlite.log import logger
from rknnlite.native.board import Board
from rknnlite.spi.finding import Finding, Level

from .abi.revisions import Revision
from .model_file import RkllmFile

__all__ = ["DOMAIN", "Platform", "file_of", "of_board", "of_file", "of_opening", "platform", "refuse"]

DOMAIN = 4 << 30
"""Bytes of one IOMMU domain: NPU addresses have 32 bits."""
_OLDEST, _RECOMMENDED = (0, 9, 7), (0, 9, 8)
_MOST_CONTEXT, _MOST_CONTEXT_FIRST = 16384, 4096
_TOPIC = "rkllm"


class Platform(NamedTuple):
    """A SoC that librkllmrt runs on: CPUs that may serve it, how many at most, types of weights and activations."""

    cpus: int
    most_cpus: int
    dtypes: tuple[str, ...]


_W4 = ("w4a16", "w4a16_g32", "w4a16_g64", "w4a16_g128")
_PLATFORMS = {
    "rk3588": Platform(0xF0, 8, ("w8a8", "w8a8_g128", "w8a8_g256", "w8a8_g512", "fp16")),
    "rk3576": Platform(0xF0, 8, (*_W4, "w8a8", "fp16")),
    "rk3562": Platform(0x0F, 4, (*_W4, "w8a8", "w4a8_g32", "fp16")),
    "rv1126b": Platform(0x0F, 4, (*_W4, "w8a8", "fp16")),
}
"""The vendor's demos (CPUs) and manual (types; FP16 models exist, too)."""
_ERRORS = {
    "driver": DeviceUnmatch,
    "soc": TargetPlatformUnmatch,
    "file": ModelInvalid,
    "memory": OutOfMemory,
}


def platform(name: str) -> Optional[Platform]:
    """A SoC that librkllmrt runs on; None for others and for machines that are no boards."""
    return _PLATFORMS.get(_short(name))


def refuse(findings: Iterable[tuple[str, Finding]]) -> None:
    """Raise the first finding that fails as the error that it is; tell the warnings."""
    for kind, finding in findings:
        if finding.level is Level.FAIL:
            error: type[RknnError] = _ERRORS.get(kind, ParamInvalid)
            raise error(f"{finding.text}; {finding.remedy}" if finding.remedy else finding.text)
        if finding.level is Level.WARN:
            logger.warning("%s%s", finding.text, f"; {finding.remedy}" if finding.remedy else "")


def _found(kind: str, level: Level, text: str, remedy: str = "") -> tuple[str, Finding]:
    return kind, Finding(_TOPIC, level, text, remedy)


def of_board(
    board: Board, abi: Optional[Revision] = None, old_driver: bool = False
) -> Iterator[tuple[str, Finding]]:
    """SoC and driver; nothing on machines that are no boards."""
    soc = board.soc()
    if soc is None:
        return
    name = _short(soc.name)
    if name not in _PLATFORMS:
        known = ", ".join(map(str.upper, _PLATFORMS))
        yield _found(
            "soc",
            Level.FAIL,
            f"this board is an {soc.name.upper()}, librkllmrt runs on {known} only",
            "run language models on one of those",
        )
        return
    driver = board.driver()
    version = version_numbers(driver.value or "")
    remedy = "update the kernel of the board (driver 0.9.8 or newer)"
    if not version:
        yield _found(
            "driver",
            Level.INFO,
            f"the version of the NPU driver cannot be read ({driver.problem})",
            "/sys/module/rknpu/version shows it; librkllmrt wants 0.9.8",
        )
    elif version < _OLDEST:
        text = f"the NPU driver is {driver.value}; below 0.9.7 language models load and say garbage"
        level = Level.WARN if old_driver else Level.FAIL
        yield _found(
            "driver", level, text, remedy if old_driver else f"{remedy}, or open with old_driver=True"
        )
    elif version < _RECOMMENDED and (abi is None or "rkllm_clear_kv_cache" in abi.exports):
        text = f"the NPU driver is {driver.value}; from runtime 1.2.0 on 0.9.8 is recommended"
        yield _found("driver", Level.WARN, text, remedy)
    else:
        yield _found("driver", Level.OK, f"NPU driver {driver.value}")


def file_of(model: ModelFile) -> RkllmFile:
    """What a file tells without the library; raises ModelInvalid for what is no ``.rkllm``, or only bytes."""
    if model.path is None:
        raise ModelInvalid(
            f"{model.label}: librkllmrt opens files only; write the bytes to a file and give its path"
        )
    with model.naming():
        return RkllmFile.of(model.path, model.data)


def of_file(model: ModelFile, board: Board) -> Iterator[tuple[str, Finding]]:
    """What the file is, and whether it is for this board as far as its name tells."""
    try:
        file = file_of(model)
    except ModelInvalid as error:
        cause, _, remedy = str(error).partition("; ")
        yield _found("file", Level.FAIL, cause, remedy)
        return
    toolkit = file.toolkit or "unknown"
    made = f"{file.path}: toolkit {toolkit}, {file.size / 2**30:.2f} GiB"
    named = " ".join(filter(None, (file.soc, file.dtype)))
    yield _found("file", Level.OK, f"{made}, {named} by its name" if named else made)
    if not file.known_head:
        text = (
            f"{file.path}: the head is not that of files of toolkit 1.3.1; other versions have not been seen"
        )
        yield _found(
            "file", Level.INFO, text, "if it does not load, compare its size and checksum with the source's"
        )
    soc = board.soc()
    if soc is not None and file.soc and file.soc != _short(soc.name):
        yield _found(
            "soc",
            Level.FAIL,
            f"{file.path} is for {file.soc} by its name, this board is an {soc.name}",
            f"convert the model with target_platform='{_short(soc.name)}', or rename the file",
        )
    elif soc is not None and file.dtype and (known := platform(soc.name)) and file.dtype not in known.dtypes:
        yield _found(
            "soc",
            Level.WARN,
            f"{file.path} is {file.dtype} by its name; {soc.name} has {', '.join(known.dtypes)}",
            "convert the model with one of those",
        )
    yield from _memory(file, board)


def _memory(file: RkllmFile, board: Board) -> Iterator[tuple[str, Finding]]:
    free = board.memory().get("MemAvailable", 0)
    if free and file.size > free:
        text = f"{file.path} has {file.size / 2**30:.2f} GiB, {free / 2**30:.2f} GiB of memory are free"
        yield _found("memory", Level.WARN, text, "end other programs, or take a smaller model")


def of_opening(
    abi: Revision, file: RkllmFile, board: Board, context: int, cpus: int, domain: int
) -> Iterator[tuple[str, Finding]]:
    """What a session asks for: tokens of context, mask of CPUs, first IOMMU domain. 0: nothing was asked for."""
    most = _MOST_CONTEXT if "rkllm_clear_kv_cache" in abi.exports else _MOST_CONTEXT_FIRST
    most = min(most, file.context or most)
    if context > most:
        whose = "the model has by its name" if most == file.context else f"librkllmrt {abi.known_as} has"
        yield _found(
            "context", Level.FAIL, f"max_context_len is {context}, {whose} {most}", f"give {most} or less"
        )
    count = bin(cpus).count("1")
    soc = board.soc()
    known = platform(soc.name) if soc is not None else None
    if cpus and known and (count > known.most_cpus or cpus >> known.most_cpus):
        yield _found(
            "cpus",
            Level.FAIL,
            f"cpus is {cpus:#x}; this board has CPUs 0 to {known.most_cpus - 1}",
            f"give a mask within {(1 << known.most_cpus) - 1:#x}, e.g. {known.cpus:#x}",
        )
    if cpus and not abi.has_field("RKLLMExtendParam", "enabled_cpus_mask"):
        yield _found(
            "cpus",
            Level.FAIL,
            f"librkllmrt {abi.known_as} cannot choose CPUs",
            "leave cpus out, or use 1.2.0 or later",
        )
    if domain and abi.name == "1.1.0":
        yield _found(
            "domain",
            Level.FAIL,
            f"base_domain_id is {domain}; others than 0 crash librkllmrt 1.1",
            "open one model at a time, or use 1.2.0 or later",
        )


def _short(name: str) -> str:
    return name.lower().replace("rk3588s", "rk3588")
