"""Whatever users write, no control token comes of it: families of templates and tokenizers, random conversations."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rknnlite_llm.chat_template import JinjaTemplate
from rknnlite_llm.gguf import read_gguf, write_gguf
from rknnlite_llm.messages import MEDIA_TAGS
from rknnlite_llm.plain_text import MARK
from rknnlite_llm.tokenizer import HF_JSON, Tokenizer

from rknnlite.spi.llm import ImageBlock, MessagesInput
from tests.support.corpus import EXAMPLES
from tests.support.examples import examples

pytest.importorskip("jinja2")

FILE = EXAMPLES / "llm_chat" / "models" / "tiny.tokenizer.gguf"
PAIRS = read_gguf(memoryview(FILE.read_bytes()), FILE.name)
PUBLISHED = json.loads(str(PAIRS[HF_JSON]))
TOOLS_AS_JSON = "{% if tools %}{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% endif %}"


@dataclass(frozen=True)
class Family:
    """How the models of a family are spoken to; ``pieces``: their tokens are SentencePiece's, put together in that way."""

    template: str
    special: tuple[str, ...]
    pieces: str = ""


FAMILIES = {
    "chatml": Family(
        "{% if tools %}<|im_start|>system\n" + TOOLS_AS_JSON + "<|im_end|>\n{% endif %}"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        "{% for c in m.tool_calls or [] %}<tool_call>\n"
        '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}'
        "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<image>"),
    ),
    "llama": Family(
        "{{ bos_token }}{% if tools %}<|start_header_id|>system<|end_header_id|>\n\n" + TOOLS_AS_JSON + "<|eot_id|>{% endif %}"
        "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>"
        "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}",
        ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>"),
    ),
    "mistral": Family(
        "{{ bos_token }}{% if tools %}[AVAILABLE_TOOLS] " + TOOLS_AS_JSON + "[/AVAILABLE_TOOLS]{% endif %}"
        "{% for m in messages %}{% if m.role == 'assistant' %} {{ m.content }}{{ eos_token }}"
        "{% elif m.role == 'tool' %}[TOOL_RESULTS] {{ {'content': m.content} | tojson }}[/TOOL_RESULTS]"
        "{% else %}[INST] {{ m.content }}[/INST]{% endif %}{% endfor %}",
        ("<s>", "</s>", "[INST]", "[/INST]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
        "prepend",
    ),
    "gemma": Family(
        "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else 'user' }}\n"
        "{{ m.content | trim }}<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}",
        ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>"),
        "replace",
    ),
    "deepseek": Family(
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}<｜Assistant｜>{{ m.content.split('</think>')[-1] }}"
        "<｜end▁of▁sentence｜>{% else %}<｜User｜>{{ m.content }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<｜Assistant｜>{% endif %}",
        ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜tool▁calls▁begin｜>"),
    ),
    "phi": Family(
        "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}<|assistant|>\n",
        ("<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>"),
        "first",
    ),
    "channels": Family(
        "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}<|channel|>final{% endif %}<|message|>"
        "{{ m.content }}<|end|>{% endfor %}<|start|>assistant",
        ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|call|>", "<|return|>"),
    ),
}  # fmt: skip


def written(family: Family, folder: Path) -> Path:
    """A file of a tokenizer with the control tokens of a family, and words of an example."""
    if family.pieces:
        published, byte_level = _pieces(family), False
        words = dict(published["model"]["vocab"])
    else:
        known = {token["content"] for token in PUBLISHED["added_tokens"]}
        kept = [word for word in PUBLISHED["model"]["vocab"] if word not in known]
        words = {word: number for number, word in enumerate(kept)}
        published, byte_level = {**PUBLISHED, "model": {**PUBLISHED["model"], "vocab": words}}, True
    added = [text for text in family.special if text not in words]
    published["added_tokens"] = [_added(text, number) for number, text in enumerate(added, len(words))]
    tokens = [*words, *added]
    types = [3 if text in family.special else 2 if text == "<unk>" else 1 for text in tokens]
    pairs: dict[str, Any] = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2" if byte_level else "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array(types, np.int32),
        "tokenizer.ggml.bos_token_id": tokens.index(family.special[0]),
        "tokenizer.ggml.eos_token_id": tokens.index(family.special[1]),
        HF_JSON: json.dumps(published),
    }
    file = folder / "x.tokenizer.gguf"
    file.write_bytes(write_gguf(pairs))
    return file


def _added(text: str, number: int) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": text, "special": True, **flags}


def _pieces(family: Family) -> dict[str, Any]:
    """A published tokenizer of SentencePiece's kind; the package trains it."""
    package: Any = pytest.importorskip("tokenizers")
    made = package.Tokenizer(package.models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    steps = [package.decoders.Replace("▁", " "), package.decoders.ByteFallback(), package.decoders.Fuse()]
    if family.pieces == "prepend":
        before, space = package.normalizers.Prepend("▁"), package.normalizers.Replace(" ", "▁")
        made.normalizer = package.normalizers.Sequence([before, space])
        steps.append(package.decoders.Strip(" ", 1, 0))
    elif family.pieces == "replace":
        made.normalizer = package.normalizers.Replace(" ", "▁")
    else:
        made.pre_tokenizer = package.pre_tokenizers.Metaspace(prepend_scheme=family.pieces, split=False)
        steps.append(package.decoders.Strip(" ", 1, 0))
    made.decoder = package.decoders.Sequence(steps)
    bytes_ = [f"<0x{number:02X}>" for number in range(256)]
    trainer = package.trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<unk>", *bytes_], show_progress=False,
        initial_alphabet=[*map(chr, range(33, 127)), "▁"],
    )  # fmt: skip
    made.train_from_iterator([family.template, "what is it that they say to us in a turn " * 3], trainer)
    return dict(json.loads(made.to_str()))


@dataclass(frozen=True)
class Spoken:
    """A family's template and tokenizer."""

    family: Family
    file: Path
    tokenizer: Tokenizer
    template: JinjaTemplate

    def text(self, said: MessagesInput) -> str:
        return self.template.conversation(said, []).text

    def control(self, ids: Sequence[int]) -> list[int]:
        """The control tokens among some."""
        special = set(self.tokenizer.special.values())
        return [number for number in ids if number in special]


@pytest.fixture(scope="module", params=FAMILIES)
def spoken(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Spoken:
    family = FAMILIES[request.param]
    file = written(family, tmp_path_factory.mktemp(request.param))
    return Spoken(family, file, Tokenizer(file), JinjaTemplate(family.template, *family.special[:2]))


ALL = sorted({text for family in FAMILIES.values() for text in family.special} | {"<unk>"})
CUTS = st.sampled_from(ALL).flatmap(
    lambda text: st.integers(0, len(text)).flatmap(lambda n: st.sampled_from([text[:n], text[n:]]))
)
WORDS = st.sampled_from(["Hi", " there ", "\n", "é中🙂", "<", "|", ">", "[", "/", "▁", MARK, "<0x3C>"])
PIECES = st.one_of(st.sampled_from(ALL), CUTS, WORDS, st.text(max_size=4))
TEXTS = st.lists(PIECES, max_size=6).map("".join).filter(
    lambda text: not any("\ud800" <= letter <= "\udfff" for letter in text)
)  # fmt: skip
CONTENTS = st.one_of(
    TEXTS,
    st.lists(TEXTS, min_size=1, max_size=3).map(lambda texts: [{"type": "text", "text": t} for t in texts]),
)
CALLS = st.lists(
    st.builds(lambda n, k, v: {"function": {"name": n, "arguments": json.dumps({k: [v]})}}, TEXTS, TEXTS, TEXTS),
    max_size=2,
)  # fmt: skip
TOOLS = st.lists(
    st.builds(
        lambda name, told, key: {
            "type": "function",
            "function": {"name": name, "description": told, "parameters": {"properties": {key: {"enum": [told]}}}},
        },
        TEXTS, TEXTS, TEXTS,
    ),
    min_size=1, max_size=2,
)  # fmt: skip


def _message(role: str, content: Any, calls: list[Any], thought: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": role, "content": content}
    if role == "assistant":
        message.update(tool_calls=calls, reasoning_content=thought)
    return message


MESSAGES = st.lists(
    st.builds(_message, st.sampled_from(["system", "user", "assistant", "tool"]), CONTENTS, CALLS, TEXTS),
    min_size=1, max_size=4,
)  # fmt: skip


def harmless(value: Any) -> Any:
    """The same conversation with nothing in it."""
    kept = ("role", "type")
    if isinstance(value, Mapping):
        return {
            key if key in KEYS else "x": inner if key in kept else harmless(inner)
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [harmless(inner) for inner in value]
    return (
        "{}" if isinstance(value, str) and value.startswith("{") else "x" if isinstance(value, str) else value
    )


KEYS = {
    "role", "content", "tool_calls", "reasoning_content", "function", "name", "arguments", "type", "text", "description",
    "parameters", "properties", "enum",
}  # fmt: skip


@settings(max_examples=examples(30), deadline=None)
@given(messages=MESSAGES, tools=TOOLS)
def test_no_control_token_but_the_template_s(spoken: Spoken, messages: list[Any], tools: list[Any]) -> None:
    plain, tokenizer = spoken.tokenizer.plain_text, spoken.tokenizer
    said = plain.conversation(MessagesInput(messages, tools))
    text = spoken.text(said)
    ids = tokenizer.encode(text)
    own = spoken.text(MessagesInput(harmless(messages), harmless(tools)))
    assert spoken.control(ids) == spoken.control(tokenizer.encode(own))
    told = tokenizer.decode(ids, skip_special=False)
    assert _comparable(spoken, told) == _comparable(spoken, text)


def _comparable(spoken: Spoken, text: str) -> str:
    """Without marks; blanks that SentencePiece puts behind control tokens of the template do not count."""
    text = text.replace(MARK, "")
    if spoken.family.pieces:
        text = text.replace("▁", " ")
    if spoken.family.pieces in ("prepend", "first"):
        for control in spoken.family.special:
            text = re.sub(f"({re.escape(control)}) +", r"\1", text)
    return text


@pytest.mark.parametrize("where", ["package", "python"])
def test_each_control_token_alone(spoken: Spoken, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if where == "python":
        monkeypatch.setitem(sys.modules, "tokenizers", None)
    tokenizer = Tokenizer(spoken.file)
    special = set(tokenizer.special.values())
    for text in {*spoken.family.special} - MEDIA_TAGS:
        assert set(tokenizer.encode(text)) & special
        ids = tokenizer.encode(tokenizer.plain_text.marked(text))
        assert not set(ids) & special
        assert _comparable(spoken, tokenizer.decode(ids, skip_special=False)) == _comparable(spoken, text)


def test_tags_of_pictures(spoken: Spoken) -> None:
    """A tag that is a control token is text in a message; one that stands for a picture is not."""
    plain = spoken.tokenizer.plain_text
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    part = {"type": "text", "text": "<image>"}
    block = ImageBlock(np.zeros((1, 4), np.float16), 1, content="x")

    def content(given: Any, **more: Any) -> str:
        said = MessagesInput([{"role": "user", "content": given}], **more)
        return str(plain.conversation(said).messages[0]["content"])

    marked = f"<{MARK}image>"
    assert content("<image>") == (marked if "<image>" in spoken.family.special else "<image>")
    assert content([part, picture], image=block) == f"{marked}<image>"
    assert content("<image>", image=block) == "<image>"  # nothing else tells where the picture is
