"""What a toolkit-1 file says about itself: versions, targets, inputs and outputs. The library ``graph`` reads its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import ModelInvalid, shown
from ...tensor import Layout
from ..model import IoTensor, Model
from .container import unpack
from .tensors import TensorEntry, channels_last, ends, entries, norm_tensors, text_of

__all__ = ["Rknn1Model", "read"]

FAMILY = "RKNPU1"
_WITHOUT_TARGET = ("RK1808", "RK1806", "RK3399Pro")
"""Toolkits up to 1.3.0 name no target: the chips that there were."""
_SAME_NPU = {"RK1808": _WITHOUT_TARGET, "RV1126": ("RV1126", "RV1109"), "RV1109": ("RV1109", "RV1126")}
_OWN = "VSI_NN_OP_"
_COLOURS = 3


@dataclass
class Rknn1Model(Model):
    """A model of the first NPU generation; ``fields`` describe its graph, ``constants`` are the bytes that they name.

    ``pre_compiled``: its network is commands of the NPU and no graph.
    """

    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    constants: memoryview = field(default=memoryview(b""), repr=False)
    pre_compiled: bool = False

    @property
    def generation(self) -> str:
        return "rknpu1"

    def io(self, index: int = 0) -> tuple[list[IoTensor], list[IoTensor]]:
        return self.inputs, self.outputs

    @property
    def board_only(self) -> str:
        """Pre-compiled networks, and those that bring operators compiled for a board."""
        if self.pre_compiled:
            return (
                "the model is pre-compiled: it runs on the board through librknn_api, cannot be executed here; "
                "convert without pre_compile (pre_compile=False)"
            )
        if self.container == 2:
            return (
                f"the model brings custom operators ({', '.join(self.custom_ops) or 'none by name'}) compiled for its "
                "board: it runs there through librknn_api, cannot be executed here; convert the network without them"
            )
        return ""


def read(data: memoryview, version: int) -> Rknn1Model:
    """Read the metadata; raises ModelInvalid or ModelUnsupported."""
    container = unpack(data)
    fields = container.fields
    tensors, targets = norm_tensors(fields), _targets(fields)
    inputs, outputs = ([tensors[index] for index in side] for side in ends(fields, tensors))
    return Rknn1Model(
        container=container.version,
        toolkit_version=_word(fields, "version").lstrip("v"),
        compiler_version=_word(fields, "ovxlib_version"),
        platform=targets[0].lower(),
        platforms=tuple(name.lower() for name in targets),
        family=FAMILY,
        framework=_word(fields, "ori_network_platform"),
        inputs=_inputs(inputs, fields),
        outputs=_outputs(outputs),
        custom_ops=_custom_ops(fields),
        fields=fields,
        constants=container.data,
        pre_compiled=bool(fields.get("pre_compile")),
    )


def _word(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key, "")
    return value[:200] if isinstance(value, str) else ""


def _targets(fields: Mapping[str, Any]) -> tuple[str, ...]:
    found = fields.get("target_platform")
    names = [name for name in found if isinstance(name, str)] if isinstance(found, list) else []
    wide = [other for name in names for other in _SAME_NPU.get(name.upper(), (name,))]
    return tuple(dict.fromkeys(wide)) or _WITHOUT_TARGET


def _custom_ops(fields: Mapping[str, Any]) -> tuple[str, ...]:
    operators = (text_of(entry, "op", _OWN) for _, entry in entries(fields, "nodes"))
    return tuple(dict.fromkeys(op for op in operators if not op.startswith(_OWN)))


def _inputs(tensors: Sequence[TensorEntry], fields: Mapping[str, Any]) -> list[IoTensor]:
    last = channels_last(fields)
    channels = [_channels(entry, last) for entry in tensors]
    means, stds = _normalisation(fields, channels)
    reorder = _reorder(fields.get("reorder"))
    return [
        IoTensor(
            entry.name, _logical(entry, last), entry.dtype,
            Layout.NHWC if len(entry.shape) == 4 else Layout.UNDEFINED, entry.quant,
            native_shape=entry.shape if last and len(entry.shape) == 4 else (), mean=mean, std=std,
            reorder=reorder if count == _COLOURS else (),
        )
        for entry, count, mean, std in zip(tensors, channels, means, stds)
    ]  # fmt: skip


def _outputs(tensors: Sequence[TensorEntry]) -> list[IoTensor]:
    return [
        IoTensor(
            entry.name,
            entry.shape,
            entry.dtype,
            Layout.NCHW if len(entry.shape) == 4 else Layout.UNDEFINED,
            entry.quant,
        )
        for entry in tensors
    ]


def _channels(entry: TensorEntry, last: bool) -> int:
    """Channels of a picture; 0 of anything else."""
    return (entry.shape[3] if last else entry.shape[1]) if len(entry.shape) == 4 else 0


def _logical(entry: TensorEntry, last: bool) -> tuple[int, ...]:
    """NCHW for rank 4, whichever order the graph has."""
    if len(entry.shape) != 4 or not last:
        return entry.shape
    n, h, w, c = entry.shape
    return n, c, h, w


def _reorder(found: Any) -> tuple[int, ...]:
    """Where each channel comes from; empty: they stay."""
    if not isinstance(found, list) or sorted(map(str, found)) != ["0", "1", "2"] or found == [0, 1, 2]:
        return ()
    return tuple(int(place) for place in found)


def _normalisation(
    fields: Mapping[str, Any], channels: Sequence[int]
) -> tuple[list[tuple[float, ...]], list[tuple[float, ...]]]:
    """Mean and std per input. Toolkits up to 1.4 keep [m0, m1, m2, s], newer ones two lists of one number per channel."""
    means, stds = _floats(fields.get("mean_value")), _floats(fields.get("std_value"))
    counts = fields.get("mean_value_chns")
    if not stds:
        groups = [means[i : i + 4] for i in range(0, len(means), 4)]
        groups = [group if len(group) == 4 else [0.0, 0.0, 0.0, 1.0] for group in groups]
        found = [(group[: count or 1], [group[3]] * (count or 1)) for group, count in zip(groups, channels)]
    else:
        sizes = counts if isinstance(counts, list) and len(counts) == len(channels) else [len(means)]
        found, at = [], 0
        for size in sizes:
            step = size if isinstance(size, int) and 0 < size <= len(means) else len(means)
            found.append((means[at : at + step], stds[at : at + step]))
            at += step
    found += [([], [])] * (len(channels) - len(found))
    pairs = [_fitted(mean, std, count) for (mean, std), count in zip(found, channels)]
    return [mean for mean, _ in pairs], [std for _, std in pairs]


def _fitted(mean: list[float], std: list[float], count: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """One number per channel, or one for all; raises ModelInvalid where neither can be meant."""
    if len(mean) == len(std) == count:
        return tuple(mean), tuple(std)
    if not mean and not std:
        return (), ()
    if len(set(mean)) == len(set(std)) == 1:
        return (mean[0],), (std[0],)
    raise ModelInvalid(
        f"damaged file: means {mean} and deviations {std} for an input of {count} channels; convert the network again"
    )


def _floats(found: Any) -> list[float]:
    if not isinstance(found, list) or len(found) > 1 << 16:
        return []
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) and abs(v) < 1e30 for v in found):
        raise ModelInvalid(f"damaged file: {shown(found)} are no means or deviations")
    return [float(v) for v in found]
