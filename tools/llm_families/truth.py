"""What transformers says: run by a Python that has it, ``python truth.py FOLDER [NAME ...]``.

For every case ``FOLDER/NAME`` gets the files of the model as they are published, and ``truth.npz``: for a decoder the logits of the
first prompt and the tokens of two greedy turns, for a model of embeddings the hidden states of some texts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.modules["torchvision"] = None  # type: ignore[assignment]  # of no use here, and where it does not fit torch, in the way

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cases import CASES, GGUF, SECOND, Case  # noqa: E402
from made import made_for, texts  # noqa: E402
from random_families import random_case  # noqa: E402
from stand_ins import STAND_INS  # noqa: E402

TEXTS = (150, 1, 17, 60)
"""Tokens of the texts of models of embeddings."""


def _model(case: Case) -> Any:
    settings = {
        key: value
        for key, value in case.settings().items()
        if not (key == "num_key_value_heads" and value is None)
    }
    if case.stand_in:
        settings.update(STAND_INS[case.stand_in].config(settings))
    config = transformers.AutoConfig.for_model(case.kind, **settings)
    kind = transformers.AutoModel if case.embeds else transformers.AutoModelForCausalLM
    kind = transformers.AutoModelForSequenceClassification if case.scores else kind
    return kind.from_config(config, attn_implementation="eager").eval().float()


def _saved(case: Case, folder: Path) -> Any:
    """The files of the model with made tensors, and the model that transformers reads from them."""
    model = _model(case)
    model.save_pretrained(folder)
    path = folder / "model.safetensors"
    tensors = {
        name: made_for(name, array.shape, case.kind, case.weights) for name, array in load_file(path).items()
    }
    save_file(tensors, path, {"format": "pt"})
    (folder / "shapes.json").write_text(
        json.dumps({name: list(array.shape) for name, array in tensors.items()})
    )
    model, report = type(model).from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32, output_loading_info=True
    )
    wrong = {key: value for key, value in report.items() if value}
    assert not wrong or (set(wrong) <= {"missing_keys"} and model.config.tie_word_embeddings), (
        case.name,
        wrong,
    )
    if case.stand_in:
        other, config = STAND_INS[case.stand_in], json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(other.described(config), indent=1))
        save_file(other.saved(tensors, config), path, {"format": "pt"})
    return model.eval()


@torch.inference_mode()
def _decoder(case: Case, model: Any) -> dict[str, np.ndarray]:
    first, second = texts((case.prompt, SECOND), case.settings()["vocab_size"])

    def greedy(ids: np.ndarray, count: int) -> np.ndarray:
        said = model.generate(
            torch.tensor(ids[None]),
            attention_mask=torch.ones((1, len(ids)), dtype=torch.long),
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        return said[0, len(ids) :].numpy()

    logits = model(torch.tensor(first[None])).logits[0].numpy()
    said = greedy(first, case.greedy)
    history = np.concatenate([first, said, second])
    return {
        "first": first,
        "second": second,
        "logits": logits,
        "greedy": said,
        "again": greedy(history, case.greedy // 2),
    }


@torch.inference_mode()
def _embeddings(case: Case, model: Any) -> dict[str, np.ndarray]:
    given = texts(TEXTS, case.settings()["vocab_size"])
    found = [model(input_ids=torch.tensor(ids[None])).last_hidden_state[0].numpy() for ids in given]
    return {
        **{f"text{i}": ids for i, ids in enumerate(given)},
        **{f"hidden{i}": rows for i, rows in enumerate(found)},
    }


@torch.inference_mode()
def _scores(case: Case, model: Any) -> dict[str, np.ndarray]:
    """Of texts whose second half is a second text."""
    given, found = texts(TEXTS, case.settings()["vocab_size"]), []
    for ids in given:
        second = torch.tensor([[int(i >= len(ids) // 2) for i in range(len(ids))]])
        more = {"token_type_ids": second} if case.kind == "bert" else {}
        found.append(model(input_ids=torch.tensor(ids[None]), **more).logits[0].numpy())
    return {**{f"text{i}": ids for i, ids in enumerate(given)}, "scores": np.array(found)}


def main() -> None:
    """Folder, then names of cases."""
    root, names = Path(sys.argv[1]), sys.argv[2:]
    known = {case.name: case for case in (*CASES, *GGUF)}
    for case in [known.get(name) or random_case(name) for name in names or [case.name for case in CASES]]:
        folder = root / case.name
        folder.mkdir(parents=True, exist_ok=True)
        try:
            model = _saved(case, folder)
            found = (_scores if case.scores else _embeddings if case.embeds else _decoder)(case, model)
        except Exception as error:  # the table says so
            (folder / "failed.txt").write_text(f"{type(error).__name__}: {error}")
            print(case.name, "FAILED", type(error).__name__, str(error)[:300], flush=True)
            continue
        np.savez_compressed(folder / "truth.npz", versions=transformers.__version__, **found)
        print(case.name, "ok", flush=True)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    main()
