"""What transformers says, and the encoders as ONNX: run by a Python that has it, ``python truth.py FOLDER [NAME ...]``.

``FOLDER/NAME`` gets the files of the model as they are published, ``encoder.onnx`` (one picture or one piece of audio), what goes
into it and comes out of it, and ``truth.npz``: tokens and logits of every turn. With ``--encoded`` it reads ``encoded.npz``, what a
converted encoder gave, and says what the language model makes of that (``truth_encoded.npz``). ``truth_made.npz`` is the same for
rows that follow from their names, which tests need no encoder for.
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

sys.path[:0] = [
    str(Path(__file__).resolve().parent),
    str(Path(__file__).resolve().parents[1] / "llm_families"),
]

from cases import ANSWER, AUDIO, CASES, EXAMPLE, IMAGE, VIDEO, Case, Turn  # noqa: E402
from encoders import ENCODERS  # noqa: E402
from made import made  # noqa: E402

STEPS = 3
"""Pictures of a video."""


def _model(case: Case, folder: Path) -> Any:
    """The files of the model with made tensors, and the model that transformers reads from them."""
    config = transformers.AutoConfig.for_model(case.stands_in or case.kind, **case.config)
    kind = ENCODERS[case.kind].model
    new = kind.from_config if case.stands_in else kind
    new(config).save_pretrained(_source(case, folder))
    path = _source(case, folder) / "model.safetensors"
    tensors = {name: made(name, array.shape, halves=True) for name, array in load_file(path).items()}
    save_file(tensors, path, {"format": "pt"})
    # as it is published: another name before all names, and fields of the encoder among the others
    if case.stands_in:
        save_file(
            {f"llm.{name}": array for name, array in tensors.items()},
            folder / "model.safetensors",
            {"format": "pt"},
        )
        described = json.loads((path.parent / "config.json").read_text())
        version = {"qwen2": 2.6, "qwen3": 4.5}[case.stands_in]
        described.update(
            model_type=case.kind,
            version=version,
            query_num=16,
            slice_mode=True,
            vision_config={"patch_size": 14},
        )
        (folder / "config.json").write_text(json.dumps(described, indent=1))
    return _read(case, folder)


def _source(case: Case, folder: Path) -> Path:
    return folder / "language" if case.stands_in else folder


def _read(case: Case, folder: Path) -> Any:
    kind = ENCODERS[case.kind].model
    return kind.from_pretrained(
        _source(case, folder), attn_implementation="eager", dtype=torch.float32
    ).eval()


class _Talk:
    """A conversation: its tokens so far, and the media in them."""

    def __init__(self, case: Case, model: Any, encoded: dict[str, list[np.ndarray]]) -> None:
        self.case, self.model, self.encoded = case, model, encoded
        self.ids: list[int] = []
        self.used = {"image": 0, "video": 0, "audio": 0}
        self.order: list[tuple[str, int]] = []
        self.made = np.random.default_rng(5)

    def say(self, turn: Turn) -> np.ndarray:
        """The tokens of a turn."""
        said: list[int] = []
        tokens = self.case.tokens
        for part in turn.parts:
            if isinstance(part, int):
                said += self.made.integers(4, 140, part).tolist()
            elif part == "audio":
                said += [155, *[AUDIO] * self.case.extra.get("audio", tokens), 156]
                self._take("audio", 1)
            elif part == "image":
                said += [153, *[IMAGE] * tokens, 154]
                self._take("image", 1)
            elif part == "video":
                said += [153, *[VIDEO] * (STEPS * tokens), 154]
                self._take("video", STEPS)
            else:  # a time before each picture
                for _ in range(STEPS):
                    said += [7, 153, *[VIDEO] * tokens, 154]
                self._take("video", STEPS)
        self.ids += said
        return np.array(said)

    def _take(self, kind: str, count: int) -> None:
        for _ in range(count):
            self.order.append((kind, self.used[kind]))
            self.used[kind] += 1

    def logits(self, seconds: float) -> np.ndarray:
        """Behind every token so far, with what the encoder gave in the places of media."""
        ids = torch.tensor(self.ids)[None]
        return ENCODERS[self.case.kind].answer(self.model, self.case, ids, self.used, self.encoded, seconds)


@torch.inference_mode()
def _talks(
    case: Case, model: Any, encoded: dict[str, list[np.ndarray]], given: dict[str, Any] | None
) -> dict[str, np.ndarray]:
    """Tokens and logits of all turns; with ``given`` the whole model must say the same to every one."""
    found, encoder = {}, ENCODERS[case.kind]
    for number, turns in enumerate(case.talks):
        talk = _Talk(case, model, encoded)
        for step, turn in enumerate(turns):
            said = talk.say(turn)
            logits, answer = [], []
            if given is not None and encoder.whole is not None:
                ids, used = torch.tensor(talk.ids)[None], talk.used
                whole = encoder.whole(model, case, ids, given, used, turn.seconds)
                apart = float(np.abs(whole - talk.logits(turn.seconds)).max())
                assert apart < case.apart, f"{turn.name}: the whole model and its parts differ by {apart}"
                found["check"] = np.maximum(found.get("check", 0.0), apart)
            for _ in range(ANSWER):
                logits.append(talk.logits(turn.seconds)[-1])
                answer.append(int(logits[-1][:IMAGE].argmax()))  # a marker is no answer
                talk.ids.append(answer[-1])
            key = f"{number}.{step}"
            found.update(
                {f"said{key}": said, f"answer{key}": np.array(answer), f"logits{key}": np.array(logits)}
            )
            print("  ", turn.name, len(talk.ids), flush=True)
    return found


def _one(case: Case, folder: Path, encoded_only: bool) -> None:
    encoder = ENCODERS[case.kind]
    if encoded_only:
        if not (folder / "encoded.npz").exists():
            return
        model = _read(case, folder)
        found = dict(np.load(folder / "encoded.npz"))
        np.savez_compressed(folder / "truth_encoded.npz", **_talks(case, model, _listed(found), None))
        return
    model = _model(case, folder)
    inputs = encoder.inputs(case)
    encoded = {}
    with torch.inference_mode():
        for kind, values in inputs.items():
            outputs = [encoder.parts(model, case)[kind](torch.tensor(value)) for value in values]
            for number, rows in enumerate(zip(*outputs)):
                encoded[f"{kind}{number}"] = np.stack(
                    [row.numpy().reshape(-1, row.shape[-1]) for row in rows]
                )
    np.savez_compressed(folder / "inputs.npz", **{kind: np.stack(values) for kind, values in inputs.items()})
    np.savez_compressed(folder / "encoded_float.npz", **encoded)
    truth = _talks(case, _read(case, folder), _listed(encoded), inputs)
    shapes = {name: array.shape for name, array in load_file(folder / "model.safetensors").items()}
    (folder / "shapes.json").write_text(json.dumps(shapes))
    instead = {name: made(f"rows.{name}", rows.shape, halves=True) for name, rows in encoded.items()}
    np.savez_compressed(
        folder / "truth_made.npz", **_talks(case, _read(case, folder), _listed(instead), None)
    )
    np.savez_compressed(folder / "truth.npz", versions=transformers.__version__, **truth)
    for kind, part in encoder.parts(model, case).items():
        if kind == "video" or case.stands_in:  # the same network as of images, or none
            continue
        torch.onnx.export(
            part, (torch.tensor(inputs[kind][0]),), str(folder / f"{kind}.onnx"), dynamo=False, opset_version=17,
            input_names=["pixels" if kind == "image" else "features"],
        )  # fmt: skip


def _listed(encoded: dict[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
    """``image``: embeddings and rows of deepstack, each (pictures, tokens, hidden); so ``video`` and ``audio``."""
    found: dict[str, list[np.ndarray]] = {}
    for name in sorted(encoded):
        found.setdefault(name.rstrip("0123456789"), []).append(encoded[name])
    return found


def main() -> None:
    """Folder, then names of cases."""
    words = sys.argv[1:]
    encoded_only = "--encoded" in words
    root, *names = [word for word in words if word != "--encoded"]
    for case in (*CASES, EXAMPLE):
        if case.name not in (names or [case.name for case in CASES]):
            continue
        folder = Path(root) / case.name
        folder.mkdir(parents=True, exist_ok=True)
        _one(case, folder, encoded_only)
        print(case.name, "ok", flush=True)
        config = json.loads((folder / "config.json").read_text())
        assert config["model_type"] == case.kind


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    main()
