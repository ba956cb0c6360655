"""librkllmrt.so: which model stands for a ``.rkllm``, and models with images, adapters, or without a tokenizer."""

from __future__ import annotations

import ctypes as ct
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_librknnrt import recipe
from rknnlite_llm import Chat, Package, open_llm
from rknnlite_llm.tokenizer import Tokenizer

import rknnlite
from rknnlite.spi.llm import (
    ImageBlock,
    InferParams,
    LlmCallbacks,
    LlmInput,
    LlmParams,
    MessagesInput,
    MultimodalInput,
    PromptInput,
    TokenInput,
    VideoBlock,
)
from tests.librknnrt.clients import HEADERS, WATCHED, interpreter, library, made
from tests.librknnrt.rkllm_clients import LAYOUTS, PROGRAMS, TINY, Ours, library_of, standing
from tests.librknnrt.test_rkllm import MOST, QUESTION, answer, chat, heard, ids_of, raw
from tests.llm.media_goldens import CASES
from tests.llm.test_lora import targets, write_adapter
from tests.llm.test_media import Said, exported
from tests.rkllm.raw import said
from tests.rkllm.test_stand_in_runs import image
from tests.support.corpus import ROOT
from tests.support.needs import needs

__all__ = ["chat"]

pytestmark = pytest.mark.slow

TRAINED = TINY.parents[1] / "trained"
QUIET = {"enable_thinking": False}
Open = Callable[..., Ours]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """``opened("1.2.3", path, **settings)``: a client; ``code`` other than 0: what opening must answer."""
    monkeypatch.setenv("RKNNLITE_PYTHON", str(interpreter()))
    clients: list[Ours] = []

    def make(version: str, path: Path, code: int = 0, **settings: Any) -> Ours:
        clients.append(Ours(version))
        assert clients[-1].init(path, **settings) == code and bool(clients[-1].handle) == (code == 0)
        return clients[-1]

    yield make
    for client in clients:
        assert not client.handle or client.destroy() == 0


def said_to(client: Ours) -> str:
    """The answer to the question."""
    return said(client.run(client.prompt(QUESTION, **QUIET))[1])


# -- what stands for a file ---------------------------------------------------------------------------------------


def test_a_path_that_is_a_model(opened: Open, chat: Chat, tmp_path: Path) -> None:
    wanted = answer(chat, QUESTION)
    for path in (TINY, TINY.with_suffix(".rknn")):
        client = opened("1.2.3", path)
        assert said_to(client) == wanted
    folder = tmp_path / "hf"
    shutil.copytree(TRAINED, folder)
    assert "42" in said_to(opened("1.2.3", folder))
    made = list(tmp_path.glob(".*/*/*.rknn"))
    assert len(made) == 1
    before = made[0].stat().st_mtime_ns
    assert "42" in said_to(opened("1.2.3", folder))
    assert made[0].stat().st_mtime_ns == before


def test_what_stands_for_it(
    opened: Open, chat: Chat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    wanted, path = answer(chat, QUESTION), tmp_path / "m.rkllm"
    (tmp_path / "models").mkdir()
    for file in Package.of(TINY).files():
        shutil.copy(file, tmp_path / "models")
    beside = tmp_path / "m.rkllm.from"
    opened("1.2.3", path, -1)
    told = capfd.readouterr().err
    assert f"{path}: a .rkllm file is for the vendor's runtime alone and is not there; write the path" in told
    assert "RKNNLITE_RKLLM_MODEL" in told and told.startswith(
        "E rkllm: librkllmrt 1.2.3 (rknnlite): rkllm_init: "
    )
    beside.write_text("# of our own\n\nmodels/tiny\nmore\n")
    assert said_to(opened("1.2.3", path)) == wanted
    assert capfd.readouterr().err == f"W rkllm: {tmp_path}/models/tiny stands for {path} (by {beside})\n"
    beside.write_text("models/not\n")
    opened("1.2.3", path, -1)
    assert f"{beside}: {tmp_path}/models/not is no GGUF file" in capfd.readouterr().err
    monkeypatch.setenv("RKNNLITE_RKLLM_MODEL", "models/tiny.rknn")
    monkeypatch.chdir(tmp_path)
    assert said_to(opened("1.2.3", path)) == wanted
    assert "tiny.rknn stands for" in capfd.readouterr().err


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n# nothing\n",
        b"a\0b\n",
        b"x" * 70000,
        b"m.rkllm\n",
        b"\xff\xfe\n",
        b"/\n",
        b"broken.gguf\n",
        b"cut.rknn\n",
    ],
)
def test_a_file_that_names_no_model(opened: Open, tmp_path: Path, content: bytes, capfd: Any) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + bytes(40))
    data = TINY.with_suffix(".rknn").read_bytes()
    (tmp_path / "cut.rknn").write_bytes(data[: len(data) // 2])
    path = tmp_path / "m.rkllm"
    path.write_bytes(bytes(64))
    path.with_name("m.rkllm.from").write_bytes(content)
    opened("1.3.0", path, -1)
    assert "rkllm_init: " in capfd.readouterr().err


def test_parts_that_do_not_belong_together(opened: Open, tmp_path: Path, capfd: Any) -> None:
    """A stand-in whose table, weights or vocabulary are cut, or those of another model."""
    for name in ("tiny.embed.bin", "tiny.weight", "tiny.tokenizer.gguf"):
        folder = tmp_path / name
        folder.mkdir()
        for file in Package.of(TINY).files():
            shutil.copy(file, folder)
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: len(data) // 3])
        opened("1.2.3", folder / "tiny", -1)
        assert "rkllm_init: " in capfd.readouterr().err
    assert "42" in said_to(opened("1.2.3", TINY))


def test_a_longer_context_than_the_models(opened: Open, chat: Chat, capfd: Any) -> None:
    client = opened("1.2.3", TINY, max_context_len=16384)
    longest = chat.context.config.max_ctx_len
    assert f"W rkllm: max_context_len 16384 is more than the {longest} tokens of" in capfd.readouterr().err
    assert said_to(client) == answer(chat, QUESTION)
    assert client.run(client.tokens([5] * (longest + 1)))[0] == -1


def test_a_gguf_file(opened: Open, tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="needs the package gguf (extra gguf)")
    from tests.llm.test_gguf_import import write

    write(tmp_path, "llama", "Q8_0")
    client = opened("1.2.3", standing(tmp_path, "model.gguf"), max_new_tokens=8)
    code, events = client.run(client.tokens([3, 5, 7]))
    assert code == 0
    with Chat(next(tmp_path.glob(".*/*/*.rknn")), LlmParams(max_context_len=256), backend="cpu") as here:
        assert ids_of(events) == heard(here, TokenInput([3, 5, 7]), 8)


# -- media --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", LAYOUTS)
def test_images(opened: Open, chat: Chat, version: str) -> None:
    tags = {} if version == "1.3.0" else {"img_start": b"<v>", "img_end": b"</v>", "img_content": b"~"}
    rows = np.asarray(chat.session.callbacks.embed(np.arange(40, 47)), np.float32)
    client = opened(version, TINY, **tags)
    raw(client)
    made: Any = image(client, b"<image>what?", rows)
    if version == "1.3.0":
        made.u.multimodal_input.image.image_content = b"~"
    code, events = client.run(made)
    block = ImageBlock(rows, 7, 1, "<v>", "</v>", "~")
    with open_llm(TINY.with_suffix(".rknn"), backend="cpu") as context:
        ids: list[int] = []
        calls = chat.session.callbacks
        session = context.session(
            LlmParams(max_context_len=256),
            LlmCallbacks(
                result=lambda r, _: ids.extend(r.token_ids), tokenizer=calls.tokenizer, embed=calls.embed
            ),
        )
        session.set_chat_template("", "", "")
        session.run(MultimodalInput("<image>what?", image=block), InferParams(max_new_tokens=MOST))
    assert code == 0 and ids_of(events) == ids
    none = image(client, b"<image>", rows, 0)
    if version not in LAYOUTS[:2]:
        assert client.run(none)[0] == -1 and client.events[-1].state == "ERROR"


def test_an_encoder_with_several_outputs(opened: Open, tmp_path: Path) -> None:
    """Their rows come side by side; the model has no tokenizer, so the program's is called."""
    golden, package = exported("qwen3-vl", tmp_path)
    case = next(case for case in CASES if case.name == "qwen3-vl")
    main, *aux = Said(case, golden).inputs(case.talks[0][0], "0.0")
    block = main.image
    tokens = np.asarray(main.tokens).tolist()
    with open_llm(package.model, backend="cpu") as context:
        ids: list[int] = []
        session = context.session(
            LlmParams(max_context_len=128),
            LlmCallbacks(
                result=lambda r, _: ids.extend(r.token_ids),
                tokenizer=lambda text: [150],
                embed=package.table(context),
            ),
        )
        session.run([main, *aux], InferParams(max_new_tokens=6))
    package.tokenizer.unlink(missing_ok=True)
    client = Ours("1.3.0")

    def tokenizer(userdata: int, text: bytes, length: int, out: Any, room: int) -> int:
        found = [150] if text == b"<image_pad>" else tokens
        for at, token in enumerate(found):
            out[at] = token
        return len(found)

    param = client.param(package.model, max_context_len=128, max_new_tokens=6)
    assert client.init_param(param, tokenizer_callback=client.abi.LLMTokenizerCallback(tokenizer)) == 0
    client.call("rkllm_set_chat_template", b"", b"", b"")
    parts = [np.asarray(block.embeds, np.float32), *(np.asarray(one.data, np.float32) for one in aux)]
    rows = np.ascontiguousarray(
        np.concatenate([part.reshape(-1, parts[0].shape[-1]) for part in parts], axis=1)
    )
    made: Any = client.input("MULTIMODAL")
    place = made.u.multimodal_input
    place.prompt = b"x" * 200 + b"<image>"
    place.image.image_embed = rows.ctypes.data_as(ct.POINTER(ct.c_float))
    place.image.n_image, place.image.n_image_tokens = block.n_image, block.n_image_tokens
    place.image.image_start, place.image.image_end, place.image.image_content = b"", b"", b"<image_pad>"
    place.image.image_width, place.image.image_height = block.width, block.height
    code, events = client.run(made)
    assert code == 0 and ids_of(events) == ids and client.destroy() == 0


def test_callbacks_of_models_without_a_tokenizer_and_a_table(
    opened: Open, chat: Chat, tmp_path: Path
) -> None:
    table, tokens = chat.session.callbacks.embed, [9, 70, 6]
    for file in Package.of(TINY).files()[:2]:
        shutil.copy(file, tmp_path)
    client, heard_of = Ours("1.3.0"), []

    def tokenizer(userdata: int, text: bytes, length: int, out: Any, room: int) -> int:
        heard_of.append((userdata, text, length, room > 2))
        for at, token in enumerate(tokens):
            out[at] = token
        return 0 if text == b"bad" else len(tokens)

    def embed(userdata: int, ids: Any, count: int, rows: int, size: int) -> int:
        found = np.asarray(table(np.array([ids[at] for at in range(count)])), np.float32)
        assert userdata == 6 and found.nbytes == size
        ct.memmove(rows, found.tobytes(), size)
        return 0

    given = {
        "tokenizer_callback": client.abi.LLMTokenizerCallback(tokenizer), "tokenizer_userdata": 5,
        "embed_callback": client.abi.LLMGetEmbedCallback(embed), "embed_userdata": 6, "result_userdata": 9,
    }  # fmt: skip
    assert client.init_param(client.param(tmp_path / "tiny"), **given) == 0
    client.call("rkllm_set_chat_template", b"", b"", b"")
    code, events = client.run("any text")
    assert code == 0 and ids_of(events) == heard(chat, TokenInput(tokens))
    assert {event.text for event in events} == {None} and {event.userdata for event in events} == {9}
    assert heard_of[0] == (5, b"any text", 8, True)
    assert client.run("bad")[0] == -1 and client.destroy() == 0


# -- adapters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", LAYOUTS)
def test_lora(opened: Open, chat: Chat, version: str, tmp_path: Path) -> None:
    tokens = chat.session.rendered(MessagesInput([{"role": "user", "content": QUESTION}]))
    write_adapter(
        tmp_path / "adapter", dict(list(targets(TRAINED).items())[:8]), 3, target_modules=["q_proj"]
    )
    path = tmp_path / "style.rkllm"
    path.with_name("style.rkllm.from").write_text("adapter\n")
    with Chat(TINY, LlmParams(max_context_len=256), backend="cpu") as here:
        here.context.init_loras(tmp_path / "adapter")
        here.session.enable_lora("adapter", 2.0)
        wanted = heard(here, TokenInput(tokens))
    client = opened(version, TINY)
    adapter = client.abi.RKLLMLoraAdapter(str(path).encode(), b"style", 2.0)
    assert client.call("rkllm_load_lora", adapter) == 0
    chosen = client.abi.RKLLMLoraParam(b"style")
    plain = heard(chat, TokenInput(tokens))
    assert ids_of(client.run(client.tokens(tokens), lora_params=chosen)[1]) == wanted != plain
    assert ids_of(client.run(client.tokens(tokens))[1]) == plain
    unknown = client.abi.RKLLMLoraParam(b"other")
    assert client.run(client.tokens(tokens), lora_params=unknown)[0] == -1
    bad = client.abi.RKLLMLoraAdapter(str(tmp_path / "not.rkllm").encode(), b"x", 1.0)
    assert client.call("rkllm_load_lora", bad) == -1


# -- our own backend of the vendor's runtime ------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.1.4", "1.2.0", "1.2.3", "1.3.0"])
@pytest.mark.parametrize("in_process", [False, True])
def test_our_backend_takes_it_for_the_vendors(
    chat: Chat, tmp_path: Path, version: str, in_process: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RKNNLITE_PYTHON", str(interpreter()))
    monkeypatch.setenv("RKNNLITE_RKLLM_LIBRARY", str(library_of(version)))
    path, wanted = standing(tmp_path), answer(chat, QUESTION)
    shutil.copy(TINY.with_suffix(".tokenizer.gguf"), tmp_path / "model.tokenizer.gguf")
    template = chat.context.config.chat_template
    with Chat(path, LlmParams(max_context_len=256), in_process=in_process, chat_template=template) as there:
        assert there.context.backend_name == "rkllm"
        assert there.ask([{"role": "user", "content": QUESTION}], max_new_tokens=MOST) == wanted
        assert "".join(there.stream([{"role": "user", "content": QUESTION}], max_new_tokens=MOST)) == wanted


# -- programs -----------------------------------------------------------------------------------------------------


def test_exec_finds_it_for_programs_that_name_a_path_of_their_own(chat: Chat, tmp_path: Path) -> None:
    needs("gcc")
    script = tmp_path / "server.py"
    script.write_text((Path(__file__).parent / "programs_rkllm" / "flask_like.py").read_text())
    path, wanted = standing(tmp_path), answer(chat, QUESTION)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for version in ("1.3.0", "1.2.2"):
        done = subprocess.run(
            [sys.executable, "-m", "rknnlite", "exec", "--", sys.executable, script, path, version, QUESTION],
            env={**environment, "RKNNLITE_RKLLM_VERSION": version}, capture_output=True, text=True, check=False, timeout=120,
            cwd=tmp_path,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, f"{wanted}\n"), done.stderr


def executed(folder: Path, version: str, *words: object) -> subprocess.CompletedProcess[str]:
    """A program under ``rknnlite exec``, in a folder of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "RKNNLITE_RKLLM_VERSION": version,
    }
    command = [sys.executable, "-m", "rknnlite", "exec", "--", *map(str, words)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=120, cwd=folder
    )


def said_here(chat: Chat, given: LlmInput, template: str | None = None) -> str:
    """What a session of this process answers, in 24 tokens at most."""
    ids: list[int] = []
    calls = chat.session.callbacks
    with open_llm(TINY.with_suffix(".rknn"), backend="cpu") as context:
        told = LlmCallbacks(
            result=lambda r, _: ids.extend(r.token_ids), tokenizer=calls.tokenizer, embed=calls.embed
        )
        session = context.session(LlmParams(max_context_len=256), told)
        if template is not None:
            session.set_chat_template(template, template, template)
        session.run(given, InferParams(max_new_tokens=24))
    return chat.tokenizer.decode(ids)


def test_a_page_shows_the_answer_while_it_grows(chat: Chat, tmp_path: Path) -> None:
    """Two questions, rendered by the program itself, in the API of 1.1."""
    needs("gcc")
    script = tmp_path / "page.py"
    script.write_text((PROGRAMS / "gradio_like.py").read_text())
    texts = [
        f"<|im_start|>user {word}<|im_end|><|im_start|>assistant" for word in ("What is 1 + 2?", "And you?")
    ]
    done = executed(tmp_path, "1.1.4", sys.executable, script, standing(tmp_path), *texts)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for line, text in zip(lines, texts):
        wanted = said_here(chat, TokenInput(chat.tokenizer.encode(text)))
        assert line.startswith(wanted) and line.endswith(" 2"), (line, text)
    assert len(lines) == 2


def test_a_picture_by_both_libraries_in_one_process(chat: Chat, tmp_path: Path) -> None:
    """The rows are what librknnrt.so gives of the encoder; the language model answers about them, and then without them."""
    needs("gcc")
    both, headers = library(), recipe.RKLLM_INCLUDE / "1.3.0"
    source, text = PROGRAMS / "picture.c", library_of("1.3.0")
    command = [
        "gcc", "-std=gnu99", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{headers}", f"-I{HEADERS}", *WATCHED, "-o", "{out}",
        str(source), f"-L{text.parent}", "-lrkllmrt", f"-L{both.parent}", "-lrknnrt",
    ]  # fmt: skip
    built = made("picture", command, [source, both, text, *headers.glob("*.h"), *HEADERS.glob("*.h")])
    encoder = ROOT / "tests" / "data" / "conv_relu.rk3588.i8.rknn"
    done = executed(tmp_path, "1.3.0", built, encoder, standing(tmp_path), "<image>what?")
    assert done.returncode == 0, (done.returncode, done.stderr)
    picture = (np.arange(24 * 24 * 3) % 251).astype(np.uint8).reshape(1, 24, 24, 3)
    with rknnlite.open(encoder, backend="cpu") as model:
        found = np.asarray(model.infer([picture])[0], np.float32).ravel()
    block = ImageBlock(found[: 7 * 128].reshape(7, 128), 7, 1, "<v>", "</v>", "~")
    asked = (MultimodalInput("<image>what?", image=block), PromptInput("what?"))
    assert done.stdout.splitlines() == [said_here(chat, given, "") for given in asked]


def test_the_tokenizer_says_the_same() -> None:
    """What the tests above count on: the tiny model has a tokenizer of its own."""
    assert Tokenizer(TINY.with_suffix(".tokenizer.gguf")).decode([19, 20]) == "12"


def test_videos(opened: Open, chat: Chat) -> None:
    rows = np.asarray(chat.session.callbacks.embed(np.arange(40, 52)), np.float32)
    client = opened("1.3.0", TINY)
    made: Any = client.input("MULTIMODAL", **QUIET)
    video = made.u.multimodal_input.video
    made.u.multimodal_input.prompt = b"<video>what?"
    video.video_embed = rows.ctypes.data_as(ct.POINTER(ct.c_float))
    video.n_frame_tokens, video.n_frame_per_video, video.n_video = 3, 4, 1
    video.video_start, video.video_end, video.video_content = b"[", b"]", b"~"
    code, events = client.run(made)
    given = MultimodalInput("<video>what?", video=VideoBlock(rows, 3, 4, 1, "[", "]", "~"))
    assert code == 0 and ids_of(events) == heard(chat, given)
