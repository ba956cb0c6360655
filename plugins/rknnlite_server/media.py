"""Pictures and sound in messages: pictures go through the model's encoder, sound is refused."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Optional, Protocol

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.messages import media_parts

import rknnlite
from rknnlite import plugins
from rknnlite.errors import ModelInvalid, ParamInvalid
from rknnlite.files.pictures import decode_picture
from rknnlite.formats import ModelFile
from rknnlite.spi.llm import ImageBlock, MessagesInput, MultimodalInput

from .errors import bad_request
from .settings import ModelSettings

__all__ = ["MOST_PIXELS", "Media", "NoMedia", "Pictures", "media_of", "of_base64", "of_data_url"]

logger = logging.getLogger("rknnlite.server")
Array = NDArray[Any]
_PICTURES = ("image_url", "input_image")
_SOUND = "sound is not supported; nothing tells how it becomes the frames for --mel-filter"
_VIDEO = "only pictures are supported, as image_url"
_MOST_PICTURES = 16
MOST_PIXELS = 1 << 26
"""A picture of a few bytes may claim to have more, and would take all memory."""


class Media(Protocol):
    """What is done with the parts of messages that are no text."""

    async def attached(self, said: MessagesInput, messages: Sequence[Mapping[str, Any]]) -> MessagesInput:
        """The conversation with the embeddings of its pictures and sounds; raises ApiError for what cannot be."""

    def input_of(
        self, said: MessagesInput, tokens: Sequence[int], text: Optional[Callable[[], str]]
    ) -> Optional[MultimodalInput]:
        """The input of a run where tokens alone do not do; ``text`` makes the prompt where tokens do not go with images."""

    def close(self) -> None:
        """Release the encoders; may be called again."""


class NoMedia:
    """For models without encoders."""

    async def attached(self, said: MessagesInput, messages: Sequence[Mapping[str, Any]]) -> MessagesInput:
        """See ``Media``."""
        if _is_plain(messages) and media_parts(messages):
            raise bad_request(
                "this model takes text only: it was loaded without encoders for images or audio", "messages"
            )
        return said

    def input_of(
        self, said: MessagesInput, tokens: Sequence[int], text: Optional[Callable[[], str]]
    ) -> Optional[MultimodalInput]:
        """See ``Media``."""
        return None

    def close(self) -> None:
        """See ``Media``."""


class Pictures:
    """The encoder of images beside a language model of some embedding width; 0: that of the encoder's rows."""

    def __init__(self, settings: ModelSettings, model: str, weight: str, width: int) -> None:
        """``model`` and ``weight`` are paths; raises what ``rknnlite.open`` raises, ModelInvalid, ParamInvalid."""
        if not settings.img_content:
            raise ParamInvalid(
                f"{settings.name}: --model2 needs --img-content, the text of a token of an image"
            )
        self._settings, self._width = settings, width
        self._lock = threading.Lock()
        options: dict[str, Any] = {"device_id": settings.device_id} if settings.device_id else {}
        if weight:
            options["weights"] = ModelFile(weight)
        backend = (
            settings.backend if settings.backend and plugins.backend(settings.backend).runs_networks else None
        )
        self._encoder = rknnlite.open(model, backend=backend, **options)
        try:
            self._size, self.tokens = self._shape(model)
        except BaseException:
            self._encoder.close()
            raise

    def _shape(self, model: str) -> tuple[tuple[int, int], int]:
        """Width and height of a picture, and the tokens that it becomes."""
        inputs, outputs = self._encoder.inputs, self._encoder.outputs
        dims = tuple(inputs[0].dims)
        if len(inputs) != 1 or len(dims) != 4 or dims[0] != 1 or dims[3] != 3:
            raise ModelInvalid(
                f"{model}: an encoder of images has one input [1, height, width, 3], this one {dims}"
            )
        size = (self._settings.img_width or dims[2], self._settings.img_height or dims[1])
        if size != (dims[2], dims[1]):
            raise ParamInvalid(
                f"{model} takes pictures of {dims[2]} x {dims[1]}, --img-width and --img-height say {size[0]} x {size[1]}"
            )
        self._width = self._width or int(outputs[0].dims[-1])
        elements = int(np.prod(outputs[0].dims))
        if elements % self._width:
            raise ModelInvalid(
                f"{model}: {elements} values are no embeddings of width {self._width}, which the language model has"
            )
        return size, elements // self._width

    async def attached(self, said: MessagesInput, messages: Sequence[Mapping[str, Any]]) -> MessagesInput:
        """See ``Media``."""
        found = list(_media(messages)) if _is_plain(messages) else []
        if not found:
            return said
        other = next((part for part in found if part.get("type") not in _PICTURES), None)
        if other is not None:
            raise bad_request(f"{other.get('type')}: {_SOUND if _is_sound(other) else _VIDEO}", "messages")
        if len(found) > _MOST_PICTURES:
            raise bad_request(f"{len(found)} pictures, {_MOST_PICTURES} are allowed", "messages")
        embeds = [await asyncio.to_thread(self._embedded, part) for part in found]
        settings = self._settings
        block = ImageBlock(
            np.concatenate(embeds),
            self.tokens,
            len(embeds),
            settings.img_start,
            settings.img_end,
            settings.img_content,
        )
        return replace(said, image=block)

    def input_of(
        self, said: MessagesInput, tokens: Sequence[int], text: Optional[Callable[[], str]]
    ) -> Optional[MultimodalInput]:
        """See ``Media``."""
        if said.image is None:
            return None
        if text is not None:
            return MultimodalInput(text(), image=said.image)
        return MultimodalInput(tokens=list(tokens), image=said.image)

    def _embedded(self, part: Mapping[str, Any]) -> Array:
        """Embeddings (tokens, width) float32 of one picture."""
        picture = decode_picture(_data(part), "a picture of the messages", *self._size, 3, MOST_PIXELS)
        with self._lock:
            (output, *_) = self._encoder.infer([picture[np.newaxis]])
        return np.asarray(output, np.float32).reshape(self.tokens, self._width)

    def close(self) -> None:
        """See ``Media``."""
        self._encoder.close()


def media_of(settings: ModelSettings, model2: str, weight2: str, width: int) -> Media:
    """What suits the settings; ``model2`` and ``weight2`` are paths. Raises as ``Pictures``."""
    if settings.model3:
        logger.warning("%s: --model3 has no effect: %s", settings.name, _SOUND)
    return Pictures(settings, model2, weight2, width) if settings.model2 else NoMedia()


def _is_plain(messages: Sequence[Mapping[str, Any]]) -> bool:
    """What is not is complained about when the messages are rendered."""
    contents = [message.get("content") for message in messages if isinstance(message, Mapping)]
    parts = [part for content in contents if isinstance(content, (list, tuple)) for part in content]
    return len(contents) == len(messages) and all(isinstance(part, Mapping) for part in parts)


def _media(messages: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The parts that are no text, in their order."""
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, (list, tuple)) else ():
            if media_parts([{"content": [part]}]):
                yield part


def _is_sound(part: Mapping[str, Any]) -> bool:
    return "audio" in str(part.get("type"))


def _data(part: Mapping[str, Any]) -> bytes:
    """What a data URL holds."""
    place = part.get("image_url")
    url = place.get("url") if isinstance(place, Mapping) else place
    return of_data_url(url, "image_url.url", "messages")


def of_data_url(url: Any, name: str, param: str) -> bytes:
    """The bytes in a data URL, which a request calls ``name``. Raises ApiError."""
    head, comma, text = url.partition(",") if isinstance(url, str) else ("", "", "")
    if not (comma and head.startswith("data:") and head.endswith(";base64")):
        raise bad_request(f"{name} must be data:image/...;base64,...; nothing is fetched", param)
    return of_base64(text, param)


def of_base64(text: str, param: str) -> bytes:
    """The bytes of a picture in base64. Raises ApiError."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request("the base64 of a picture is damaged", param) from None
