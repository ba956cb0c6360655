"""Answers of ``rknn3_query``: structures of the first revision (1.0.0) or of the later one (1.0.4), by their size."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from typing import Any, Optional, Union

from rknnlite_backend.abi import rknn3

from rknnlite._version import __version__
from rknnlite.abi.rknn3_types import (
    RKN3NodeMemInfo,
    RKNN3AllocationInfo,
    RKNN3CoreMemSize,
    RKNN3CustomString,
    RKNN3DevMemInfo,
    RKNN3InputOutputNum,
    RKNN3SDKVersion,
    RKNN3ShapeConfig,
)
from rknnlite.abi.rknn3_v104 import RKNN3QueryCmd as Cmd
from rknnlite.capi.rknn3_attrs import config_numbers, tensor_attr
from rknnlite.errors import ContextInvalid, ParamInvalid
from rknnlite.spi import Context
from rknnlite.spi.llm import LlmConfig, LlmContext
from rknnlite.tensor import TensorAttr

from ..calls import Reply

__all__ = ["Shapes", "answer", "device_memory"]

Opened = Union[Context, LlmContext, None]
_INPUTS = (Cmd.RKNN3_QUERY_INPUT_ATTR, Cmd.RKNN3_QUERY_ORIGIN_INPUT_ATTR)
_OUTPUTS = (Cmd.RKNN3_QUERY_OUTPUT_ATTR, Cmd.RKNN3_QUERY_ORIGIN_OUTPUT_ATTR)
_ATTRS = (*_INPUTS, *_OUTPUTS, Cmd.RKNN3_QUERY_POSTPROCESS_OUTPUT_ATTR)
_SHAPES = (Cmd.RKNN3_QUERY_DYNAMIC_SHAPE_INFO, Cmd.RKNN3_QUERY_POSTPROCESS_DYNAMIC_SHAPE_INFO)
_REVISIONS = (rknn3.FIRST, rknn3.LATER)


class Shapes:
    """Attributes of inputs and outputs for every shape of a dynamic network."""

    def __init__(self, opened: Context, post: bool) -> None:
        self.post = post
        self._opened = opened
        self._read: list[tuple[list[TensorAttr], list[TensorAttr]]] = []

    def read(self) -> list[tuple[list[TensorAttr], list[TensorAttr]]]:
        """Ask the network, which is put back into its shape. Raises ParamInvalid for static shapes."""
        opened = self._opened
        if not opened.shapes:
            raise ParamInvalid("the model has static shapes: there is no information about others")
        if not self._read:
            now = [attr.dims for attr in opened.inputs]
            for shape in opened.shapes:
                opened.set_shapes(shape)
                self._read.append((opened.inputs, opened.outputs))
            opened.set_shapes(now)
        return self._read


def answer(
    opened: Opened,
    command: int,
    index: int,
    room: int,
    later: bool,
    plain_outputs: Sequence[TensorAttr],
    shapes: Optional[Shapes] = None,
) -> Reply:
    """What the structure of a command is filled with; ``room`` is its size, ``later`` the revision where no size tells.

    Raises ParamInvalid for unknown commands, tensors that are not there, and sizes of no revision.
    """
    if command == Cmd.RKNN3_QUERY_SDK_VERSION:
        return _fitting(command, room, _version(later))
    if opened is None:
        raise ContextInvalid(f"command {command}: call rknn3_model_init first")
    if command in _ATTRS:
        return _attr(_listed(opened, command, plain_outputs, shapes), command, index, room)
    if command == Cmd.RKNN3_QUERY_LLM_CONFIG and isinstance(opened, LlmContext):
        return _config(opened.config, room)
    if command in _SHAPES and isinstance(opened, Context) and shapes is not None:
        return _shape_infos(shapes, room, later)
    plain = _plain(opened, command, plain_outputs)
    if plain is None:
        kind = "network" if isinstance(opened, Context) else "language model"
        raise ParamInvalid(f"command {command} is not answered for a {kind}")
    return _fitting(command, room, plain)


def _fitting(command: int, room: int, told: Any) -> Reply:
    if room != ct.sizeof(told):
        raise ParamInvalid(f"command {command}: the structure has {room} bytes, the answer {ct.sizeof(told)}")
    return Reply(bytes(told))


def _revision(command: int, room: int, structures: Sequence[Any]) -> int:
    """Which of the two revisions a size means: 0 or 1."""
    sizes = [ct.sizeof(structure) for structure in structures]
    if room not in sizes:
        raise ParamInvalid(
            f"command {command}: the structure has {room} bytes, must have {sizes[0]} (1.0.0) or {sizes[1]} (1.0.4)"
        )
    return sizes.index(room)


def _version(later: bool) -> RKNN3SDKVersion:
    number = "1.0.4" if later else "1.0.0"
    return RKNN3SDKVersion(f"{number} (rknnlite {__version__}, CPU reference)".encode()[:255], b"none (CPU)")


# -- tensors ----------------------------------------------------------------------------------------------


def _listed(
    opened: Union[Context, LlmContext],
    command: int,
    plain_outputs: Sequence[TensorAttr],
    shapes: Optional[Shapes],
) -> Sequence[TensorAttr]:
    if command in _INPUTS:
        return opened.inputs
    if command in _OUTPUTS:
        return plain_outputs if isinstance(opened, Context) else opened.outputs
    if shapes is None or not shapes.post:
        raise ParamInvalid("there is no post-process plugin: call rknn3_register_custom_ops_plugins first")
    return opened.outputs


def _struct(attr: TensorAttr, revision: int) -> Any:
    """The attribute of the one or the other revision."""
    first = tensor_attr(attr)
    if not revision:
        return first
    later = rknn3.LATER.RKNN3TensorAttr()
    for name, *_ in first._fields_:
        setattr(later, name, getattr(first, name))
    later.n_orig_dims, later.orig_layout = first.n_dims, first.layout
    later.orig_shape[:] = first.shape[:]
    return later


def _attr(attrs: Sequence[TensorAttr], command: int, index: int, room: int) -> Reply:
    revision = _revision(command, room, [abi.RKNN3TensorAttr for abi in _REVISIONS])
    if index >= len(attrs):
        raise ParamInvalid(f"command {command}: there is no tensor {index}, the model has {len(attrs)}")
    return Reply(bytes(_struct(attrs[index], revision)), args=(revision + 1,))


def _shape_infos(shapes: Shapes, room: int, later: bool) -> Reply:
    """Attributes of all shapes, one behind the other; the library puts them into the program's arrays."""
    read = shapes.read()
    size = ct.sizeof(rknn3.FIRST.RKNN3ShapeInfo)
    if room != size * len(read):
        raise ParamInvalid(f"{len(read)} shapes need an array of {size * len(read)} bytes, it has {room}")
    told = [_struct(attr, int(later)) for inputs, outputs in read for attr in (*inputs, *outputs)]
    n_inputs, n_outputs = len(read[0][0]), len(read[0][1])
    return Reply(b"".join(map(bytes, told)), args=(0, n_inputs, n_outputs, ct.sizeof(told[0])))


# -- the rest ---------------------------------------------------------------------------------------------


def _plain(opened: Union[Context, LlmContext], command: int, plain_outputs: Sequence[TensorAttr]) -> Any:
    """A structure that both revisions have; None where nothing is said."""
    if command == Cmd.RKNN3_QUERY_CORE_NUMBER:
        return ct.c_uint32(_cores(opened))
    if command == Cmd.RKNN3_QUERY_DEVICE_MEM_INFO:
        return device_memory()
    if isinstance(opened, LlmContext):
        if command == Cmd.RKNN3_QUERY_IN_OUT_NUM:
            return RKNN3InputOutputNum(len(opened.inputs), len(opened.outputs))
        return None
    if command == Cmd.RKNN3_QUERY_IN_OUT_NUM:
        return RKNN3InputOutputNum(len(opened.inputs), len(plain_outputs))
    if command == Cmd.RKNN3_QUERY_POSTPROCESS_IN_OUT_NUM:
        return RKNN3InputOutputNum(len(plain_outputs), len(opened.outputs))
    if command == Cmd.RKNN3_QUERY_CUSTOM_STRING:
        return RKNN3CustomString(opened.custom_string.encode()[:1023])
    if command == Cmd.RKNN3_QUERY_DYNAMIC_SHAPE_CONFIG:
        now = [attr.dims for attr in opened.inputs]
        current = next((i for i, shape in enumerate(opened.shapes) if list(shape) == now), -1)
        return RKNN3ShapeConfig(len(opened.shapes), current)
    if command == Cmd.RKNN3_QUERY_CORE_MEM_SIZE:
        return _core_memory(opened)
    if command == Cmd.RKNN3_QUERY_ALLOCATION_INFO:
        return _allocation(opened)
    return None


def _cores(opened: Union[Context, LlmContext]) -> int:
    return opened.config.core_num if isinstance(opened, LlmContext) else opened.core_num or 1


def _core_memory(opened: Context) -> Any:
    """All is told of the first core: one memory serves them all here."""
    sizes, memory = (RKNN3CoreMemSize * _cores(opened))(), opened.memory()
    for core, size in enumerate(sizes):
        size.core_id = core
    sizes[0].weight_size, sizes[0].internal_size = memory.weight, memory.internal
    return sizes


def _allocation(opened: Context) -> Any:
    rows, memory = (RKNN3AllocationInfo * _cores(opened))(), opened.memory()
    for core, row in enumerate(rows):
        row.core_id = core
        for part in (row.command_mem, row.weight_mem, row.internal_mem, row.kvcache_mem):
            part.fd, part.core_id = -1, core
    rows[0].weight_mem.size, rows[0].internal_mem.size = memory.weight, memory.internal
    return rows


def device_memory() -> RKNN3DevMemInfo:
    """That of this machine, which computes."""
    import psutil

    found = psutil.virtual_memory()
    told = RKNN3DevMemInfo(1, found.total, found.available)
    told.node_mem_info[0] = RKN3NodeMemInfo(found.total, found.available)
    return told


def _config(model: LlmConfig, room: int) -> Reply:
    """The structure without its texts, then both of them."""
    kinds = [abi.RKNN3LLMConfig for abi in _REVISIONS]
    revision = _revision(Cmd.RKNN3_QUERY_LLM_CONFIG, room, kinds)
    told = kinds[revision](**config_numbers(model))
    texts = b"".join(
        text.encode().replace(b"\0", b"") + b"\0" for text in (model.chat_template, model.model_type)
    )
    return Reply(bytes(told) + texts, args=(revision + 1,))
