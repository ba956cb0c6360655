"""GGUF files of the models of ``truth.py``: run by a Python with transformers, ``python gguf_files.py LLAMA_CPP FOLDER NAME ...``.

The converter of a llama.cpp checkout makes ``FOLDER/NAME/model.gguf``, float32; what it cannot convert gets ``unconverted.txt``.
The models have no tokenizer, so the files get a vocabulary of made-up words.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

LLAMA_CPP = Path(sys.argv[1])
sys.path[:0] = [str(LLAMA_CPP), str(LLAMA_CPP / "gguf-py")]

import gguf  # noqa: E402
import torch  # noqa: E402
from conversion import ModelBase, ModelType, get_model_architecture, get_model_class  # noqa: E402

_CLASSES = {
    "minicpm": "MiniCPMForCausalLM", "internlm2": "InternLM2ForCausalLM", "internlm3": "InternLM3ForCausalLM",
}  # fmt: skip
"""Of families without a class in transformers, whose files do not name one."""


def _words(model: Any) -> None:
    count, writer = model.hparams["vocab_size"], model.gguf_writer
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(["<unk>", "<s>", "</s>", *(f"t{i}" for i in range(3, count))])
    writer.add_token_scores([0.0] * 3 + [-float(i) for i in range(count - 3)])
    writer.add_token_types([2, 3, 3] + [1] * (count - 3))


def _convert(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    if config["model_type"] in _CLASSES and "architectures" not in config:
        config["architectures"] = [_CLASSES[config["model_type"]]]
        (folder / "config.json").write_text(json.dumps(config))
    kind = get_model_class(get_model_architecture(ModelBase.load_hparams(folder, False), ModelType.TEXT))
    kind.set_vocab = _words
    words = folder / "tokenizer.json"
    try:
        if config["model_type"] == "gemma3_text":  # counts what is in there
            count = config["vocab_size"]
            words.write_text(
                json.dumps({"model": {"vocab": dict.fromkeys(map(str, range(count)), 0)}, "added_tokens": []})
            )
        with torch.inference_mode():
            kind(folder, gguf.LlamaFileType.ALL_F32, folder / "model.gguf").write()
    finally:
        words.unlink(missing_ok=True)


def main() -> None:
    """A checkout, a folder, names of cases."""
    for name in sys.argv[3:]:
        folder = Path(sys.argv[2]) / name
        failed = folder / "unconverted.txt"
        failed.unlink(missing_ok=True)
        try:
            _convert(folder)
        except Exception as error:  # the table says so
            failed.write_text(f"{type(error).__name__}: {error}")
            print(name, "FAILED", type(error).__name__, str(error)[:300], flush=True)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    main()
