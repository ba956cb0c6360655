"""Vision towers written as ONNX, and whole models from a picture to text, against what transformers says (stored answers)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from rknnlite_llm import Chat, export_llm
from rknnlite_llm.towers import Vision, VisionEncoder, VisionSettings, export_vision, has_tower, vision_path
from rknnlite_llm.towers.geometry import merged_places, resampled, windows

from rknnlite.errors import InputInvalid, ModelInvalid, ModelUnsupported, ParamInvalid
from rknnlite.spi.llm import InferParams, PromptInput
from tests.llm.vision_goldens import KEPT, WHOLE, write_resampler, write_whole

pytest.importorskip("onnxruntime", reason="needs the package onnxruntime (extra fast)")
pytest.importorskip("onnx", reason="needs the package onnx (extra fast)")
pytest.importorskip("jinja2", reason="needs the package jinja2 (extra llm)")
Image = pytest.importorskip("PIL.Image", reason="needs the package Pillow (extra pictures)")

BY_NAME = {case.name: case for case in WHOLE}
FORMS = [
    (name, form)
    for name, case in BY_NAME.items()
    for form in ("patches", "pixels")
    if form == "pixels" or "merge_size" in case.extra["processor"]
]
QUESTION = "What is this?"


def exported(
    name: str, folder: Path, form: str | None = None, **more: object
) -> tuple[dict[str, np.ndarray], Path]:
    """The golden and the prefix of a package with its tower."""
    golden = write_whole(name, folder / "hf")
    export_llm(folder / "hf", folder / "p", weights="f32")
    export_vision(folder / "hf", folder / "p", Vision(BY_NAME[name].size, form, **more))
    return golden, folder / "p"


def answer(prefix: Path, picture: Path, turns: int = 1) -> tuple[list[str], list[int]]:
    """Answers to the question about a picture, asked once or again, and how many tokens were in the cache already."""
    content = [{"type": "image"}, {"type": "text", "text": QUESTION}]
    with VisionEncoder(prefix) as encoder:
        image, aux = encoder.images([picture])
    said, cached = [], []
    with Chat(prefix, backend="cpu") as chat:
        for _ in range(turns):
            messages = [{"role": "user", "content": content}]
            said.append("".join(chat.stream(messages, 16, image=image, aux=aux)))
            cached.append(chat.last.n_cached_tokens)
    return said, cached


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_a_tower_gives_what_transformers_gives(name: str, form: str, tmp_path: Path) -> None:
    import onnxruntime

    golden, prefix = exported(name, tmp_path, form)
    session = onnxruntime.InferenceSession(str(vision_path(prefix, "onnx")))
    outputs = 1 + BY_NAME[name].deepstack
    assert [one.name for one in session.get_outputs()] == [
        "embeds",
        *(f"deepstack_{i}" for i in range(outputs - 1)),
    ]
    with VisionEncoder(prefix) as encoder:
        found = encoder.encode([tmp_path / "hf" / "picture.png"])
        given = encoder._input(np.asarray(Image.open(tmp_path / "hf" / "picture.png"))[None])
    exact = session.run(None, {form: given})
    for number in range(outputs):
        wanted = golden[f"float{number}"]
        assert np.abs(exact[number][:, :KEPT] - wanted).max() < 1e-4
        assert np.abs(found[number][0, :, :KEPT] - wanted).max() < 1e-2  # float16


@pytest.mark.parametrize("name", list(BY_NAME))
def test_a_whole_model_says_what_transformers_says(name: str, tmp_path: Path) -> None:
    """From a picture to text; asked again, all but the last token is in the cache."""
    golden, prefix = exported(name, tmp_path)
    with Chat(prefix, backend="cpu") as chat:
        assert chat.tokenizer is not None
        wanted = chat.tokenizer.decode(golden["answer"].tolist())
    said, cached = answer(prefix, tmp_path / "hf" / "picture.png", turns=2)
    assert said == [wanted, wanted]
    assert cached == [0, len(golden["ids"]) - 1]


def test_a_system_prompt_that_is_in_the_cache_is_told(tmp_path: Path) -> None:
    """A second run prefills fewer tokens, for the system prompt stays where it is."""
    _, prefix = exported("qwen2.5-vl", tmp_path)
    with Chat(prefix, backend="cpu") as chat:
        chat.session.set_chat_template(
            "<|im_start|>system\nBe brief.<|im_end|>\n", "<|im_start|>user\n", "<|im_end|>\n"
        )
        infer = InferParams(max_new_tokens=3, keep_history=False)
        first, second = (chat.session.run(PromptInput(QUESTION), infer) for _ in range(2))
    assert first.n_cached_tokens == 0
    assert second.n_cached_tokens == first.n_prefill_tokens - second.n_prefill_tokens > 0


def test_the_settings_are_those_of_the_processor(tmp_path: Path) -> None:
    _, prefix = exported("qwen2.5-vl", tmp_path)
    found = VisionSettings.read(vision_path(prefix, "json"))
    assert (found.form, found.height, found.width, found.patch, found.frames, found.merge) == (
        "patches",
        48,
        32,
        4,
        2,
        2,
    )
    assert (found.tokens, found.deepstack) == (24, 0)
    assert found.mean == (0.48145466, 0.4578275, 0.40821073)
    assert (found.start, found.end, found.image, found.video) == (
        "<|vision_start|>",
        "<|vision_end|>",
        "<|image_pad|>",
        "<|video_pad|>",
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tokens", 0),
        ("tokens", 1 << 40),
        ("std", [0, 1, 1]),
        ("mean", "x"),
        ("form", "other"),
        ("image", None),
        ("width", 3.5),
    ],
)
def test_damaged_settings_are_refused_by_name(key: str, value: object, tmp_path: Path) -> None:
    _, prefix = exported("qwen2.5-vl", tmp_path)
    path = vision_path(prefix, "json")
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(ModelInvalid, match=key):
        VisionEncoder(prefix)
    path.write_text("[]")
    with pytest.raises(ModelInvalid, match="no JSON object"):
        VisionEncoder(prefix)


@pytest.mark.parametrize(
    ("vision", "match"),
    [
        (Vision((50, 32)), "height of 50 pixels is no multiple of 8"),
        (Vision((48, 0)), "width of 0 pixels"),
        (Vision((8000, 8000)), "8192 are possible"),
        (Vision(form="other"), "form is 'other'"),
    ],
)
def test_sizes_that_cannot_be_are_refused(vision: Vision, match: str, tmp_path: Path) -> None:
    write_whole("qwen2.5-vl", tmp_path / "hf")
    with pytest.raises(ParamInvalid, match=match):
        export_vision(tmp_path / "hf", tmp_path / "p", vision)
    assert not vision_path(tmp_path / "p", "onnx").exists()


@pytest.mark.parametrize(
    ("key", "value", "error", "match"),
    [
        ("depth", 3, ModelInvalid, "no tensor visual.blocks.2.norm1.weight"),
        ("depth", 1 << 15, ModelInvalid, "depth is 32768"),
        ("num_heads", 5, ModelUnsupported, "32 channels in 5 heads"),
        ("hidden_act", "mish", ModelUnsupported, "hidden_act of the vision tower is 'mish'"),
        ("fullatt_block_indexes", "all", ModelInvalid, "fullatt_block_indexes"),
        ("patch_size", [4, 5], ModelInvalid, "patch_size"),
        ("temporal_patch_size", 3, ModelInvalid, "do not fit its config.json"),
        ("spatial_merge_size", 4, ModelInvalid, "do not fit its config.json"),
    ],
)
def test_a_config_that_lies_is_refused(
    key: str, value: object, error: type[Exception], match: str, tmp_path: Path
) -> None:
    write_whole("qwen2.5-vl", tmp_path / "hf")
    path = tmp_path / "hf" / "config.json"
    config = json.loads(path.read_text())
    config["vision_config"][key] = value
    path.write_text(json.dumps(config))
    with pytest.raises(error, match=match):
        export_vision(tmp_path / "hf", tmp_path / "p", Vision((48, 32)))
    assert not list(tmp_path.glob("p.vision.*"))


def test_a_folder_without_a_tower_says_so(tmp_path: Path) -> None:
    write_whole("internvl3", tmp_path / "hf")
    assert has_tower(tmp_path / "hf")
    path = tmp_path / "hf" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_type": "qwen2"}))
    assert not has_tower(tmp_path / "hf")
    with pytest.raises(ModelUnsupported, match="no vision tower that is known"):
        export_vision(tmp_path / "hf", tmp_path / "p")
    with pytest.raises(InputInvalid, match="has no vision tower"):
        VisionEncoder(tmp_path / "p")


def test_a_converted_tower_of_an_earlier_export_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_whole("tiny-qwen2.5-vl", tmp_path / "hf")
    monkeypatch.chdir(tmp_path)
    vision_path("p", "rknn").touch()
    files = export_vision("hf", "p", Vision((16, 16)))
    assert sorted(path.name for path in Path().glob("p.vision.*")) == sorted(path.name for path in files)
    assert len(files) == 3


def test_a_tower_of_pixels_sees_no_video(tmp_path: Path) -> None:
    _, prefix = exported("qwen3-vl", tmp_path, "pixels")
    with VisionEncoder(prefix) as encoder, pytest.raises(InputInvalid, match="one picture at a time"):
        encoder.encode_pixels(np.zeros((1, 2, 48, 32, 3), np.uint8))


def test_rows_that_ask_the_patches(tmp_path: Path) -> None:
    """MiniCPM-V's resampler: as many tokens for any picture, on a grid that is no square."""
    import onnxruntime

    golden, pixels = write_resampler(tmp_path / "hf")
    onnx, *_ = export_vision(tmp_path / "hf", tmp_path / "p", Vision((20, 28)))
    (found,) = onnxruntime.InferenceSession(str(onnx)).run(None, {"pixels": pixels})
    assert np.abs(found[:, :KEPT] - golden["float0"]).max() < 1e-4
    settings = VisionSettings.read(vision_path(tmp_path / "p", "json"))
    assert (settings.tokens, settings.image) == (8, "<unk>")
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    config["vision_config"]["num_attention_heads"] = 5
    (tmp_path / "hf" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelUnsupported, match="32 channels in 5 heads"):
        export_vision(tmp_path / "hf", tmp_path / "p", Vision((20, 28)))


def test_neighbours_stand_together() -> None:
    assert merged_places(4, 4, 2)[:, :5].tolist() == [[0, 0, 1, 1, 0], [0, 1, 0, 1, 2]]
    same = windows(merged_places(4, 6, 2), 4) == 0
    assert same.sum(axis=1).tolist() == [16] * 8 + [8] * 4 + [16] * 0 + [16] * 0 + [16] * 8 + [8] * 4


@pytest.mark.parametrize("how", ["bilinear", "bicubic"])
def test_a_table_of_positions_fits_another_grid(how: str) -> None:
    table = np.arange(16, dtype=np.float32)[:, None]
    places = merged_places(4, 4, 1)
    assert resampled(table, places, 4, 4, how)[:, 0].tolist() == list(range(16))
    wide = resampled(table, merged_places(7, 7, 1), 7, 7, how)[:, 0].reshape(7, 7)
    assert np.allclose(wide + wide[::-1, ::-1], 15, atol=1e-4)


def test_the_nearest_position_is_that_of_the_share_of_the_picture() -> None:
    table = np.arange(16, dtype=np.float32)[:, None]
    assert resampled(table, merged_places(4, 4, 1), 4, 4, "nearest")[:, 0].tolist() == list(range(16))
    assert resampled(table, merged_places(2, 2, 1), 2, 2, "nearest")[:, 0].tolist() == [0, 2, 8, 10]
    wide = resampled(table, merged_places(1, 8, 1), 1, 8, "nearest")[:, 0]
    assert wide.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.skipif(
    "RKNNLITE_TOOLKIT_PYTHON" not in os.environ, reason="needs the vendor's toolkit: RKNNLITE_TOOLKIT_PYTHON"
)
@pytest.mark.parametrize(("name", "form"), FORMS)
def test_a_converted_tower_leads_to_the_same_text(name: str, form: str, tmp_path: Path) -> None:
    golden, prefix = exported(name, tmp_path, form, toolkit=Path(os.environ["RKNNLITE_TOOLKIT_PYTHON"]))
    assert vision_path(prefix, "rknn").is_file()
    with Chat(prefix, backend="cpu") as chat:
        assert chat.tokenizer is not None
        wanted = chat.tokenizer.decode(golden["answer"].tolist())
    assert answer(prefix, tmp_path / "hf" / "picture.png")[0] == [wanted]
