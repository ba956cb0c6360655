"""What the context of a language model and its sessions share, for backends of any kind."""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..errors import ContextInvalid
from ..spi.llm import LlmConfig
from ..tensor import TensorAttr

__all__ = ["LlmEngine"]

_LOOK = 0.02  # seconds between looks at a stop request while another session runs


class LlmEngine(abc.ABC):
    """A loaded language model: what it says about itself, and whose session runs. It knows no sessions."""

    def __init__(self) -> None:
        self._running = threading.Lock()
        self._runner: int | None = None

    @property
    @abc.abstractmethod
    def config(self) -> LlmConfig:
        """See ``LlmContext.config``."""

    @property
    @abc.abstractmethod
    def inputs(self) -> list[TensorAttr]:
        """See ``LlmContext.inputs``."""

    @property
    @abc.abstractmethod
    def outputs(self) -> list[TensorAttr]:
        """See ``LlmContext.outputs``."""

    @abc.abstractmethod
    def check_open(self) -> None:
        """Raise ContextInvalid when the model is closed."""

    @contextmanager
    def one_run(self, stopping: Callable[[], bool]) -> Iterator[bool]:
        """Hold the model for a run, one session at a time; False when stopped while waiting for the others."""
        if self._runner == threading.get_ident():
            raise ContextInvalid(
                "a session was run from inside a callback of another session of the same model"
            )
        while not self._running.acquire(timeout=_LOOK):
            if stopping():
                yield False
                return
        self._runner = threading.get_ident()
        try:
            self.check_open()
            yield True
        finally:
            self._runner = None
            self._running.release()

    def abandon(self) -> None:
        """After a fork, in the child: whoever ran is not here."""
        self._running, self._runner = threading.Lock(), None
