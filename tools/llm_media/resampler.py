"""What a tower of MiniCPM-V 2.6 gives, which transformers has no class for: ``python resampler.py FOLDER``, by a Python with torch.

Written apart from the package, in torch's own layers, from the arithmetic of the published model: SigLIP with positions by shares
of the picture, then rows of the model's own that attend to all patches. ``FOLDER`` gets the model and ``truth.npz``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "llm_families")]

from made import made  # noqa: E402

HIDDEN, WIDTH, SIDE, ROWS, LAYERS, PATCH = 32, 256, 6, 8, 2, 4
GRID = (5, 7)
CONFIG = {
    "model_type": "minicpmv", "version": 2.6, "query_num": ROWS, "hidden_size": WIDTH, "num_hidden_layers": 1, "vocab_size": 128,
    "vision_config": {"hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": 2, "intermediate_size": 64,
        "patch_size": PATCH, "image_size": SIDE * PATCH},
}  # fmt: skip


def shapes() -> dict[str, tuple[int, ...]]:
    """All tensors by name."""
    found: dict[str, tuple[int, ...]] = {
        "vpm.embeddings.patch_embedding.weight": (HIDDEN, 3, PATCH, PATCH), "vpm.embeddings.patch_embedding.bias": (HIDDEN,),
        "vpm.embeddings.position_embedding.weight": (SIDE * SIDE, HIDDEN), "resampler.query": (ROWS, WIDTH),
        "resampler.kv_proj.weight": (WIDTH, HIDDEN), "resampler.attn.in_proj_weight": (3 * WIDTH, WIDTH),
        "resampler.attn.in_proj_bias": (3 * WIDTH,), "resampler.attn.out_proj.weight": (WIDTH, WIDTH),
        "resampler.attn.out_proj.bias": (WIDTH,), "resampler.proj": (WIDTH, WIDTH),
    }  # fmt: skip
    norms = {
        "vpm.post_layernorm": HIDDEN,
        **{f"resampler.{name}": WIDTH for name in ("ln_q", "ln_kv", "ln_post")},
    }
    for number in range(LAYERS):
        layer = f"vpm.encoder.layers.{number}."
        norms.update({f"{layer}layer_norm1": HIDDEN, f"{layer}layer_norm2": HIDDEN})
        linear = {f"self_attn.{name}_proj": (HIDDEN, HIDDEN) for name in ("q", "k", "v", "out")}
        for name, shape in {**linear, "mlp.fc1": (64, HIDDEN), "mlp.fc2": (HIDDEN, 64)}.items():
            found.update({f"{layer}{name}.weight": shape, f"{layer}{name}.bias": shape[:1]})
    for name, size in norms.items():
        found.update({f"{name}.weight": (size,), f"{name}.bias": (size,)})
    return found


class Tower:
    """The arithmetic."""

    def __init__(self, tensors: dict[str, np.ndarray]) -> None:
        self.tensors = {name: torch.tensor(values) for name, values in tensors.items()}

    def norm(self, x: Any, name: str) -> Any:
        weight, bias = self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, 1e-6)

    def linear(self, x: Any, name: str) -> Any:
        return torch.nn.functional.linear(x, self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias"))

    def patches(self, pixels: Any) -> Any:
        name = "vpm.embeddings.patch_embedding"
        weight, bias = self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        x = torch.nn.functional.conv2d(pixels, weight, bias, stride=PATCH).flatten(2)[0].T
        borders = torch.arange(1 / SIDE, 1.0, 1 / SIDE)
        row, column = (
            torch.bucketize(torch.arange(0, 1 - 1e-6, 1 / size), borders, right=True) for size in GRID
        )
        x = (
            x
            + self.tensors["vpm.embeddings.position_embedding.weight"][
                (row[:, None] * SIDE + column).flatten()
            ]
        )
        for number in range(LAYERS):
            layer = f"vpm.encoder.layers.{number}."
            y = self.norm(x, f"{layer}layer_norm1")
            heads = [
                self.linear(y, f"{layer}self_attn.{part}_proj").reshape(len(y), 2, -1).transpose(0, 1)
                for part in "qkv"
            ]
            y = (
                torch.nn.functional.scaled_dot_product_attention(*heads)
                .transpose(0, 1)
                .reshape(len(y), HIDDEN)
            )
            x = x + self.linear(y, f"{layer}self_attn.out_proj")
            y = self.linear(self.norm(x, f"{layer}layer_norm2"), f"{layer}mlp.fc1")
            x = x + self.linear(torch.nn.functional.gelu(y, approximate="tanh"), f"{layer}mlp.fc2")
        return self.norm(x, "vpm.post_layernorm")

    def rows(self, x: Any) -> Any:
        attention = torch.nn.MultiheadAttention(WIDTH, WIDTH // 128)
        names = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
        attention.load_state_dict({name: self.tensors[f"resampler.attn.{name}"] for name in names})
        values = self.norm(self.linear(x, "resampler.kv_proj"), "resampler.ln_kv")
        places = np.meshgrid(np.arange(GRID[1], dtype=np.float32), np.arange(GRID[0], dtype=np.float32))
        keys = values + torch.tensor(
            np.concatenate([_waves(place) for place in places], -1).reshape(-1, WIDTH)
        )
        asking = self.norm(self.tensors["resampler.query"], "resampler.ln_q")
        found, _ = attention(asking[:, None], keys[:, None], values[:, None])
        return self.norm(found[:, 0], "resampler.ln_post") @ self.tensors["resampler.proj"]


def _waves(place: np.ndarray) -> np.ndarray:
    speeds = 1.0 / 10000 ** (np.arange(WIDTH // 4, dtype=np.float32) / (WIDTH / 4))
    turned = np.einsum("hw,d->hwd", place, speeds)
    return np.concatenate([np.sin(turned), np.cos(turned)], -1).astype(np.float32)


@torch.inference_mode()
def main() -> None:
    """Folder."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: made(name, shape) for name, shape in shapes().items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(CONFIG))
    pixels = made("pixels", (1, 3, GRID[0] * PATCH, GRID[1] * PATCH))
    tower = Tower(tensors)
    found = tower.rows(tower.patches(torch.tensor(pixels))).numpy()
    words = {"config": json.dumps(CONFIG), "shapes": json.dumps(shapes())}
    np.savez_compressed(folder / "truth.npz", float0=found[:, :8], **words)


if __name__ == "__main__":
    main()
