"""The file that the converter's ``hybrid_quantization_step1`` writes: a list of layers in float16 put into it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from rknnlite.errors import InputInvalid
from rknnlite.files.reading import read_text
from rknnlite.files.writing import write_text

__all__ = ["write_layers"]

_LAYERS = re.compile(r"^custom_quantize_layers:.*\n(?:[ \t]+.*\n)*", re.MULTILINE)
_NAME = re.compile(r"^    (\S.*):[ \t]*$", re.MULTILINE)


def write_layers(path: Path, names: Sequence[str]) -> list[str]:
    """Put the layers that the file knows in the place of those that stand there; returns the others. Raises InputInvalid."""
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise InputInvalid(f"{path} cannot be read: {error}") from None
    head, sign, parameters = text.partition("quantize_parameters:")
    if not sign or not _LAYERS.search(head):
        raise InputInvalid(f"{path} is no .quantization.cfg, as hybrid_quantization_step1 writes it")
    known = {name.strip("'\"") for name in _NAME.findall(parameters)}
    told = [name for name in names if name in known]
    lines = "".join(f"    {_key(name)}: float16\n" for name in told)
    whole = f"custom_quantize_layers:\n{lines}" if told else "custom_quantize_layers: {}\n"
    write_text(path, _LAYERS.sub(lambda _: whole, head, count=1) + sign + parameters)
    return [name for name in names if name not in known]


def _key(name: str) -> str:
    """A name as YAML takes it."""
    return name if re.fullmatch(r"[A-Za-z_/][\w./-]*", name) else json.dumps(name)
