"""A row is all that a family or a weight type takes: made-up ones go through export, reader and decoder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rknnlite_llm import Package, export_llm, open_llm
from rknnlite_llm.container.description import read_llm
from rknnlite_llm.container.families import FAMILIES
from rknnlite_llm.container.family import LayerTensors, LlmFamily
from rknnlite_llm.container.safetensors import SafeTensors, write_safetensors
from rknnlite_llm.container.weight_types import COLUMNS, GROUP, WEIGHT_TYPES, WeightType

from rknnlite.formats import ModelFile
from rknnlite.spi.llm import InferParams, LlmCallbacks, TokenInput
from tests.llm.conftest import embed_of
from tests.support.llm_models import LAYERS, config, weights, write_model

Array = np.ndarray
FUSED = LayerTensors(qkv=("self_attn.qkv_proj",), gate_up=("mlp.gate_up_proj",), norm2="mlp_norm")


def tensors(package: Package) -> dict[str, Array]:
    file = SafeTensors(ModelFile(package.weight).data)
    return {name: file[name] for name in file.names}


def answer(package: Package) -> list[int]:
    ids: list[int] = []
    with open_llm(package.model, backend="cpu") as context:
        calls = LlmCallbacks(lambda tokens, state: ids.extend(tokens.token_ids), embed=embed_of(package))
        context.session(callbacks=calls).run(TokenInput([1, 2, 3]), InferParams(max_new_tokens=6))
    return ids


def write_fused(folder: Path, family: str) -> Path:
    """The Qwen2 of ``write_model`` as a family has it that keeps queries, keys and values in one tensor."""
    settings = config("qwen2")
    made = weights(settings)
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        for end in ("weight", "bias"):
            parts = [made.pop(f"{layer}self_attn.{name}_proj.{end}") for name in "qkv"]
            made[f"{layer}self_attn.qkv_proj.{end}"] = np.concatenate(parts)
        parts = [made.pop(f"{layer}mlp.{name}_proj.weight") for name in ("gate", "up")]
        made[f"{layer}mlp.gate_up_proj.weight"] = np.concatenate(parts)
        made[f"{layer}mlp_norm.weight"] = made.pop(f"{layer}post_attention_layernorm.weight")
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**settings, "model_type": family}))
    write_safetensors(folder / "model.safetensors", {n: ("F32", a) for n, a in made.items()}, {})
    return folder


def test_a_family_with_names_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "fused", LlmFamily("fused", "qwen2", qkv_bias=True, tensors=FUSED))
    mine = export_llm(write_fused(tmp_path / "fused", "fused"), tmp_path / "mine")
    known = export_llm(write_model(tmp_path / "qwen2", "qwen2"), tmp_path / "known")
    expected = tensors(known)
    assert read_llm(ModelFile(mine.model)).arch.family == "fused"
    assert {name: array.tobytes() for name, array in tensors(mine).items()} == {
        name: array.tobytes() for name, array in expected.items()
    }
    assert answer(mine) == answer(known)


def test_a_weight_type_that_nobody_has_heard_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two 16-bit codes per 32-bit element, so fine that the answer is that of float32."""

    def encode(values: Array) -> tuple[Array, Array]:
        scale = np.float16(np.abs(values).max(axis=2) / 32000 + 1e-7)
        codes = np.rint(values / scale[:, :, None].astype(np.float32)).astype(np.int32)
        half = GROUP // 2
        return codes[:, :, :half] & 0xFFFF | codes[:, :, half:] << 16, scale

    def widen(codes: Array, out: Array) -> None:
        half = GROUP // 2
        out[:, :, :half] = codes.astype(np.int16)
        out[:, :, half:] = codes >> 16

    kind = WeightType("w16", "I32", encode, widen, scaled=True, per_element=2)
    monkeypatch.setitem(WEIGHT_TYPES, "w16", kind)
    source = write_model(tmp_path / "hf", "llama")
    package = export_llm(source, tmp_path / "mine", "w16", kvcache="f32")
    assert tensors(package)["head"].shape == kind.shape(32, 160) == (2, 1, GROUP // 2, COLUMNS)
    assert answer(package) == answer(export_llm(source, tmp_path / "f32", "f32"))


@pytest.mark.parametrize("name", [name for name, kind in WEIGHT_TYPES.items() if kind.tiled])
@pytest.mark.parametrize(("inputs", "outputs"), [(32, 128), (40, 200), (1, 1)])
def test_what_is_packed_is_found_again(name: str, inputs: int, outputs: int) -> None:
    kind = WEIGHT_TYPES[name]
    matrix = np.random.default_rng(0).integers(-7, 7, (outputs, inputs)).astype(np.float32)
    matrix[:, ::GROUP] = -8  # so that a step of four bits is one
    codes, scale = kind.pack(matrix)
    assert codes.shape == kind.shape(inputs, outputs) and (scale is not None) == kind.scaled
    out = np.empty((*codes.shape[:2], GROUP, COLUMNS), np.float32)
    kind.widen(codes, out)
    if scale is not None:
        assert scale.shape == kind.scale_shape(inputs, outputs)
        out *= scale[:, :, None].astype(np.float32)
    found = out.transpose(0, 3, 1, 2).reshape(out.shape[0] * COLUMNS, -1)
    assert np.allclose(found[:outputs, :inputs], matrix, atol=0.04 if name == "w8" else 0)
    assert not found[outputs:].any() and not found[:, inputs:].any()
