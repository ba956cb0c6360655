"""Write ``tests/llm/data/*.npz`` with Hugging Face transformers: logits and greedy tokens.

Of the tiny models of each family, and of the trained model of the example.

python -m tests.llm.make_goldens
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from tests.support.llm_models import FAMILIES, VOCAB, write_model

DATA = Path(__file__).parent / "data"
CONVERSATION = (
    "<|im_start|>user\nI am Clara.<|im_end|>\n<|im_start|>assistant\nHello Clara.<|im_end|>\n"
    "<|im_start|>user\nWhat is 12 + 30?<|im_end|>\n<|im_start|>assistant\n"
)
TRAINED = Path(__file__).parents[2] / "examples" / "llm_chat" / "trained"


def main() -> None:
    """One file per model: ids (n), logits (n, vocab), greedy (256)."""
    for family in FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            ids = np.random.default_rng(7).integers(0, VOCAB - 1, 40)
            keep(family, write_model(Path(folder), family), ids)
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(TRAINED)
    keep("trained", TRAINED, np.array(tokenizer(CONVERSATION)["input_ids"]))


def keep(name: str, source: Path, ids: np.ndarray) -> None:
    """The answers of the model in a Hugging Face folder."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).eval()
    given = torch.tensor(ids[None])
    with torch.inference_mode():
        logits = model(given).logits[0].numpy()
        greedy = plain_greedy(model, given, 256)
    np.savez_compressed(DATA / f"{name}.npz", ids=ids, logits=logits, greedy=greedy)
    print(name, logits.std(), greedy[:8])


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
