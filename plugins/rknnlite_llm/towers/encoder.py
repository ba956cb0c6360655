"""Pictures through the tower beside a package: what goes into a run of the language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rknnlite
from rknnlite.errors import InputInvalid, ModelInvalid
from rknnlite.extras import missing
from rknnlite.files.pictures import read_picture
from rknnlite.spi.llm import AuxInput, ImageBlock

from .settings import VisionSettings, vision_path

__all__ = ["VisionEncoder"]

Array = NDArray[Any]
_FIRST_AUX = 2  # input of the language model that the tower's second output belongs to


class VisionEncoder:
    """The tower ``PREFIX.vision.rknn``, or else ``PREFIX.vision.onnx`` by onnxruntime; close it or use it in ``with``.

    ``with VisionEncoder("qwen-vl") as encoder: block, further = encoder.images(["cat.png"])``

    Examples:
        >>> VisionEncoder("examples/llm_chat/models/tiny")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        rknnlite.errors.InputInvalid: examples/llm_chat/models/tiny has no vision tower: ...
    """

    def __init__(self, prefix: str | Path, backend: str | None = None) -> None:
        """Raises ModelInvalid where there is no tower, or its files do not fit each other."""
        path = vision_path(prefix, "json")
        if not path.is_file():
            raise InputInvalid(
                f"{prefix} has no vision tower: {path} is not there; export-llm writes it beside models that have one"
            )
        self.settings = VisionSettings.read(path)
        self._close: Callable[[], None] = lambda: None
        converted, written = vision_path(prefix, "rknn"), vision_path(prefix, "onnx")
        self._converted = converted.is_file()
        self._run = self._opened(converted, backend) if self._converted else self._onnx(written)

    def _opened(self, path: Path, backend: str | None) -> Callable[[Array], Sequence[Array]]:
        model = rknnlite.open(path, backend=backend)
        self._close = model.close
        return lambda given: model.infer([given])

    def _onnx(self, path: Path) -> Callable[[Array], Sequence[Array]]:
        try:
            import onnxruntime
        except ImportError as error:
            raise missing("fast", f"{path} needs onnxruntime", error) from None
        if not path.is_file():
            raise ModelInvalid(f"{path}: the vision tower is not there")
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        first = session.get_inputs()[0].name
        return lambda given: session.run(None, {first: given})

    def encode(self, pictures: Sequence[str | Path]) -> list[Array]:
        """What the tower gives, output by output: float16 (pictures, tokens, numbers)."""
        size = self.settings
        read = [read_picture(Path(path), size.width, size.height, 3) for path in pictures]
        return self.encode_pixels(np.stack(read)[:, None])

    def encode_pixels(self, frames: Array) -> list[Array]:
        """As ``encode``, of pixels: uint8 (pictures, 1 or 2 frames, height, width, 3)."""
        found = [self._run(self._input(one)) for one in frames]
        wanted = 1 + self.settings.deepstack
        if any(len(outputs) != wanted for outputs in found):
            raise ModelInvalid(f"the vision tower gives {len(found[0])} outputs, its settings say {wanted}")
        return [
            np.stack([rows.reshape(self.settings.tokens, -1) for rows in one]).astype(np.float16)
            for one in zip(*found)
        ]

    def _input(self, frames: Array) -> Array:
        size = self.settings
        if size.form == "pixels" and len(frames) > 1:
            raise InputInvalid(
                "a vision tower that takes pixels sees one picture at a time; export one of patches for videos"
            )
        if size.form == "pixels" and self._converted:  # means and deviations are in the file
            return frames[:1]
        mean, std = np.array(size.mean, np.float32), np.array(size.std, np.float32)
        values = (frames.astype(np.float32) / np.float32(255) - mean) / std
        values = values.transpose(0, 3, 1, 2)
        if size.form == "pixels":
            return np.ascontiguousarray(values)
        if len(values) != size.frames:
            values = np.repeat(values[:1], size.frames, axis=0)
        rows, columns, merge, patch = (
            size.height // size.patch,
            size.width // size.patch,
            size.merge,
            size.patch,
        )
        cut = values.reshape(size.frames, 3, rows // merge, merge, patch, columns // merge, merge, patch)
        return np.ascontiguousarray(cut.transpose(2, 5, 3, 6, 1, 0, 4, 7).reshape(rows * columns, -1))

    def images(self, pictures: Sequence[str | Path]) -> tuple[ImageBlock, list[AuxInput]]:
        """Pictures of files as the parts of a run: their block, and what goes along."""
        rows, *further = self.encode(pictures)
        size = self.settings
        block = ImageBlock(
            rows,
            rows.shape[1],
            len(rows),
            size.start,
            size.end,
            size.image,
            width=size.width,
            height=size.height,
        )
        return block, [AuxInput(_FIRST_AUX + number, values) for number, values in enumerate(further)]

    def close(self) -> None:
        """Release it; may be called again."""
        self._close()

    def __enter__(self) -> VisionEncoder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
