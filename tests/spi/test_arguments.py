"""Wrong types in calls of the native interface: an RknnError that names the argument, its type and what is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
import pytest

import rknnlite
from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.spi.arguments import WrongType, typed

EXAMPLES = Path(__file__).parents[2] / "examples"
MODEL = str(EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn")
TINY = EXAMPLES / "llm_chat" / "models" / "tiny"
WRONG: list[Any] = [None, 3, 2.5, "x", b"x", [], {}, object(), [None], np.zeros(3), lambda: 0]

OF_CONTEXT: dict[str, Callable[[Any, Any], Any]] = {
    "infer": lambda context, w: context.infer(w),
    "layout": lambda context, w: context.infer(np.zeros((1, 224, 224, 3), np.uint8), layout=w),
    "pass_through": lambda context, w: context.infer(np.zeros((1, 224, 224, 3), np.uint8), pass_through=w),
    "set_inputs": lambda context, w: context.set_inputs(w),
    "set_core_mask": lambda context, w: context.set_core_mask(w),
    "set_shapes": lambda context, w: context.set_shapes(w),
    "register_ops": lambda context, w: context.register_ops(w),
    "attrs": lambda context, w: context.attrs(w),
    "create_mem": lambda context, w: context.create_mem(w),
    "import_mem": lambda context, w: context.import_mem(w, 4),
    "bind": lambda context, w: context.bind(w, w),
    "sync": lambda context, w: context.sync(w, w),
    "wait": lambda context, w: context.wait(w),
    "get_outputs_into": lambda context, w: context.get_outputs_into(w),
}
OF_POOL: dict[str, Callable[[Any, Any], Any]] = {
    "submit": lambda pool, w: pool.submit(w).result(),
    "call": lambda pool, w: pool.call(w),
    "call_on": lambda pool, w: pool.call_on(w, lambda context: None),
    "map": lambda pool, w: list(pool.map(w)),
    "look_ahead": lambda pool, w: list(pool.map([], w)),
}
OF_SESSION: dict[str, Callable[[Any, Any], Any]] = {
    "ask": lambda chat, w: chat.ask(w, max_new_tokens=1),
    "max_new_tokens": lambda chat, w: chat.ask("hi", max_new_tokens=1 if w is WRONG[1] else w),
    "stream": lambda chat, w: list(chat.stream(w, max_new_tokens=1)),
    "run": lambda chat, w: chat.session.run(w),
    "params": lambda chat, w: chat.session.run("hi", w),
    "set_chat_template": lambda chat, w: chat.session.set_chat_template(w, w, w),
    "set_kvcache_policy": lambda chat, w: chat.session.set_kvcache_policy(w),
    "clear_kvcache": lambda chat, w: chat.session.clear_kvcache(w),
    "load_kvcache": lambda chat, w: chat.session.load_kvcache(w),
    "set_function_tools": lambda chat, w: chat.session.set_function_tools(w),
    "set_callbacks": lambda chat, w: chat.session.set_callbacks(w),
}
OPENING: dict[str, Callable[[Any], Any]] = {
    "open": lambda w: rknnlite.open(w).close(),
    "backend": lambda w: rknnlite.open(MODEL, backend=w).close(),
    "core_mask": lambda w: rknnlite.open(MODEL, backend="cpu", core_mask=w).close(),
    "custom_ops": lambda w: rknnlite.open(MODEL, backend="cpu", custom_ops=w).close(),
    "Pool": lambda w: rknnlite.Pool(w).close(),
    "size": lambda w: rknnlite.Pool(MODEL, size=w, backend="cpu").close(),
    "cores": lambda w: rknnlite.Pool(MODEL, size=1, cores=w, backend="cpu").close(),
    "queue": lambda w: rknnlite.Pool(MODEL, size=1, queue=w, backend="cpu").close(),
    "timeout": lambda w: rknnlite.Pool(MODEL, size=1, timeout=w, backend="cpu").close(),
    "Matmul": lambda w: rknnlite.Matmul(w, w, w),
    "M": lambda w: rknnlite.Matmul(w, 32, 32).close(),
    "compare": lambda w: rknnlite.compare(w, MODEL),
    "reference": lambda w: rknnlite.compare(MODEL, w),
    "to_onnx": lambda w: rknnlite.to_onnx(w),
    "form": lambda w: rknnlite.to_onnx(MODEL, form=w),
    "load_custom_ops": lambda w: rknnlite.load_custom_ops(w),
    "open_llm": lambda w: rknnlite.open_llm(w),
    "weights": lambda w: rknnlite.open_llm(f"{TINY}.rknn", w).close(),
}


def untyped(call: Callable[[Any], Any]) -> Iterator[str]:
    """What is none of our errors, over all wrong values; a value may be right, too."""
    for wrong in WRONG:
        try:
            call(wrong)
        except RknnError as error:
            assert str(error)
        except Exception as error:
            yield f"{type(wrong).__name__}: {type(error).__name__}: {error}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a file "x" may come into being


@pytest.mark.usefixtures("folder")
def test_contexts() -> None:
    with rknnlite.open(MODEL, backend="cpu") as context:
        assert not {
            name: found
            for name, call in OF_CONTEXT.items()
            if (found := list(untyped(lambda w, c=call: c(context, w))))
        }


@pytest.mark.usefixtures("folder")
def test_pools() -> None:
    with rknnlite.Pool(MODEL, size=1, backend="cpu") as pool:
        assert not {
            name: found
            for name, call in OF_POOL.items()
            if (found := list(untyped(lambda w, c=call: c(pool, w))))
        }


@pytest.mark.usefixtures("folder")
def test_sessions() -> None:
    pytest.importorskip("jinja2")
    from rknnlite.llm import Chat

    with Chat(TINY) as chat:
        assert not {
            name: found
            for name, call in OF_SESSION.items()
            if (found := list(untyped(lambda w, c=call: c(chat, w))))
        }

        async def pieces() -> list[str]:
            return [piece async for piece in chat.astream(np.zeros(3))]  # type: ignore[arg-type]

        with pytest.raises(WrongType, match="prompt is ndarray, must be text or a list of messages"):
            asyncio.run(pieces())


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", OPENING)
def test_opening(name: str) -> None:
    if name in ("to_onnx", "form", "compare", "reference"):
        pytest.importorskip("onnx")
    assert not list(untyped(OPENING[name]))


def test_the_message() -> None:
    with pytest.raises(WrongType, match=r"open_model: model is NoneType None, must be str \| os\.PathLike"):
        rknnlite.open(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Pool: size is str 'a', must be Optional\[int\]") as caught:
        rknnlite.Pool(MODEL, size="a")  # type: ignore[arg-type]
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
