"""A context of librknn3_api: a network or a language model, and what each call does with it."""

from __future__ import annotations

import ctypes as ct
import mmap
import struct
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite import config, socs
from rknnlite.errors import ContextInvalid, DeviceUnavailable, ModelInvalid, ParamInvalid, RknnError
from rknnlite.formats import ModelFile
from rknnlite.formats.frame import LLM_PACKAGE
from rknnlite.runtime import open_model
from rknnlite.spi import Context
from rknnlite.spi.llm import LlmContext
from rknnlite.tensor import TensorAttr

from ..calls import Handler, Reply
from ..open_contexts import OpenContexts
from ..packed import Packed
from ..protocol import Call, Request
from .query import Shapes, answer
from .tensors import Feed

__all__ = ["Model"]

Array = NDArray[Any]
_ALL_CORES = 0xFFFFFFFF
_WHAT = ("internal tensors", "the KV cache", "weights")
_PERF = struct.Struct("=Q")


class Model:
    """Serves one ``rknn3_context``."""

    def __init__(self, contexts: OpenContexts, device: str) -> None:
        if device not in ("", "cpu"):
            raise DeviceUnavailable(
                f"there is no device {device!r}; the CPU reference plays one, its id is 'cpu'"
            )
        self._contexts = contexts
        self._files: tuple[Optional[ModelFile], Optional[ModelFile]] = (None, None)
        self._opened: Union[Context, LlmContext, None] = None
        self._plain_outputs: list[TensorAttr] = []
        self._memories: dict[int, Array] = {}
        self._feed: Optional[Feed] = None
        self._shape_table: Optional[Shapes] = None
        self._timeout = self._frame = 0
        self._post = self._wants_internal = False

    @classmethod
    def open(cls, request: Request, contexts: OpenContexts, number: int) -> tuple[Model, Reply]:
        """An empty context, or a duplicate. Raises RknnError."""
        model = cls(contexts, request.payload.decode("utf-8", "replace"))
        if request.call == Call.DUP_3:
            from_model = contexts.get(request.args[0], Model)
            model._take(from_model.network.dup())
        contexts.add(number, model)
        return model, Reply()

    def handlers(self) -> dict[int, Handler]:
        """What answers which call."""
        return {
            Call.LOAD_3: self._load,
            Call.MODEL_INIT_3: self._model_init,
            Call.QUERY_3: self._query,
            Call.SHAPE_3: self._shape,
            Call.RUN_3: self._run,
            Call.WAIT_3: self._wait,
            Call.DUMP_3: self._dump,
            Call.PROFILE_3: self._profile,
            Call.PROFILE_MEMORY_3: self._profile_memory,
            Call.PLUGIN_3: self._plugin,
            Call.GIVEN_3: self._given,
            Call.MEMORY: self._learn,
            Call.FORGET: self._forget,
            Call.SESSION_STOP_3: self._stop_session,
            Call.SESSION_STATE_3: self._session_state,
        }

    def close(self) -> None:
        """Close what is open, sessions too."""
        opened, self._opened = self._opened, None
        self._feed = None
        if opened is not None:
            opened.close()
        self._memories.clear()

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    def network(self) -> Context:
        """The network; raises ContextInvalid."""
        if not isinstance(self._opened, Context):
            raise ContextInvalid(self._missing("network"))
        return self._opened

    @property
    def language_model(self) -> LlmContext:
        """The language model; raises ContextInvalid."""
        if not isinstance(self._opened, LlmContext):
            raise ContextInvalid(self._missing("language model"))
        return self._opened

    def _missing(self, wanted: str) -> str:
        if self._opened is not None:
            return f"the model is no {wanted}"
        return "there is no model: call rknn3_load_model_from_path and rknn3_model_init first"

    # -- opening ------------------------------------------------------------------------------------------

    def _load(self, request: Request) -> None:
        if self._opened is not None:
            raise ContextInvalid("the context has a model already; init another one")
        if request.fds:
            sizes = [size for size in request.args[:2] if size]
            files = [_from_memory(fd, size) for fd, size in zip(request.fds, sizes)]
        else:
            packed = Packed(request.payload)
            files = [_from_path(path) for path in (packed.path(), packed.path()) if path is not None]
        self._files = (files[0], files[1] if len(files) > 1 else None)

    def _model_init(self, request: Request) -> None:
        file, weights = self._files
        if self._opened is not None or file is None:
            raise ContextInvalid("load a model first, and call rknn3_model_init once")
        mask, self._timeout, outside = request.args[:3]
        where: dict[str, Any] = {
            "backend": config.get("backend") or "cpu",
            "soc": _coprocessor(),
            "core_mask": 0xFF if mask == _ALL_CORES else mask,
        }
        if bytes(file.data[:8]) == LLM_PACKAGE:
            from rknnlite_llm import open_llm

            self._opened = open_llm(file, weights, **where)
        else:
            self._take(open_model(file, weights=weights, **where))
        self._wants_internal = bool(outside >> 8)
        self._files = (None, None)

    def _take(self, opened: Context) -> None:
        self._opened, self._plain_outputs = opened, opened.outputs

    # -- questions and settings ---------------------------------------------------------------------------

    def _query(self, request: Request) -> Reply:
        command, index, room, later = request.args[:4]
        if self._opened is None:
            return answer(None, command, index, room, bool(later), [])
        if self._shape_table is None and isinstance(self._opened, Context):
            self._shape_table = Shapes(self._opened, self._post)
        return answer(self._opened, command, index, room, bool(later), self._plain_outputs, self._shape_table)

    def _shape(self, request: Request) -> None:
        number, opened = ct.c_int32(request.args[0] & 0xFFFFFFFF).value, self.network
        if not 0 <= number < len(opened.shapes):
            raise ParamInvalid(f"there is no shape {number}, the model has {len(opened.shapes)}")
        opened.set_shapes(opened.shapes[number])
        if not self._post:
            self._plain_outputs = opened.outputs
        self._feed = None

    def _plugin(self, request: Request) -> None:
        self.network.register_postprocess(request.payload.decode("utf-8", "surrogateescape"))
        self._post, self._feed, self._shape_table = True, None, None

    def _given(self, request: Request) -> None:
        """Memory for what lies elsewhere here: its size is checked, as a coprocessor does."""
        packed, what = Packed(request.payload), request.args[0]
        sizes = {}
        while not packed.ended:
            core = packed.signed()
            sizes[core] = packed.number()
        if what == 0 and isinstance(self._opened, Context):
            need, size = self._opened.memory().internal, sum(sizes.values())
            if size < need:
                raise ParamInvalid(f"the memory has {size} bytes, {_WHAT[what]} need {need}")
        elif self._opened is None:
            raise ContextInvalid(f"memory for {_WHAT[what]}: call rknn3_model_init first")
        self._wants_internal = self._wants_internal and what != 0

    # -- memory -------------------------------------------------------------------------------------------

    def _learn(self, request: Request) -> None:
        number, size, offset = request.args[:3]
        try:
            mapped = mmap.mmap(request.fds.first, size + offset)
        except (OSError, ValueError, OverflowError) as error:
            raise ParamInvalid(f"memory of {size} bytes cannot be mapped: {error}") from None
        self._memories[number] = np.frombuffer(mapped, np.uint8)[offset : offset + size]

    def _forget(self, request: Request) -> None:
        self._memories.pop(request.args[0], None)
        self._feed = None

    # -- runs ---------------------------------------------------------------------------------------------

    def _fed(self, request: Request) -> tuple[Feed, Optional[str]]:
        """The tensors of a run, looked at once as long as they are the same; and the text behind them."""
        if self._feed is None or self._feed.told != request.payload:
            self._feed = Feed(self.network, request.payload, self._memories)
        return self._feed, self._feed.text

    def _run(self, request: Request) -> None:
        feed, _ = self._fed(request)
        opened = self.network
        if self._wants_internal:
            raise RknnError("the config says user_mem_internal: call rknn3_set_internal_mem before a run")
        opened.set_inputs(feed.inputs())
        if request.args[0] or self._timeout:
            self._frame = opened.start(self._timeout)
            if request.args[0]:
                return
            opened.wait(self._frame, self._timeout)
        else:
            opened.run()
        feed.fetch(opened)

    def _wait(self, _: Request) -> None:
        feed, frame = self._feed, self._frame
        if feed is None or (not frame and self._timeout):
            raise ContextInvalid("there is nothing to wait for: call rknn3_run_async first")
        self.network.wait(frame, self._timeout)
        feed.fetch(self.network)

    def _dump(self, request: Request) -> None:
        feed, folder = self._fed(request)
        self.network.set_inputs(feed.inputs())
        self.network.dump(Path(folder or "."))

    def _profile(self, request: Request) -> Reply:
        self._run(Request(request.call, (0,), request.payload, []))
        return Reply(str(self.network.perf_table()).encode())

    def _profile_memory(self, _: Request) -> Reply:
        return Reply(str(self.network.memory()).encode())

    # -- sessions, while they run ---------------------------------------------------------------------------

    def _stop_session(self, request: Request) -> None:
        from .session import Session

        self._contexts.get(request.args[0], Session).stop()

    def _session_state(self, request: Request) -> Reply:
        from .session import Session

        session = self._contexts.get(request.args[0], Session)
        return Reply(args=(session.hidden,) if request.args[1] else session.state())


def _from_path(path: str) -> ModelFile:
    file = ModelFile(path)
    with file.naming():
        if not len(file.data):
            raise ModelInvalid("the file is empty; copy it again")
    return file


def _from_memory(fd: int, size: int) -> ModelFile:
    try:
        return ModelFile(memoryview(mmap.mmap(fd, size, access=mmap.ACCESS_READ)))
    except (OSError, ValueError, OverflowError) as error:
        raise ModelInvalid(f"the {size} bytes of the model cannot be mapped: {error}") from None


def _coprocessor() -> str:
    """The one that is played: RKNNLITE_SOC where that names one."""
    named = config.get("soc")
    return str(named) if named and socs.get(named).generation == "rknpu3" else "rk1820"
