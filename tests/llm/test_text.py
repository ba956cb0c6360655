"""Text in and out: complete characters, streams, templates, tokenizer files."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_cpu.llm.utf8 import Utf8Gate
from rknnlite_llm import astream, stream
from rknnlite_llm.chat_template import JinjaTemplate, LiteralTemplate, Turn
from rknnlite_llm.gguf import read_gguf, write_gguf
from rknnlite_llm.streaming import TextPieces

from rknnlite.errors import ModelInvalid, ParamInvalid
from rknnlite.spi.llm import CallState, InferParams, LlmCallbacks, LlmContext, LlmSession, TokenInput
from tests.llm.conftest import Maker, Recorder, embed_of
from tests.support.needs import needs

SHORT = InferParams(max_new_tokens=6)
CHATML = """{%- if tools %}<|im_start|>system
{{ tools | tojson }}<|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking %}<think>{% endif %}{% endif %}"""


@given(st.text(min_size=1), st.integers(1, 5))
def test_tokens_pass_the_gate_only_with_whole_characters(text: str, width: int) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    pieces = [raw[i : i + width] for i in range(0, len(raw), width)]
    gate, out, group = Utf8Gate(pieces.__getitem__), [], b""
    for token in range(len(pieces)):
        ready = gate.push(token)
        out += ready
        group = b"".join(pieces[i] for i in ready)
        group.decode("utf-8", "surrogatepass")  # raises when a character is cut
    assert [*out, *gate.flush()] == list(range(len(pieces)))


def test_bytes_that_never_become_a_character_do_not_wait() -> None:
    gate = Utf8Gate([b"\xe4", b"\xb8", b"a", b"\xff"].__getitem__)
    assert gate.push(0) == ()
    assert gate.push(2) == (0, 2)
    assert gate.push(3) == (3,)


@given(st.lists(st.binary(max_size=4), min_size=1, max_size=40))
def test_of_any_tokens_few_wait_at_the_gate_and_none_is_lost(table: list[bytes]) -> None:
    gate, out = Utf8Gate(table.__getitem__), []
    for token in range(len(table)):
        out += gate.push(token)
        assert token + 1 - len(out) < 8
    assert [*out, *gate.flush()] == list(range(len(table)))


@pytest.mark.parametrize("raw", [b"a\xe4", b"\xe4", b"\xf0\x9f", b"\xb8\xad\xe4", b""])
def test_a_token_that_ends_in_a_lead_byte_is_released_also_when_it_is_repeated(raw: bytes) -> None:
    gate = Utf8Gate(lambda token: raw)
    released = [gate.push(token) for token in range(64)]
    assert sum(map(len, released)) > 56


def test_a_broken_character_goes_out_without_the_one_that_is_begun() -> None:
    gate = Utf8Gate([b"\xe4", b"\xe4", b"\xb8\xad"].__getitem__)
    assert [gate.push(token) for token in range(3)] == [(), (0,), (1, 2)]


def test_a_run_reports_waiting_and_then_all_tokens_of_the_character(
    package: Maker, context: LlmContext, recorder: Recorder
) -> None:
    raw = "a\u4e2d".encode()
    context.model.__dict__["tokens"] = [raw[i : i + 1] for i in range(4)]
    answers = iter([0, 1, 2, 3])
    calls = LlmCallbacks(recorder, embed=embed_of(package()), sampling=lambda logits, name: next(answers))
    context.session(callbacks=calls).run(TokenInput([1]), InferParams(max_new_tokens=4))
    assert recorder.calls == [
        ((0,), CallState.NORMAL),
        ((), CallState.WAITING),
        ((), CallState.WAITING),
        ((1, 2, 3), CallState.NORMAL),
        ((), CallState.MAX_NEW_TOKEN_REACHED),
    ]


def test_half_a_character_at_the_end_of_a_run_goes_out_before_the_final_state(
    package: Maker, context: LlmContext, recorder: Recorder
) -> None:
    context.model.__dict__["tokens"] = [b"a", b"\xe4", b"\xb8"]
    answers = iter([0, 1, 2])
    calls = LlmCallbacks(recorder, embed=embed_of(package()), sampling=lambda logits, name: next(answers))
    context.session(callbacks=calls).run(TokenInput([1]), InferParams(max_new_tokens=3))
    assert recorder.calls == [
        ((0,), CallState.NORMAL),
        ((), CallState.WAITING),
        ((), CallState.WAITING),
        ((1, 2), CallState.NORMAL),
        ((), CallState.MAX_NEW_TOKEN_REACHED),
    ]


@given(st.lists(st.sampled_from(["a", "\u00e4", "\u4e2d", "\U0001f600", " b"]), min_size=1, max_size=12))
def test_pieces_put_together_are_the_text(parts: list[str]) -> None:
    raw = "".join(parts).encode()

    def decode(ids) -> str:
        return bytes(ids).decode("utf-8", "replace")

    pieces = TextPieces(decode)
    out = [pieces.push([byte]) for byte in raw] + [pieces.push([], last=True)]
    assert "".join(out) == "".join(parts)
    assert not any("\ufffd" in piece for piece in out)


def _bytes_of(table: list[bytes]):
    return lambda ids: b"".join(table[i] for i in ids).decode("utf-8", "replace")


@given(st.lists(st.binary(max_size=4), max_size=150), st.integers(1, 5))
def test_pieces_of_any_tokens_are_the_text_of_all_and_little_waits(table: list[bytes], width: int) -> None:
    decode, out = _bytes_of(table), ""
    pieces = TextPieces(decode)
    for start in range(0, len(table), width):
        out += pieces.push(range(start, min(start + width, len(table))))
        told = decode(range(min(start + width, len(table))))
        assert told.startswith(out)
        assert len(told) - len(out) <= 8 * 4
    assert out + pieces.push([], last=True) == decode(range(len(table)))


@pytest.mark.parametrize("raw", [b"a\xe4", b"\xe4", b"\xb8\xad\xe4", "\ufffd".encode()])
def test_text_that_always_ends_in_half_a_character_goes_on(raw: bytes) -> None:
    table = [raw] * 300
    decode, out = _bytes_of(table), ""
    pieces = TextPieces(decode)
    for token in range(300):
        out += pieces.push([token])
        assert len(decode(range(token + 1))) - len(out) <= 8
    assert out + pieces.push([], last=True) == decode(range(300))


@given(st.lists(st.sampled_from(["a", "\u00e4", "\u4e2d", "\U0001f600", " b", " ", "", "\n"]), max_size=40))
def test_decoders_that_fall_back_to_bytes_and_strip_a_blank(parts: list[str]) -> None:
    """As the tokenizers of Llama 2, Mistral and Gemma do: a row of bytes is lost as a whole until it is complete."""
    table: list = []
    for part in parts:
        table += [bytes([b]) for b in part.encode()] if len(part.encode()) > 2 else [part]

    def decode(ids) -> str:
        out, row = "", b""
        for token in [*(table[i] for i in ids), ""]:
            if isinstance(token, bytes):
                row += token
                continue
            try:
                out += row.decode()
            except UnicodeDecodeError:
                out += "\ufffd" * len(row)
            out, row = out + token, b""
        return out[1:] if out.startswith(" ") else out

    pieces = TextPieces(decode)
    out = [pieces.push([token]) for token in range(len(table))] + [pieces.push([], last=True)]
    assert "".join(out) == decode(range(len(table)))
    assert not any("\ufffd" in piece for piece in out)


def _letters(ids) -> str:
    return "".join(chr(65 + i) for i in ids)


def test_stream_yields_what_the_run_says_and_calls_back_too(session: LlmSession, recorder: Recorder) -> None:
    pieces = list(stream(session, TokenInput([1, 2]), _letters, SHORT))
    assert "".join(pieces) == _letters(recorder.tokens)
    assert len(pieces) == 6


def test_leaving_the_stream_stops_the_run(session: LlmSession) -> None:
    for _ in stream(session, TokenInput([1]), _letters, InferParams(max_new_tokens=10**9)):
        break
    assert session.run(TokenInput([1]), SHORT).n_decode_tokens == 6


def test_errors_of_the_run_come_out_of_the_stream(session: LlmSession) -> None:
    def broken(ids):
        raise ZeroDivisionError

    session.set_callbacks(LlmCallbacks(embed=broken))
    with pytest.raises(ZeroDivisionError):
        list(stream(session, TokenInput([1]), _letters))


def test_asynchronous_stream(session: LlmSession) -> None:
    async def main() -> str:
        return "".join([piece async for piece in astream(session, TokenInput([1, 2]), _letters, SHORT)])

    assert asyncio.run(main()) == "".join(stream(session, TokenInput([1, 2]), _letters, SHORT))


def test_no_thread_is_left_behind(session: LlmSession) -> None:
    before = threading.active_count()
    for _ in range(20):
        next(stream(session, TokenInput([1]), _letters, InferParams(max_new_tokens=10**9)))
    session.close()
    assert threading.active_count() <= before


def test_jinja_template_first_turn_later_turns_and_thinking() -> None:
    needs("jinja2")
    template = JinjaTemplate(CHATML)
    first = template.opening(Turn("hi"), [])
    assert first.text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert first.system == 0
    later = template.following(Turn("and?", enable_thinking=True), [])
    assert later.text == "<|im_end|>\n<|im_start|>user\nand?<|im_end|>\n<|im_start|>assistant\n<think>"
    assert template.following(Turn("{}", role="tool"), []).text.startswith("<|im_end|>\n<|im_start|>tool\n{}")


def test_jinja_template_knows_its_system_prompt() -> None:
    needs("jinja2")
    rendered = JinjaTemplate(CHATML).opening(Turn("hi"), [{"name": "f"}])
    assert rendered.text[: rendered.system] == '<|im_start|>system\n[{"name": "f"}]<|im_end|>\n'


@pytest.mark.parametrize(
    "source",
    [
        "{% for %}",
        "{{ raise_exception('no') }}",
        "{{ messages[9].content }}",
        "{{ ''.__class__.__mro__ }}",
        "{% for i in range(10 ** 9) %}x{% endfor %}",
    ],
)
def test_broken_and_hostile_templates_are_refused(source: str) -> None:
    needs("jinja2")
    with pytest.raises(ParamInvalid, match="chat template"):
        JinjaTemplate(source).opening(Turn("x"), [])


def test_literal_template_tells_of_tools_in_the_first_prompt() -> None:
    rendered = LiteralTemplate("a", "b", "c").opening(Turn("x"), [{"name": "f"}])
    assert rendered.text.startswith("ab") and rendered.text.endswith("\n\nxc")
    assert '{"name": "f"}' in rendered.text and rendered.system == 1


def test_gguf_gives_back_what_was_written_and_other_programs_read_it(tmp_path: Path) -> None:
    pairs = {
        "general.architecture": "qwen2",
        "a.number": 7,
        "a.real": 0.5,
        "a.flag": True,
        "tokenizer.ggml.tokens": ["a", "\u4e2d", ""],
        "tokenizer.ggml.token_type": np.array([1, 3, 6], np.int32),
        "tokenizer.ggml.scores": np.array([0.5, 1, 2], np.float32),
    }
    data = write_gguf(pairs)
    back = read_gguf(memoryview(data), "x")
    assert {k: v for k, v in back.items() if not isinstance(v, np.ndarray)} == {
        k: v for k, v in pairs.items() if not isinstance(v, np.ndarray)
    }
    assert back["tokenizer.ggml.token_type"].tolist() == [1, 3, 6]
    gguf = pytest.importorskip("gguf", reason="needs the package gguf (extra test)")
    (tmp_path / "t.gguf").write_bytes(data)
    fields = gguf.GGUFReader(tmp_path / "t.gguf").fields
    assert fields["tokenizer.ggml.tokens"].contents() == ["a", "\u4e2d", ""]


@given(st.data())
def test_damaged_gguf_is_refused_or_read(data: st.DataObject) -> None:
    good = bytearray(write_gguf({"a": "text", "b": ["x", "y"], "c": np.arange(3, dtype=np.int32), "d": 1}))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.sampled_from([0, 1, 9, 0x7F, 0xFF]))
    with contextlib.suppress(ModelInvalid):
        read_gguf(memoryview(bytes(good[: data.draw(st.integers(0, len(good)))])), "x")


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("length", [200, 1 << 40, (1 << 64) - 1])
def test_a_text_that_is_longer_than_the_file_is_named(number: int, length: int) -> None:
    whole = write_gguf({"words": ["first", "second", "third"]})
    place = whole.index((b"first", b"second", b"third")[number]) - 8
    damaged = whole[:place] + length.to_bytes(8, "little") + whole[place + 8 :]
    with pytest.raises(ModelInvalid, match=rf"x: string {number} of 3 goes beyond the {len(whole)} bytes"):
        read_gguf(damaged, "x")
