"""The converter's list of layers in float16."""

from __future__ import annotations

from pathlib import Path

import pytest
from rknnlite_insight.causes.quantization_cfg import write_layers

from rknnlite.errors import InputInvalid

TEXT = """custom_quantize_layers: {}
quantize_parameters:
    x:
        qtype: asym
        min:
        -   -1.0
    /2/Relu_output_0:
        qtype: asym
    'a: b':
        qtype: asym
"""


def test_names_that_the_file_has(tmp_path: Path) -> None:
    path = tmp_path / "model.quantization.cfg"
    path.write_text(TEXT)
    assert write_layers(path, ["/2/Relu_output_0", "sigmoid", "a: b"]) == ["sigmoid"]
    lines = 'custom_quantize_layers:\n    /2/Relu_output_0: float16\n    "a: b": float16\n'
    assert path.read_text() == TEXT.replace("custom_quantize_layers: {}\n", lines)
    assert write_layers(path, ["x"]) == []  # in the place of what stood there
    assert path.read_text() == TEXT.replace(" {}", "\n    x: float16")
    write_layers(path, [])
    assert path.read_text() == TEXT


def test_what_is_no_such_file(tmp_path: Path) -> None:
    path = tmp_path / "other.cfg"
    with pytest.raises(InputInvalid, match="cannot be read"):
        write_layers(path, [])
    path.write_text("quantize_parameters:\n")
    with pytest.raises(InputInvalid, match="hybrid_quantization_step1"):
        write_layers(path, [])
