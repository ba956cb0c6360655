"""Rules for binding memory to an input or output (RKNN user guide 2.0, tables 5-2 to 5-5 and section 10.9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rknnlite.errors import ContextInvalid, InputInvalid, OutputInvalid, ParamInvalid, RknnError
from rknnlite.tensor import DType, Layout, TensorAttr

__all__ = [
    "CACHEABLE",
    "NON_CACHEABLE",
    "TRY_SRAM",
    "Place",
    "cannot_import",
    "cannot_import_phys",
    "check_binding",
    "check_direction",
    "check_flags",
    "check_size",
    "closed_meanwhile",
    "closed_memory",
    "foreign_memory",
    "forms",
    "invisible_memory",
    "needed",
    "place_of",
]

_DIRECTIONS = ("to_device", "from_device", "both")
CACHEABLE, NON_CACHEABLE, TRY_SRAM = 1, 2, 4
"""Flags of memory, as librknnrt has them."""
_FLAGS = CACHEABLE | NON_CACHEABLE | TRY_SRAM
_RANK = 4  # of tensors that have a layout
_FLOATS = frozenset({DType.FLOAT32, DType.FLOAT16})
_INPUT_TYPES = {  # the tensor's own type -> further types that the program may supply
    DType.INT8: frozenset({DType.UINT8, DType.FLOAT32}),
    DType.FLOAT16: frozenset({DType.UINT8, DType.FLOAT32}),
}
_OUTPUT_TYPES = {
    DType.INT8: _FLOATS,
    DType.FLOAT16: frozenset({DType.FLOAT32}),
}


@dataclass(frozen=True)
class Place:
    """A tensor of the model that memory can be bound to: ``forms`` are the attributes that it may have."""

    is_input: bool
    index: int
    forms: tuple[TensorAttr, ...]

    @property
    def label(self) -> str:
        """``input image`` or ``output scores``."""
        return f"{'input' if self.is_input else 'output'} {self.forms[0].name}"


def place_of(attr: TensorAttr, places: Sequence[Place]) -> Place:
    """The tensor that an attribute describes, found by name and index; raises ParamInvalid."""
    same = [p for p in places if p.forms[0].name == attr.name]
    same = [p for p in same if p.index == attr.index] or same
    if len(same) > 1:  # an input and an output of one name: the layout and dims decide
        same = [
            p for p in same if any(f.layout is attr.layout and f.dims == attr.dims for f in p.forms)
        ] or same
    if not same:
        known = ", ".join(p.label for p in places)
        raise ParamInvalid(f"the model has no tensor {attr.name!r} (index {attr.index}); it has {known}")
    return same[0]


def check_binding(place: Place, attr: TensorAttr, size: int, offset: int = 0) -> TensorAttr:
    """The attribute as it counts; raises where type, layout, dims, size or start of the memory do not fit.

    A layout says nothing below rank 4: the tensor's own is taken there, whichever is given. The vendor's programs set
    NCHW on every output, also on those of rank 2; what the runtime itself makes of it was not seen on a board.

    Raises:
        InputInvalid, OutputInvalid: with what clashes, and what is legal.
    """
    error: type[RknnError] = InputInvalid if place.is_input else OutputInvalid
    native = place.forms[0]
    if len(attr.dims) < _RANK:
        attr = replace(attr, layout=next((f.layout for f in place.forms if f.dims == attr.dims), attr.layout))
    form = next((f for f in place.forms if f.layout is attr.layout and f.dims == attr.dims), None)
    if form is None:
        legal = "; ".join(f"{f.layout.name} {list(f.dims)}" for f in place.forms)
        raise error(f"{place.label}: layout {attr.layout.name} {list(attr.dims)} is not among {legal}")
    if attr.pass_through and (form is not native or attr.dtype is not native.dtype):
        raise error(
            f"{place.label}: with pass_through the memory holds the native tensor, {native.dtype.name} "
            f"{native.layout.name} {list(native.dims)}"
        )
    further = (_INPUT_TYPES if place.is_input else _OUTPUT_TYPES).get(native.dtype, frozenset())
    if attr.dtype is not native.dtype and attr.dtype not in further:
        legal = ", ".join(t.name for t in (native.dtype, *sorted(further)))
        raise error(f"{place.label}: type {attr.dtype.name} is not supported; legal are {legal}")
    if place.is_input and form.layout is Layout.NC1HWC2 and attr.dtype is not native.dtype:
        raise error(
            f"{place.label}: {attr.dtype.name} goes with NHWC; NC1HWC2 memory holds {native.dtype.name}, the tensor as "
            "the NPU has it"
        )
    if attr.w_stride and form.w_stride and attr.w_stride != form.w_stride:
        raise error(f"{place.label}: w_stride is {form.w_stride} and read-only, {attr.w_stride} was given")
    if attr.h_stride and (not place.is_input or len(attr.dims) != _RANK or attr.h_stride < attr.dims[1]):
        raise error(
            f"{place.label}: h_stride {attr.h_stride} does not fit {attr.layout.name} {list(attr.dims)}; it is for "
            "inputs of rank 4, counts rows from one batch item to the next, and 0 means the height"
        )
    step = max(1, attr.dtype.bits // 8)
    if offset % step:
        raise error(f"{place.label}: the memory begins at offset {offset}, no multiple of {step} bytes")
    need = needed(form, attr)
    if size < need:
        raise error(
            f"{place.label}: the memory has {size} bytes, {need} are needed ({attr.dtype.name} "
            f"{attr.layout.name} {list(attr.dims)}, w_stride {attr.w_stride or attr.dims[-1]})"
        )
    return attr


def needed(form: TensorAttr, attr: TensorAttr) -> int:
    """Bytes of memory: with the padding of the rows for elements of the tensor's own width, else without."""
    same_width = attr.dtype.bits == form.dtype.bits
    size = max(form.size_with_stride, form.size) if same_width else attr.size
    if attr.h_stride and len(attr.dims) == _RANK:  # rows between batch items
        size = size // attr.dims[1] * attr.h_stride
    return size


def forms(*attrs: TensorAttr) -> tuple[TensorAttr, ...]:
    """The attributes that differ in layout or dims, the native one first."""
    found: list[TensorAttr] = []
    for attr in attrs:
        if all((attr.layout, attr.dims) != (other.layout, other.dims) for other in found):
            found.append(attr)
    return tuple(found)


# -- memory ------------------------------------------------------------------------------------------------


def check_size(size: int, most: int | None = None) -> None:
    """For ``create_mem``: raise ParamInvalid unless there is anything to allocate, ``most`` bytes at the most."""
    if size <= 0 or (most is not None and size > most):
        raise ParamInvalid(f"memory of {size} bytes was asked for; give the tensor's size_with_stride")


def check_flags(flags: int) -> None:
    """For ``create_mem``: raise ParamInvalid for flags that librknnrt does not have."""
    if flags & ~_FLAGS or (flags & CACHEABLE and flags & NON_CACHEABLE):
        raise ParamInvalid(f"memory flags {flags:#x} are not legal: cacheable 1 or not 2, SRAM if possible 4")


def check_direction(direction: str) -> None:
    """For ``sync``: raise ParamInvalid for a direction that there is not."""
    if direction not in _DIRECTIONS:
        raise ParamInvalid(f"direction {direction!r} is not one of {', '.join(_DIRECTIONS)}")


def cannot_import(size: int, offset: int, fd: int) -> ParamInvalid:
    """The error of ``import_mem`` for numbers that cannot be."""
    return ParamInvalid(f"cannot import {size} bytes from offset {offset} of file descriptor {fd}")


def cannot_import_phys(size: int, phys: int) -> ParamInvalid:
    """The error of ``import_phys`` for numbers that cannot be."""
    return ParamInvalid(f"cannot import {size} bytes at physical address {phys:#x}")


def invisible_memory() -> ParamInvalid:
    """The error of ``ndarray`` of memory that has a physical address only."""
    return ParamInvalid("this memory has no virtual address: the CPU cannot look at it")


def foreign_memory(
    remedy: str = "share it by its file descriptor: import_mem(mem.fd, ...)", label: str = ""
) -> ParamInvalid:
    """The error of memory that another context created or imported, for the tensor ``label``."""
    return ParamInvalid(f"{label and label + ': '}this memory belongs to another context; {remedy}")


def closed_memory(remedy: str = "create it again") -> ContextInvalid:
    """The error of memory after its ``close``."""
    return ContextInvalid(f"this memory is closed; {remedy}")


def closed_meanwhile(label: str) -> ContextInvalid:
    """The error of a frame whose result has no place any more; ``label`` is the tensor's."""
    return ContextInvalid(f"{label}: its memory was closed while the frame ran; bind another")
