"""How a model is opened on a board: what of the options crosses a network, and what is refused because it does not."""

from __future__ import annotations

from rknnlite import plugins
from rknnlite.errors import ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.log import logger
from rknnlite.spi import OpenOptions
from rknnlite.spi.types import check_options

__all__ = ["OPERATORS", "check"]

OPERATORS = (
    "operators are code, and no code goes over the network: install them on the board, where its server finds them "
    "(rknnlite plugins lists what it has)"
)
_STAYS = {
    "attributes": "the attributes of nodes are settings of the computer that runs the model",
    "decrypt_key": "keys of models stay where they are; give the key to the board's server",
    "decrypt_key_path": "keys of models stay where they are; give the key to the board's server",
    "fidelity": "the board decides how it computes",
    "inputs": "the board's runtime converts pixels, and does so by itself",
    "info_only": "ask for a description by opening the model",
    "master": "weights are shared inside one process only",
    "outside": "memory of weights and internal tensors lies on the board",
    "postprocess": OPERATORS,
    "user_internal": "memory of internal tensors lies on the board",
    "user_key": "keys of models stay where they are; give the key to the board's server",
    "user_sram": "memory of internal tensors lies on the board",
    "user_weight": "memory of weights lies on the board",
}
"""Options that would change what comes out, or what the caller must do, and why they cannot cross."""
_HARMLESS = {"fidelity": ("npu", "simulator"), "inputs": ("exact",)}


def check(backend: str, model: ModelFile, options: OpenOptions) -> None:
    """Raise ParamInvalid for what cannot cross a network; options that do nothing here are told in the log."""
    check_options(backend, options.extra)
    for name, value in options.extra.items():
        given = value not in (None, False, *_HARMLESS.get(name, ()))
        if given and name in _STAYS:
            raise ParamInvalid(f"{model.label}: option {name} cannot cross a network: {_STAYS[name]}")
        if given and name not in ("collect_perf",):
            logger.debug("%s: option %s is the board's to choose and does nothing here", model.label, name)
    if options.weights is not None:
        raise ParamInvalid(
            f"{model.label}: a file of weights beside the model cannot cross a network; let the board's server open both"
        )
    offered = {op.op_type for op in plugins.custom_ops()}
    own = sorted({op.op_type for op in options.custom_ops} - offered)
    if own:
        raise ParamInvalid(f"{model.label}: custom operators {', '.join(own)} are given, but {OPERATORS}")
