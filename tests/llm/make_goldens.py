"""Write ``tests/data/llm/*.npz`` with Hugging Face transformers: logits and greedy tokens of the tiny models.

python -m tests.llm.make_goldens
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from tests.support.llm_models import FAMILIES, VOCAB, write_model

DATA = Path(__file__).parents[1] / "data" / "llm"


def main() -> None:
    """One file per family: ids (40), logits (40, vocab), greedy (256)."""
    import torch
    from transformers import AutoModelForCausalLM

    DATA.mkdir(parents=True, exist_ok=True)
    for family in FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            model = AutoModelForCausalLM.from_pretrained(
                write_model(Path(folder), family), dtype=torch.float32
            ).eval()
        ids = np.random.default_rng(7).integers(0, VOCAB - 1, 40)
        given = torch.tensor(ids[None])
        with torch.inference_mode():
            logits = model(given).logits[0].numpy()
            greedy = plain_greedy(model, given, 256)
        np.savez_compressed(DATA / f"{family}.npz", ids=ids, logits=logits, greedy=greedy)
        print(family, logits.std(), greedy[:8])


def plain_greedy(model, ids, count: int) -> np.ndarray:
    """Greedy tokens without any rule about end marks, with the model's own cache."""
    import torch

    cache, tokens = None, []
    with torch.inference_mode():
        for _ in range(count):
            answer = model(ids, past_key_values=cache, use_cache=True)
            cache = answer.past_key_values
            ids = answer.logits[:, -1:].argmax(-1)
            tokens.append(int(ids))
    return np.array(tokens)


if __name__ == "__main__":
    main()
