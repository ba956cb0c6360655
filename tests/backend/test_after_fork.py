"""Objects of a C library belong to the process that made them: a child gives nothing back and is told so."""

from __future__ import annotations

import os
import sys

import pytest
from rknnlite_backend.native_objects import Native, abandon_after_fork


class Holder:
    """Stands for a context; ``native`` is an object that is never to be given back here."""

    def __init__(self) -> None:
        self.given_back: list[str] = []
        self.native = Native(1, self._destroy, (self.given_back,))
        self.abandoned = False

    @staticmethod
    def _destroy(given_back: list[str]) -> int:
        given_back.append("destroyed")
        return 0

    def abandon(self) -> None:
        self.abandoned = not self.native.alive  # the object is disowned before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_the_child_abandons_what_the_parent_keeps() -> None:
    holder, other = Holder(), Holder()
    abandon_after_fork(holder)
    child = os.fork()
    if child == 0:
        holder.native.release()
        fine = holder.abandoned and not other.abandoned and not holder.given_back
        sys.stdout.flush()
        os._exit(0 if fine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not holder.abandoned and holder.native.alive
    holder.native.release()
    assert holder.given_back == ["destroyed"]
