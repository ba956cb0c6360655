"""Wrong types in calls of the native interface: an RknnError that names the argument, its type and what is wanted.

What there is to call is found by looking at the interface: a new method or name is tried without being named here.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
import pytest

import rknnlite
from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.spi import Input
from rknnlite.spi.arguments import Typed, WrongType, typed
from tests.spi.public_calls import WRONG, methods, outcome, untyped

EXAMPLES = Path(__file__).parents[2] / "examples"
MODEL = str(EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn")
TINY = EXAMPLES / "llm_chat" / "models" / "tiny"
IMAGE = (np.zeros((1, 224, 224, 3), np.uint8),)

RIGHT: dict[str, dict[str, Any]] = {
    "open": {"model": MODEL, "backend": "cpu"},
    "Pool": {"model": MODEL, "size": 1, "backend": "cpu"},
    "Matmul": {"M": 4, "K": 64, "N": 32, "backend": "cpu"},
    "open_llm": {"model": f"{TINY}.rknn", "backend": "cpu"},
}
"""What a call needs beside the argument that is wrong; without it all that must be given is."""
CALLABLE = [
    name
    for name in rknnlite.__all__
    if callable(member := getattr(rknnlite, name))
    and not inspect.isabstract(member)
    and not (isinstance(member, type) and issubclass(member, Exception))  # takes whatever is to be told
    and type(member).__module__.partition(".")[0] != "pluggy"
]


@contextlib.contextmanager
def a_chat() -> Iterator[Any]:
    pytest.importorskip("jinja2")
    from rknnlite_llm import Chat

    with Chat(TINY, backend="cpu") as chat:
        yield chat


@contextlib.contextmanager
def part(of: Callable[[], Any], name: str) -> Iterator[Any]:
    with of() as whole:
        yield getattr(whole, name)


def a_product() -> Any:
    return rknnlite.Matmul(4, 64, 32, backend="cpu")


OBJECTS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "Context": (
        lambda: rknnlite.open(MODEL, backend="cpu"),
        {"*arrays": IMAGE, "inputs": [Input(0, IMAGE[0])]},
    ),
    "Pool": (lambda: rknnlite.Pool(MODEL, workers=1, backend="cpu"), {"*inputs": IMAGE}),
    "Matmul": (a_product, {}),
    "MatmulContext": (lambda: part(a_product, "context"), {}),
    "Chat": (a_chat, {"max_new_tokens": 1}),
    "LlmSession": (lambda: part(a_chat, "session"), {}),
    "LlmContext": (lambda: part(a_chat, "context"), {}),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a file "x" may come into being


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("kind", OBJECTS)
def test_methods(kind: str) -> None:
    made, right = OBJECTS[kind]
    with made() as thing:
        names = list(methods(type(thing)))
        assert names
        for name in names:
            tried, found = untyped(f"{kind}.{name}", getattr(thing, name), right)
            assert tried or name in ("infer", "infer_async", "submit")
            assert not found


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", CALLABLE)
def test_names(name: str) -> None:
    if name in ("to_onnx", "compare"):
        pytest.importorskip("onnx")
    member = getattr(rknnlite, name)
    if hasattr(member, "__members__"):  # arrays are compared with each member, before anybody is asked
        for wrong in WRONG:
            error = outcome(lambda w=wrong: member(w))
            assert isinstance(error, (RknnError, type(None))) or isinstance(wrong, np.ndarray), wrong
    else:
        assert not untyped(name, member, RIGHT.get(name, {}))[1]


def test_every_public_class_with_methods_is_typed() -> None:
    """And has an object above: a class that is new in the interface is missed here."""
    for name in rknnlite.__all__:
        member = getattr(rknnlite, name)
        if isinstance(member, type) and issubclass(member, Typed):
            assert name in OBJECTS
        elif isinstance(member, type) and hasattr(member, "close"):
            pytest.fail(f"{name} is no Typed")


def test_enumerations_say_what_there_is() -> None:
    for kind in (rknnlite.DType, rknnlite.Layout, rknnlite.CoreMask):
        with pytest.raises(
            ValueError, match=rf"{kind.__name__}: value is str 'x', must be one of \w+ \(0\)"
        ) as caught:
            kind("x")
        assert isinstance(caught.value, ParamInvalid)
    assert rknnlite.CoreMask(5) == rknnlite.CoreMask.CORE_0 | rknnlite.CoreMask.CORE_2


def test_what_is_left_untyped_is_found() -> None:
    class Plain:
        def twice(self, count: int) -> int:
            return count.bit_length() * 2

        def pieces(self, count: int) -> Iterator[int]:
            yield from range(count)

        async def later(self, count: int) -> int:
            return count.bit_length()

    class Better(Typed, Plain):
        twice, pieces, later = Plain.twice, Plain.pieces, Plain.later

    class Further(Better):
        @staticmethod
        def alone(count: int) -> int:
            return count.bit_length()

    for name in ("twice", "pieces", "later"):
        assert untyped(name, getattr(Plain(), name), {})[1]
    assert list(methods(Further)) == ["alone", "later", "pieces", "twice"]
    for name in methods(Further):
        assert not untyped(name, getattr(Further(), name), {})[1]


def test_errors_keep_nothing_alive() -> None:
    """What an error remembers is freed with it, and not when the garbage is collected."""

    class Failing(Typed):
        def call(self, count: int) -> None:
            raise OSError(count.bit_length())

    for wrong in (1, "x"):
        thing = Failing()
        gone = weakref.ref(thing)
        gc.disable()
        try:
            with contextlib.suppress(OSError, WrongType):
                thing.call(wrong)  # type: ignore[arg-type]
            del thing
            assert gone() is None
        finally:
            gc.enable()


def test_streams_of_coroutines() -> None:
    async def pieces(chat: Any) -> list[str]:
        return [piece async for piece in chat.astream(np.zeros(3))]

    with a_chat() as chat, pytest.raises(WrongType, match="prompt is ndarray"):
        asyncio.run(pieces(chat))


def test_the_message() -> None:
    with pytest.raises(
        WrongType, match=r"rknnlite\.open: model is NoneType None, must be str \| os\.PathLike"
    ):
        rknnlite.open(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Pool: workers is str 'a', must be Optional\[int\]") as caught:
        rknnlite.Pool(MODEL, workers="a")  # type: ignore[arg-type]
    assert isinstance(caught.value, ParamInvalid)


@typed
def example(
    count: int, names: Sequence[str] = (), table: Optional[Mapping[str, int]] = None, *rest: Union[int, str]
) -> Any:
    return count + sum(map(len, names)) + len(table or {}) + int(rest[0] if rest else 0)


def test_what_fits_stays_what_it_is() -> None:
    assert example(1, ["a"], {"b": 1}, 2) == example(np.int64(1), ("a",), {"b": 1}, "2") == 5
    for wrong in (("1",), (1, "ab", 1), (1, [2]), (1, (), None, 2.5j)):
        with pytest.raises(WrongType):
            example(*wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="invalid literal"):  # of the right type, and wrong
        example(1, (), None, "x")
    with pytest.raises(TypeError, match="missing 1 required"):
        example()  # type: ignore[call-arg]


class Alias:
    """What ``type Numbers = Sequence[float]`` makes, before Python 3.12."""

    __value__ = Sequence[float]


@typed
def aliased(numbers: Alias) -> float:
    return sum(numbers)  # type: ignore[call-overload,no-any-return]


def test_names_of_types_are_what_they_stand_for() -> None:
    assert aliased([1.0, 2]) == 3  # type: ignore[arg-type]
    with pytest.raises(WrongType, match="aliased: numbers is int 1"):
        aliased(1)  # type: ignore[arg-type]
