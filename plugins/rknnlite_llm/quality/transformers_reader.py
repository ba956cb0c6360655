"""The same checkpoint read by transformers in an interpreter of the user's: a check of our own float32 path from outside."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import BackendUnavailable

from .readers import Reader

__all__ = ["transformers_reader"]

Array = NDArray[Any]
_PIECE = 1 << 20
_PROGRAM = """
import json, sys
out = sys.stdout.buffer
sys.stdout = sys.stderr
import torch, transformers
transformers.utils.logging.disable_progress_bar()
kind = "dtype" if int(transformers.__version__.split(".")[0]) >= 5 else "torch_dtype"
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], **{kind: torch.float32}).eval()
out.write(b"ready\\n"); out.flush()
for line in sys.stdin:
    with torch.no_grad():
        logits = model(torch.tensor([json.loads(line)])).logits[0].float().contiguous().numpy()
    out.write(json.dumps(list(logits.shape)).encode() + b"\\n")
    out.write(logits.tobytes()); out.flush()
"""


@contextlib.contextmanager
def transformers_reader(python: str, hf_dir: str | Path) -> Iterator[Reader]:
    """``python``: an interpreter that has torch and transformers. Raises BackendUnavailable when it cannot read the model."""
    command = [python, "-I", "-c", _PROGRAM, str(hf_dir)]
    with _started(command) as process:
        pipe_in, pipe_out = _pipes(process)
        if pipe_out.readline() != b"ready\n":
            raise _failed(python, process)

        unread = 0

        def read(text: Sequence[int]) -> Iterator[Array]:
            nonlocal unread
            while unread:  # of a text that was not read to its end
                unread -= len(pipe_out.read(min(unread, _PIECE)))
            pipe_in.write(json.dumps([int(token) for token in text]).encode() + b"\n")
            pipe_in.flush()
            header = pipe_out.readline()
            if not header:
                raise _failed(python, process)
            count, vocab = json.loads(header)
            unread = 4 * count * vocab
            for _ in range(count):
                unread -= 4 * vocab
                yield np.frombuffer(pipe_out.read(4 * vocab), np.float32)

        yield read


def _failed(python: str, process: subprocess.Popen[bytes]) -> BackendUnavailable:
    return BackendUnavailable(
        f"transformers of {python} could not read the model (exit code {process.wait()}); what it said is above. It needs "
        "the packages torch and transformers"
    )


@contextlib.contextmanager
def _started(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        raise BackendUnavailable(
            f"{command[0]} cannot be started: {error.strerror}; name an interpreter that has torch and transformers"
        ) from None
    with process:
        try:
            yield process
        finally:
            process.kill()


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None and process.stdout is not None
    return process.stdin, process.stdout
