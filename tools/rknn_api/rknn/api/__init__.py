"""``from rknn.api import RKNN``: what programs for rknn-toolkit2 do with ``.rknn`` files, over rknnlite.

Never beside the vendor's package: both are imported as ``rknn``, and files of one would hide those of the other.
"""

from importlib import metadata

_VENDORS = ("rknn-toolkit2", "rknn-toolkit")


def _refuse_the_vendors() -> None:
    for name in _VENDORS:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        raise ImportError(
            f"{name} {version} and rknnlite-rknn-api are both installed, and both are imported as rknn: remove one "
            f"(pip uninstall {name}, or pip uninstall rknnlite-rknn-api and install {name} again)"
        )


_refuse_the_vendors()

from .rknn_face import RKNN  # noqa: E402

__all__ = ["RKNN"]
