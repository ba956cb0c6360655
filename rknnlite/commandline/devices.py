"""``--device``: which backend reaches it."""

from __future__ import annotations

from .. import plugins
from ..errors import BackendUnavailable
from ..spi import Backend, Context

__all__ = ["DEVICE", "is_afar", "place_of_run", "reaching"]

DEVICE = (
    "a board by HOST:PORT or its name among remotes (several: HOST:PORT,HOST:PORT), or a coprocessor's id"
)
"""The help of ``--device``."""


def reaching(device: str, wanted: str | None = None) -> Backend:
    """The backend that knows a device, of all or the one that is wanted: an unknown id never means this machine's CPU.

    Raises:
        BackendUnavailable: none does. ParamInvalid: the device cannot be used as it is configured.
    """
    asked = [plugins.backend(wanted)] if wanted else list(plugins.backends().values())
    for backend in asked:
        if backend.boards(device):
            return backend
    there = ", ".join(found.id for backend in asked for found in backend.devices())
    known = f" to backend {wanted}" if wanted else ""
    raise BackendUnavailable(
        f"no device {device!r} is known{known} (there: {there or 'none'}); give HOST:PORT, or name it in remotes of the "
        f"configuration{'' if wanted else plugins.blame('remote')}"
    )


def is_afar(backend: Backend) -> bool:
    """Whether it reaches other machines: no operators of this one go there."""
    return type(backend).facts is not Backend.facts


def place_of_run(context: Context, device: str) -> str:
    """Where a model was run, for whoever reads the figures: ``board:8001: RK3588, librknnrt 2.3.2, driver 0.9.8``."""
    versions = context.versions
    runtime = (
        f"{versions.library} {versions.api}, driver {versions.driver}" if versions.library else versions.api
    )
    return f"{device}: {context.soc.name.upper()}, {runtime}"
