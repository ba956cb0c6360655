"""Train the model of this example and export it: 21 minutes of one core.

    pip install torch transformers '.[llm]'
    python train.py [--steps 4500] [--out models/tiny]

A byte-level BPE tokenizer of 640 tokens and a Qwen2-architecture model of 0.9 million parameters learn the made
questions of ``questions.py``. ``score.py`` asks held-out ones.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import jinja2
import torch
from questions import TOOLS, Question, arithmetic, calendar, colours, questions
from rknnlite_llm import export_llm
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Qwen2Config, Qwen2ForCausalLM

HERE = Path(__file__).resolve().parent
TEMPLATE = (HERE / "chat_template.jinja").read_text()
RENDERER = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(TEMPLATE)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
VOCABULARY, GROUP, PEAK_RATE = 640, 32, 3e-3
SYSTEMS = [
    "You are a helpful assistant.",
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
    "Answer in one sentence.",
]
SPLIT = r"\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+"


def render(question: Question, upto: int | None = None) -> str:
    """The conversation as text; ``upto`` messages of it, asking for the next one."""
    tools = TOOLS if question.tools else None
    return RENDERER.render(
        messages=question.messages[:upto], tools=tools, add_generation_prompt=upto is not None
    )


def make_tokenizer() -> Tokenizer:
    """Byte-level BPE on training text; every digit is a token of its own, which arithmetic needs."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(SPLIT), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator((render(q) for q in islice(questions(1, False), 20000)), trainer)
    return tokenizer


def encoded(tokenizer: Tokenizer, question: Question) -> tuple[list[int], list[int]]:
    """Tokens, and labels that count the assistant's words only."""
    ids: list[int] = []
    labels: list[int] = []
    for number, message in enumerate(question.messages):
        if message["role"] != "assistant":
            continue
        before = tokenizer.encode(render(question, number)).ids
        upto = tokenizer.encode(render(question, number) + message["content"] + "<|im_end|>\n").ids
        labels += [-100] * (len(before) - len(labels)) + upto[len(before) : -1] + [-100]
        ids = upto
    return ids, labels


def conversations(seed: int) -> Iterator[Question]:
    """Training questions, some of them behind a system prompt or behind another question."""
    rng = random.Random(seed)
    smalltalk = questions(seed + 1, False, {arithmetic: 1, calendar: 1, colours: 1})
    for question in questions(seed, False, easy=0.5):
        before = []
        if not question.tools and rng.random() < 0.15:
            before.append({"role": "system", "content": rng.choice(SYSTEMS)})
        if rng.random() < 0.08:
            before += next(smalltalk).messages
        yield replace(question, messages=before + question.messages)


def batches(tokenizer: Tokenizer, seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless groups of sequences of similar length, padded on the right; lengths follow one another at random."""
    stream = conversations(seed)
    while True:
        pool = sorted(
            (encoded(tokenizer, q) for q in islice(stream, GROUP * 32)), key=lambda pair: len(pair[0])
        )
        groups = [pool[i : i + GROUP] for i in range(0, len(pool), GROUP)]
        for i in torch.randperm(len(groups)).tolist():
            width = max(len(ids) for ids, _ in groups[i])
            ids = torch.tensor([a + [0] * (width - len(a)) for a, _ in groups[i]])
            labels = torch.tensor([b + [-100] * (width - len(b)) for _, b in groups[i]])
            yield ids, labels


def make_model() -> Qwen2ForCausalLM:
    """Qwen2 architecture, small."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY, hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=2048, tie_word_embeddings=True, rope_theta=10000.0,
        initializer_range=0.08, bos_token_id=None, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return Qwen2ForCausalLM(config)


def train(model: Qwen2ForCausalLM, tokenizer: Tokenizer, steps: int) -> None:
    """AdamW; the learning rate rises for 100 steps and falls along a cosine. A step takes two groups."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.05)
    start, stream = time.process_time(), batches(tokenizer, seed=2)
    for step in range(steps):
        rate = PEAK_RATE * min(1, (step + 1) / 100) * (0.02 + 0.49 * (1 + math.cos(math.pi * step / steps)))
        for group in optimiser.param_groups:
            group["lr"] = rate
        losses = []
        for ids, labels in islice(stream, 2):
            hidden = model.model(input_ids=ids).last_hidden_state[:, :-1]
            wanted = labels[:, 1:]
            counted = wanted != -100  # only these positions need logits
            loss = torch.nn.functional.cross_entropy(model.lm_head(hidden[counted]), wanted[counted])
            (loss / 2).backward()
            losses.append(loss.item())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if step % 100 == 99:
            spent = time.process_time() - start
            shown = "  ".join(f"{loss:.4f}" for loss in losses)
            print(f"step {step + 1}  loss {shown}  {spent:.0f} s of processor time", flush=True)


def save(model: Qwen2ForCausalLM, tokenizer: Tokenizer, folder: Path) -> None:
    """As Hugging Face lays a model out; weights are rounded to float16, which is what will be exported."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.half().float())
    model.half().save_pretrained(folder)
    model.float()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "eos_token": "<|im_end|>",
        "chat_template": TEMPLATE,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4500)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--hf", type=Path, default=HERE / "trained", help="folder for the Hugging Face model")
    parser.add_argument("--out", type=Path, default=HERE / "models" / "tiny", help="prefix of the package")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tokenizer, model = make_tokenizer(), make_model()
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    train(model, tokenizer, args.steps)
    save(model, tokenizer, args.hf)
    export_llm(args.hf, args.out, weights="f16", max_context=1024)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
