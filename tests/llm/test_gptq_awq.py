"""Checkpoints quantised by GPTQ and AWQ are exported: the numbers are those of the formulas that their authors publish."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_llm import Package, export_llm
from rknnlite_llm.container.safetensors import SafeTensors, write_safetensors
from rknnlite_llm.gptq_awq import QuantisedMatrix, packing_of

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.formats import ModelFile
from tests.support.llm_models import config, weights

pytestmark = pytest.mark.slow

SIZES = {"hidden_size": 64, "intermediate_size": 128}
ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
"""The output that AWQ puts into each four bits of an int32, from the lowest up."""


def packed(values: np.ndarray, bits: int, order: list[int] | None = None) -> np.ndarray:
    """Integers (n, m) of which ``32 / bits`` side by side are put into an int32, one after another."""
    count = 32 // bits
    words = np.zeros((values.shape[0], values.shape[1] // count), np.uint32)
    for row in range(words.shape[0]):
        for column in range(words.shape[1]):
            word = 0
            for place in range(count):
                source = column * count + (order[place] if order else place)
                word |= int(values[row, source]) << (place * bits)
            words[row, column] = word
    return words.view(np.int32)


def quantised(
    random: np.random.Generator, outputs: int, inputs: int, method: str, bits: int, group: int, shuffled: bool
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Parts of a matrix, and the matrix that they stand for, made number by number."""
    groups = inputs // group
    codes = random.integers(0, 1 << bits, (inputs, outputs))
    zeros = random.integers(1, 1 << bits, (groups, outputs))
    scales = (random.random((groups, outputs)) / (1 << bits)).astype(np.float16)
    index = np.arange(inputs) // group
    if shuffled:
        random.shuffle(index)
    matrix = np.empty((outputs, inputs), np.float32)
    for i in range(inputs):
        for o in range(outputs):
            matrix[o, i] = np.float32(scales[index[i], o]) * (codes[i, o] - zeros[index[i], o])
    if method == "awq":
        return {
            "qweight": packed(codes, bits, ORDER),
            "qzeros": packed(zeros, bits, ORDER),
            "scales": scales,
        }, matrix
    stored = zeros - 1 if method == "gptq" else zeros
    parts = {
        "qweight": np.ascontiguousarray(packed(codes.T, bits).T),
        "qzeros": packed(stored, bits),
        "scales": scales,
    }
    return {**parts, "g_idx": index.astype(np.int32)}, matrix


def write_both(folder: Path, method: str, bits: int, group: int, shuffled: bool = False) -> dict[str, Any]:
    """A quantised checkpoint and the float one that it stands for; the settings of the former."""
    random = np.random.default_rng(3)
    settings = config("llama", **SIZES)
    small: dict[str, tuple[str, np.ndarray]] = {}
    plain: dict[str, tuple[str, np.ndarray]] = {}
    kinds = {"int32": "I32", "float16": "F16"}
    for name, array in weights(settings).items():
        if not name.endswith("proj.weight"):
            small[name] = plain[name] = "F32", array
            continue
        parts, matrix = quantised(random, *array.shape, method, bits, group, shuffled)
        plain[name] = "F32", matrix
        stem = name[: -len(".weight")]
        small.update({f"{stem}.{part}": (kinds[str(value.dtype)], value) for part, value in parts.items()})
    how = {"quant_method": method.split("_")[0], "bits": bits, "group_size": group, "desc_act": shuffled}
    form = {"version": "gemm"} if method == "awq" else {"checkpoint_format": method}
    whole = {**settings, "quantization_config": {**how, **form}}
    for place, tensors, says in (("small", small, whole), ("plain", plain, settings)):
        (folder / place).mkdir()
        write_safetensors(folder / place / "model.safetensors", tensors, {"format": "pt"})
        (folder / place / "config.json").write_text(json.dumps(says))
    return whole


@pytest.mark.parametrize(("method", "bits"), [("awq", 4), ("gptq", 4), ("gptq_v2", 8), ("gptq", 2)])
def test_a_piece_is_that_of_the_whole(method: str, bits: int, tmp_path: Path) -> None:
    """Pieces begin and end inside of words, too."""
    packing = packing_of(write_both(tmp_path, method, bits, 32))
    assert packing is not None
    file = SafeTensors(ModelFile(tmp_path / "small" / "model.safetensors").data)
    stem = next(name for name in file.names if name.endswith(".qweight"))[: -len(".qweight")]
    matrix = QuantisedMatrix(dict.fromkeys(file.names, file), stem, packing)
    whole = matrix[...]
    assert whole.shape == matrix.shape
    for key in (slice(None), slice(3, 21), slice(8, 16), slice(5, 5), slice(matrix.shape[0] - 1, None)):
        assert np.array_equal(matrix[key], whole[key])
        assert np.array_equal(matrix[key, slice(7, 30)], whole[key, 7:30])


@pytest.mark.parametrize(
    ("method", "bits", "group", "shuffled"),
    [("awq", 4, 32, False), ("awq", 4, 64, False), ("gptq", 4, 32, False), ("gptq", 4, 64, True), ("gptq_v2", 4, 32, True),
     ("gptq", 8, 32, False), ("gptq", 2, 16, False)],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["f32", "w4"])
def test_a_package_is_that_of_the_widened_weights(
    tmp_path: Path, method: str, bits: int, group: int, shuffled: bool, kind: str
) -> None:
    write_both(tmp_path, method, bits, group, shuffled)
    for place in ("small", "plain"):
        export_llm(tmp_path / place, tmp_path / "out" / place, weights=kind)
    made = [Package.of(tmp_path / "out" / place).weight.read_bytes() for place in ("small", "plain")]
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"quant_method": "bitsandbytes"}, "bitsandbytes"),
        ({"version": "gemv"}, "gemv"),
        ({"bits": 3}, "3 bits"),
        ({"quant_method": "gptq", "checkpoint_format": "marlin"}, "marlin"),
    ],
)
def test_other_ways_are_refused_by_name(changes: dict[str, Any], what: str) -> None:
    given = {"quant_method": "awq", "bits": 4, "group_size": 64, **changes}
    with pytest.raises(ModelUnsupported, match=f"{what}.*--weights"):
        packing_of({"quantization_config": given})


@pytest.mark.parametrize("group", [0, -3, "a"])
def test_a_strange_group_is_an_invalid_model(group: Any) -> None:
    with pytest.raises(ModelInvalid, match="group_size"):
        packing_of({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": group}})


def test_parts_that_do_not_fit_are_named(tmp_path: Path) -> None:
    settings = write_both(tmp_path, "gptq", 4, 32)
    settings["quantization_config"]["group_size"] = 64
    (tmp_path / "small" / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelInvalid, match=r"q_proj.scales is \[2, 64\].* needs \[1, 64\]|proj.scales is"):
        export_llm(tmp_path / "small", tmp_path / "x")
