"""Tensors of layers with a running state: from their order of rows to ours (see ``Recurrence``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .container.architecture import Architecture
from .container.family import LayerTensors
from .container.recurrence import Recurrence

__all__ = ["gate_weights", "state_rows", "state_sizes", "state_vectors"]

Array = NDArray[Any]
One = Callable[..., Array]
"""A tensor of a layer by its name and the shape that it must have; raises ModelInvalid."""


def state_sizes(form: Recurrence, names: LayerTensors) -> tuple[int, ...]:
    """Rows of their matrices that make ``state_in``; a Mamba2 has the steps behind."""
    sizes = form.channels, form.inner
    return sizes if names.state_gates else (*sizes, form.heads)


def state_rows(form: Recurrence, names: LayerTensors) -> Optional[Array]:
    """Their row that belongs in each of our rows of ``state_in``; None: all are in their places."""
    if not names.state_gates:
        return np.concatenate([form.inner + _channels(form), np.arange(form.inner)])
    if len(names.state_in) > 1:
        return None
    share = form.inner // form.groups
    each = np.arange(form.channels + form.inner).reshape(form.groups, -1)
    parts = np.split(each, np.cumsum([form.key, form.key, share]), axis=1)
    return np.concatenate([part.ravel() for part in parts])


def _channels(form: Recurrence) -> Array:
    """Their channel of the convolution that is ours: values, keys and queries of a Mamba2 lie the other way round."""
    values, keys, queries = np.split(
        np.arange(form.channels), [form.inner, form.inner + form.groups * form.key]
    )
    return np.concatenate([queries, keys, values])


def gate_weights(arch: Architecture, names: LayerTensors, one: One) -> Array:
    """``state_gates``, float32: rows of beta, then of the step; of a Mamba2 the step alone."""
    assert arch.recurrence is not None
    form, hidden = arch.recurrence, arch.hidden
    if not names.state_gates:
        size = sum(state_sizes(form, names))
        return one(f"{names.state}{names.state_in[0]}.weight", size, hidden)[-form.heads :]
    if len(names.state_gates) > 1:
        return np.concatenate(
            [one(f"{names.state}{name}.weight", form.heads, hidden) for name in names.state_gates]
        )
    rows = one(f"{names.state}{names.state_gates[0]}.weight", 2 * form.heads, hidden)
    return np.asarray(rows.reshape(form.groups, 2, -1, hidden).transpose(1, 0, 2, 3).reshape(-1, hidden))


def state_vectors(arch: Architecture, names: LayerTensors, one: One) -> dict[str, Array]:
    """The convolution and what the matrices shrink by."""
    assert arch.recurrence is not None
    form, mamba, prefix = arch.recurrence, not names.state_gates, names.state
    order = _channels(form) if mamba else np.arange(form.channels)
    made = {
        "decay": -np.exp(one(f"{prefix}A_log", form.heads)),
        "step_bias": one(f"{prefix}dt_bias", form.heads),
        "state_norm": one(f"{prefix}norm.weight", form.inner if mamba else form.value),
        "state_conv": one(f"{prefix}conv1d.weight", form.channels, 1, form.taps)[order, 0],
    }
    if form.conv_bias:
        made["state_conv_bias"] = one(f"{prefix}conv1d.bias", form.channels)[order]
    if mamba:
        made["skip"] = one(f"{prefix}D", form.heads)
        if form.biased:
            bias = one(f"{prefix}{names.state_in[0]}.bias", sum(state_sizes(form, names)))
            made["step_bias"] = made["step_bias"] + bias[-form.heads :]
    return made
