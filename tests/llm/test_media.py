"""Language models with images, videos and audio against what transformers computes of small random models (stored answers)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_cpu.llm.speculation import Lookup
from rknnlite_llm import EmbedTable, Package, export_llm, open_llm
from rknnlite_llm.container.description import read_llm
from rknnlite_llm.hf_config import architecture

from rknnlite.errors import InputInvalid, ModelInvalid, ModelUnsupported
from rknnlite.formats import ModelFile
from rknnlite.spi.llm import (
    AudioBlock,
    AuxInput,
    ImageBlock,
    InferParams,
    LlmCallbacks,
    LlmContext,
    LlmInput,
    LlmParams,
    MultimodalInput,
    OutputState,
    SamplingParams,
    TokenInput,
    VideoBlock,
    VocabInfo,
)
from tests.llm.media_goldens import CASES, MARKERS, Case, Turn, write_model

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FIRST_MARKER, VOCAB = 150, 160
PARAMS = LlmParams(
    sampling=SamplingParams(logit_bias=tuple((token, -1e3) for token in range(FIRST_MARKER, VOCAB))),
    vocab=VocabInfo(ignore_eos_token=True),
)
SHOWN = (OutputState.PREFILL_FINISHED, OutputState.DECODE_PROCESSING)
BY_NAME = {case.name: case for case in CASES}


class Talk:
    """A session, and the logits of its last run."""

    def __init__(self, context: LlmContext, package: Package) -> None:
        self.logits: list[np.ndarray] = []
        self.accepted = 0
        table = EmbedTable(package.embed, context.config.vocab_size, context.config.embedding_dim)
        self.session = context.session(
            PARAMS,
            LlmCallbacks(
                tokenizer=lambda text: [MARKERS[text]], embed=table, output=self._show, outputs=(0,)
            ),
        )

    def _show(self, outputs: Sequence[Any], state: OutputState) -> None:
        if state in SHOWN:
            self.logits.append(outputs[0].data[0].copy())

    def run(self, inputs: list[LlmInput], count: int = 1, keep: bool = False) -> np.ndarray:
        self.logits.clear()
        summary = self.session.run(inputs, InferParams(max_new_tokens=count, keep_history=keep))
        self.accepted = summary.n_accepted_tokens
        return np.array(self.logits)


class Foreseen:
    """Guesses an answer that is known."""

    def __init__(self, answer: list[int]) -> None:
        self._answer = answer

    def guess(self, tokens: Sequence[int], count: int) -> list[int]:
        chosen = [k for k in range(1, len(self._answer) + 1) if list(tokens[-k:]) == self._answer[:k]]
        return self._answer[max(chosen) : max(chosen) + count] if chosen else []


class Said:
    """The turns of a conversation as inputs; what went before is counted."""

    def __init__(self, case: Case, golden: dict[str, np.ndarray]) -> None:
        self.case, self.golden = case, golden
        self.used = {"image": 0, "video": 0, "audio": 0}

    def inputs(self, turn: Turn, key: str) -> list[LlmInput]:
        tokens = self.golden[f"said{key}"].astype(np.int64)
        blocks: dict[str, Any] = {}
        further: list[tuple[int, list[np.ndarray]]] = []
        for kind in self.used:
            words = [part for part in turn.parts if part == kind or (kind, part) == ("video", "frames")]
            if words:
                blocks[kind], rows = self._block(kind, len(words), turn)
                further.append((turn.parts.index(words[0]), rows))
        ordered = [rows for _, rows in sorted(further, key=lambda one: one[0])]  # as they stand in the text
        aux = [AuxInput(2 + layer, np.concatenate(values)) for layer, values in enumerate(zip(*ordered))]
        return [MultimodalInput(tokens=tokens, **blocks), *aux] if blocks else [TokenInput(tokens)]

    def _block(self, kind: str, count: int, turn: Turn) -> tuple[Any, list[np.ndarray]]:
        pictures = 3 * count if kind == "video" else count
        part = slice(self.used[kind], self.used[kind] + pictures)
        self.used[kind] += pictures
        rows = [self.golden[f"{kind}{i}"][part] for i in range(4) if f"{kind}{i}" in self.golden]
        each, (height, width) = rows[0].shape[1], self.case.size
        block: dict[str, Any] = {
            "image": lambda: ImageBlock(
                rows[0], each, count, content="<image_pad>", width=width, height=height
            ),
            "video": lambda: VideoBlock(
                rows[0],
                each,
                3,
                count,
                content="<video_pad>",
                width=width,
                height=height,
                seconds=turn.seconds,
            ),
            "audio": lambda: AudioBlock(rows[0], each, count, content="<audio_pad>"),
        }
        return block[kind](), [values.reshape(-1, values.shape[-1]) for values in rows[1:]]


def exported(name: str, folder: Path) -> tuple[dict[str, np.ndarray], Package]:
    golden = write_model(name, folder / "hf")
    return golden, export_llm(folder / "hf", folder / "p", weights="f32")


@pytest.mark.parametrize("pieces", [7, 256])
@pytest.mark.parametrize("name", list(BY_NAME))
def test_a_model_with_media_says_what_transformers_says(name: str, pieces: int, tmp_path: Path) -> None:
    """Text and image, several images, video, audio, and turns with kept history, in one piece and in pieces."""
    case = BY_NAME[name]
    golden, package = exported(name, tmp_path)
    with open_llm(package.model, prefill_chunk=pieces) as context:
        for number, turns in enumerate(case.talks):
            talk, said = Talk(context, package), Said(case, golden)
            for step, turn in enumerate(turns):
                key = f"{number}.{step}"
                answer = golden[f"answer{key}"].tolist()
                logits = talk.run(said.inputs(turn, key), len(answer), keep=step > 0)
                assert logits[:, :FIRST_MARKER].argmax(axis=1).tolist() == answer, turn.name
                assert np.abs(logits[-1] - golden[f"logits{key}"]).max() < 2e-3, turn.name


@pytest.mark.parametrize("name", ["qwen2.5-vl", "qwen3-vl"])
def test_a_saved_conversation_goes_on_where_it_stood(name: str, tmp_path: Path) -> None:
    """Behind an image the next text stands nearer than its number."""
    case = BY_NAME[name]
    golden, package = exported(name, tmp_path)
    number = len(case.talks) - 1
    turns, said = case.talks[number], Said(case, golden)
    with open_llm(package.model) as context:
        talk, other = Talk(context, package), Talk(context, package)
        talk.run(said.inputs(turns[0], f"{number}.0"), 4)
        talk.session.save_kvcache(str(tmp_path / "kv"))
        other.session.load_kvcache(str(tmp_path / "kv"))
        logits = other.run(said.inputs(turns[1], f"{number}.1"), 4, keep=True)
    assert np.abs(logits[-1] - golden[f"logits{number}.1"]).max() < 2e-3


@pytest.mark.parametrize("name", list(BY_NAME))
def test_guessed_tokens_stand_where_others_would_behind_media(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position of a text behind images is not the number of its tokens."""
    case = BY_NAME[name]
    golden, package = exported(name, tmp_path)
    with open_llm(package.model) as context:
        for step in range(len(case.talks[0])):
            said, found = [], []
            for ahead in (0, 6):
                talk, given = Talk(context, package), Said(case, golden)
                for number, turn in enumerate(case.talks[0][: step + 1]):
                    last = number == step
                    talk.session.set_llm_param(replace(PARAMS, speculate=ahead if last else 0))
                    found = talk.run(given.inputs(turn, f"0.{number}"), 40 if last else 3, keep=number > 0)
                said.append(found[:, :FIRST_MARKER].argmax(axis=1).tolist())
                monkeypatch.setattr(Lookup, "guess", Foreseen(said[0]).guess)
            assert said[0] == said[1] and talk.accepted > 0


def test_the_same_picture_of_another_size_is_another_picture(tmp_path: Path) -> None:
    golden, package = exported("qwen2-vl", tmp_path)
    tokens, rows = golden["said0.0"].astype(np.int64), golden["image0"][:1]

    def given(width: int, height: int) -> MultimodalInput:
        return MultimodalInput(
            tokens=tokens,
            image=ImageBlock(rows, 24, content="<image_pad>", width=width, height=height),
        )

    with open_llm(package.model) as context:
        talk = Talk(context, package)
        wide, high = talk.run([given(48, 32)], 4), talk.run([given(32, 48)], 4)
        assert np.abs(high[-1] - golden["logits0.0"]).max() < 2e-3
        assert np.abs(wide[0] - high[0]).max() > 0.01
        for wrong in ((0, 0), (32, 32), (33, 48)):
            with pytest.raises(InputInvalid, match=f"image_width {wrong[0]} and image_height {wrong[1]}"):
                talk.run([given(*wrong)])


def test_rows_behind_layers_must_be_those_of_the_model(tmp_path: Path) -> None:
    golden, package = exported("qwen3-vl", tmp_path)
    case = BY_NAME["qwen3-vl"]
    main, *aux = Said(case, golden).inputs(case.talks[0][0], "0.0")
    with open_llm(package.model) as context:
        assert [attr.name for attr in context.inputs] == [
            "input_embeds",
            "position_ids",
            "deepstack_0",
            "deepstack_1",
            "deepstack_2",
        ]
        talk = Talk(context, package)
        for given, match in (
            ([main], r"needs the auxiliary inputs \[2, 3, 4\], each once, given are \[\]"),
            ([main, *aux[:2], aux[1]], r"given are \[2, 3, 3\]"),
            ([main, *aux, AuxInput(5, aux[0].data)], "no auxiliary input 5; it has 2 to 4"),
            ([TokenInput([5, 6]), aux[0]], "auxiliary input 2 belongs to images"),
            ([main, *aux[:2], AuxInput(4, np.zeros((3, 64), np.float16))], "auxiliary input 4 gave 3 rows"),
        ):
            with pytest.raises(InputInvalid, match=match):
                talk.run(given)
        halves = [AuxInput(one.index, one.data.astype(np.float16)[None]) for one in aux]
        assert np.abs(talk.run([main, *halves])[0] - talk.run([main, *aux])[0]).max() < 1e-2


@pytest.mark.parametrize("name", ["qwen2-vl", "qwen2.5-vl"])
def test_positions_are_an_input_that_follows_from_the_pictures(name: str, tmp_path: Path) -> None:
    _, package = exported(name, tmp_path)
    with open_llm(package.model) as context:
        assert [attr.name for attr in context.inputs] == ["input_embeds", "position_ids"]


def test_a_model_without_such_inputs_says_so(tmp_path: Path) -> None:
    golden, package = exported("internvl3", tmp_path)
    case = BY_NAME["internvl3"]
    inputs = Said(case, golden).inputs(case.talks[0][0], "0.0")
    with (
        open_llm(package.model) as context,
        pytest.raises(InputInvalid, match="no auxiliary input 2; it has none"),
    ):
        Talk(context, package).run([*inputs, AuxInput(2, np.zeros((16, 64), np.float16))])


def test_a_full_ring_goes_on_behind_an_image(tmp_path: Path) -> None:
    golden, package = exported("qwen2-vl", tmp_path)
    case = BY_NAME["qwen2-vl"]
    with open_llm(package.model) as context:
        talk = Talk(context, package)
        talk.session.set_llm_param(LlmParams(max_context_len=48, vocab=VocabInfo(ignore_eos_token=True)))
        talk.run(Said(case, golden).inputs(case.talks[0][0], "0.0"), 40)
        assert np.isfinite(talk.logits).all()


def test_the_last_token_of_an_answer_is_no_place_for_an_image(tmp_path: Path) -> None:
    """A model that says the marker itself: the next turn's image goes where the next turn has markers."""
    golden, package = exported("qwen2-vl", tmp_path)
    case = BY_NAME["qwen2-vl"]
    only = LlmParams(
        sampling=SamplingParams(logit_bias=((FIRST_MARKER, 1e3),)), vocab=VocabInfo(ignore_eos_token=True)
    )
    with open_llm(package.model) as context:
        talk, said = Talk(context, package), Said(case, golden)
        talk.session.set_llm_param(only)
        talk.run(said.inputs(case.talks[0][0], "0.0"), 2)
        assert np.isfinite(talk.run(said.inputs(case.talks[0][0], "0.0"), 2, keep=True)).all()


FLAT = {
    "model_type": "qwen2_5_vl", "hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36,
    "num_attention_heads": 16, "num_key_value_heads": 2, "max_position_embeddings": 128000, "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0, "vocab_size": 151936, "use_sliding_window": False, "sliding_window": 32768, "max_window_layers": 70,
    "tie_word_embeddings": True, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "image_token_id": 151655,
    "video_token_id": 151656, "vision_start_token_id": 151652, "vision_end_token_id": 151653, "vision_token_id": 151654,
    "vision_config": {"patch_size": 14, "spatial_merge_size": 2, "tokens_per_second": 2, "window_size": 112},
}  # fmt: skip


def test_files_that_have_no_object_for_their_language_part() -> None:
    """As Qwen2.5-VL was published."""
    arch = architecture(FLAT)
    assert (arch.family, arch.rope.sections, arch.rope.interleaved) == (
        "qwen2_5_vl_text",
        (16, 24, 24),
        False,
    )
    assert arch.media is not None
    assert (arch.media.cell, arch.media.step, arch.media.deepstack) == (28, 2.0, 0)


def test_files_whose_language_part_lies_two_objects_deep() -> None:
    text = {key: value for key, value in FLAT.items() if not key.startswith(("v", "image"))}
    text = {**text, "vocab_size": 152064, "model_type": "qwen2_5_omni_text"}
    thinker = {"text_config": text, "vision_config": {"patch_size": 14}, "position_id_per_seconds": 25}
    arch = architecture({"model_type": "qwen2_5_omni", "thinker_config": thinker, "talker_config": {}})
    assert arch.family == "qwen2_5_omni_text"
    assert arch.media is not None
    assert (arch.media.cell, arch.media.step) == (28, 25.0)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"rope_scaling": {"type": "mrope", "mrope_section": [16, 48]}}, "mrope_section"),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24], "mrope_interleaved": True}}, "mrope_interleaved"),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24], "mrope_new": 1}}, "mrope_new"),
        ({"a_new_field": 3}, "a_new_field is 3"),
        ({"vision_config": {"deepstack_visual_indexes": [3]}}, "deepstack_visual_indexes"),
        ({"model_type": "minicpmv", "version": 4.0}, "version is 4.0; computed here are MiniCPM-V 2.6 and 4.5"),
        ({"model_type": "qwen2_5_omni_talker"}, "the part of an omni model that speaks"),
        ({"model_type": "qwen4_vl"}, "there are qwen3_vl, qwen2_vl, .* and docs/llm-media.md"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_by_name(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(ModelUnsupported, match=match):
        architecture({**FLAT, **changes})


def test_a_package_says_what_it_needs_of_media(tmp_path: Path) -> None:
    golden, package = exported("qwen3-vl", tmp_path)
    arch = read_llm(ModelFile(package.model)).arch
    assert arch == architecture(json.loads(str(golden["config"])))
    assert arch.rope.sections == (4, 2, 2)
    assert arch.rope.interleaved
    assert int.from_bytes(package.model.read_bytes()[8:12], "little") == 2


def test_a_talker_is_named_where_it_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_model("qwen2.5-omni", tmp_path / "hf")
    path = tmp_path / "hf" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(
        json.dumps(
            {"model_type": "qwen2_5_omni", "thinker_config": config, "talker_config": {"hidden_size": 8}}
        )
    )
    export_llm(tmp_path / "hf", tmp_path / "p")
    assert "its talker, which speaks, is not exported" in caplog.text


def test_sections_that_are_not_those_of_a_head_are_refused(tmp_path: Path) -> None:
    write_model("qwen2-vl", tmp_path / "hf")
    path = tmp_path / "hf" / "config.json"
    config = json.loads(path.read_text())
    config["text_config"]["rope_parameters"]["mrope_section"] = [2, 3, 4]
    path.write_text(json.dumps(config))
    with pytest.raises(ModelInvalid, match=r"\(2, 3, 4\) pairs for time, height and width, a head has 8"):
        export_llm(tmp_path / "hf", tmp_path / "p")
