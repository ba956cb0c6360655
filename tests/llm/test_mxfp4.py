"""Numbers of four bits with a power of two for 32 of them, as GPT-OSS has its experts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rknnlite_llm import export_llm, open_llm
from rknnlite_llm.container.safetensors import SafeTensors, write_safetensors
from rknnlite_llm.mxfp4 import Mxfp4Stack

from rknnlite.errors import ModelInvalid
from rknnlite.formats import ModelFile
from tests.llm.family_goldens import write_family
from tests.llm.test_families import Talk

NUMBERS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]


def _file(path: Path, tensors: dict[str, tuple[str, np.ndarray]]) -> SafeTensors:
    write_safetensors(path, tensors, {})
    return SafeTensors(ModelFile(path).data)


def _stack(path: Path, blocks: np.ndarray, scales: np.ndarray) -> Mxfp4Stack:
    file = _file(path, {"x_blocks": ("U8", blocks), "x_scales": ("U8", scales)})
    return Mxfp4Stack(dict.fromkeys(file.names, file), "x")


def test_every_number_and_scale(tmp_path: Path) -> None:
    blocks = np.tile(np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16), (1, 253, 1, 1))
    scales = np.tile(np.arange(253, dtype=np.uint8).reshape(1, 253, 1), (1, 1, 16))
    stack = _stack(tmp_path / "s", blocks, scales)
    assert stack.shape == (1, 253, 512)
    pairs = np.array([(NUMBERS[byte & 15], NUMBERS[byte >> 4]) for byte in range(256)], np.float64).ravel()
    assert np.array_equal(stack[0], (pairs * 2.0 ** (np.arange(253)[:, None] - 127)).astype(np.float32))


@pytest.mark.parametrize(
    ("blocks", "scales", "error"),
    [
        ((1, 4, 2, 16), (1, 4, 3), r"scales \[1, 4, 3\]"),
        ((1, 4, 2, 8), (1, 4, 2), r"blocks of MXFP4 are \[1, 4, 2, 8\]"),
        ((4, 2, 16), (4, 2), r"blocks of MXFP4 are \[4, 2, 16\]"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    tmp_path: Path, blocks: tuple[int, ...], scales: tuple[int, ...], error: str
) -> None:
    with pytest.raises(ModelInvalid, match=error):
        _stack(tmp_path / "s", np.zeros(blocks, np.uint8), np.zeros(scales, np.uint8))


def test_a_scale_that_is_no_number_is_refused(tmp_path: Path) -> None:
    stack = _stack(tmp_path / "s", np.zeros((1, 2, 1, 16), np.uint8), np.full((1, 2, 1), 255, np.uint8))
    with pytest.raises(ModelInvalid, match=r"x_scales: a scale is 2\*\*128"):
        stack[0]


def test_experts_in_mxfp4_are_those_of_the_wide_file(tmp_path: Path) -> None:
    """The same numbers, once in four bits and once in float32, as ``transformers`` widens them: (experts, inputs, outputs)."""
    golden = write_family("gpt-oss", tmp_path / "wide")
    config = json.loads((tmp_path / "wide" / "config.json").read_text())
    hidden, width, experts = 64, 96, config["num_local_experts"]
    random, tensors, packed = np.random.default_rng(5), {}, {}
    shapes = json.loads(str(golden["shapes"]))
    for name, shape in shapes.items():
        shape = [
            {48: hidden, 80: width, 160: 2 * width}.get(n, n) if i or "embed" not in name else n
            for i, n in enumerate(shape)
        ]
        if name in ("model.embed_tokens.weight", "lm_head.weight"):
            shape = [shapes[name][0], hidden]
        values = (random.random(shape) - 0.5).astype(np.float32)
        tensors[name] = packed[name] = ("F32", values)
    for name, (rows, columns) in (("gate_up_proj", (2 * width, hidden)), ("down_proj", (hidden, width))):
        for layer in range(config["num_hidden_layers"]):
            stem = f"model.layers.{layer}.mlp.experts.{name}"
            blocks = random.integers(0, 256, (experts, rows, columns // 32, 16), np.uint8)
            scales = random.integers(118, 126, (experts, rows, columns // 32), np.uint8)
            wide = _stack(tmp_path / "one", blocks, scales)
            tensors[stem] = "F32", np.stack([wide[i].T for i in range(experts)])
            del packed[stem]
            packed[f"{stem}_blocks"], packed[f"{stem}_scales"] = ("U8", blocks), ("U8", scales)
    said = []
    for folder, given in (("wide", tensors), ("packed", packed)):
        (tmp_path / folder).mkdir(exist_ok=True)
        write_safetensors(tmp_path / folder / "model.safetensors", given, {"format": "pt"})
        method = {"quantization_config": {"quant_method": "mxfp4"}} if folder == "packed" else {}
        sizes = {"hidden_size": hidden, "intermediate_size": width}
        (tmp_path / folder / "config.json").write_text(json.dumps({**config, **sizes, **method}))
        package = export_llm(tmp_path / folder, tmp_path / f"{folder}-p", "f32")
        with open_llm(package.model) as context:
            talk = Talk(context, package)
            said.append((talk.run(golden["first"], 12), np.array(talk.logits)))
    assert said[0][0] == said[1][0] and np.array_equal(said[0][1], said[1][1])
