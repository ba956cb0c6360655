"""Tiny encoders with made weights, laid out as Hugging Face directories, and tokenizers trained on a few sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from rknnlite_llm.container.safetensors import write_safetensors

ENCODERS = ("bert", "xlm-roberta")
VOCAB, HIDDEN, LAYERS, HEADS, INNER, ROWS = 160, 32, 2, 4, 96, 66
SENTENCES = (
    "the cat sat on the mat", "a dog ran after the cat", "neural networks on small chips", "how warm is it today?",
    "the weather is warm and sunny", "chips that compute networks", "dogs and cats are animals", "Grüße aus München",
)  # fmt: skip


def config(family: str, **changes: Any) -> dict[str, Any]:
    """``config.json`` of a tiny encoder."""
    more = (
        {"pad_token_id": 1, "layer_norm_eps": 1e-5} if family == "xlm-roberta" else {"layer_norm_eps": 1e-12}
    )
    return {
        "model_type": family, "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": INNER,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "max_position_embeddings": ROWS, "hidden_act": "gelu",
        "type_vocab_size": 2, **more, **changes,
    }  # fmt: skip


def weights(settings: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Uniform weights; the embeddings are exact in float16, so that their table loses nothing."""
    random = np.random.default_rng(seed)
    hidden, inner = settings["hidden_size"], settings["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (settings["vocab_size"], hidden),
        "embeddings.position_embeddings.weight": (settings["max_position_embeddings"], hidden),
        "embeddings.token_type_embeddings.weight": (settings["type_vocab_size"], hidden),
        **_both("embeddings.LayerNorm", (hidden,)),
    }
    for i in range(settings["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        for name in ("query", "key", "value"):
            shapes.update(_both(f"{layer}attention.self.{name}", (hidden, hidden)))
        shapes.update(_both(f"{layer}attention.output.dense", (hidden, hidden)))
        shapes.update(_both(f"{layer}attention.output.LayerNorm", (hidden,)))
        shapes.update(_both(f"{layer}intermediate.dense", (inner, hidden)))
        shapes.update(_both(f"{layer}output.dense", (hidden, inner)))
        shapes.update(_both(f"{layer}output.LayerNorm", (hidden,)))
    made = {name: (random.random(shape) - 0.5).astype(np.float32) for name, shape in shapes.items()}
    for name in made:
        if name.endswith("LayerNorm.weight"):
            made[name] += 1
    table = made["embeddings.word_embeddings.weight"]
    made["embeddings.word_embeddings.weight"] = table.astype(np.float16).astype(np.float32)
    return made


def _both(name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def write_encoder(folder: Path, family: str, prefix: str = "", **changes: Any) -> Path:
    """A Hugging Face directory; ``prefix`` in front of the names of tensors, as models with heads have it."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = config(family, **changes)
    (folder / "config.json").write_text(json.dumps(settings))
    tensors = {prefix + name: ("F32", array) for name, array in weights(settings).items()}
    write_safetensors(folder / "model.safetensors", tensors, {"format": "pt"})
    return folder


def write_modules(folder: Path, pooling: str, normalise: bool = True, longest: int | None = None) -> None:
    """The files of sentence-transformers that say how embeddings are made."""
    names = ["Transformer", "Pooling", *(["Normalize"] if normalise else [])]
    modules = [
        {
            "idx": i,
            "name": str(i),
            "path": f"{i}_{name}" if i else "",
            "type": f"sentence_transformers.models.{name}",
        }
        for i, name in enumerate(names)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    modes = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max", "lasttoken": "last"}
    (folder / "1_Pooling").mkdir(exist_ok=True)
    settings = {f"pooling_mode_{mode}": name == pooling for mode, name in modes.items()}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    if longest is not None:
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": longest}))


def word_piece(path: Path) -> None:
    """A BERT tokenizer (lower case, [CLS] and [SEP] around a text); it cuts and pads, as published ones do."""
    import tokenizers as tk

    made = tk.Tokenizer(tk.models.WordPiece(unk_token="[UNK]"))
    made.normalizer = tk.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = tk.pre_tokenizers.BertPreTokenizer()
    made.decoder = tk.decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made.train_from_iterator(
        SENTENCES, tk.trainers.WordPieceTrainer(vocab_size=VOCAB, special_tokens=special)
    )
    _around(made, "[CLS]", "[SEP]")
    made.enable_truncation(8)
    made.enable_padding(length=12)
    made.save(str(path))


def unigram(path: Path) -> None:
    """An XLM-R tokenizer (SentencePiece's unigram model, <s> and </s> around a text)."""
    import tokenizers as tk

    made = tk.Tokenizer(tk.models.Unigram())
    made.normalizer = tk.normalizers.Sequence(
        [tk.normalizers.NFKC(), tk.normalizers.Replace(tk.Regex(" {2,}"), " ")]
    )
    made.pre_tokenizer = tk.pre_tokenizers.Metaspace()
    made.decoder = tk.decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    made.train_from_iterator(
        SENTENCES,
        tk.trainers.UnigramTrainer(vocab_size=VOCAB - 60, special_tokens=special, unk_token="<unk>"),
    )
    _around(made, "<s>", "</s>")
    made.save(str(path))


def _around(made: Any, first: str, last: str) -> None:
    from tokenizers.processors import TemplateProcessing

    ids = [(token, made.token_to_id(token)) for token in (first, last)]
    made.post_processor = TemplateProcessing(
        single=f"{first} $A {last}", pair=f"{first} $A {last} $B {last}", special_tokens=ids
    )


TOKENIZERS = {"bert": word_piece, "xlm-roberta": unigram}
