"""Adapters: what they add is what a model with merged weights computes, for every session by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_llm import Package, export_llm, open_llm
from rknnlite_llm.container.safetensors import SafeTensors, write_safetensors

from rknnlite.errors import ModelInvalid, ModelUnsupported, ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi.llm import InferParams, LlmContext, TokenInput
from tests.llm.family_goldens import write_family
from tests.llm.test_families import Talk
from tests.support.llm_models import write_model

pytestmark = pytest.mark.slow

FAMILIES = [
    "qwen2",
    "phi3",
    "gemma3",
    "glm4",
    "internlm2",
    "lfm2",
    "qwen3-moe",
    "llama-3",
    "qwen3-next",
    "qwen3.5",
]
PROMPT = np.array([3, 1, 4, 1, 5, 9, 2, 6])


def targets(folder: Path) -> dict[str, tuple[int, int]]:
    """Matrices of layers of a Hugging Face folder that adapters may have: name -> shape."""
    found = {}
    for path in folder.glob("*.safetensors"):
        file = SafeTensors(ModelFile(path).data)
        for name in file.names:
            wanted = name.endswith(".weight") and "layers." in name and file[name].ndim == 2
            tables = (
                ".gate.weight",
                "_gate.weight",
                "in_proj_ba.weight",
                "in_proj_a.weight",
                "in_proj_b.weight",
            )
            if wanted and "expert" not in name and not name.endswith(tables):
                found[name] = file[name].shape
    return found


def write_adapter(
    folder: Path, shapes: dict[str, tuple[int, int]], seed: int, **config: Any
) -> dict[str, np.ndarray]:
    """An adapter of rank 4 on these matrices; returns what it adds to each."""
    folder.mkdir(parents=True)
    random, rank = np.random.default_rng(seed), 4
    settings = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": 6,
        "bias": "none",
        "target_modules": ["q_proj"],
        **config,
    }
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    alpha = settings["lora_alpha"] if isinstance(settings["lora_alpha"], int) else 1
    share = np.sqrt(rank) if settings.get("use_rslora") else rank
    tensors, added = {}, {}
    for name, (rows, inputs) in shapes.items():
        down = (random.standard_normal((rank, inputs)) * 0.2).astype(np.float32)
        up = (random.standard_normal((rows, rank)) * 0.2).astype(np.float32)
        stem = f"base_model.model.{name[: -len('.weight')]}"
        tensors[f"{stem}.lora_A.weight"], tensors[f"{stem}.lora_B.weight"] = ("F32", down), ("F32", up)
        added[name] = up @ down * (alpha / share)
    write_safetensors(folder / "adapter_model.safetensors", tensors, {"format": "pt"})
    return added


def merged(source: Path, target: Path, *added: dict[str, np.ndarray]) -> Path:
    """A copy of a Hugging Face folder with the additions in its weights."""
    target.mkdir()
    for path in source.iterdir():
        if path.suffix != ".safetensors":
            (target / path.name).write_bytes(path.read_bytes())
            continue
        file = SafeTensors(ModelFile(path).data)
        tensors = {name: file.float32(name).copy() for name in file.names}
        for addition in added:
            for name, values in addition.items():
                tensors[name] += values
        write_safetensors(target / path.name, {n: ("F32", a) for n, a in tensors.items()}, {"format": "pt"})
    return target


def logits(context: LlmContext, package: Package, *loras: tuple[str, float]) -> np.ndarray:
    """Of a prompt and of three greedy tokens behind it."""
    talk = Talk(context, package)
    for name, scale in loras:
        talk.session.enable_lora(name, scale)
    assert talk.session.state().loras_enabled == loras
    talk.run(PROMPT, 4)
    return np.stack(talk.logits)


@pytest.mark.parametrize("name", FAMILIES)
def test_an_adapter_is_what_merged_weights_are(name: str, tmp_path: Path) -> None:
    write_family(name, tmp_path / "hf")
    shapes = targets(tmp_path / "hf")
    added = write_adapter(tmp_path / "loras" / "first", shapes, 1, use_rslora=name == "qwen2")
    twice = {
        key: 0.5 * value for key, value in write_adapter(tmp_path / "loras" / "second", shapes, 2).items()
    }
    base = export_llm(tmp_path / "hf", tmp_path / "base", "f32")
    wanted = export_llm(merged(tmp_path / "hf", tmp_path / "one", added), tmp_path / "p1", "f32")
    both = export_llm(merged(tmp_path / "hf", tmp_path / "two", added, twice), tmp_path / "p2", "f32")
    with open_llm(base.model) as context, open_llm(wanted.model) as one, open_llm(both.model) as two:
        plain = logits(context, base)
        context.init_loras(tmp_path / "loras")
        assert np.array_equal(logits(context, base), plain)
        ours, theirs = logits(context, base, ("first", 1.0)), logits(one, wanted)
        assert np.abs(ours - theirs).max() < 1e-3
        assert np.abs(ours[0] - plain[0]).max() > 0.01
        assert np.abs(logits(context, base, ("first", 1.0), ("second", 0.5)) - logits(two, both)).max() < 1e-3


@pytest.mark.parametrize("weights", ["f16", "bf16", "w8", "w4"])
def test_weights_of_every_type_have_adapters(weights: str, tmp_path: Path) -> None:
    """The addition is that of float32 weights, to weights that are rounded."""
    write_model(tmp_path / "hf", "qwen3")
    write_adapter(tmp_path / "mine", targets(tmp_path / "hf"), 1)
    base, exact = (export_llm(tmp_path / "hf", tmp_path / kind, kind) for kind in (weights, "f32"))
    moved = []
    for package in (base, exact):
        with open_llm(package.model) as context:
            context.init_loras(tmp_path / "mine")
            assert context.session().loras() == (("mine", 1.0),)
            moved.append(logits(context, package, ("mine", 1.0))[0] - logits(context, package)[0])
    assert np.corrcoef(moved[0].ravel(), moved[1].ravel())[0, 1] > (0.9 if weights == "w4" else 0.99)


def test_every_session_has_its_own(tmp_path: Path) -> None:
    """Sessions that step together, with one adapter, another and none; changing them forgets the conversation."""
    write_family("qwen2", tmp_path / "hf")
    shapes = targets(tmp_path / "hf")
    for seed in (1, 2):
        write_adapter(tmp_path / "loras" / f"a{seed}", shapes, seed)
    package = export_llm(tmp_path / "hf", tmp_path / "base", "f32")
    with open_llm(package.model) as context:
        context.init_loras(tmp_path / "loras")
        talks = [Talk(context, package) for _ in range(3)]
        for talk, name in zip(talks, ("a1", "a2")):
            talk.session.enable_lora(name)
        alone = [talk.run(PROMPT, 40) for talk in talks]
        assert len({tuple(tokens) for tokens in alone}) == 3
        for talk in talks:
            talk.said.clear()
        runs = [t.session.run_async(TokenInput(PROMPT), InferParams(max_new_tokens=40)) for t in talks]
        for run in runs:
            run.result(60)
        assert [talk.said for talk in talks] == alone
        talks[0].session.save_kvcache(str(tmp_path / "kv"))
        with pytest.raises(ModelInvalid, match="loras"):
            talks[1].session.load_kvcache(str(tmp_path / "kv"))
        assert talks[0].session.state().n_total_tokens > 0
        talks[0].session.disable_lora("a1")
        assert talks[0].session.state().n_total_tokens == 0
        assert talks[0].run(PROMPT, 40) == alone[2]
        with pytest.raises(ParamInvalid, match="no adapter 'a3'; it has a1, a2"):
            talks[0].session.enable_lora("a3")
        with pytest.raises(ParamInvalid, match="must be a finite number"):
            talks[0].session.enable_lora("a1", float("nan"))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"use_dora": True}, "DoRA"),
        ({"peft_type": "IA3"}, "IA3"),
        ({"bias": "all"}, "bias"),
        ({"modules_to_save": ["lm_head"]}, "replaced whole"),
        ({"r": 5}, "rank 5"),
        ({"lora_alpha": "much"}, "lora_alpha"),
        ({"rank_pattern": {".*q": 4}}, "only names of modules"),
    ],
)
def test_other_adapters_are_refused_by_name(config: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_family("qwen2", tmp_path / "hf")
    write_adapter(tmp_path / "mine", targets(tmp_path / "hf"), 1, **config)
    package = export_llm(tmp_path / "hf", tmp_path / "base", "f32")
    with open_llm(package.model) as context, pytest.raises((ModelInvalid, ModelUnsupported), match=message):
        context.init_loras(tmp_path / "mine")


def test_matrices_that_no_layer_has_are_refused(tmp_path: Path) -> None:
    write_family("qwen2", tmp_path / "hf")
    package = export_llm(tmp_path / "hf", tmp_path / "base", "f32")
    for number, name in enumerate(
        ("lm_head.weight", "model.layers.0.mlp.gate.weight", "model.layers.77.mlp.up_proj.weight")
    ):
        write_adapter(tmp_path / f"l{number}", {name: (8, 8)}, 1)
        with open_llm(package.model) as context, pytest.raises(ModelUnsupported, match="not computed"):
            context.init_loras(tmp_path / f"l{number}")
    with open_llm(package.model) as context, pytest.raises(ModelInvalid, match=r"no adapter_config\.json"):
        context.init_loras(tmp_path / "hf")
