"""The inputs of a run as the array that ``rknn3_session_run`` takes, and everything that it points to."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.callbacks import CheckedCallbacks
from rknnlite_llm.inputs import expand_tags, split_inputs

from rknnlite.abi.rknn3_llm import (
    RKNN3Audio,
    RKNN3Image,
    RKNN3LLMInput,
    RKNN3LLMMultiModelTensor,
    RKNN3LLMTensor,
    RKNN3Video,
)
from rknnlite.abi.rknn3_types import Float16
from rknnlite.errors import InputInvalid
from rknnlite.spi import Input
from rknnlite.spi.llm import (
    AudioBlock,
    AuxInput,
    EmbedInput,
    ImageBlock,
    LlmInput,
    MediaBlock,
    MultimodalInput,
    TokenInput,
    VideoBlock,
)
from rknnlite.tensor import Layout

from ..attrs import Tensor3
from ..convert import to_native
from ..native_context import NativeContext
from ..tensors import TensorSet

__all__ = ["RunInputs"]

Array = NDArray[Any]
Media = Union[RKNN3Image, RKNN3Audio, RKNN3Video]
_ROLES = ("user", "tool")


class RunInputs:
    """Inputs of one run in C's form. ``release`` gives the memory of auxiliary tensors back."""

    def __init__(
        self,
        handle: NativeContext,
        known: Sequence[Tensor3],
        inputs: LlmInput | Sequence[LlmInput],
        calls: CheckedCallbacks,
    ) -> None:
        """Raises InputInvalid when the inputs do not fit each other or the model."""
        self.main, aux = split_inputs(inputs)
        self._calls = calls
        self._keep: list[Any] = []
        self._sets: list[TensorSet] = []
        self.structs = (RKNN3LLMInput * (1 + len(aux)))()
        self._fill(self.structs[0])
        try:
            for struct, item in zip(self.structs[1:], aux):
                self._fill_aux(struct, item, handle, known)
        except BaseException:
            self.release()
            raise

    @property
    def continues(self) -> bool:
        """Whether the run goes on from the turn before whatever the caller says: the result of a tool does."""
        return bool(self.main.role == "tool")

    def __len__(self) -> int:
        return len(self.structs)

    def release(self) -> None:
        """Let go of device memory."""
        for tensor_set in self._sets:
            tensor_set.release()
        self._sets = []

    def _fill(self, struct: Any) -> None:
        main = self.main
        if main.role not in _ROLES:
            raise InputInvalid(f"role {main.role!r} is not one of {', '.join(_ROLES)}")
        struct.role = main.role.encode()
        struct.input_type = main.kind
        if isinstance(main, MultimodalInput):
            struct.input_union.multimodal_input = self._multimodal(main)
        elif isinstance(main, EmbedInput):
            rows = self._calls.checked_embeddings(main.embeds, None, "the input")
            struct.input_union.llm_input = RKNN3LLMTensor(
                embed=self._half(rows, "the input"), n_tokens=len(rows)
            )
        elif isinstance(main, TokenInput):
            ids = self._calls.checked_ids(main.tokens, "the input")
            struct.input_union.llm_input = RKNN3LLMTensor(
                tokens=self._ids(ids), n_tokens=len(ids), enable_thinking=main.enable_thinking
            )
        else:
            struct.input_union.llm_input = RKNN3LLMTensor(
                prompt=_encoded(main.prompt, "the prompt"), enable_thinking=main.enable_thinking
            )

    def _multimodal(self, main: MultimodalInput) -> RKNN3LLMMultiModelTensor:
        struct = RKNN3LLMMultiModelTensor(enable_thinking=main.enable_thinking)
        if main.prompt is not None:
            # the runtime does it; here only the numbers of tags are checked
            expand_tags(main.prompt, main.blocks)
            struct.prompt = _encoded(main.prompt, "the prompt")
        else:
            ids = self._calls.checked_ids(main.tokens, "the input")
            struct.tokens, struct.n_tokens = self._ids(ids), len(ids)
        for block in main.blocks:
            kind = block.tag.strip("<>")
            media = getattr(struct, kind)
            setattr(media, f"{kind}_embed", self._media(block, kind))
            for mark in ("start", "end", "content"):
                setattr(media, f"{kind}_{mark}", _encoded(getattr(block, mark), f"the {kind} {mark} marker"))
            _fill_counts(media, block)
        return struct

    def _media(self, block: MediaBlock, kind: str) -> Any:
        values = np.asarray(block.embeds)
        wanted = block.items * block.tokens_each
        if wanted > 0 and values.size % wanted == 0:
            values = values.reshape(wanted, values.size // wanted)
        return self._half(self._calls.checked_embeddings(values, wanted, f"{kind} data"), f"{kind} data")

    def _half(self, rows: Array, whose: str) -> Any:
        """Rows as float16 for C; raises InputInvalid for what float16 cannot hold."""
        with np.errstate(over="ignore"):
            half = np.ascontiguousarray(rows, np.float16)
        if not np.isfinite(half).all():
            raise InputInvalid(f"{whose} holds values beyond float16 (65504)")
        self._keep.append(half)
        return ct.cast(half.ctypes.data, ct.POINTER(Float16))

    def _ids(self, ids: Array) -> Any:
        array = np.ascontiguousarray(ids, np.int32)
        self._keep.append(array)
        return ct.cast(array.ctypes.data, ct.POINTER(ct.c_int32))

    def _fill_aux(self, struct: Any, item: AuxInput, handle: NativeContext, known: Sequence[Tensor3]) -> None:
        if not 0 < item.index < len(known):
            names = ", ".join(f"{t.native.index} {t.native.name}" for t in known)
            raise InputInvalid(f"the model has no auxiliary input {item.index}; its inputs are {names}")
        tensor_set = TensorSet(handle, [known[item.index]], True, None)
        self._sets.append(tensor_set)
        data = np.asarray(item.data)
        tensor = known[item.index]
        if data.size == tensor.logical.n_elems:
            data = data.reshape(tensor.logical.dims)
        layout = tensor.logical.layout if tensor.logical.layout is not Layout.UNDEFINED else Layout.NHWC
        tensor_set.write(0, to_native(Input(item.index, data, layout), tensor))
        struct.role = self.main.role.encode()
        struct.input_type = item.kind
        ct.memmove(ct.byref(struct.input_union), tensor_set.array, ct.sizeof(handle.abi.RKNN3Tensor))


def _fill_counts(media: Any, block: MediaBlock) -> None:
    if isinstance(block, ImageBlock):
        media.n_image_tokens, media.n_image = block.n_image_tokens, block.n_image
        media.image_width, media.image_height = block.width, block.height
    elif isinstance(block, AudioBlock):
        media.n_audio_tokens, media.n_audio = block.n_audio_tokens, block.n_audio
    elif isinstance(block, VideoBlock):
        if block.seconds != 1.0:
            raise InputInvalid(
                f"<video>: {block.seconds:g} seconds between pictures; the runtime has no field for them, leave them out"
            )
        media.n_frame_tokens, media.n_frame_per_video = block.n_frame_tokens, block.n_frame_per_video
        media.n_video = block.n_video
        media.frame_width, media.frame_height = block.width, block.height


def _encoded(value: str, whose: str) -> bytes:
    """UTF-8 for a C string; raises InputInvalid for text that C would cut short."""
    if "\0" in value:
        raise InputInvalid(f"{whose} holds a NUL character, at which C would end it")
    return value.encode("utf-8", "replace")
