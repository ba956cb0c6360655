"""GGUF files are exported: the numbers are those that the package gguf widens, the tokenizer is the file's."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rknnlite.errors import BackendUnavailable, ModelUnsupported
from rknnlite.formats.safetensors import write_safetensors
from rknnlite.llm import Package, Tokenizer, export_llm
from rknnlite.llm.gguf_import import _ENDS, _KEYS, _LAYER
from tests.support.llm_models import config, weights

pytestmark = pytest.mark.slow

gguf = pytest.importorskip("gguf", reason="needs the package gguf (extra gguf)")
SIZES = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "vocab_size": 704,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
DATA = Path(__file__).parent / "data" / "sentencepiece"


def sorted_by_pairs(values: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does with a Llama's queries and keys."""
    halves = values.reshape(heads, 2, len(values) // heads // 2, *values.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)


def write(folder: Path, family: str, kind: str, **more: Any) -> Path:
    """A file whose matrices have this type, and a folder ``plain`` with what they stand for."""
    settings = config(family, **SIZES)
    settings.pop("rope_scaling", None)
    path = folder / "model.gguf"
    writer = gguf.GGUFWriter(path, family)
    for ours, theirs in _KEYS.items():
        value = settings.get(ours)
        if value is not None:
            add = writer.add_float32 if isinstance(value, float) else writer.add_uint32
            add(f"{family}.{theirs}", value)
    tokens = [f"t{i}" for i in range(3, 704)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>", *tokens])
    writer.add_token_scores([0.0] * 3 + [-float(i) for i in range(701)])
    writer.add_token_types([2, 3, 3] + [1] * 701)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for key, text in more.items():
        writer.add_string(key.replace("__", "."), text)
    back = {theirs: ours for ours, theirs in {**_ENDS}.items()}
    inside = {theirs: ours for ours, theirs in _LAYER.items()}
    quantisation = gguf.GGMLQuantizationType[kind]
    plain = {}
    for name, array in weights(settings).items():
        stem, what = name.rsplit(".", 1)
        if stem in back:
            theirs = back[stem]
        else:
            _, _, number, rest = stem.split(".", 3)
            theirs = f"blk.{number}.{inside[rest]}"
        values, heads = array, settings["num_attention_heads" if "q_proj" in name else "num_key_value_heads"]
        turned = family == "llama" and ("q_proj" in name or "k_proj" in name)
        values = sorted_by_pairs(values, heads) if turned else values
        if values.ndim == 1 or "embed" in name:
            writer.add_tensor(f"{theirs}.{what}", values)
            plain[name] = "F32", array
            continue
        raw = made_bytes(values, quantisation)
        writer.add_tensor(f"{theirs}.{what}", raw, raw_dtype=quantisation)
        wide = gguf.quants.dequantize(raw, quantisation).astype(np.float32).reshape(values.shape)
        plain[name] = "F32", np.ascontiguousarray(undone(wide, heads) if turned else wide)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (folder / "model").mkdir()
    write_safetensors(folder / "model" / "model.safetensors", plain, {"format": "pt"})
    (folder / "model" / "config.json").write_text(json.dumps(settings))
    return path


def undone(values: np.ndarray, heads: int) -> np.ndarray:
    place = sorted_by_pairs(np.arange(len(values)), heads)
    made = np.empty_like(values)
    made[place] = values
    return made


def made_bytes(values: np.ndarray, kind: Any) -> np.ndarray:
    """Quantised values; blocks of any legal numbers for types that the package only widens."""
    try:
        return np.asarray(gguf.quants.quantize(values, kind))
    except NotImplementedError:
        shape = gguf.quants.quant_shape_to_byte_shape(values.shape, kind)
        size = gguf.GGML_QUANT_SIZES[kind][1]
        blocks = np.random.default_rng(9).integers(0, 256, (int(np.prod(shape)) // size, size), np.uint8)
        scale = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
        if kind.name == "Q6_K":
            blocks[:, -2:] = scale
        else:
            blocks[:, :2] = blocks[:, 2:4] = scale
        return blocks.reshape(shape)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q5_K", "Q6_K"])
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_package_is_that_of_the_widened_weights(tmp_path: Path, family: str, kind: str) -> None:
    path = write(tmp_path, family, kind)
    export_llm(path, tmp_path / "a" / "x", weights="f32")
    export_llm(tmp_path / "model", tmp_path / "b" / "x", weights="f32")
    ours, theirs = (Package.of(tmp_path / place / "x").weight.read_bytes() for place in "ab")
    assert ours == theirs
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == [
        "x.embed.bin", "x.rknn", "x.tokenizer.gguf", "x.weight",
    ]  # fmt: skip
    tokenizer = Tokenizer(Package.of(tmp_path / "a" / "x").tokenizer)
    assert (tokenizer.bos_id, tokenizer.eos_id, len(tokenizer)) == (1, 2, 704)


def test_scaled_rotary_embeddings_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "qwen2", "F16", qwen2__rope__scaling__type="yarn")
    with pytest.raises(ModelUnsupported, match=r"scaled.*yarn"):
        export_llm(path, tmp_path / "x")


def test_without_the_package_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    with pytest.raises(BackendUnavailable, match=r"rknnlite\[gguf\]"):
        export_llm(tmp_path / "x.gguf", tmp_path / "y")
