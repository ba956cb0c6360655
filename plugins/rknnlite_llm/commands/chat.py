"""``rknnlite chat``: talk to a language model on the terminal, or hand it questions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Optional

from rknnlite.errors import ParamInvalid, shown
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import read_text
from rknnlite.spi.command import Command, Console, Exit, Line, Part, Tone
from rknnlite.spi.llm import LlmParams, RunSummary, SamplingParams

from .. import Chat as Conversation
from ..answers import Answer, AnswerPart, PartKind
from ..constraints import Gbnf, JsonSchema, Lark, Regex, Rule
from ..messages import checked_messages
from ..towers import VisionEncoder
from .options import add_draft_and_adapters, draft_and_adapters

__all__ = ["COMMAND"]

_HELP = "Ctrl-C stops an answer; /clear forgets the conversation; /quit or Ctrl-D ends"


class Chat(Command):
    """See the module."""

    name = "chat"
    help = "talk to a language model"
    examples = (
        "rknnlite chat models/tiny",
        "rknnlite chat models/tiny --ask 'What is 47 + 38?' --json",
        "rknnlite chat models/tiny --system 'Be brief.'",
        "rknnlite chat models/qwen --system $'<|im_start|>system\\nBe brief.<|im_end|>\\n' "
        "--turn $'<|im_start|>user\\n' $'<|im_end|>\\n<|im_start|>assistant\\n'",
        "rknnlite chat models/qwen --json-schema answer.schema.json --ask 'Who wrote Faust?'",
        "rknnlite chat models/qwen --temperature 0.7 --top-k 40 --top-p 0.9",
        "rknnlite chat models/qwen-vl --image cat.jpg --ask 'What is this?'",
        "rknnlite chat models/qwen --draft models/qwen-small --speculate 8",
    )
    common = ("--ask", "--system", "--image", "--tools", "--max-new-tokens", "--temperature", "--backend")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("prefix", metavar="PREFIX", help="the package: PREFIX.rknn, PREFIX.weight, ...")
        parser.add_argument(
            "--ask", action="append", metavar="TEXT", help="a question instead of the keyboard; repeatable"
        )
        parser.add_argument(
            "--image",
            action="append",
            metavar="FILE",
            help="a picture that the first question is about, through PREFIX.vision.*; repeatable",
        )
        parser.add_argument("--system", metavar="TEXT", help="what the model is told before everything else")
        parser.add_argument(
            "--messages", metavar="FILE", help="JSON list of messages to go on from, as OpenAI's API has them"
        )
        parser.add_argument("--tools", metavar="FILE", help="JSON list of tools, as OpenAI's API has them")
        parser.add_argument(
            "--turn",
            nargs=2,
            metavar=("BEFORE", "AFTER"),
            help="markers of a turn instead of the model's own template; --system has markers of its own then",
        )
        parser.add_argument("--backend", metavar="NAME", help="cpu, rknn3rt, ...; the best one by default")
        parser.add_argument(
            "--max-new-tokens", type=int, default=1024, metavar="N", help="per answer (default: 1024)"
        )
        add_draft_and_adapters(parser)
        parser.add_argument("--thinking", action="store_true", help="let the model think first, where it can")
        rules = parser.add_mutually_exclusive_group()
        rules.add_argument(
            "--json-schema", metavar="FILE", help="answers are JSON that this JSON Schema accepts"
        )
        rules.add_argument("--regex", metavar="PATTERN", help="answers match a regular expression as a whole")
        rules.add_argument(
            "--grammar", metavar="FILE", help="answers follow a grammar: GBNF (llama.cpp) or Lark"
        )
        group = parser.add_argument_group("sampling (default: greedy)")
        group.add_argument("--temperature", type=float, default=1.0)
        group.add_argument("--top-k", type=int, default=1)
        group.add_argument("--top-p", type=float, default=1.0)
        group.add_argument("--repeat-penalty", type=float, default=1.0)
        group.add_argument("--seed", type=int)

    def run(self, args: argparse.Namespace, console: Console) -> int:
        sampling = SamplingParams(
            top_k=args.top_k,
            top_p=args.top_p,
            temperature=args.temperature,
            repeat_penalty=args.repeat_penalty,
            seed=args.seed,
        )
        rule, along = _rule(args), draft_and_adapters(args)
        params = LlmParams(sampling=sampling, speculate=along.speculate)
        with console.progress("opening"):
            opened = Conversation(args.prefix, params, backend=args.backend, **along.options)
        with opened as chat:
            along.open(chat.context)
            along.enable(chat.session)
            pictures = _pictures(args)
            talk = _beginning(chat, args)
            begun = len(talk)
            tools = _json_list(args.tools) if args.tools else None
            if talk and talk[-1]["role"] != "system" and not args.ask:
                talk.append(_answer(chat, talk, tools, rule, args, console, {}))
            for prompt in args.ask or _typed(console):
                if prompt == "/clear":
                    del talk[begun:]
                    chat.session.clear_kvcache()
                else:
                    shown = args.image if args.image and len(talk) == begun else []
                    talk.append({"role": "user", "content": _with_pictures(prompt, len(shown))})
                    talk.append(_answer(chat, talk, tools, rule, args, console, pictures))
        return Exit.OK


def _pictures(args: argparse.Namespace) -> dict[str, Any]:
    """What the tower makes of the pictures, as the parts of every turn: the first question stays in the conversation."""
    if not args.image:
        return {}
    if args.messages or args.turn:
        raise ParamInvalid(
            "--image goes with a question of --ask or the keyboard; leave out --messages and --turn"
        )
    with VisionEncoder(args.prefix) as encoder:
        image, aux = encoder.images(args.image)
    return {"image": image, "aux": aux}


def _with_pictures(prompt: str, count: int) -> Any:
    """What the user says, behind pictures."""
    return [*[{"type": "image"}] * count, {"type": "text", "text": prompt}] if count else prompt


def _said(content: Any) -> str:
    return content if isinstance(content, str) else str(content[-1]["text"])


def _beginning(chat: Conversation, args: argparse.Namespace) -> list[dict[str, Any]]:
    """The messages that are there before the first question."""
    talk: list[dict[str, Any]] = []
    if args.turn is not None:
        chat.session.set_chat_template(args.system or "", *args.turn)
    elif args.system is not None:
        talk = [{"role": "system", "content": args.system}]
    return talk + (checked_messages(_json_list(args.messages)) if args.messages else [])


def _json_list(path: str) -> list[Any]:
    """A list in a file; raises ParamInvalid."""
    try:
        value = parse_json(read_text(Path(path)))
    except (OSError, ValueError) as error:
        raise ParamInvalid(f"{path}: {shown(error)}; needed is a JSON list") from None
    if not isinstance(value, list):
        raise ParamInvalid(f"{path}: {type(value).__name__} in JSON, needed is a list")
    return value


def _rule(args: argparse.Namespace) -> Optional[Rule]:
    """What the answers must look like; raises ParamInvalid for a file that cannot be read."""
    if args.regex is not None:
        return Regex(args.regex)
    path = args.json_schema or args.grammar
    if not path:
        return None
    try:
        text = read_text(Path(path))
        if args.json_schema:
            return JsonSchema(parse_json(text))
    except (OSError, ValueError) as error:
        raise ParamInvalid(f"{path}: {shown(error)}") from None
    if not text.strip():
        raise ParamInvalid(f"{path} is empty; write a grammar into it: GBNF (llama.cpp) or Lark")
    return Gbnf(text) if "::=" in text else Lark(text)


def _typed(console: Console) -> Iterator[str]:
    """What the user types, until /quit or the end of input; a prompt only on a terminal."""
    asks = sys.stdin.isatty() and not console.json
    if asks:
        console.note(_HELP)
    while True:
        if asks:
            console.piece("> ")
        line = sys.stdin.readline()
        if not line or line.strip() == "/quit":
            return
        if line.strip():
            yield line.strip()


def _answer(
    chat: Conversation,
    talk: list[dict[str, Any]],
    tools: Any,
    rule: Optional[Rule],
    args: argparse.Namespace,
    console: Console,
    pictures: dict[str, Any],
) -> dict[str, Any]:
    """Print what the model says to the conversation so far; its message."""
    answer, shown = Answer(), _Shown(console)
    stopped = False
    stream = _parts(chat, talk, tools, rule, args, pictures)
    try:
        for part in stream:
            answer.add(part)
            shown.part(part, answer)
        shown.calls(answer)
    except KeyboardInterrupt:
        stopped = True
        if args.ask or not sys.stdin.isatty():
            raise
    finally:
        stream.close()
    data: dict[str, Any] = {
        "prompt": _said(talk[-1]["content"]),
        "answer": answer.content,
        "stopped": stopped,
    }
    if answer.reasoning:
        data["reasoning"] = answer.reasoning
    if answer.calls:
        data["tool_calls"] = [{"name": call.name, "arguments": call.text} for call in answer.calls]
    run = chat.last
    if run is not None and not stopped:
        data.update(_figures(run))
    console.report(data, *_speed(data, console))
    return answer.message


def _figures(run: RunSummary) -> dict[str, Any]:
    seconds = max(run.end - run.first_token, 1e-9)
    guesses = {"guessed_tokens": run.n_guessed_tokens, "accepted_tokens": run.n_accepted_tokens}
    return {
        "prefill_tokens": run.n_prefill_tokens,
        "cached_tokens": run.n_cached_tokens,
        "decode_tokens": run.n_decode_tokens,
        "first_token_us": 1e6 * (run.first_token - run.start),
        "tokens_per_s": run.n_decode_tokens / seconds,
        **(guesses if run.n_guessed_tokens else {}),
    }


def _parts(
    chat: Conversation,
    talk: list[dict[str, Any]],
    tools: Any,
    rule: Optional[Rule],
    args: argparse.Namespace,
    pictures: dict[str, Any],
) -> Generator[AnswerPart, None, None]:
    """The answer as it comes; without tools all of it is content."""
    if tools:
        yield from chat.parts(
            talk, tools, args.max_new_tokens, rule, enable_thinking=args.thinking, **pictures
        )
        return
    stream = chat.stream(
        talk, args.max_new_tokens, rule=rule, enable_thinking=args.thinking, tools=tools, **pictures
    )
    with closing(stream):  # type: ignore[type-var]
        for piece in stream:
            yield AnswerPart(PartKind.CONTENT, piece)


class _Shown:
    """Prints an answer as it comes: text as it is, a call as a line of its own when it is complete."""

    def __init__(self, console: Console) -> None:
        self._console, self._printed = console, 0
        self._kind: Optional[PartKind] = None

    def part(self, part: AnswerPart, answer: Answer) -> None:
        """Print a part that ``answer`` has taken in."""
        calling = part.kind in (PartKind.CALL, PartKind.ARGUMENTS)
        self.calls(answer, len(answer.calls) - calling)
        if calling:
            return
        if self._kind not in (None, part.kind):
            self._console.piece("\n")
        self._kind = part.kind
        self._console.piece(part.text)

    def calls(self, answer: Answer, count: Optional[int] = None) -> None:
        """Print the calls that are complete."""
        for call in answer.calls[self._printed : count]:
            self._console.piece(f"{'' if self._kind is None else chr(10)}-> {call}")
            self._kind = PartKind.CALL
        self._printed = len(answer.calls[:count])


def _speed(data: dict[str, Any], console: Console) -> list[Part]:
    """How fast the answer came, for somebody who looks; else only the end of its line."""
    if console.room is None or "tokens_per_s" not in data:
        return [""]
    told = f"{data['decode_tokens']} tokens, {data['tokens_per_s']:.1f}/s, the first after {data['first_token_us'] / 1e6:.2f} s"
    if "guessed_tokens" in data:
        told += f"; {data['accepted_tokens']} of {data['guessed_tokens']} guesses were right"
    return ["", Line(f"({told})", Tone.QUIET)]


COMMAND = Chat()
