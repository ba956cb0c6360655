"""Errors that come from the model's process: values over the wire, no text that somebody takes apart."""

from __future__ import annotations

import socket
import sys

import pytest
from rknnlite_backend.library import FunctionMissing
from rknnlite_programs.childprocess import ChildProcess, ProcessEnded
from rknnlite_rkllm.failure import Failure, error_of, failure_of
from rknnlite_rkllm.identify import LibraryUnknown
from rknnlite_rkllm.wire import Channel, Message

from rknnlite.errors import ContextInvalid, ParamInvalid, RknnError, error_from_code


def sent(error: Exception) -> RknnError:
    """The error as it is on the other side of the wire."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Channel(ours).send(Message.FAILED, failure_of(error))
        kind, failure = Channel(theirs).receive()
    assert kind is Message.FAILED and isinstance(failure, Failure)
    return error_of(failure)


@pytest.mark.parametrize("kind", [RknnError, ParamInvalid, ContextInvalid, LibraryUnknown, FunctionMissing])
def test_an_error_keeps_its_class_and_its_text(kind: type[RknnError]) -> None:
    error = kind("first line\nsecond \x07 line")
    found = sent(error)
    assert type(found) is kind and found.args == error.args and str(found) == str(error)
    assert found.code == error.code and found.native_code is None


def test_an_error_keeps_codes_of_its_own() -> None:
    error = error_from_code(-99, "unheard of")
    error.native_code = -7
    found = sent(error)
    assert (type(found), found.code, found.native_code) == (RknnError, -99, -7)
    assert RknnError.code == -1 and RknnError.native_code is None  # nothing of it stays at the class


def test_an_error_of_nobody_is_a_plain_one() -> None:
    found = sent(ZeroDivisionError("division by zero"))
    assert type(found) is RknnError and str(found) == "division by zero"
    assert type(sent(OSError(2, "No such file"))) is RknnError


def test_the_end_of_a_process_is_a_field_of_its_error() -> None:
    child = ChildProcess("a; open the model\x07", [sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(ProcessEnded) as ended, child.exchange("rkllm_run", 20) as sock:
        if not sock.recv(1):
            raise EOFError
    assert ended.value.ending == "ended in rkllm_run: status 3"
    with pytest.raises(ProcessEnded, match=r"open the model again$") as again:
        child.check()
    assert again.value.ending == ended.value.ending
    child.close()


def test_the_path_that_documents_named_first_still_has_the_error() -> None:
    from rknnlite_rkllm import apart, model_process

    assert apart.RkllmCrashed is model_process.RkllmCrashed
