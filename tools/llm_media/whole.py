"""What transformers says of whole models, from a picture to text: ``python whole.py FOLDER TRAINED [NAME ...]``, by a Python that has it.

``FOLDER/NAME`` gets the files of a small random model as they are published, with the tokenizer of the folder ``TRAINED``,
``picture.png`` in the size of its tower, and ``whole.npz``: what the tower gives, the tokens that go in, and those that
``generate`` says to them, greedily.
"""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

sys.modules["torchvision"] = None  # type: ignore[assignment]  # of no use here, and where it does not fit torch, in the way

import torch  # noqa: E402
import transformers  # noqa: E402
from PIL import Image  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402

sys.path[:0] = [
    str(Path(__file__).resolve().parent),
    str(Path(__file__).resolve().parents[1] / "llm_families"),
]

from cases import WHOLE, Case  # noqa: E402
from encoders import ENCODERS  # noqa: E402
from made import made  # noqa: E402

QUESTION = "What is this?"
COUNT = 16


def files(case: Case, folder: Path, trained: Path) -> None:
    """Everything that the export reads."""
    config = transformers.AutoConfig.for_model(case.kind, **case.config)
    ENCODERS[case.kind].model(config).save_pretrained(folder)
    path = folder / "model.safetensors"
    save_file(
        {name: made(name, array.shape, halves=True) for name, array in load_file(path).items()},
        path,
        {"format": "pt"},
    )
    words = json.loads((trained / "tokenizer.json").read_text())
    mark = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    words["added_tokens"] += [
        {"id": 640 + i, "content": text, **mark} for i, text in enumerate(case.extra["marks"])
    ]
    (folder / "tokenizer.json").write_text(json.dumps(words))
    (folder / "tokenizer_config.json").write_bytes((trained / "tokenizer_config.json").read_bytes())
    (folder / "preprocessor_config.json").write_text(json.dumps(case.extra["processor"]))
    random = np.random.default_rng(zlib.crc32(case.name.encode()))
    Image.fromarray(random.integers(0, 256, (*case.size, 3), np.uint8)).save(folder / "picture.png")


def pixels(case: Case, folder: Path) -> dict[str, Any]:
    """The picture as the model takes it."""
    picture, settings = Image.open(folder / "picture.png"), case.extra["processor"]
    if "merge_size" in settings:
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

        return dict(Qwen2VLImageProcessorPil(**settings, do_resize=False)(picture, return_tensors="pt"))
    values = np.asarray(picture, np.float32) / 255
    values = (values - np.float32(settings["image_mean"])) / np.float32(settings["image_std"])
    values = torch.tensor(values.transpose(2, 0, 1)[None])
    return {"pixel_values": values[None] if case.kind == "smolvlm" else values}


def _model(case: Case, folder: Path) -> Any:
    kind = ENCODERS[case.kind].model
    return kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()


@torch.inference_mode()
def one(case: Case, folder: Path) -> None:
    """Encode, splice, generate."""
    model = _model(case, folder)
    given = pixels(case, folder)
    part = ENCODERS[case.kind].parts(model, case)["image"]
    values = given["pixel_values"]
    rows = part(values[0] if values.ndim == 5 else values)
    model = _model(case, folder)  # another, for taking the tower apart changes it
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    start, end, image = case.extra["markers"]
    said = [{"role": "user", "content": f"{start}{image * case.tokens}{end}{QUESTION}"}]
    text = tokenizer.apply_chat_template(said, add_generation_prompt=True, tokenize=False)
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
    if "image_grid_thw" in given:
        given["mm_token_type_ids"] = (ids == model.config.image_token_id).int()
    found = model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        **given,
        max_new_tokens=COUNT,
        do_sample=False,
        eos_token_id=2,
        pad_token_id=0,
    )
    outputs = {f"float{i}": np.asarray(row.numpy()).reshape(case.tokens, -1) for i, row in enumerate(rows)}
    np.savez_compressed(
        folder / "whole.npz", ids=ids[0].numpy(), answer=found[0, ids.shape[1] :].numpy(), **outputs
    )
    shapes = {name: array.shape for name, array in load_file(folder / "model.safetensors").items()}
    (folder / "shapes.json").write_text(json.dumps(shapes))


def main() -> None:
    """Folder, folder of the tokenizer, then names of cases."""
    root, trained, *names = sys.argv[1:]
    for case in WHOLE:
        if not names or case.name in names:
            folder = Path(root) / case.name
            folder.mkdir(parents=True, exist_ok=True)
            files(case, folder, Path(trained))
            one(case, folder)
            print(case.name, "ok", flush=True)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    main()
