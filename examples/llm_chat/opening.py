"""Opening the model of this example: what all the programs beside this file begin and end with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rknn3lite.api import RKNN3Lite
from rknnlite.errors import BackendUnavailable

MODEL = Path(__file__).resolve().parent / "models" / "tiny"


@contextmanager
def chat(callbacks: Any = None, **llm_args: Any) -> Iterator[RKNN3Lite]:
    """The model, ready to run; text and embeddings come from the files beside it unless callbacks are given."""
    rknn = RKNN3Lite(llm_mode=True)
    try:
        if rknn.load_rknn(f"{MODEL}.rknn", f"{MODEL}.weight") != 0:
            raise SystemExit("the files of the model cannot be read")
        if rknn.init_runtime("rk1820", 0xFF, llm_args=llm_args, llm_callback=callbacks) != 0:
            raise SystemExit("the model cannot be opened")
        yield rknn
    except BackendUnavailable as error:  # no jinja2
        raise SystemExit(str(error)) from None
    finally:
        rknn.release()


def ask(rknn: RKNN3Lite, prompt: str, **turn: Any) -> str:
    """The whole answer to one turn."""
    return "".join(rknn.stream(prompt, **turn))
