"""Write ``tests/llm/data/*.npz`` with Hugging Face transformers: logits and greedy tokens.

Of the tiny models of each family, and of the trained model of the example; hidden states of tiny models of embeddings.

python -m tests.llm.make_goldens
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from tests.support.embedding_models import ENCODERS, write_encoder
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
    for family in (*ENCODERS, "qwen3"):
        with tempfile.TemporaryDirectory() as folder:
            write = write_encoder if family in ENCODERS else write_model
            keep_embeddings(family, write(Path(folder), family))
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


def keep_embeddings(family: str, source: Path) -> None:
    """Hidden states of texts of several lengths, of which the shorter ones were padded; all rows one below the other."""
    random = np.random.default_rng(11)
    texts = [random.integers(4, VOCAB, n) for n in (9, 1, 33, 64)]
    hidden = np.concatenate(hidden_states(source, texts))
    lengths = [len(text) for text in texts]
    np.savez_compressed(
        DATA / f"embed_{family}.npz", ids=np.concatenate(texts), lengths=lengths, hidden=hidden
    )
    print(family, hidden.std())


def hidden_states(source: Path, texts: list[np.ndarray]) -> list[np.ndarray]:
    """The last hidden states (n, hidden) of a model, of texts in one padded batch."""
    import torch
    from transformers import AutoModel

    model = AutoModel.from_pretrained(source, dtype=torch.float32, attn_implementation="eager").eval()
    ids = torch.full((len(texts), max(map(len, texts))), model.config.pad_token_id or 0)
    mask = torch.zeros_like(ids)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text)
        mask[row, : len(text)] = 1
    with torch.inference_mode():
        found = model(input_ids=ids, attention_mask=mask).last_hidden_state.numpy()
    return [rows[: len(text)] for rows, text in zip(found, texts)]


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
