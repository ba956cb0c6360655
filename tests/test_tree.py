"""Do the names of files say what is inside? Forty questions of the kind "where is ...?", and the file that answers each.

Take somebody who has not read the code, show them the tree alone (``git ls-files``, no contents) and the questions
(``python tests/test_tree.py``), and have them name one file for each. A guess counts when it is the path of the row: the aim
is 36 of 40. A question that two people miss in the same way is a name to change, not a question to drop.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
QUESTIONS = (
    # rknnlite/
    (
        "How many NPU cores does an RK3588 have, and which of them may run a model together?",
        "rknnlite/socs.py",
    ),
    ("Which environment variables are there, and what holds where none is set?", "rknnlite/config.py"),
    ("A caller names no backend and two could run the model: which one gets it?", "rknnlite/choosing.py"),
    (
        "What does status -5 of the vendor's C API mean, and what should a user do about it?",
        "rknnlite/errors.py",
    ),
    ("From NCHW to NC1HWC2 and back, for any array.", "rknnlite/layout.py"),
    ("Two threads call the same opened model at the same time: one is refused.", "rknnlite/spi/exclusive.py"),
    (
        "A model is opened three times at once: on which part of the NPU does each copy run?",
        "rknnlite/pool/core_masks.py",
    ),
    (
        "A result is stored so that nobody ever finds half of it, nor through a planted link.",
        "rknnlite/files/writing.py",
    ),
    (
        "A helper library is compiled when it is first needed, and found again the next time.",
        "plugins/rknnlite_programs/buildcache.py",
    ),
    (
        "What is wrong with this machine? The command that answers, with one remedy each.",
        "rknnlite/cli/doctor.py",
    ),
    # plugins/rknnlite_cpu/
    (
        "Where is padding around a picture computed before windows of it are summed?",
        "plugins/rknnlite_cpu/kernels/conv.py",
    ),
    (
        "From a caller's uint8 pixels to what the network computes with: mean, deviation, quantisation.",
        "plugins/rknnlite_cpu/input_conversion.py",
    ),
    (
        "An int32 accumulator becomes int8: multiplier, shift, rounding, saturation.",
        "plugins/rknnlite_cpu/ops/requantise.py",
    ),
    (
        "Sums of a layer could pass 2^24: how is it computed instead, and how is the fastest way picked?",
        "plugins/rknnlite_cpu/kernels/conv_algorithm.py",
    ),
    ("Elu, HardSwish and other functions of one operand.", "plugins/rknnlite_cpu/ops/activation.py"),
    ("LSTM and GRU.", "plugins/rknnlite_cpu/ops/rnn.py"),
    (
        "Which neighbouring nodes of a graph are handed to onnxruntime together?",
        "plugins/rknnlite_cpu/engines/partition.py",
    ),
    (
        "A program forgot to sync its buffer, and reads old bytes as it would on a board.",
        "plugins/rknnlite_backend/cache_coherence.py",
    ),
    ("The rows of the table with a time for every layer.", "plugins/rknnlite_cpu/perf.py"),
    ("The same network without quantisation, for comparison.", "plugins/rknnlite_cpu/fidelity.py"),
    # plugins/rknnlite_llm/ and plugins/rknnlite_cpu/llm/
    ("Keys and values of earlier tokens in FP8.", "plugins/rknnlite_cpu/llm/kv_cache_formats.py"),
    (
        "Several tokens are guessed, and one pass through the weights says how many were right.",
        "plugins/rknnlite_cpu/llm/speculation.py",
    ),
    (
        "The next tokens of all conversations that wait are computed in one pass.",
        "plugins/rknnlite_cpu/llm/continuous_batching.py",
    ),
    (
        "The three numbers (time, row, column) of a token of a picture for M-RoPE.",
        "plugins/rknnlite_cpu/llm/positions.py",
    ),
    ("The router of a mixture of experts.", "plugins/rknnlite_cpu/llm/feed_forward.py"),
    ("Temperature, top-k, top-p and penalties.", "plugins/rknnlite_llm/sampling.py"),
    (
        "A list of messages becomes the text that the model was trained on.",
        "plugins/rknnlite_llm/chat_template.py",
    ),
    (
        "A checkpoint whose matrices are already four-bit integers is read.",
        "plugins/rknnlite_llm/gptq_awq.py",
    ),
    (
        "How an answer of gpt-oss is divided into thoughts, calls of tools and content.",
        "plugins/rknnlite_llm/answers/harmony.py",
    ),
    (
        "A tokenizer from a stranger's folder may take for ever: it is stopped from outside.",
        "plugins/rknnlite_llm/isolated_tokenizer.py",
    ),
    # plugins/rknnlite_server/ and plugins/rknnlite_protocol/
    (
        "Which client may call a server without keys, and which web page may not?",
        "plugins/rknnlite_server/origins.py",
    ),
    ("OpenAI's route for conversations.", "plugins/rknnlite_server/chat.py"),
    (
        "What a program for Ollama sends is put into OpenAI's words.",
        "plugins/rknnlite_server/ollama_requests.py",
    ),
    ("All sessions are busy: who waits, and who is sent away?", "plugins/rknnlite_server/queueing.py"),
    ("A Python program starts a server in a thread, and stops it.", "plugins/rknnlite_server/control.py"),
    ("Requests and answers in gzip.", "plugins/rknnlite_server/compression.py"),
    ("A tensor as raw bytes behind the JSON of an HTTP request.", "plugins/rknnlite_protocol/rest_codec.py"),
    (
        "An error inside of inference: which number of HTTP or gRPC does the client get?",
        "plugins/rknnlite_protocol/error_status.py",
    ),
    (
        "Requests of single pictures wait a moment for each other, and share one run.",
        "plugins/rknnlite_server/networks/batching.py",
    ),
    (
        "Networks of a folder are found, loaded and unloaded by name.",
        "plugins/rknnlite_server/networks/repository.py",
    ),
)
"""What is looked for, and where it is."""


def test_no_file_is_asked_for_twice() -> None:
    assert len({path for _, path in QUESTIONS}) == len(QUESTIONS) == 40


@pytest.mark.parametrize(("question", "answer"), QUESTIONS)
def test_the_answer_exists_and_the_question_does_not_name_it(question: str, answer: str) -> None:
    path = ROOT / answer
    assert path.is_file(), f"{answer} does not exist: correct the row of {question!r}"
    assert path.stem.replace("_", " ") not in question.lower().replace("-", " "), question


if __name__ == "__main__":
    for number, (question, _) in enumerate(QUESTIONS, 1):
        print(f"{number:2} {question}")
