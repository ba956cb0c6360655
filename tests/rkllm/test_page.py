"""The table of versions in docs/rkllm.md, against what sessions on the double of each version do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_rkllm.abi.revisions import REVISIONS

from rknnlite.errors import RknnError
from rknnlite.spi.llm import (
    EmbedInput,
    ImageBlock,
    InferParams,
    LlmCallbacks,
    LlmParams,
    MultimodalInput,
    PromptInput,
    SamplingParams,
    TokenInput,
    VideoBlock,
    VocabInfo,
)
from tests.rkllm.conftest import Heard, Opener, talking

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "rkllm.md").read_text(encoding="utf-8")
TAGS = ("<s>", "<e>", "<p>")
FEW = InferParams(max_new_tokens=2)
TOOLS = '[{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]'
ROW = np.ones((4, 8), np.float32)


def ids(open_: Any, folder: Path) -> None:
    heard = Heard()
    talking(open_(), heard).run(PromptInput("ab"), FEW)
    if heard.tokens != [97, 98]:
        raise RknnError("no ids; 1.0.1 has them")


def run(given: Any, **options: Any) -> Callable[..., None]:
    return lambda open_, folder: (talking(open_(**options)).run(given, FEW), None)[1]


def output(index: int) -> Callable[..., None]:
    calls = LlmCallbacks(output=lambda outputs, state: None, outputs=(index,))
    return lambda open_, folder: (open_().session(LlmParams(), calls).run(PromptInput("ab"), FEW), None)[1]


def adapter(open_: Any, folder: Path) -> None:
    (folder / "a.rkllm").write_bytes(b"x")
    talking(open_()).load_lora(folder / "a.rkllm", "a")


def cache(open_: Any, folder: Path) -> None:
    session = talking(open_())
    session.save_prompt_cache(folder / "c")
    session.run(PromptInput("ab"), FEW)
    session.load_prompt_cache(folder / "c")


def counted(open_: Any, folder: Path) -> None:
    session = talking(open_())
    session.run(PromptInput("ab"), FEW)
    if session.state().n_total_tokens < 0:
        raise RknnError("no count; 1.2.1 has it")


def another_sampling(open_: Any, folder: Path) -> None:
    talking(open_()).set_llm_param(LlmParams(sampling=SamplingParams(top_k=7)))


def images(count: int) -> Any:
    image = ImageBlock(ROW, 4 // count, count, *TAGS)
    return MultimodalInput("<image>" * count, image=image)


VIDEO = MultimodalInput("<video>", video=VideoBlock(ROW, 2, 2, 1, *TAGS))
KEEP = InferParams(max_new_tokens=2, keep_history=True)
ASKED: dict[str, list[Callable[..., None]]] = {
    "token ids in results": [ids],
    "tokens, embeddings, one image, LoRA, prompt cache": [
        run(TokenInput([1, 2])), run(EmbedInput(ROW)), run(images(1), image_tags=TAGS), adapter, cache,
    ],
    "hidden states": [output(1)],
    "logits, the library's own history, CPUs": [
        output(0), lambda open_, folder: (talking(open_()).run(TokenInput([1]), KEEP), None)[1], run(PromptInput("a"), cpus=0xF0),
    ],
    "several images": [run(images(2), image_tags=TAGS)],
    "roles, thinking, tools by its template, batches, cross attention, tokens in the cache": [
        run(PromptInput("a", enable_thinking=True)),
        lambda open_, folder: talking(open_()).set_function_tools(TOOLS),
        lambda open_, folder: (talking(open_(n_batch=2)).run_batch([PromptInput("a")] * 2, FEW), None)[1],
        lambda open_, folder: (open_(cross_attention=True).session(), None)[1], counted,
    ],
    "sampling of each run, `ignore_eos_token`, video": [
        another_sampling, run(VIDEO, image_tags=TAGS),
        lambda open_, folder: (open_().session(LlmParams(vocab=VocabInfo(ignore_eos_token=True))), None)[1],
    ],
}  # fmt: skip


def rows() -> dict[str, list[str]]:
    table = PAGE.partition("| | 1.0.0 |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {name: rest for name, *rest in cells}


def test_the_table_has_no_other_rows() -> None:
    assert set(rows()) == {*ASKED, "`stop`"}


@pytest.mark.parametrize("version", REVISIONS)
@pytest.mark.parametrize("row", ASKED)
def test_a_version_does_what_the_page_says_or_refuses_it_with_the_version_that_does(
    row: str, version: str, opened: Opener, tmp_path: Path
) -> None:
    number = list(REVISIONS).index(version)
    has = rows()[row][number] == "yes"
    first = REVISIONS[list(REVISIONS)[rows()[row].index("yes")]].name
    for ask in ASKED[row]:
        if has:
            ask(lambda **options: opened(version, in_process=True, **options), tmp_path)
            continue
        with pytest.raises(RknnError) as refused:
            ask(lambda **options: opened(version, in_process=True, **options), tmp_path)
        named = re.findall(r"\b1\.\d(?:\.\d)?(?:b1)?\b", str(refused.value))
        needed = {first, first[:-2]} | ({"1.1"} if "takes text alone" in str(refused.value) else set())
        assert needed & set(named), str(refused.value)
