"""The vision tower of a Hugging Face folder: ONNX and settings beside the package, ``.rknn`` by the vendor's toolkit."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rknnlite_programs.toolkit_process import Toolkit

from rknnlite.errors import ModelInvalid, ModelUnsupported, ParamInvalid, shown
from rknnlite.extras import missing
from rknnlite.files.writing import writing

from ..hf_folder import check_counts, read_object
from ..multimodal_config import thinker_of
from ..package import Package
from ..tokenizer import Tokenizer
from .layouts import LAYOUTS, Tower, tower_of
from .settings import FORMS, VisionSettings, vision_path
from .tensors import TowerTensors

__all__ = ["Vision", "export_vision", "has_tower"]

_MOST_PATCHES = 8192  # attention has a number for each pair of them
_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
_MARKERS = (
    ("vision_start_token_id", 0),
    ("vision_end_token_id", 1),
    ("image_token_id", 2),
    ("image_token_index", 2),
    ("video_token_id", 3),
    ("video_token_index", 3),
)


@dataclass(frozen=True)
class Vision:
    """How a tower is exported.

    Attributes:
        size: height and width of pictures in pixels; None: as is usual for the model.
        form: ``patches`` or ``pixels``; None: patches where the model takes them.
        toolkit: a Python that has the vendor's toolkit, which writes the ``.rknn``; None: none is written.
        soc: what that is converted for.
    """

    size: tuple[int, int] | None = None
    form: str | None = None
    toolkit: Path | None = None
    soc: str = "rk3588"


def has_tower(directory: str | Path) -> bool:
    """Whether the folder has a vision tower that ``export_vision`` knows."""
    path = Path(directory) / "config.json"
    if not path.is_file():  # a GGUF file, or what the export of the language part refuses
        return False
    layout = LAYOUTS.get(str(read_object(path).get("model_type")))
    return layout is not None and TowerTensors(Path(directory), layout).there


def export_vision(directory: str | Path, prefix: str | Path, vision: Vision = Vision()) -> list[Path]:
    """Write ``PREFIX.vision.onnx`` with its ``.data``, ``PREFIX.vision.json`` and, with a toolkit, ``PREFIX.vision.rknn``.

    The names of markers come from the package's tokenizer, if it is there already.

    Returns:
        The files.

    Raises:
        ModelInvalid, ModelUnsupported: the folder has no such tower, or it is damaged.
        ParamInvalid: a size that is no whole number of tokens, or too big.
        BackendUnavailable: the package onnx is missing, or there is no such toolkit.
    """
    source = Path(directory)
    config = read_object(source / "config.json")
    check_counts(config, source)
    tower = tower_of(config)
    if tower is None:
        raise ModelUnsupported(
            f"{source}: no vision tower that is known; model_type {shown(config.get('model_type'))}, there are {', '.join(LAYOUTS)}"
        )
    tensors = TowerTensors(source, tower.layout)
    if not tensors.there:
        raise ModelInvalid(
            f"{source}: the *.safetensors have no {tower.layout.patch}.weight of a vision tower"
        )
    form = _form(tower, vision.form)
    height, width = _size(tower, vision.size)
    settings = _settings(source, config, tower, form, (height, width), prefix, tensors.queries)
    try:
        from .network import Network
        from .onnx_writer import OnnxWriter
    except ImportError as error:
        raise missing("fast", "writing the vision tower needs the package onnx", error) from None
    target = vision_path(prefix, "onnx")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=target.parent
    ) as room:  # the toolkit leaves files beside what it reads
        inside = Path(room).resolve() / Path(prefix).name
        path = vision_path(inside, "onnx")
        data = path.with_name(f"{path.name}.data")
        written = [path, data, vision_path(inside, "json")]
        try:
            with writing(data) as file:
                writer = OnnxWriter(file, data.name)
                Network(tower, tensors, writer, height // tower.patch, width // tower.patch).write(form)
                writer.write(path, f"{tower.kind}_vision")
        except ValueError as error:
            raise ModelInvalid(
                f"{source}: the tensors of the vision tower do not fit its config.json, or each other: {error}"
            ) from None
        settings.write(written[-1])
        if vision.toolkit is not None:
            written.append(vision_path(inside, "rknn"))
            _convert(path, settings, vision.toolkit, vision.soc, written[-1])
        else:  # one of an earlier export does not belong to these
            vision_path(prefix, "rknn").unlink(missing_ok=True)
        return [one.replace(target.parent / one.name) for one in written]


def _form(tower: Tower, wanted: str | None) -> str:
    if wanted not in (None, *FORMS):
        raise ParamInvalid(f"form is {wanted!r}, must be one of {', '.join(FORMS)}")
    if wanted == "patches" and not tower.layout.two_frames:
        raise ParamInvalid(f"the vision tower of {tower.kind} takes pixels; patches are for those of Qwen")
    return wanted or ("patches" if tower.layout.two_frames else "pixels")


def _size(tower: Tower, wanted: tuple[int, int] | None) -> tuple[int, int]:
    """Height and width; raises ParamInvalid."""
    usual = max(1, tower.size // tower.cell) * tower.cell
    height, width = wanted or (usual, usual)
    for name, pixels in (("height", height), ("width", width)):
        if pixels < tower.cell or pixels % tower.cell:
            raise ParamInvalid(
                f"a picture's {name} of {pixels} pixels is no multiple of {tower.cell}, the edge of a token of {tower.kind}"
            )
    count = height // tower.patch * (width // tower.patch)
    if count > _MOST_PATCHES:
        raise ParamInvalid(
            f"a picture of {height}x{width} has {count} patches, {_MOST_PATCHES} are possible; choose a smaller one"
        )
    return height, width


def _settings(
    source: Path,
    config: Mapping[str, Any],
    tower: Tower,
    form: str,
    size: tuple[int, int],
    prefix: str | Path,
    queries: int,
) -> VisionSettings:
    processor: dict[str, Any] = {}
    for name in _PROCESSORS:
        if (source / name).is_file():
            found = read_object(source / name)
            inner = found.get("image_processor", found)
            processor = {**processor, **(inner if isinstance(inner, dict) else {})}
    given = processor.get("size")
    limits: dict[str, Any] = given if isinstance(given, dict) else {}
    start, end, image, video = _markers(config, tower, prefix)
    return VisionSettings(
        model_type=tower.kind,
        form=form,
        height=size[0],
        width=size[1],
        patch=tower.patch,
        frames=tower.frames,
        merge=tower.merge,
        tokens=queries or size[0] * size[1] // tower.cell**2,
        deepstack=len(tower.deepstack),
        mean=_three(processor, "image_mean", tower.layout.mean),
        std=_three(processor, "image_std", tower.layout.std),
        min_pixels=_pixels(processor.get("min_pixels", limits.get("shortest_edge", 0))),
        max_pixels=_pixels(processor.get("max_pixels", limits.get("longest_edge", 0))),
        start=start,
        end=end,
        image=image,
        video=video,
    )


def _three(processor: Mapping[str, Any], key: str, usual: tuple[float, ...]) -> tuple[float, ...]:
    value = processor.get(key, list(usual))
    if (
        not isinstance(value, list)
        or len(value) != 3
        or any(type(one) not in (int, float) or not abs(one) < 1e6 for one in value)
    ):
        raise ModelInvalid(f"{_PROCESSORS[0]}: {key} is {shown(value)}, must be three numbers")
    if key == "image_std" and not all(value):
        raise ModelInvalid(f"{_PROCESSORS[0]}: {key} is {shown(value)}; nothing can be divided by 0")
    return tuple(float(one) for one in value)


def _pixels(value: Any) -> int:
    """A limit, 0 where there is none."""
    return value if type(value) is int and 0 <= value < 1 << 40 else 0


def _markers(config: Mapping[str, Any], tower: Tower, prefix: str | Path) -> list[str]:
    """Texts of the markers, by the ids that ``config.json`` has for them."""
    names, package = list(tower.layout.markers), Package.of(prefix)
    config = thinker_of(config)
    if not package.tokenizer.is_file():
        return names
    tokenizer = Tokenizer(package.tokenizer)
    for key, number in _MARKERS:
        token = config.get(key)
        if type(token) is int and 0 <= token < len(tokenizer):
            names[number] = tokenizer.decode([token], skip_special=False) or names[number]
    return names


def _convert(path: Path, settings: VisionSettings, python: Path, soc: str, out: Path) -> None:
    """By the toolkit; a tower of pixels takes bytes, and the toolkit puts means and deviations in front."""
    config: dict[str, Any] = {}
    if settings.form == "pixels":
        config = {
            "mean_values": [[255 * one for one in settings.mean]],
            "std_values": [[255 * one for one in settings.std]],
        }
    Toolkit(python).convert(path, soc, out, config, {})
