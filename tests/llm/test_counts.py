"""Counts of a config.json are held against the tensors beside it before anything goes through them one by one."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from rknnlite_llm import export_llm
from rknnlite_llm.hf_folder import check_counts

from rknnlite.errors import ModelInvalid

TRAINED = Path(__file__).parents[2] / "examples" / "llm_chat" / "trained"
CONFIG = json.loads((TRAINED / "config.json").read_text())
COUNTS = [
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "hidden_size",
    "vocab_size",
    "intermediate_size",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(TRAINED, tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("value", [2**31, 2**31 - 1, 10**30])
@pytest.mark.parametrize("key", COUNTS)
def test_a_count_beyond_the_tensors(key: str, value: int, folder: Path, tmp_path: Path) -> None:
    (folder / "config.json").write_text(json.dumps({**CONFIG, key: value}))
    with pytest.raises(ModelInvalid, match=rf"config\.json: {key} is {value}, the \*\.safetensors have \d+ "):
        export_llm(folder, str(tmp_path / "out"))
    assert not list(tmp_path.glob("out*"))


def test_parts_of_a_configuration_are_looked_at(folder: Path) -> None:
    check_counts({**CONFIG, "max_window_layers": 10**6, "text_config": {"num_hidden_layers": 2}}, folder)
    with pytest.raises(ModelInvalid, match="num_local_experts is 1000000000"):
        check_counts({"text_config": {"num_local_experts": 10**9}}, folder)
    with pytest.raises(ModelInvalid, match=r"depth is 5000, .* have \d+ tensors"):
        check_counts({"vision_config": {"depth": 5000}}, folder)


VALUES = [2**31, 10**18, 10**400, -1, 0, 1.5, 1e308, float("nan"), float("inf"), "x", [], {}, True]


NUMBERS = ("max_position_embeddings", "rms_norm_eps")


@pytest.mark.parametrize(
    "key", [key if key in NUMBERS else pytest.param(key, marks=pytest.mark.slow) for key in sorted(CONFIG)]
)
def test_no_value_of_a_field_is_more_than_an_error(key: str, folder: Path, tmp_path: Path) -> None:
    """It is taken, where it changes no number of an answer, or refused with an error of ours."""
    for number, value in enumerate(VALUES):
        (folder / "config.json").write_text(json.dumps({**CONFIG, key: value}))
        with suppress(ModelInvalid):  # ModelUnsupported is one
            export_llm(folder, str(tmp_path / f"out{number}"))
