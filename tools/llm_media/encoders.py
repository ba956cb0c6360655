"""The encoders of the cases in transformers: one network per picture or piece of audio, as it is converted, and the whole model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
import torch
import transformers
from cases import AUDIO, IMAGE, VIDEO, Case

MOST = 4
"""Pictures, and pieces of audio, that are there."""
Parts = dict[str, torch.nn.Module]


@dataclass(frozen=True)
class Encoder:
    """``inputs``: values by kind; ``parts``: networks for one of them; ``whole``: logits of the model that is given the values."""

    model: Any
    inputs: Callable[[Case], dict[str, list[np.ndarray]]]
    parts: Callable[[Any, Case], Parts]
    whole: Callable[..., np.ndarray] | None

    def answer(
        self, model: Any, case: Case, ids: Any, used: dict[str, int], encoded: Any, seconds: float
    ) -> np.ndarray:
        """Logits (tokens, vocab) of the language model, which is given what the encoder gave."""
        embeds = model.get_input_embeddings()(ids).clone()
        seen = torch.zeros(ids.shape, dtype=torch.bool)
        extra = [torch.zeros_like(embeds) for _ in range(case.deepstack)]
        for kind, token in (("image", IMAGE), ("video", VIDEO), ("audio", AUDIO)):
            if not used[kind]:
                continue
            mask = ids == token
            rows = [torch.tensor(part[: used[kind]]).reshape(-1, part.shape[-1]) for part in encoded[kind]]
            embeds[mask] = rows[0].to(embeds.dtype)
            seen |= mask
            for layer in range(case.deepstack):
                extra[layer][mask] = rows[1 + layer].to(embeds.dtype)
        more: dict[str, Any] = {}
        if case.deepstack and seen.any():
            more = {"visual_pos_masks": seen, "deepstack_visual_embeds": [rows[seen] for rows in extra]}
        positions = _positions(case, ids[0].numpy(), seconds)
        if positions is not None:
            more["position_ids"] = torch.tensor(positions)[:, None]
        inner = getattr(model.model, "language_model", None) or getattr(
            model.model, "text_model", model.model
        )
        hidden = inner(inputs_embeds=embeds, use_cache=False, **more).last_hidden_state
        return np.asarray(model.lm_head(hidden)[0].numpy())


def _positions(case: Case, ids: np.ndarray, seconds: float) -> np.ndarray | None:
    """As the papers of Qwen2-VL and Qwen2.5-VL number tokens: a text goes on behind the largest number before it.

    Written apart from the package, one token after another.
    """
    if "mrope_section" not in case.config.get("text_config", {}).get("rope_parameters", {}):
        return None
    rows, columns = case.size[0] // 8, case.size[1] // 8
    per_second = {"qwen2_5_vl": 2.0, "qwen2_5_omni_thinker": 2.0}.get(case.kind)
    found: list[tuple[int, int, int]] = []
    base = count = 0
    for i, token in enumerate(ids):
        if token not in (IMAGE, VIDEO):
            found.append((base + count,) * 3)
            base, count = base + 1, 0
            continue
        if count == 0:
            base = max((max(place) for place in found), default=-1) + 1
        time, left = divmod(count, rows * columns)
        interval = per_second * seconds if per_second and token == VIDEO else 1.0
        found.append((base + int(time * interval), base + left // columns, base + left % columns))
        count += 1
        if i + 1 == len(ids) or ids[i + 1] != token:
            base, count = max(max(place) for place in found) + 1, 0
    return np.array(found).T


# -- Qwen's: patches of two frames ------------------------------------------------------------------------------


def _patches(case: Case) -> dict[str, list[np.ndarray]]:
    """Patches as the processors of these models make them: merged neighbours together, (patches, channels * 2 * 4 * 4)."""
    made = np.random.default_rng(11)

    def one(frames: np.ndarray) -> np.ndarray:
        rows, columns = case.size[0] // 4, case.size[1] // 4
        cut = frames.reshape(2, 3, rows // 2, 2, 4, columns // 2, 2, 4)
        return cut.transpose(2, 5, 3, 6, 1, 0, 4, 7).reshape(rows * columns, -1)

    shape = (3, *case.size)
    images = [
        one(np.stack([still, still])) for still in made.standard_normal((MOST, *shape)).astype(np.float32)
    ]
    videos = [one(pair) for pair in made.standard_normal((MOST, 2, *shape)).astype(np.float32)]
    return {"image": images, "video": videos}


class _Visual(torch.nn.Module):
    """One picture: patches -> embeddings, and rows of deepstack behind them."""

    def __init__(self, visual: Any, case: Case) -> None:
        super().__init__()
        self.visual = visual
        self.grid = torch.tensor([[1, case.size[0] // 4, case.size[1] // 4]])
        patch = visual.patch_embed.proj
        self.weight = torch.nn.Parameter(patch.weight.reshape(len(patch.weight), -1))
        self.bias = patch.bias
        visual.patch_embed.forward = lambda x: torch.nn.functional.linear(x, self.weight, self.bias)

    def forward(self, patches: Any) -> Any:
        found = self.visual(patches, grid_thw=self.grid)
        return (found.pooler_output, *(getattr(found, "deepstack_features", None) or ()))


def _visual(model: Any, case: Case) -> Parts:
    part = _Visual(model.model.visual if hasattr(model.model, "visual") else model.visual, case).eval()
    return {"image": part, "video": part}


def _qwen_whole(
    model: Any, case: Case, ids: Any, given: Any, used: dict[str, int], seconds: float
) -> np.ndarray:
    rows, columns = case.size[0] // 4, case.size[1] // 4
    more: dict[str, Any] = {}
    if used["image"]:
        more["pixel_values"] = torch.tensor(np.concatenate(given["image"][: used["image"]]))
        more["image_grid_thw"] = torch.tensor([[1, rows, columns]] * used["image"])
    if used["video"]:
        more["pixel_values_videos"] = torch.tensor(np.concatenate(given["video"][: used["video"]]))
        more["video_grid_thw"] = torch.tensor([[used["video"], rows, columns]])
        if case.kind == "qwen2_5_vl":
            more["second_per_grid_ts"] = torch.tensor([seconds])
    if "omni" not in case.kind:
        more["mm_token_type_ids"] = (ids == IMAGE).int() + 2 * (ids == VIDEO).int()
    elif used["video"]:
        more["video_second_per_grid"] = torch.tensor([seconds])
    if used["audio"]:
        more["input_features"] = torch.tensor(np.concatenate(given["audio"][: used["audio"]]))
        more["feature_attention_mask"] = torch.ones(
            (used["audio"], more["input_features"].shape[-1]), dtype=torch.long
        )
    model.model.rope_deltas = None
    found = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, **more)
    return np.asarray(found.logits[0].numpy())


# -- images of one size ---------------------------------------------------------------------------------------


def _stills(case: Case) -> dict[str, list[np.ndarray]]:
    made = np.random.default_rng(12)
    return {"image": list(made.standard_normal((MOST, 1, 3, *case.size)).astype(np.float32))}


class _Intern(torch.nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Any) -> Any:
        config = self.model.config
        found = self.model.get_image_features(
            pixels, vision_feature_layer=config.vision_feature_layer,
            vision_feature_select_strategy=config.vision_feature_select_strategy,
        )  # fmt: skip
        return (found.pooler_output.reshape(-1, found.pooler_output.shape[-1]),)


class _Smol(torch.nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.vision, self.connector = model.vision_model, model.connector

    def forward(self, pixels: Any) -> Any:
        embeddings = self.vision.embeddings
        rows = (
            embeddings.patch_embedding(pixels).flatten(2).transpose(1, 2)
            + embeddings.position_embedding.weight
        )
        rows = self.vision.encoder(inputs_embeds=rows, attention_mask=None).last_hidden_state
        found = self.connector(self.vision.post_layernorm(rows))
        return (found.reshape(-1, found.shape[-1]),)


def _stills_whole(
    model: Any, case: Case, ids: Any, given: Any, used: dict[str, int], seconds: float
) -> np.ndarray:
    pixels = torch.tensor(np.concatenate(given["image"][: used["image"]]))
    pixels = pixels[None] if case.kind == "smolvlm" else pixels
    found = model(input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=pixels)
    return np.asarray(found.logits[0].numpy())


# -- audio ----------------------------------------------------------------------------------------------------


def _mel(case: Case, frames: int, key: str = "audio") -> dict[str, list[np.ndarray]]:
    made = np.random.default_rng(13)
    return {key: list(made.standard_normal((MOST, 1, 16, frames)).astype(np.float32))}


class _Whisper(torch.nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.tower, self.projector = model.audio_tower, model.multi_modal_projector

    def forward(self, features: Any) -> Any:
        return (self.projector(self.tower(features).last_hidden_state)[0],)


def _audio_whole(
    model: Any, case: Case, ids: Any, given: Any, used: dict[str, int], seconds: float
) -> np.ndarray:
    features = torch.tensor(np.concatenate(given["audio"][: used["audio"]]))
    mask = torch.ones((used["audio"], features.shape[-1]), dtype=torch.long)
    found = model(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        input_features=features,
        feature_attention_mask=mask,
        use_cache=False,
    )
    return np.asarray(found.logits[0].numpy())


class _OmniAudio(torch.nn.Module):
    """One window of audio (40 frames), which no other has a say in."""

    def __init__(self, tower: Any) -> None:
        super().__init__()
        self.tower = tower

    def forward(self, features: Any) -> Any:
        tower, gelu = self.tower, torch.nn.functional.gelu
        rows = gelu(tower.conv2(gelu(tower.conv1(features))))[0].T
        rows = rows + tower.positional_embedding.positional_embedding[: len(rows)]
        for layer in tower.layers:
            rows = layer(
                rows, cu_seqlens=torch.tensor([0, len(rows)], dtype=torch.int32), max_seqlen=len(rows)
            )[0]
        rows = (rows[0::2] + rows[1::2]) / 2
        return (tower.proj(tower.ln_post(rows)),)


def _omni(model: Any, case: Case) -> Parts:
    audio, given = _OmniAudio(model.model.audio_tower).eval(), torch.tensor(_mel(case, 40)["audio"][0])
    wanted = model.model.audio_tower(given[0], feature_lens=torch.tensor([40])).last_hidden_state
    assert (audio(given)[0] - wanted).abs().max() < 1e-4, (
        "the audio encoder in one window is not that of the model"
    )
    return {**_visual(model, case), "audio": audio}


def _rows(case: Case) -> dict[str, list[np.ndarray]]:
    made = np.random.default_rng(14)
    return {"image": list(made.standard_normal((MOST, case.tokens, 64)).astype(np.float32))}


class _Same(torch.nn.Module):
    def forward(self, rows: Any) -> Any:
        return (rows,)


_QWEN = (_patches, _visual, _qwen_whole)
ENCODERS = {
    "qwen2_vl": Encoder(transformers.Qwen2VLForConditionalGeneration, *_QWEN),
    "qwen2_5_vl": Encoder(transformers.Qwen2_5_VLForConditionalGeneration, *_QWEN),
    "qwen3_vl": Encoder(transformers.Qwen3VLForConditionalGeneration, *_QWEN),
    "qwen3_5": Encoder(transformers.Qwen3_5ForConditionalGeneration, *_QWEN),
    "qwen2_5_omni_thinker": Encoder(
        transformers.Qwen2_5OmniThinkerForConditionalGeneration, lambda case: {**_patches(case), **_mel(case, 40)}, _omni,
        _qwen_whole,
    ),
    "internvl": Encoder(
        transformers.InternVLForConditionalGeneration, _stills, lambda model, case: {"image": _Intern(model.model).eval()},
        _stills_whole,
    ),
    "smolvlm": Encoder(
        transformers.SmolVLMForConditionalGeneration, _stills, lambda model, case: {"image": _Smol(model.model).eval()},
        _stills_whole,
    ),
    "qwen2_audio": Encoder(
        transformers.Qwen2AudioForConditionalGeneration, lambda case: _mel(case, 80),
        lambda model, case: {"audio": _Whisper(model.model).eval()}, _audio_whole,
    ),
    "minicpmv": Encoder(transformers.AutoModelForCausalLM, _rows, lambda model, case: {"image": _Same()}, None),
}  # fmt: skip
