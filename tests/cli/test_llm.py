"""export-llm and chat."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rknnlite_llm.answers import AnswerParser, AnswerPart, answer_format
from rknnlite_llm.commands import chat
from rknnlite_llm.constraints import Gbnf, JsonSchema, Lark, Regex
from rknnlite_llm.tokenizer import Tokenizer

from rknnlite.spi.command import Exit
from rknnlite.spi.llm import CallState, LlmTraits, RunSummary
from tests.llm.test_lora import write_adapter
from tests.llm.vision_goldens import write_whole
from tests.support.llm_models import write_model

from .conftest import Call


@pytest.mark.slow
def test_export_then_info(call: Call, tmp_path: Path) -> None:
    write_model(tmp_path / "hf", "qwen2")
    done = call("export-llm", tmp_path / "hf", tmp_path / "out" / "tiny", "--weights", "w8", "--json")
    assert done.code == 0
    assert {Path(name).name for name in done.data["files"]} == {"tiny.rknn", "tiny.weight", "tiny.embed.bin"}
    facts = call("info", tmp_path / "out" / "tiny.rknn", "--json").data
    assert (facts["family"], facts["weights"]) == ("qwen2", "w8")
    assert call("run", tmp_path / "out" / "tiny.rknn").code == Exit.MODEL
    assert "a language model; backend cpu runs it" in call("doctor", tmp_path / "out" / "tiny.rknn").out
    refused = call("doctor", tmp_path / "out" / "tiny.rknn", "--backend", "rknnrt")
    assert refused.code == Exit.UNAVAILABLE


def test_export_of_a_model_of_embeddings(call: Call, tmp_path: Path) -> None:
    write_model(tmp_path / "hf", "qwen3")
    made = call("export-llm", tmp_path / "hf", tmp_path / "tiny", "--pooling", "mean", "--no-normalise")
    assert made.code == 0
    facts = call("info", tmp_path / "tiny.rknn", "--json").data
    assert (facts["task"], facts["pooling"], facts["normalised"]) == ("embedding", "mean", False)


def test_check_finds_a_changed_byte_beside_the_model(call: Call, tmp_path: Path) -> None:
    write_model(tmp_path / "hf", "qwen3")
    call("export-llm", tmp_path / "hf", tmp_path / "tiny")
    assert call("check", tmp_path / "tiny.rknn").code == 0
    for name in ("tiny.weight", "tiny.embed.bin"):
        good = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(good[:-9] + bytes([good[-9] ^ 1]) + good[-8:])
        done = call("check", tmp_path / "tiny.rknn")
        assert done.code == Exit.MODEL and name in done.out
        (tmp_path / name).write_bytes(good)


TRAINED = Path("examples/llm_chat/trained")


def test_packages_are_compared_with_their_source(call: Call, tmp_path: Path) -> None:
    few = ("--tokens", "64", "--context", "32")
    made = call(
        "export-llm",
        TRAINED,
        tmp_path / "a",
        "--weights",
        "w4",
        "--check",
        *few,
        "--max-kl",
        "1e-9",
        "--json",
    )
    assert made.code == Exit.BELOW and "mean KL" in made.err
    (checked,) = made.data["check"]
    done = call("llm-eval", tmp_path / "a", "--source", TRAINED, *few, "--json")
    assert done.code == 0 and done.data["packages"] == [checked]
    assert (
        checked["weights"] == "w4" and checked["kl_mean"] > 1e-9 and set(checked["texts"]) >= {"english", "c"}
    )
    strict = call("llm-eval", tmp_path / "a", "--source", TRAINED, *few, "--min-top1", "1")
    assert (strict.code == Exit.BELOW) == (checked["top1"] < 1)
    assert "KL mean" in strict.out


def test_types_of_weights_are_chosen_and_told(call: Call, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("What is 12 + 30? What is 47 + 38?")
    words = ("export-llm", TRAINED, tmp_path / "a", "--weights", "auto", "--text", tmp_path / "mine.txt")
    done = call(*words, "--max-kl", "1000", "--json")
    assert done.code == 0 and "check" not in done.data
    assert {one["weights"] for one in done.data["auto"]["chosen"]} == {"w4"}
    facts = call("info", tmp_path / "a.rknn", "--json").data
    assert (facts["weights"], facts["matrices"]) == ("auto", f"{len(done.data['auto']['chosen'])} w4")
    shown = call(*words, "--max-kl", "0")
    assert "layers.0.qkv" in shown.out and "matrices have eight bits: mean KL" in shown.out
    assert call(*words, "--pooling", "mean").code == Exit.USAGE


def test_the_page_of_a_comparison(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="needs the package jinja2 (extra html)")
    (tmp_path / "mine.txt").write_text("What is 12 + 30? What is 47 + 38?")
    call("export-llm", TRAINED, tmp_path / "a", "--weights", "w8")
    words = ("--text", tmp_path / "mine.txt", "--html", tmp_path / "page.html")
    assert call("llm-eval", tmp_path / "a", "--source", TRAINED, *words).code == 0
    page = (tmp_path / "page.html").read_text()
    assert "mine" in page and "top-1 same" in page


@pytest.mark.slow
def test_how_fast_a_model_answers(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="needs the package jinja2 (extra html)")
    tiny = Path("examples/llm_chat/models/tiny")
    few = ("--prompt-tokens", "8,24", "--new-tokens", "4", "--runs", "1")
    done = call("bench-llm", tiny, *few, "--sessions", "1,2", "--json", "--html", tmp_path / "page.html")
    rows = done.data["rows"]
    assert [(row["sessions"], row["prompt_tokens"]) for row in rows] == [(1, 8), (1, 24), (2, 8), (2, 24)]
    assert all(0 < row["tpot_us"] < row["ttft_us"] + 1e7 for row in rows)
    for row in rows[:2]:
        read = row["share_of_limit"] * done.data["memory"]["gemv_bytes_per_s"] * row["tpot_us"] / 1e6
        seen = row["prompt_tokens"] + row["new_tokens"] // 2
        assert read == pytest.approx(done.data["step_bytes"] + seen * done.data["kv_token_bytes"])
    assert rows[2]["share_of_limit"] is None
    assert "time to first token" in (tmp_path / "page.html").read_text()
    shown = call("bench-llm", tiny, *few).out
    for heading in (
        "Model Context",
        "Rope Length",
        "Input Tokens",
        "New Tokens",
        "TTFT(ms)",
        "TPOT(ms)",
        "Prefill TPS",
    ):
        assert heading in shown
    assert call("bench-llm", tiny, "--prompt-tokens", "4000").code == Exit.USAGE


TINY = Path("examples/llm_chat/models/tiny")


@pytest.mark.slow
def test_guessed_tokens_change_no_answer(call: Call) -> None:
    """The model as its own draft guesses everything right; a text that is not in the conversation is not looked up."""
    ask = ("chat", TINY, "--ask", "What is 47 + 38?", "--json")
    plain = call(*ask).data
    assert "guessed_tokens" not in plain
    for words in (("--draft", TINY), ("--draft", TINY, "--speculate", "8"), ("--speculate", "15")):
        data = call(*ask, *words).data
        assert data["answer"] == plain["answer"]
        assert "--draft" not in words or 0 < data["accepted_tokens"] <= data["guessed_tokens"]
    measured = call(
        "bench-llm", TINY, "--draft", TINY, "--prompt-tokens", "8", "--new-tokens", "12", "--runs", "1"
    )
    assert "tokens guessed ahead: " in measured.out and "were chosen" in measured.out
    assert "guesses" not in call("bench-llm", TINY, "--prompt-tokens", "8", "--runs", "1").out
    assert "must be 0 to 15" in call(*ask, "--speculate", "16").err


@pytest.mark.parametrize("words", [("--draft", "x"), ("--speculate", "2")])
def test_a_backend_that_guesses_nothing_refuses(
    call: Call, parrot: type[Parrot], words: tuple[str, ...]
) -> None:
    done = call("chat", "x", "--ask", "hello", *words)
    assert done.code == Exit.USAGE and "backend parrot computes one token after the other" in done.err
    assert parrot.made[0].closed
    assert call("chat", "x", "--ask", "hello", "--speculate", "0").code == 0


@pytest.mark.slow
def test_adapters_of_a_conversation(call: Call, tmp_path: Path) -> None:
    """One times nothing changes nothing, by itself it does."""
    names = [f"model.layers.{i}.self_attn.q_proj.weight" for i in range(4)]
    write_adapter(tmp_path / "loud", dict.fromkeys(names, (128, 128)), seed=1)
    ask = ("chat", TINY, "--ask", "What is 47 + 38?", "--max-new-tokens", "12", "--json")
    plain = call(*ask).data["answer"]
    assert call(*ask, "--lora", tmp_path, "--lora-scale", "0").data["answer"] == plain
    assert call(*ask, "--lora", tmp_path / "loud", "--lora-scale", "9").data["answer"] != plain
    refused = call(*ask, "--lora", tmp_path / "none")
    assert refused.code == Exit.MODEL and "adapter_config.json" in refused.err


def test_export_of_nothing(call: Call, tmp_path: Path) -> None:
    done = call("export-llm", tmp_path, tmp_path / "x")
    assert done.code == Exit.MODEL
    assert "config.json" in done.err


def test_chat_without_a_package(call: Call, tmp_path: Path) -> None:
    assert call("chat", tmp_path / "none").code in (Exit.MODEL, Exit.UNAVAILABLE)


class Session:
    """Notes what it was told."""

    def __init__(self) -> None:
        self.cleared = 0
        self.template: tuple[str, ...] = ()

    def clear_kvcache(self) -> None:
        self.cleared += 1

    def set_chat_template(self, *texts: str) -> None:
        self.template = texts


class Parrot:
    """A conversation that answers with the question; one word at a time."""

    made: list[Parrot]

    def __init__(self, prefix: str, params: Any, **options: Any) -> None:
        self.session, self.last, self.closed = Session(), None, False
        self.context = SimpleNamespace(backend_name="parrot", traits=LlmTraits())
        self.params = params
        Parrot.made.append(self)

    def stream(self, talk: list[dict[str, Any]], limit: int, **turn: Any) -> Iterator[str]:
        self.talk, self.turn = list(talk), turn
        for word in talk[-1]["content"].split():
            if word == "interrupt":
                raise KeyboardInterrupt
            yield word + " "
        self.last = RunSummary(CallState.FINISH, 3, 4, 0.0, 1.0, 2.0)

    def parts(
        self, talk: list[dict[str, Any]], tools: Any, limit: int, rule: Any = None, **turn: Any
    ) -> Iterator[AnswerPart]:
        said = "".join(self.stream(talk, limit, tools=tools, **turn))
        parser = AnswerParser(answer_format(""), True)
        yield from parser.push(said)
        yield from parser.finish()

    def __enter__(self) -> Parrot:
        return self

    def __exit__(self, *exc: object) -> None:
        self.closed = True


@pytest.fixture
def parrot(monkeypatch: pytest.MonkeyPatch) -> type[Parrot]:
    Parrot.made = []
    monkeypatch.setattr(chat, "Conversation", Parrot)
    return Parrot


def test_questions_from_the_command_line(call: Call, parrot: type[Parrot]) -> None:
    done = call("chat", "x", "--ask", "hello you", "--ask", "again", "--temperature", "0.5", "--seed", "3")
    assert done.out == "hello you \nagain \n"
    (made,) = parrot.made
    assert made.closed
    assert (made.params.sampling.temperature, made.params.sampling.seed) == (0.5, 3)
    data = call("chat", "x", "--ask", "hello you", "--json").data
    assert (data["answer"], data["decode_tokens"], data["tokens_per_s"]) == ("hello you ", 4, 4.0)


def test_the_keyboard(call: Call, parrot: type[Parrot], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hello\n\n/clear\nyou\n/quit\nnever\n"))
    done = call("chat", "x", "--system", "S", "--turn", "U", "A")
    assert done.out == "hello \nyou \n"
    (made,) = parrot.made
    assert made.session.cleared == 1
    assert made.session.template == ("S", "U", "A")


def test_a_conversation_goes_on_from_a_file(
    call: Call, parrot: type[Parrot], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk, tools = tmp_path / "talk.json", tmp_path / "tools.json"
    talk.write_text('[{"role": "user", "content": "first"}]')
    tools.write_text('[{"name": "f"}]')
    monkeypatch.setattr("sys.stdin", io.StringIO("second\n"))
    done = call("chat", "x", "--system", "S", "--messages", talk, "--tools", tools)
    assert done.out == "first \nsecond \n"
    (made,) = parrot.made
    assert [m["role"] for m in made.talk] == ["system", "user", "assistant", "user"]
    assert made.turn["tools"] == [{"name": "f"}]
    broken = call("chat", "x", "--messages", tmp_path / "none.json")
    assert broken.code != 0 and "none.json" in broken.err


def test_calls_of_tools_are_shown_as_one_would_write_them(
    call: Call, parrot: type[Parrot], tmp_path: Path
) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text('[{"name": "f"}]')
    written = '<tool_call> {"name": "f", "arguments": {"city": "Lisbon", "days": 2}} </tool_call>'
    ask = ("chat", "x", "--tools", tools, "--ask", f"Look: {written} {written} so.")
    assert call(*ask).out == "Look:\n-> f(city='Lisbon', days=2)\n-> f(city='Lisbon', days=2)\nso. \n"
    data = call(*ask, "--json").data
    assert data["answer"] == "Look:so. "
    assert [one["name"] for one in data["tool_calls"]] == ["f", "f"]
    assert data["tool_calls"][0]["arguments"] == '{"city": "Lisbon", "days": 2}'
    call(*ask, "--ask", "again")
    assert [made["function"]["name"] for made in parrot.made[-1].talk[1]["tool_calls"]] == ["f", "f"]


def test_answers_are_bound_to_rules(call: Call, parrot: type[Parrot], tmp_path: Path) -> None:
    schema, gbnf, lark = tmp_path / "s.json", tmp_path / "g.gbnf", tmp_path / "g.lark"
    schema.write_text('{"type": "object"}')
    gbnf.write_text('root ::= "a"')
    lark.write_text('start: "a"')
    given = {
        "--json-schema": (schema, JsonSchema({"type": "object"})),
        "--regex": ("[a-z]+", Regex("[a-z]+")),
        "--grammar": (gbnf, Gbnf('root ::= "a"')),
    }
    for option, (value, rule) in given.items():
        assert call("chat", "x", "--ask", "hello", option, value).out == "hello \n"
        assert parrot.made[-1].turn["rule"] == rule
    call("chat", "x", "--ask", "hello", "--grammar", lark)
    assert parrot.made[-1].turn["rule"] == Lark('start: "a"')
    call("chat", "x", "--ask", "hello")
    assert parrot.made[-1].turn["rule"] is None
    schema.write_text("{")
    broken = call("chat", "x", "--ask", "hello", "--json-schema", schema)
    assert broken.code != 0 and "s.json" in broken.err


def test_ctrl_c_stops_and_closes(call: Call, parrot: type[Parrot]) -> None:
    done = call("chat", "x", "--ask", "one interrupt two")
    assert done.code == Exit.INTERRUPTED
    assert parrot.made[0].closed


def test_a_picture_is_asked_about(call: Call, tmp_path: Path) -> None:
    """export-llm writes the tower, chat --image runs it; the text is what transformers' generate says."""
    pytest.importorskip("onnxruntime", reason="needs the package onnxruntime (extra fast)")
    pytest.importorskip("onnx", reason="needs the package onnx (extra fast)")
    pytest.importorskip("jinja2", reason="needs the package jinja2 (extra llm)")
    pytest.importorskip("PIL", reason="needs the package Pillow (extra pictures)")
    golden = write_whole("qwen2.5-vl", tmp_path / "hf")
    prefix, picture = tmp_path / "p", tmp_path / "hf" / "picture.png"
    made = call("export-llm", tmp_path / "hf", prefix, "--weights", "f32", "--image-size", "48x32", "--json")
    assert made.code == 0
    files = {Path(file).name for file in made.data["files"]}
    assert {"p.rknn", "p.vision.onnx", "p.vision.onnx.data", "p.vision.json"} <= files
    ask = ("--ask", "What is this?", "--max-new-tokens", "16", "--backend", "cpu", "--json")
    done = call("chat", prefix, "--image", picture, *ask)
    wanted = Tokenizer(tmp_path / "p.tokenizer.gguf").decode(golden["answer"].tolist())
    assert (done.data["prompt"], done.data["answer"]) == ("What is this?", wanted)
    assert done.data["prefill_tokens"] == len(golden["ids"])
    refused = call("chat", prefix, "--image", picture, "--turn", "a", "b", *ask)
    assert refused.code != 0 and "leave out --messages and --turn" in refused.err
    none = call(
        "export-llm", tmp_path / "hf", tmp_path / "q", "--weights", "f32", "--vision", "none", "--json"
    )
    assert not any("vision" in file for file in none.data["files"])
    both = call("export-llm", tmp_path / "hf", tmp_path / "q", "--vision", "none", "--image-size", "48x32")
    assert both.code != 0 and "--vision none writes no tower" in both.err
    assert call("export-llm", tmp_path / "hf", tmp_path / "q", "--image-size", "48").code != 0
    assert "has no vision tower" in call("chat", tmp_path / "q", "--image", picture, *ask).err
