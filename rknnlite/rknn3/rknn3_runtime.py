"""The model behind the face: a network or a language model of the core, on one device. Its methods raise."""

from __future__ import annotations

import ctypes as ct
import operator
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from .. import libraries, plugins, socs
from .._faces.arguments import described, path_of
from .._faces.log import FaceLog
from .._faces.wording import wrong_rank
from ..abi.rknn3_enums import RKNN3_NPU_CORE_ALL
from ..abi.rknn3_types import RKNN3Tensor, RKNN3TensorAttr, RKNN3TensorMemory
from ..capi.rknn3_attrs import tensor_attrs
from ..errors import ContextInvalid, ParamInvalid
from ..formats import ModelFile
from ..runtime import open_model
from ..spi import Context, Device
from ..spi.inputs import RankMismatch, check_size, collect, widened
from ..spi.llm import LlmCallbacks, LlmContext
from ._args import SessionArgs, read_args
from ._callbacks import CallbackAdapter
from .rknn3_session import RKNN3Session

__all__ = ["RKNN3Runtime", "list_devices"]

Array = NDArray[Any]
_ALL_CORES = 0xFF


def list_devices() -> list[Device]:
    """Coprocessors that are attached; where there are none, the one that the CPU reference plays."""
    found = [(backend.probe().priority, backend.devices()) for backend in plugins.backends().values()]
    found = [(priority, devices) for priority, devices in found if devices]
    return max(found, key=lambda pair: pair[0])[1] if found else []


class RKNN3Runtime:
    """One model on one device.

    Args:
        target: ``rk1820`` or ``rk1828``; None: whatever is attached.
        device_id: one of ``list_devices``, str or bytes; None: the only one.
        core_mask: a bit per core; 0 leaves the choice.
        rknn_log: where warnings go.
    """

    def __init__(
        self,
        target: str | None,
        device_id: Any = None,
        core_mask: Any = 0,
        rknn_log: FaceLog | None = None,
    ) -> None:
        """Raises ParamInvalid for values that mean nothing."""
        self.target = target
        self.rknn_log = rknn_log or FaceLog()
        self.context: Context | None = None
        self.llm_context: LlmContext | None = None
        self.package: Any = None
        self._soc = _coprocessor(target)
        self._device = _device(device_id)
        self.core_mask = _mask(core_mask)
        self._memory: dict[int, Any] = {}
        self._tokenizer: _LateTokenizer | None = None

    # -- opening ------------------------------------------------------------------------------------------

    def open(self, model: ModelFile, weights: ModelFile | None, llm: bool, extra: dict[str, Any]) -> None:
        """Open the model; raises ModelInvalid, ModelUnsupported, ParamInvalid, BackendUnavailable."""
        where = {"soc": self._soc, "device_id": self._device, "core_mask": self.core_mask, **extra}
        if llm:
            self.llm_context = libraries.library("llm").open_llm(model, weights, **where)
            self.package = libraries.library("llm").Package.of(model.label)
            # the model came as bytes: nobody else knows what lies beside it
            libraries.library("llm").check_beside(model, self.package, again=False)
        else:
            self.context = open_model(model, weights=weights, **where)
        api, driver = self.versions
        self.rknn_log.i(f"RKNN3 Runtime Information, version: {api}, driver: {driver}, model: {model.label}")

    def session(self, llm_args: Any, callback: Any, embed_path: Any) -> RKNN3Session:
        """Open a session. What the program's callbacks leave out comes from the files beside the model.

        Raises ParamInvalid or ModelInvalid.
        """
        context = self.llm()
        args = self.read_args(llm_args)
        adapter = CallbackAdapter(callback, context.config.embedding_dim)
        return RKNN3Session(context, args, adapter, self._completed(adapter, embed_path), self.rknn_log)

    def read_args(self, llm_args: Any) -> SessionArgs:
        """``llm_args`` for this model. Raises ParamInvalid."""
        context = self.llm()
        args = read_args(llm_args, context.config)
        for key in args.unknown:
            self.rknn_log.d(f"llm_args: {key} means nothing and is left out")
        name, outputs = args.params.logits_name, [attr.name for attr in context.outputs]
        if name and name not in outputs:  # a name is needed only where there are several, says the C API
            self.rknn_log.d(f"llm_args: logits_name {name!r} is none of {outputs}; the first output is taken")
            return replace(args, params=replace(args.params, logits_name=""))
        return args

    def _completed(self, adapter: CallbackAdapter, embed_path: Any) -> LlmCallbacks:
        callbacks, package = adapter.callbacks, self.package
        if embed_path is not None and callbacks.embed is None:
            name = path_of(embed_path)
            if name is None:
                raise ParamInvalid(f"llm_embed_path must be a path, not {described(embed_path)}")
            callbacks = replace(callbacks, embed=self._embeddings(Path(name)))
        if callbacks.embed is None and package is not None and package.embed.is_file():
            self.rknn_log.d(f"embeddings come from {package.embed}")
            callbacks = replace(callbacks, embed=self._embeddings(package.embed))
        tokenizer = self._own_tokenizer()
        if callbacks.tokenizer is None and tokenizer is not None:
            self.rknn_log.d(f"text is tokenised by {tokenizer.path}")
            callbacks = replace(callbacks, tokenizer=tokenizer)
        return callbacks

    def _embeddings(self, path: Path) -> Any:
        config, package = self.llm().config, self.package
        sample = package.embed_sample() if package is not None and package.model.is_file() else ""
        return libraries.library("llm").EmbedTable(path, config.vocab_size, config.embedding_dim, sample)

    def decoder(self) -> Callable[..., str] | None:
        """Token ids to text, by the tokenizer beside the model; None where results bring their text.

        Raises ParamInvalid when there is none, ModelInvalid when it is unusable.
        """
        if self.llm().traits.own_text:
            return None
        tokenizer = self._own_tokenizer()
        if tokenizer is None:
            raise ParamInvalid(
                "there is no tokenizer file beside the model; give decode=, a function from token ids to text"
            )
        decode: Callable[..., str] = tokenizer.loaded().decode
        return decode

    def _own_tokenizer(self) -> _LateTokenizer | None:
        """The one tokenizer of the open model; None without a file for it."""
        if self.package is None or not self.package.tokenizer.is_file():
            return None
        if self._tokenizer is None:
            self._tokenizer = _LateTokenizer(self.package.tokenizer)
        return self._tokenizer

    # -- asking -------------------------------------------------------------------------------------------

    def cnn(self) -> Context:
        """The network; raises ContextInvalid in LLM mode or when released."""
        if self.context is None:
            raise ContextInvalid("this needs a network that is loaded without llm_mode")
        return self.context

    def llm(self) -> LlmContext:
        """The language model; raises ContextInvalid otherwise."""
        if self.llm_context is None:
            raise ContextInvalid("this needs a language model that is loaded with llm_mode=True")
        return self.llm_context

    @property
    def versions(self) -> tuple[str, str]:
        """Versions of the runtime and of the driver."""
        opened = self.context or self.llm()
        return opened.versions.api, opened.versions.driver

    def attrs(self, outputs: bool, native: bool = False) -> list[RKNN3TensorAttr]:
        """Attributes of the inputs or outputs for the current shapes."""
        if self.llm_context is not None:
            return tensor_attrs(self.llm_context.outputs if outputs else self.llm_context.inputs)
        context = self.cnn()
        buffers = context.native_outputs if outputs else context.native_inputs
        if native:
            return tensor_attrs(buffers)
        return tensor_attrs(context.outputs if outputs else context.inputs, buffers)

    # -- a network ----------------------------------------------------------------------------------------

    def infer(self, inputs: Any, data_format: Any) -> list[Array]:
        """Run once; see ``RKNN3Lite.inference``."""
        context = self.cnn()
        with context.exclusive():
            try:
                prepared = collect(inputs, context.inputs, data_format, shapes=context.shapes)
            except RankMismatch as error:
                raise wrong_rank(error) from None
            for item in prepared:
                check_size(item.data, context.inputs[item.index], context.shapes)
                item.data = widened(item.data, context.inputs[item.index])
            context.set_inputs(prepared)
            context.run()
            return context.get_outputs(True)

    # -- tensors for output callbacks ---------------------------------------------------------------------

    def create_mem(self, attr: RKNN3TensorAttr, tensor: RKNN3Tensor) -> Any:
        """Memory of ``attr.aligned_size`` bytes for ``tensor``; freed by ``destroy_mem`` or with the runtime."""
        if not isinstance(attr, RKNN3TensorAttr) or not isinstance(tensor, RKNN3Tensor):
            raise ParamInvalid(
                f"create_mem takes an RKNN3TensorAttr and an RKNN3Tensor, not {type(attr).__name__} and "
                f"{type(tensor).__name__}"
            )
        if not 0 < attr.aligned_size < 1 << 40:
            raise ParamInvalid(f"the attribute asks for {attr.aligned_size} bytes; query it first")
        buffer = ct.create_string_buffer(attr.aligned_size)
        address = ct.addressof(buffer)
        mem = RKNN3TensorMemory(virt_addr=address, size=attr.aligned_size, fd=-1, core_id=attr.core_id)
        tensor.mem, tensor.attr = ct.pointer(mem), ct.pointer(attr)
        self._memory[address] = buffer, mem, attr
        return tensor.mem

    def create_tensors(self, indices: Any) -> Any:
        """An array of tensors with memory for some outputs, None: all."""
        attrs = self.attrs(outputs=True)
        try:
            wanted = range(len(attrs)) if indices is None else [operator.index(i) for i in indices]
        except Exception:  # no list, no numbers, or an object that cannot be walked
            raise ParamInvalid(f"output_indices must be a list of int, not {described(indices)}") from None
        if not wanted or not all(0 <= i < len(attrs) for i in wanted):
            raise ParamInvalid(f"outputs {list(wanted)} are wanted, the model has 0..{len(attrs) - 1}")
        tensors = (RKNN3Tensor * len(wanted))()
        for tensor, i in zip(tensors, wanted):
            self.create_mem(attrs[i], tensor)
        return tensors

    def destroy_mem(self, mem: Any) -> None:
        """Free memory once; raises ParamInvalid for what is no memory of this runtime."""
        is_memory = isinstance(mem, ct.POINTER(RKNN3TensorMemory)) and mem
        address = mem.contents.virt_addr if is_memory else None
        if self._memory.pop(address or 0, None) is None:
            raise ParamInvalid("this is no memory of this runtime, or it was freed before")

    # -- life ---------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Close everything; may be called again."""
        for opened in (self.context, self.llm_context):
            if opened is not None:
                opened.close()
        self.context = self.llm_context = self._tokenizer = None
        self._memory.clear()


class _LateTokenizer:
    """The tokenizer of an open model, for all its sessions; read when first needed, which many programs never do."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reading = threading.Lock()
        self._tokenizer: Any = None

    def loaded(self) -> Any:
        """The tokenizer itself; raises ModelInvalid when the file is unusable."""
        with self._reading:
            if self._tokenizer is None:
                self._tokenizer = libraries.library("llm").Tokenizer(self.path)
            return self._tokenizer

    def __call__(self, text: str) -> list[int]:
        tokens: list[int] = self.loaded()(text)
        return tokens


def _coprocessor(target: Any) -> str | None:
    if target is None:
        return None
    if not isinstance(target, str) or socs.get(target).generation != "rknpu3":
        names = ", ".join(name for name, soc in socs.table().items() if soc.generation == "rknpu3")
        raise ParamInvalid(f"target is {described(target)}, must be one of {names}")
    return socs.get(target).name


def _device(device_id: Any) -> str | None:
    if device_id is None or isinstance(device_id, str):
        return device_id or None
    if isinstance(device_id, bytes):
        return device_id.decode("utf-8", "replace") or None
    raise ParamInvalid(f"device_id must be one of get_devices_id(), not {described(device_id)}")


def _mask(core_mask: Any) -> int:
    try:
        mask = operator.index(core_mask)
    except Exception:  # whatever the object's own __index__ does
        raise ParamInvalid(f"core_mask must be an int such as 0xff, not {described(core_mask)}") from None
    return _ALL_CORES if mask == RKNN3_NPU_CORE_ALL else mask
