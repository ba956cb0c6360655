"""What ``verbose`` says of model, runtime and driver; few programs ask for it."""

from __future__ import annotations

from .._faces.log import FaceLog
from ..errors import ModelInvalid
from ..formats import ModelFile
from ..spi import Context

__all__ = ["log_versions"]


def log_versions(log: FaceLog, file: ModelFile, context: Context) -> None:
    """The lines that the vendor's runtime writes when a model is opened."""
    versions = context.versions
    log.i(f"RKNN Runtime Information, {versions.library or context.backend_name} version: {versions.api}")
    log.i(f"RKNN Driver Information, version: {versions.driver}")
    try:
        model = file.model
    except ModelInvalid as error:  # encrypted, say: the backend could open it, that is what counts
        log.d(f"RKNN Model Information, none: {error}")
        return
    log.i(
        f"RKNN Model Information, version: {model.container}, toolkit version: {model.toolkit_version}"
        f"(compiler version: {model.compiler_version}), target: {model.family}, "
        f"target platform: {model.platform}, framework name: {model.framework}, "
        f"model inference type: {'dynamic_shape' if model.dynamic else 'static_shape'}"
    )
