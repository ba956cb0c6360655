"""What of a mixture of experts is read: resident pages of a package's weights after a short chat, beside the file's size.

    python benchmarks/llm_experts.py [--experts 64] [--layers 4]

A random Qwen3-MoE is exported with every type of weights. A process of its own opens each package and says what is resident of the
mapped file when it is open, after 4 tokens of prompt and 4 of answer; once with the file's checksum compared, once without.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from rknnlite_llm import Package, export_llm, open_llm
from rknnlite_llm.container.safetensors import write_safetensors

from rknnlite.spi.llm import InferParams, LlmCallbacks, LlmParams, TokenInput, VocabInfo

USED, HIDDEN, WIDTH, VOCAB = 2, 256, 512, 512


def make_model(folder: Path, experts: int, layers: int) -> None:
    """A Qwen3-MoE of random weights as a Hugging Face folder."""
    config = {
        "model_type": "qwen3_moe", "hidden_size": HIDDEN, "intermediate_size": WIDTH, "moe_intermediate_size": WIDTH,
        "num_hidden_layers": layers, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": VOCAB,
        "max_position_embeddings": 512, "num_experts": experts, "num_experts_per_tok": USED, "norm_topk_prob": True,
    }  # fmt: skip
    random = np.random.default_rng(0)

    def matrix(*shape: int) -> tuple[str, np.ndarray]:
        return "F32", ((random.random(shape, np.float32) - 0.5) * 3 / np.sqrt(shape[-1])).astype(np.float32)

    tensors = {"model.embed_tokens.weight": matrix(VOCAB, HIDDEN), "lm_head.weight": matrix(VOCAB, HIDDEN)}
    ones = {"model.norm.weight": HIDDEN}
    for i in range(layers):
        layer = f"model.layers.{i}."
        for name, rows, columns in (
            ("q", 256, HIDDEN), ("k", 128, HIDDEN), ("v", 128, HIDDEN), ("o", HIDDEN, 256),
        ):  # fmt: skip
            tensors[f"{layer}self_attn.{name}_proj.weight"] = matrix(rows, columns)
        tensors[f"{layer}mlp.gate.weight"] = matrix(experts, HIDDEN)
        for expert in range(experts):
            stem = f"{layer}mlp.experts.{expert}."
            tensors[f"{stem}gate_proj.weight"] = tensors[f"{stem}up_proj.weight"] = matrix(WIDTH, HIDDEN)
            tensors[f"{stem}down_proj.weight"] = matrix(HIDDEN, WIDTH)
        ones.update(
            {f"{layer}input_layernorm.weight": HIDDEN, f"{layer}post_attention_layernorm.weight": HIDDEN}
        )
        ones.update({f"{layer}self_attn.q_norm.weight": 64, f"{layer}self_attn.k_norm.weight": 64})
    tensors.update({name: ("F32", np.ones(size, np.float32)) for name, size in ones.items()})
    write_safetensors(folder / "model.safetensors", tensors, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))


def resident(path: Path) -> int:
    """Bytes of a file's mappings in this process that are in memory."""
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0] and not line.endswith("kB"):
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1]) << 10
    return total


def chat(model: str, verify: bool, tokens: int = 4) -> dict[str, int]:
    """Open, say something, and what was resident when; bytes."""
    weight = Package.of(model).weight
    with open_llm(model, verify=verify) as context:
        opened = resident(weight.resolve())
        table = np.zeros((VOCAB, HIDDEN), np.float32)
        table[:] = np.random.default_rng(1).random(table.shape) - 0.5
        callbacks = LlmCallbacks(lambda result, state: None, embed=lambda ids: table[np.asarray(ids)])
        session = context.session(LlmParams(vocab=VocabInfo(ignore_eos_token=True)), callbacks)
        session.run(TokenInput(np.arange(5, 5 + tokens)), InferParams(max_new_tokens=tokens))
        return {"size": weight.stat().st_size, "opened": opened, "said": resident(weight.resolve())}


def main() -> None:
    """Every type of weights, with and without checksums."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experts", type=int, default=64)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--chat", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.chat:
        print(json.dumps(chat(args.chat[0], args.chat[1] == "verify")))
        return
    print(
        "| weights | file | checksum | resident when open | after 8 tokens | share |\n|---|---:|---|---:|---:|---:|"
    )
    with tempfile.TemporaryDirectory() as room:
        (Path(room) / "hf").mkdir()
        make_model(Path(room) / "hf", args.experts, args.layers)
        for weights in ("f32", "f16", "w8", "w4"):
            package = export_llm(Path(room) / "hf", Path(room) / weights / "x", weights)
            for verify in ("verify", "mapped"):
                run = [sys.executable, __file__, "--chat", str(package.model), verify]
                found = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
                size, opened, said = (found[name] / 1e6 for name in ("size", "opened", "said"))
                kept = "compared" if verify == "verify" else "left out"
                print(
                    f"| `{weights}` | {size:.1f} MB | {kept} | {opened:.1f} MB | {said:.1f} MB | {said / size:.0%} |"
                )


if __name__ == "__main__":
    main()
